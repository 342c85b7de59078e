"""RabbitMQ in memory: one vhost that behaves as the real broker was measured to, on any clock.

A plain state machine: every verb runs to rest before it returns, and nobody is called back out of turn but the
listeners that were given.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC
from typing import Final

from amqpkit.brokers.memory.channel import (
    Channel,
    Connection,
    Consumer,
    Fate,
    Outstanding,
    Told,
)
from amqpkit.brokers.memory.clock import VirtualClock
from amqpkit.brokers.memory.engine import Engine
from amqpkit.brokers.memory.ledger import Ledger, Movement
from amqpkit.brokers.memory.profile import PROFILES, NotModelled
from amqpkit.brokers.memory.queue import QueueState, Way
from amqpkit.brokers.memory.stored import Stored
from amqpkit.brokers.memory.vhost import Vhost
from amqpkit.errors import QueueMissing
from amqpkit.model import Binding, DeclaredObject, Exchange, Message, Policy, Queue, Stamp
from amqpkit.ports import BrokerInfo, Clock

BODY_MAX: Final = 16 * 1024 * 1024
_DEAD_LETTER_RETRY: Final = 180.0


def _nothing(_reason: str = "") -> None:
    """Hear it and do nothing."""


class MemoryBroker:
    """One vhost of a single-node broker, with verbs for clients, for faults and for looking inside.

    `version` chooses whose behaviour: `4.3` or `4.0`. `dead_letter_retry` is the broker's
    `dead_letter_worker_publisher_confirm_timeout` in seconds. `observe` hears every movement of every message.
    """

    def __init__(  # noqa: PLR0913 - a broker's settings, each with a default
        self,
        clock: Clock,
        *,
        version: str = "4.3",
        vhost: str = "/",
        cluster_name: str = "rabbit@memory",
        dead_letter_retry: float = _DEAD_LETTER_RETRY,
        observe: Callable[[Movement], None] | None = None,
    ) -> None:
        """Start empty; a VirtualClock learns to wait for this broker."""
        if version not in PROFILES:
            raise NotModelled(f"RabbitMQ {version} (it knows {' and '.join(PROFILES)})")
        self.profile = PROFILES[version]
        self.info = BrokerInfo(self.profile.version, cluster_name)
        self.vhost = Vhost(vhost, self.profile)
        self.confirm_delay = 0.0
        """Seconds between taking a message and confirming it."""
        self.blocked = False
        self.clock = clock
        self._ledger = Ledger(observe)
        self._engine = Engine(self.vhost, clock, self._ledger, dead_letter_retry)
        self._connections: list[Connection] = []
        self._holding_confirms = False
        self._held_confirms: list[Callable[[], None]] = []
        if isinstance(clock, VirtualClock):
            clock.watch(lambda: self._engine.revision)

    # --- declaring -------------------------------------------------------------------------------

    def declare(self, wanted: DeclaredObject) -> None:
        """Make an exchange, queue, binding or policy; raises Refused in the broker's words, NotModelled."""
        match wanted:
            case Exchange():
                self.vhost.declare_exchange(wanted)
            case Queue():
                self.vhost.declare_queue(wanted)
            case Binding():
                self.vhost.bind(wanted)
            case Policy():
                self.vhost.set_policy(wanted)
                self._obey_policies()
        self._engine.work()

    def delete(self, unwanted: DeclaredObject) -> None:
        """Remove an object; a missing one is fine."""
        match unwanted:
            case Exchange():
                self.vhost.delete_exchange(unwanted.name)
            case Queue():
                self.delete_queue(unwanted.name)
            case Binding():
                self.vhost.unbind(unwanted)
            case Policy():
                self.vhost.policies.pop(unwanted.name, None)
                self._obey_policies()
        self._engine.work()

    def _obey_policies(self) -> None:
        for queue in self.vhost.queues.values():
            self._obey(queue)

    def _obey(self, queue: QueueState) -> None:
        before, after = queue.settings, self.vhost.settings(queue.declared)
        # A classic queue applies a new limit under the old overflow word: a backlog above it goes (measured).
        if not queue.quorum:
            queue.settings = replace(after, overflow=before.overflow)
            while queue.too_many() and (oldest := queue.line.pop()):
                self._engine.bury(queue, oldest, "maxlen")
        queue.settings = after
        # Leaving at-least-once deletes the dead letters that wait (probed).
        if not after.keeps_dead_letters:
            self._drop_held(queue, "dropped (at-least-once ended)")
        queue.evaluate()
        self._engine.touch(queue)

    def _drop_held(self, queue: QueueState, why: str) -> None:
        for held in queue.held:
            self._ledger.ended(held.stored.id, queue.name, why, self.clock.now())
        queue.held.clear()

    def delete_queue(self, name: str) -> None:
        """Delete a queue with all that is in it; nothing is dead-lettered, its consumers are cancelled."""
        queue = self.vhost.remove_queue(name)
        if queue is None:
            return
        queue.deleted = True
        if queue.alarm:
            queue.alarm[1]()
        for stored in queue.messages():
            self._ledger.ended(stored.id, name, "deleted with its queue", self.clock.now())
        queue.unacked.clear()
        self._cancel_all(queue, f"queue '{name}' was deleted")
        self._engine.work()

    def purge(self, name: str) -> int:
        """Remove what waits in a queue and say how many; nothing is dead-lettered, what consumers have stays."""
        queue = self._queue(name)
        purged = 0
        while stored := queue.line.pop():
            self._ledger.ended(stored.id, name, "purged", self.clock.now())
            purged += 1
        if self.profile.since_4_3:  # discards waiting dead letters too (broker-read)
            self._drop_held(queue, "purged")
        self._engine.touch(queue)
        self._engine.work()
        return purged

    # --- connecting ------------------------------------------------------------------------------

    def connect(
        self,
        *,
        lost: Callable[[str], None] = _nothing,
        unblocked: Callable[[], None] = _nothing,
    ) -> Connection:
        """Open a connection; `lost` hears when the broker drops it, `unblocked` when an alarm ends."""
        connection = Connection(lost, unblocked, blocked=self.blocked)
        self._connections.append(connection)
        return connection

    def open_channel(self, connection: Connection, closed: Callable[[str], None] = _nothing) -> Channel:
        """Open a channel; `closed` hears when the broker closes it."""
        channel = Channel(connection, self._engine.milliseconds(), closed)
        connection.channels.append(channel)
        return channel

    def close_channel(self, channel: Channel) -> None:
        """Close a channel as its client; what it holds goes back and counts as a failure."""
        self._engine.close(channel, None)
        self._engine.work()

    def close_connection(self, connection: Connection) -> None:
        """Close a connection as its client."""
        self._end(connection, None)
        self._engine.work()

    def _end(self, connection: Connection, reason: str | None) -> None:
        connection.alive = False
        if connection in self._connections:
            self._connections.remove(connection)
        for channel in list(connection.channels):
            self._engine.close(channel, reason)

    # --- consuming -------------------------------------------------------------------------------

    def consume(
        self,
        channel: Channel,
        queue: str,
        *,
        prefetch: int,
        deliver: Callable[[Outstanding], None],
        cancelled: Callable[[str], None] = _nothing,
    ) -> Consumer:
        """Start a consumer; raises QueueMissing. `cancelled` hears of a `basic.cancel` by the broker."""
        state = self._queue(queue)
        consumer = Consumer(channel, state, prefetch, deliver, cancelled)
        state.consumers.append(consumer)
        channel.consumers.append(consumer)
        self._engine.touch(state)
        self._engine.work()
        return consumer

    def cancel(self, consumer: Consumer) -> None:
        """Stop a consumer; what it has it may still settle."""
        self._engine.cancel(consumer)

    def ack(self, out: Outstanding) -> None:
        """Settle a delivery for good; nothing happens when its channel is gone, settling twice closes the channel."""
        if taken := self._take(out):
            self._engine.forget(taken)
        self._engine.work()

    def requeue(self, out: Outstanding, way: Way = Way.NACK) -> None:
        """Give a delivery back, by `basic.nack` or `basic.reject`: on 4.3 only the latter counts."""
        if taken := self._take(out):
            self._engine.give_back(taken, way)
        self._engine.work()

    def refuse(self, out: Outstanding, way: Way = Way.NACK) -> None:
        """Refuse a delivery without requeue: to the dead-letter exchange, or dropped."""
        if taken := self._take(out):
            self._engine.discard(taken, way)
        self._engine.work()

    def _take(self, out: Outstanding) -> Outstanding | None:
        channel = out.consumer.channel
        if out.tag in channel.unsettled:
            return self._engine.take(channel, out.tag)
        self._engine.close(channel, f"PRECONDITION_FAILED - unknown delivery tag {out.tag}")
        return None

    # --- publishing ------------------------------------------------------------------------------

    def publish(  # noqa: PLR0913 - a place, a message, a flag and who wants to know
        self,
        channel: Channel,
        exchange: str,
        routing_key: str,
        message: Message,
        *,
        mandatory: bool,
        told: Told,
    ) -> None:
        """Take a message in; `told` hears its fate once, at once unless confirms are held or delayed."""
        channel.unconfirmed.append(told)
        stored = self._stored(exchange, routing_key, message)
        fault = self._fault(exchange, message)
        if fault:
            fate, reason = fault
            channel.unconfirmed.remove(told)
            self._ledger.refused(stored.id, reason, self.clock.now())
            told(fate, reason)
            self._engine.close(channel, reason)
        else:
            self._confirm(channel, told, *self._route(stored, message, mandatory=mandatory))
        self._engine.work()

    def _stored(self, exchange: str, routing_key: str, message: Message) -> Stored:
        serial = self._engine.next_serial()
        properties = message.properties
        if properties.timestamp is not None and not isinstance(properties.timestamp, Stamp):  # AMQP has whole seconds
            properties = replace(
                properties,
                timestamp=properties.timestamp.astimezone(UTC).replace(microsecond=0),
            )
        headers = {name: value for name, value in properties.headers.items() if name != "BCC"}
        copies = properties.headers.get("CC", ())
        return Stored(
            serial=serial,
            id=properties.message_id or f"#{serial}",
            body=message.body,
            properties=replace(properties, headers=headers),
            exchange=exchange,
            routing_keys=(routing_key, *(copies if isinstance(copies, list) else ())),
        )

    def _fault(self, exchange: str, message: Message) -> tuple[Fate, str] | None:
        """Say for what the broker would close the publisher's channel."""
        properties = message.properties
        if exchange and exchange not in self.vhost.exchanges:
            return (
                Fate.MISSING,
                f"NOT_FOUND - no exchange '{exchange}' in vhost '{self.vhost.name}'",
            )
        if exchange and self.vhost.exchanges[exchange].internal:
            where = f"exchange '{exchange}' in vhost '{self.vhost.name}'"
            return Fate.REFUSED, f"ACCESS_REFUSED - cannot publish to internal {where}"
        if len(message.body) > BODY_MAX:
            size = f"message size {len(message.body)} is larger than configured max size {BODY_MAX}"
            return Fate.REFUSED, f"PRECONDITION_FAILED - {size}"
        own = properties.expiration
        if own is not None and not (own.isascii() and own.isdigit()):
            return Fate.REFUSED, f"PRECONDITION_FAILED - invalid expiration '{own}'"
        for name in ("CC", "BCC"):
            if not isinstance(properties.headers.get(name, []), list):
                return Fate.REFUSED, f"PRECONDITION_FAILED - invalid {name} header"
        return None

    def _route(self, stored: Stored, message: Message, *, mandatory: bool) -> tuple[Fate, str]:
        hidden = message.properties.headers.get("BCC", ())
        keys = (*stored.routing_keys, *hidden)
        targets = self.vhost.targets(stored.exchange, keys, message.properties.headers)
        if not targets:
            self._ledger.refused(stored.id, "unroutable", self.clock.now())
            return (Fate.RETURNED, "NO_ROUTE") if mandatory else (Fate.CONFIRMED, "")
        if self._engine.post(stored, targets):
            return Fate.CONFIRMED, ""
        self._ledger.refused(stored.id, "nacked", self.clock.now())
        return Fate.NACKED, "a queue is full"

    def _confirm(self, channel: Channel, told: Told, fate: Fate, reason: str) -> None:
        def confirm() -> None:
            if told in channel.unconfirmed:  # else the channel went first, and took the answer along
                channel.unconfirmed.remove(told)
                told(fate, reason)

        if self._holding_confirms:
            self._held_confirms.append(confirm)
        elif self.confirm_delay:
            self.clock.call_later(self.confirm_delay, confirm)
        else:
            confirm()

    # --- faults ----------------------------------------------------------------------------------

    def drop_connections(self, reason: str = "CONNECTION_FORCED - dropped by the test") -> None:
        """Cut every connection: deliveries go back and count, unconfirmed publishes are of unknown fate."""
        for connection in list(self._connections):
            self._end(connection, reason)
            connection.lost(reason)
        self._engine.work()

    def cancel_consumers(self, queue: str, reason: str = "cancelled by the test") -> None:
        """Send `basic.cancel` to every consumer of a queue."""
        self._cancel_all(self._queue(queue), reason)

    def _cancel_all(self, queue: QueueState, reason: str) -> None:
        for consumer in list(queue.consumers):
            self._engine.cancel(consumer)
            consumer.cancelled(reason)

    def block(self) -> None:
        """Raise a memory alarm: connections are told at once, and their publishes wait."""
        self.blocked = True
        for connection in self._connections:
            connection.blocked = True

    def unblock(self) -> None:
        """End the alarm."""
        self.blocked = False
        for connection in list(self._connections):
            connection.blocked = False
            connection.unblocked()

    def hold_confirms(self) -> None:
        """Take messages in but confirm nothing until `release_confirms`."""
        self._holding_confirms = True

    def release_confirms(self) -> None:
        """Confirm what was held, in order."""
        self._holding_confirms = False
        held, self._held_confirms = self._held_confirms, []
        for confirm in held:
            confirm()

    # --- looking inside --------------------------------------------------------------------------

    def ledger(self) -> dict[str, list[str]]:
        """Say where each message is: queue -> message ids, held dead letters first, then unacked, then ready.

        Empty queues are left out; a message without an id is called by its number, `#7`.
        """
        inside = {name: [stored.id for stored in queue.messages()] for name, queue in sorted(self.vhost.queues.items())}
        return {name: ids for name, ids in inside.items() if ids}

    def journey(self, message_id: str) -> list[str]:
        """Name the queues that took a message, in order, and how its copies ended: `acked`, `dropped (cycle)`."""
        return self._ledger.journey(message_id)

    def messages(self, queue: str) -> list[Stored]:
        """List what a queue holds, in the ledger's order; raises QueueMissing."""
        return self._queue(queue).messages()

    def depth(self, queue: str) -> int:
        """How many messages are ready there; raises QueueMissing."""
        return len(self._queue(queue).line)

    def _queue(self, name: str) -> QueueState:
        if name not in self.vhost.queues:
            raise QueueMissing(name)
        return self.vhost.queues[name]
