"""Consumer classes, what their handlers are told, and whether they fit the topology.

No I/O here: a consumer says what it wants, the worker does it.
"""

import inspect
import math
import re
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, Literal, TypeVar, Union, get_args, get_origin

from amqpkit.deliver.context import Context
from amqpkit.deliver.payload import Payload, registry
from amqpkit.errors import ConsumerError
from amqpkit.jobs import ErrorKind
from amqpkit.model import NOTHING, Policy, Queue, Topology

__all__ = ["Consumer", "Context", "Pace", "Setting", "check_consumers", "pace_of"]

P = TypeVar("P", bound=Payload)
_NAMED: Final = 10
COUNT_MAX: Final = 65_535
"""The most that AMQP can say of a prefetch."""


class Consumer(Generic[P]):
    """Handles the messages of one queue; subclass it with the payload and the queue's name.

    `class SendEmail(Consumer[EmailSend], queue="email.send")`, or `Consumer[A | B]` for several types.
    `handle` is `async def`, or a plain `def` that then runs in a thread. It returns (the message is acked), raises
    (it is retried, then dead-lettered), or returns or raises DeadLetter, RetryAfter or Discard. It cannot ack.

    `prefetch`, `concurrency` and `timeout` (seconds) are defaults: the topology file and the command line win.
    A consumer of a plain queue, which has no delays to retry through, says `retry = None`.
    `errors` says what exceptions mean to those who wait for a job, a payload with `track=True`: a kind (`quota`,
    `bad-input`, `busy`, `permanent`, `will-retry`), or a kind and a sentence, in which `{error}` is the exception's
    text: `errors = {QuotaExceeded: ("quota", "This month's imports are used up.")}`.
    Raises ConsumerError at class definition when payload, queue or `handle` is missing or cannot work.
    """

    queue: ClassVar[str] = ""
    never_retry: ClassVar[tuple[type[BaseException], ...]] = ()
    retry: ClassVar[Literal["file"] | None] = "file"
    prefetch: ClassVar[int | None] = None
    concurrency: ClassVar[int | None] = None
    timeout: ClassVar[float | None] = None
    errors: ClassVar[Mapping[type[BaseException], str | tuple[str, str]]] = NOTHING  # type: ignore[assignment] # empty
    payloads: ClassVar[tuple[type[Payload], ...]] = ()

    def __init_subclass__(cls, *, queue: str | None = None, **kwargs: Any) -> None:
        """Read the payload classes from `Consumer[...]` and check what can be checked without a topology."""
        super().__init_subclass__(**kwargs)
        if queue is not None:
            cls.queue = queue
        payloads = _payloads_of(cls)
        if payloads:
            registry(payloads)
            cls.payloads = payloads
        if not cls.payloads:
            msg = f'{cls.__name__} does not say what it handles: class {cls.__name__}(Consumer[YourPayload], queue="…")'
            raise ConsumerError(msg)
        if not cls.queue:
            msg = f'{cls.__name__} does not say its queue: class {cls.__name__}(Consumer[…], queue="…")'
            raise ConsumerError(msg)
        if cls.handle is Consumer.handle:
            msg = f"{cls.__name__} has no `handle(self, payload, context)`"
            raise ConsumerError(msg)
        if inspect.isgeneratorfunction(cls.handle) or inspect.isasyncgenfunction(cls.handle):
            msg = f"{cls.__name__}.handle holds a `yield`: called, it would do nothing"
            raise ConsumerError(msg)
        if not (isinstance(cls.never_retry, tuple) and all(map(_is_error, cls.never_retry))):
            msg = f"{cls.__name__}.never_retry is {cls.never_retry!r}; write a tuple of exception classes"
            raise ConsumerError(msg)
        _check_errors(cls)

    def handle(self, payload: P, context: Context) -> object:
        """Do the work for one message; see the class for what it may return and raise."""
        raise NotImplementedError

    @classmethod
    def is_async(cls) -> bool:
        """Whether `handle` awaits, or runs in a thread."""
        return inspect.iscoroutinefunction(cls.handle)


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


def _check_errors(cls: type["Consumer[Any]"]) -> None:
    for error, said in cls.errors.items():
        kind, sentence = (said, "") if isinstance(said, str) else said
        if not (_is_error(error) and kind in tuple(ErrorKind) and isinstance(sentence, str)):
            kinds = ", ".join(ErrorKind)
            msg = (
                f"{cls.__name__}.errors has {error!r}: {said!r}; write an exception class and one of {kinds}, "
                'or that and a sentence: {QuotaExceeded: ("quota", "…")}'
            )
            raise ConsumerError(msg)


def _payloads_of(cls: type) -> tuple[type[Payload], ...]:
    for base in getattr(cls, "__orig_bases__", ()):
        if get_origin(base) is not None and issubclass(get_origin(base), Consumer):
            (argument,) = get_args(base)
            return _members(argument, cls)
    return ()


def _members(argument: object, cls: type) -> tuple[type[Payload], ...]:
    if isinstance(argument, TypeVar):
        return ()
    parts = get_args(argument) if get_origin(argument) in (Union, types.UnionType) else (argument,)
    for part in parts:
        if not (isinstance(part, type) and issubclass(part, Payload) and part is not Payload):
            msg = f"{cls.__name__} handles {part!r}, which is not a subclass of Payload"
            raise ConsumerError(msg)
    return tuple(p for p in parts if isinstance(p, type) and issubclass(p, Payload))


# --- how it is run -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Setting:
    """One value of how a queue is consumed, and where it comes from, for the start-up banner."""

    value: Any
    source: str


@dataclass(frozen=True, slots=True)
class Pace:
    """How a queue is consumed; `timeout` in seconds, `rate` in messages a second."""

    prefetch: Setting
    concurrency: Setting
    timeout: Setting
    rate: Setting


def pace_of(consumer: Consumer[Any], topology: Topology, *, overrides: Mapping[str, Any] | None = None) -> Pace:
    """Settle each value: command line, then file, then class, then default; raises ConsumerError for nonsense."""
    line = overrides or {}
    work = topology.work_queues.get(consumer.queue)
    file = work.consume if work else None

    def settle(name: str, of_class: object, default: object) -> Setting:
        for value, source in (
            (line.get(name), "command line"),
            (getattr(file, name, None), "file"),
            (of_class, "class"),
        ):
            if value is not None:
                return Setting(value, source)
        return Setting(default, "default")

    prefetch = settle("prefetch", consumer.prefetch, 10)
    pace = Pace(
        prefetch,
        settle("concurrency", consumer.concurrency, prefetch.value),
        settle("timeout", consumer.timeout, None),
        settle("rate", None, None),  # not the class's to say: a `rate` of its own means something else there
    )
    _check_pace(consumer, pace, work.consumer_timeout if work else None)
    return pace


def _check_pace(consumer: Consumer[Any], pace: Pace, consumer_timeout: float | None) -> None:
    name = type(consumer).__name__
    for what, setting in (("prefetch", pace.prefetch), ("concurrency", pace.concurrency)):
        if type(setting.value) is not int or not 1 <= setting.value <= COUNT_MAX:
            advice = f"it must be a whole number from 1 to {COUNT_MAX}"
            msg = f"{name}: {what} is {setting.value!r} ({setting.source}); {advice}"
            raise ConsumerError(msg)
    for what, setting, unit in (("timeout", pace.timeout, "seconds"), ("rate", pace.rate, "messages a second")):
        if setting.value is not None and not _is_positive(setting.value):
            msg = f"{name}: {what} is {setting.value!r} ({setting.source}); it must be a number of {unit} above 0"
            raise ConsumerError(msg)
    timeout = pace.timeout.value
    if timeout is not None and consumer_timeout is not None and timeout >= consumer_timeout:
        msg = (
            f"{name}: timeout ({timeout:g} s, {pace.timeout.source}) must be below consumer-timeout "
            f"({consumer_timeout:g} s), or the broker takes the message back first"
        )
        raise ConsumerError(msg)


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0 and math.isfinite(value)


def check_consumers(topology: Topology, consumers: Iterable[Consumer[Any]]) -> None:
    """Raise ConsumerError with every way in which the consumers do not fit the topology."""
    faults: list[str] = []
    seen: dict[str, str] = {}
    plain = {queue.name: queue for queue in topology.queues}
    for consumer in consumers:
        if not isinstance(consumer, Consumer):
            faults.append(_no_consumer(consumer))
            continue
        name = type(consumer).__name__
        if consumer.queue not in seen:
            seen[consumer.queue] = name
        elif seen[consumer.queue] != name:
            faults.append(f'{seen[consumer.queue]} and {name} both consume queue "{consumer.queue}"')
        else:
            faults.append(f'{name} is there twice for queue "{consumer.queue}"; raise `concurrency` instead')
        if consumer.queue in topology.work_queues:
            faults += _misfits(consumer, topology)
        elif consumer.queue in plain:
            faults += _plain_misfits(consumer, plain[consumer.queue], topology)
        else:
            near = _near(consumer.queue, topology.work_queues, plain)
            faults.append(f'{name}: queue "{consumer.queue}" is not in the topology{near}')
    if not seen and not faults:
        faults.append("there is no consumer to run")
    if faults:
        raise ConsumerError("\n".join(faults))


def _no_consumer(given: object) -> str:
    if isinstance(given, type) and issubclass(given, Consumer):
        return f"{given.__name__} is a class: write {given.__name__}()"
    return f"{given!r:.80} is no Consumer"


def _misfits(consumer: Consumer[Any], topology: Topology) -> list[str]:
    work, name = topology.work_queues[consumer.queue], type(consumer).__name__
    faults = [
        f'{name}: queue "{work.name}" does not accept "{cls.payload_type}" (it accepts {", ".join(work.accepts)}); '
        "add it to `accepts`"
        for cls in consumer.payloads
        if cls.payload_type not in work.accepts
    ]
    if consumer.retry is None:
        faults.append(f'{name} says retry = None, but "{work.name}" is a work queue: write `retry: none` in the file')
    return faults


def _plain_misfits(consumer: Consumer[Any], queue: Queue, topology: Topology) -> list[str]:
    name = type(consumer).__name__
    if consumer.retry is not None:
        remedy = "say `retry = None` (failures are then refused to its dead-letter exchange) or make it a work queue"
        return [f'{name}: "{queue.name}" is a plain queue and has no delays to retry through; {remedy}']
    by_policy = any("dead-letter-exchange" in p.definition and _reaches(p, queue) for p in topology.policies)
    if "x-dead-letter-exchange" not in queue.arguments and not by_policy:
        return [f'{name}: queue "{queue.name}" has no dead-letter exchange; its failures would be lost']
    return []


def _reaches(policy: Policy, queue: Queue) -> bool:
    if policy.apply_to not in ("all", "queues", f"{queue.type}_queues"):
        return False
    try:
        return re.search(policy.pattern, queue.name) is not None
    except re.error:
        return True  # the broker reads PCRE, which can say more than Python: in doubt it is not for us to refuse


def _near(name: str, works: Iterable[str], others: Iterable[str]) -> str:
    import difflib  # noqa: PLC0415 - only for an error

    near = difflib.get_close_matches(name, [*works, *others], n=1)
    if near:
        return f' (did you mean "{near[0]}"?)'
    some, more = sorted(works)[:_NAMED], len([*works]) - _NAMED
    return f"; its work queues are {', '.join(some)}{f' and {more} more' if more > 0 else ''}" if some else ""
