"""`ports.Admin` on the in-memory broker."""

from collections.abc import Collection, Mapping, Sequence

from amqpkit.brokers.memory.broker import MemoryBroker
from amqpkit.model import DeclaredObject, Holding, Queue, Surroundings, Topology
from amqpkit.ports import BrokerInfo, ListedConsumer, QueueFigures


class MemoryAdmin:
    """Declares on a MemoryBroker and reads it back; also a `ports.Surveyor` and a `ports.Sentry`."""

    def __init__(self, broker: MemoryBroker) -> None:
        """Keep the broker."""
        self._broker = broker

    async def identify(self) -> BrokerInfo:
        """Say who answers."""
        return self._broker.info

    async def read(self) -> Topology:
        """Read what is declared, sorted; the broker's own exchanges and implied bindings are left out."""
        vhost = self._broker.vhost
        exchanges = (exchange for exchange in vhost.exchanges.values() if not exchange.name.startswith("amq."))
        return Topology(
            exchanges=tuple(sorted(exchanges, key=lambda exchange: exchange.name)),
            queues=tuple(state.declared for _, state in sorted(vhost.queues.items())),
            bindings=tuple(
                sorted(
                    vhost.bindings,
                    key=lambda b: (
                        b.source,
                        b.destination_type,
                        b.destination,
                        b.routing_key,
                        repr(b.arguments),
                    ),
                )
            ),
            policies=tuple(policy for _, policy in sorted(vhost.policies.items())),
            vhost=vhost.name,
        )

    async def figures(self) -> Mapping[str, QueueFigures]:
        """Count what is ready and unacked; see `ports.Statistics`. Rates and totals are not kept."""
        queues = self._broker.vhost.queues
        return {
            name: QueueFigures(
                len(q.line),
                len(q.unacked),
                unlimited=q.settings.delivery_limit is None,
                ready_bytes=sum(len(stored.body) for stored in q.line),
            )
            for name, q in queues.items()
        }

    async def consumers(self) -> Sequence[ListedConsumer]:
        """List who consumes; see `ports.Statistics`."""
        return [
            ListedConsumer(queue.name, consumer.tag, _seconds(queue.settings.consumer_timeout))
            for queue in self._broker.vhost.queues.values()
            for consumer in queue.consumers
        ]

    async def create(self, wanted: DeclaredObject) -> None:
        """Declare an object; raises Refused, NotModelled."""
        self._broker.declare(wanted)

    async def delete(self, unwanted: DeclaredObject) -> None:
        """Delete an object; a missing one is fine."""
        self._broker.delete(unwanted)

    async def surroundings(self) -> Surroundings:
        """Nothing rules here but policies."""
        return Surroundings()

    async def holdings(self, queues: Collection[str]) -> Mapping[str, Holding]:
        """Count messages and consumers, without any lag."""
        states = {name: self._broker.vhost.queues.get(name) for name in queues}
        return {name: Holding(len(state.messages()), len(state.consumers)) for name, state in states.items() if state}

    async def look(self, queue: str) -> Holding | None:
        """Count what is ready and who consumes; None: it is missing."""
        state = self._broker.vhost.queues.get(queue)
        return Holding(len(state.line), len(state.consumers)) if state else None

    async def delete_empty(self, queue: Queue, *, in_use: bool = False) -> bool:
        """Delete a queue unless it has a message ready or, if not `in_use`, a consumer."""
        held = await self.look(queue.name) or Holding(0, 0)
        if held.messages or (held.consumers and not in_use):
            return False
        self._broker.delete(queue)
        return True

    async def close(self) -> None:
        """Nothing is held."""


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
