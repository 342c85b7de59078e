"""`ports.Admin` on the in-memory broker."""

from collections.abc import Mapping, Sequence

from amqpkit.brokers.memory.broker import MemoryBroker
from amqpkit.model import DeclaredObject, Topology
from amqpkit.ports import BrokerInfo, ListedConsumer, QueueFigures


class MemoryAdmin:
    """Declares on a MemoryBroker and reads it back."""

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
            name: QueueFigures(len(q.line), len(q.unacked), unlimited=q.settings.delivery_limit is None)
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

    async def close(self) -> None:
        """Nothing is held."""


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
