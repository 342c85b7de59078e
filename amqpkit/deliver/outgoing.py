"""What is to go out: a payload's message, and where the topology sends it.

Async and blocking publishers take this from here, and the command line, which has bytes instead of a payload.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

from pydantic import ValidationError

from amqpkit.deliver import headers as h
from amqpkit.deliver.evolution import business_key
from amqpkit.deliver.payload import Payload, encode
from amqpkit.deliver.sending import fate_of
from amqpkit.deliver.tracking import queued
from amqpkit.errors import Overloaded, PublishError, Unroutable, Unsendable
from amqpkit.events import DuplicateWindow, Event, Fate, Published, Tracked
from amqpkit.model import Message, Properties, Route, Topology
from amqpkit.ports import Clock

CONTENT_TYPE: Final = "application/json"
PRIORITY_MAX: Final = 255


@dataclass(frozen=True, slots=True)
class Order:
    """One message and where it goes."""

    type: str
    exchange: str
    routing_key: str
    message: Message
    mandatory: bool = True
    job: Tracked | None = None
    """What is told once a job's message is stored."""
    sent: Callable[[BaseException | None], None] | None = None
    """What is called with the error, if any, when its publish has ended."""

    @property
    def message_id(self) -> str:
        """The message's id."""
        return self.message.properties.message_id or ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one message of many ended: its place in the input, its id ("" if it never had one), and its error if any."""

    index: int
    message_id: str
    error: PublishError | None = None

    @property
    def fate(self) -> Fate:
        """Its end in one word."""
        return fate_of(self.error)


def check_topology(given: object) -> None:
    """Raise TypeError, with the remedy for a file's name, for what is no Topology."""
    if not isinstance(given, Topology):
        remedy = f': write load_topology("{given}")' if isinstance(given, str | PurePath) else ""
        msg = f"the topology is a {type(given).__name__}, not a Topology{remedy}"
        raise TypeError(msg)


def order_of(
    topology: Topology, payload: Payload, clock: Clock, *, mandatory: bool = True, key: str | None = None, **said: Any
) -> Order:
    """Make a payload's message and look up its way; `said` is what `build_message` takes besides.

    Raises Unroutable when the topology does not say where it goes, PublishError for what cannot be said in a message.
    """
    name = payload.payload_type
    route = route_of(topology, name)
    message = build_message(
        encode(payload),
        type=name,
        version=payload.payload_version,
        clock=clock,
        key=business_key(payload) if key is None else key,
        **said,
    )
    routing_key = route.routing_key
    if "{" in routing_key:
        routing_key = fill(routing_key, payload.model_dump(mode="json"), name)
    job = None
    if payload.payload_track:
        job = queued(payload, message.properties.message_id or "", topology, clock.now())
    return Order(name, route.exchange, routing_key, message, mandatory, job)


def made(topology: Topology, item: object, clock: Clock, *, of: type[Payload] | None = None) -> Order:
    """Make the order of one item of many: a payload, or what `of` makes one of; whatever is wrong is a PublishError.

    An order is taken as it is.
    """
    if isinstance(item, Order):
        return item
    try:
        return order_of(topology, _payload(item, of), clock)
    except PublishError:
        raise
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, found["loc"]))
        msg = f"not a valid {error.title}: {f'{place}: ' if place else ''}{found['msg']}"
        raise Unsendable(msg) from error
    except Exception as error:
        # whatever a user's own validator or serializer raises: one item must not end the others
        msg = f"{type(item).__name__} cannot be written: {type(error).__name__}: {error}"
        raise Unsendable(msg) from error


def _payload(item: object, of: type[Payload] | None) -> Payload:
    if isinstance(item, Payload):
        return item
    if of is None:
        msg = f"{type(item).__name__} is no Payload; give Payloads, or say with `of=` which class the items are of"
        raise Unsendable(msg)
    return of.model_validate_json(item) if isinstance(item, str | bytes) else of.model_validate(item)


def named(error: PublishError, order: Order) -> PublishError:
    """Let an error say which message it is about, unless it does already."""
    if error.message_id or error.exchange or error.routing_key:
        return error
    facts: dict[str, Any] = {}
    if isinstance(error, Overloaded):
        facts = {"queue": error.queue, "depth": error.depth, "retry_after": error.retry_after}
    where = {"exchange": order.exchange, "routing_key": order.routing_key, "message_id": order.message_id}
    return type(error)(error.reason, **facts, **where)


def told(order: Order, error: PublishError | None, tries: int, seconds: float) -> Iterator[Event]:
    """Make the events of a publish that ended."""
    yield Published(
        order.type, order.exchange, order.routing_key, order.message_id, fate_of(error), tries, round(seconds, 6)
    )
    if error is None and order.job is not None:
        yield order.job


def second_copy(order: Order, tries: int) -> DuplicateWindow | None:
    """Make the event of a nacked message that is sent again: other queues of its exchange may have the first."""
    if tries == 1 or not order.exchange:
        return None
    return DuplicateWindow("", order.message_id, f'nacked by exchange "{order.exchange}" and sent again')


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

    Raises Unsendable for a header whose name is no text, PublishError when the caller sets headers that are ours
    (`amqpkit-`) or the broker's (`x-`), an empty key, or a priority that is none.
    """
    now = clock.now()
    ours: dict[str, Any] = dict(headers or {})
    for name in ours:
        if not isinstance(name, str):
            msg = f"a header is called {name!r:.80}; a header's name is text"
            raise Unsendable(msg)
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


def _make_new_id() -> Callable[[], str]:
    try:
        from uuid import uuid7  # type: ignore[attr-defined,unused-ignore] # noqa: PLC0415 - Python 3.14
    except ImportError:
        from uuid_utils import uuid7  # noqa: PLC0415 - its twin below 3.14
    return lambda: str(uuid7())


_new_id = _make_new_id()
