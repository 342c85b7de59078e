"""Publishing: a payload is routed by the topology, confirmed by the broker, or its fate is an exception."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from amqpkit.deliver import headers as h
from amqpkit.deliver.evolution import business_key
from amqpkit.deliver.payload import Payload, encode
from amqpkit.deliver.tracking import queued
from amqpkit.errors import PublishError, Unroutable
from amqpkit.events import OnEvent, ignore
from amqpkit.model import Message, Properties, Route, Topology
from amqpkit.ports import Clock, Transport

CONTENT_TYPE: Final = "application/json"
PRIORITY_MAX: Final = 255


class Publisher:
    """Publishes payloads to where the topology routes their type: mandatory, confirmed, persistent."""

    def __init__(
        self,
        topology: Topology,
        transport: Transport,
        *,
        clock: Clock | None = None,
        timeout: float = 30.0,
        on_event: OnEvent = ignore,
    ) -> None:
        """Keep the parts; `timeout` in seconds is the deadline of each publish, connecting included.

        `on_event` hears of jobs, which are payloads with `track=True`: give a JobListener.
        """
        self._on_event = on_event
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
        job = message.properties.message_id or ""
        if payload.payload_track and (told := queued(payload, job, self._topology, self._clock.now())) is not None:
            self._on_event(told)
        return job


def route_of(topology: Topology, type: str) -> Route:  # noqa: A002 - AMQP's word
    """Say where a payload type goes; raises Unroutable with the remedy when the topology does not say."""
    route = topology.routes.get(type)
    if route is not None:
        return route
    takers = [queue.name for queue in topology.work_queues.values() if type in queue.accepts]
    if takers:
        msg = f'type "{type}" is accepted by {", ".join(takers)}; say under `messages:` where it goes'
    else:
        msg = f'no work queue accepts type "{type}" and `messages:` does not route it'
    raise Unroutable(msg)


def fill(template: str, fields: Mapping[str, Any], type: str) -> str:  # noqa: A002 - AMQP's word
    """Fill a routing key's `{field}` placeholders from the payload; raises Unroutable when a field is not there."""
    if "{" not in template:
        return template
    try:
        return template.format_map({name: _word(value) for name, value in fields.items() if value is not None})
    except (KeyError, ValueError, IndexError, AttributeError) as error:
        msg = f'routing key "{template}" needs a field that this payload of type "{type}" does not have: {error}'
        raise Unroutable(msg) from error


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def build_message(  # noqa: PLR0913 - what AMQP lets a producer say of one message
    body: bytes,
    *,
    type: str,  # noqa: A002 - AMQP's word
    version: int,
    clock: Clock,
    key: str | None = None,
    message_id: str | None = None,
    correlation_id: str | None = None,
    priority: int | None = None,
    headers: Mapping[str, Any] | None = None,
) -> Message:
    """Make a message of ours: JSON, persistent, with id, type, version and time.

    Raises PublishError when the caller sets headers that are ours (`amqpkit-`) or the broker's (`x-`), an empty key,
    or a priority that is none.
    """
    now = clock.now()
    ours: dict[str, Any] = dict(headers or {})
    if taken := [name for name in ours if name.startswith(("amqpkit-", "x-"))]:
        msg = f"headers {', '.join(taken)} are not the caller's to set: `amqpkit-` is ours and `x-` is the broker's"
        raise PublishError(msg)
    if key is not None and not key:
        msg = "the idempotency key is empty; leave it out to use the message id"
        raise PublishError(msg)
    if priority is not None and not (_is_whole(priority) and 0 <= priority <= PRIORITY_MAX):
        msg = f"the priority is {priority!r}; write a whole number from 0 to {PRIORITY_MAX}"
        raise PublishError(msg)
    ours[h.PUBLISHED_AT] = h.format_instant(now)
    if version != 1:
        ours[h.VERSION] = version
    if key is not None:
        ours[h.KEY] = key
    return Message(
        body,
        Properties(
            content_type=CONTENT_TYPE,
            delivery_mode=2,
            message_id=message_id or _new_id(),
            type=type,
            timestamp=now,
            correlation_id=correlation_id,
            priority=priority,
            headers=ours,
        ),
    )


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _system_clock() -> Clock:
    from amqpkit.brokers.clock import SystemClock  # noqa: PLC0415 - not for those who bring their own

    return SystemClock()


def _make_new_id() -> Callable[[], str]:
    try:
        from uuid import uuid7  # type: ignore[attr-defined,unused-ignore] # noqa: PLC0415 - Python 3.14
    except ImportError:
        from uuid_utils import uuid7  # noqa: PLC0415 - its twin below 3.14
    return lambda: str(uuid7())


_new_id = _make_new_id()
