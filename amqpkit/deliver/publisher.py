"""Publishing: a payload is routed by the topology, confirmed by the broker, or its fate is an exception."""

from collections.abc import Mapping
from typing import Any

from amqpkit.deliver.evolution import business_key
from amqpkit.deliver.outgoing import build_message, fill, route_of
from amqpkit.deliver.payload import Payload, encode
from amqpkit.model import Topology
from amqpkit.ports import Clock, Transport


class Publisher:
    """Publishes payloads to where the topology routes their type: mandatory, confirmed, persistent."""

    def __init__(
        self, topology: Topology, transport: Transport, *, clock: Clock | None = None, timeout: float = 30.0
    ) -> None:
        """Keep the parts; `timeout` in seconds is the deadline of each publish, connecting included."""
        self._topology, self._transport, self._timeout = topology, transport, timeout
        self._clock = clock or _system_clock()

    async def publish(  # noqa: PLR0913 - what AMQP lets a producer say of one message
        self,
        payload: Payload,
        *,
        key: str | None = None,
        message_id: str | None = None,
        correlation_id: str | None = None,
        priority: int | None = None,
        headers: Mapping[str, Any] | None = None,
        mandatory: bool = True,
        timeout: float | None = None,  # noqa: ASYNC109 - it covers the broker's confirm too, not only this wait
    ) -> str:
        """Publish and wait until the broker has the message; returns its id.

        `key` is the idempotency key (default: the payload's business key, else the message id), `mandatory=False`
        gives up the promise that some queue gets it. `priority` is 0 to 255; a quorum queue of RabbitMQ 4.0 has two
        levels (0 to 4, and 5 or more) and takes turns between them, one of 4.3 has 32 (0 to 31, more is 31) and
        delivers the higher first; unset counts as 4 there. Copies for retries keep it.

        Raises Unroutable, Nacked, PublishTimeout, PublishUncertain, Unsendable or MessageTooLarge, and PublishError
        for what cannot be said in a message; when it returns, the message is stored.
        """
        route = route_of(self._topology, payload.payload_type)
        message = build_message(
            encode(payload),
            type=payload.payload_type,
            version=payload.payload_version,
            clock=self._clock,
            key=business_key(payload) if key is None else key,
            message_id=message_id,
            correlation_id=correlation_id,
            priority=priority,
            headers=headers,
        )
        routing_key = route.routing_key
        if "{" in routing_key:
            routing_key = fill(routing_key, payload.model_dump(mode="json"), payload.payload_type)
        await self._transport.publish(
            route.exchange,
            routing_key,
            message,
            mandatory=mandatory,
            timeout=self._timeout if timeout is None else timeout,
        )
        return message.properties.message_id or ""


def _system_clock() -> Clock:
    from amqpkit.brokers.clock import SystemClock  # noqa: PLC0415 - not for those who bring their own

    return SystemClock()
