"""What is told of tracked jobs: their input in short, their states, and their failures in words for those who wait."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from amqpkit.deliver.case import End
from amqpkit.deliver.consumer import Consumer
from amqpkit.deliver.credentials import HIDDEN, redacted
from amqpkit.deliver.headers import Past, sendable, text_of
from amqpkit.deliver.payload import Payload
from amqpkit.errors import ConsumerError
from amqpkit.events import Outcome, Tracked
from amqpkit.jobs import Change, ErrorKind, JobError, News, Place
from amqpkit.model import RetryAfter, Topology, WorkQueue

TEXT_MAX: Final = 100
"""Characters of a text in a summary."""
ITEMS_MAX: Final = 10
"""Items of a list, and fields of an object."""
DEPTH_MAX: Final = 3
SENTENCE_MAX: Final = 300

_SENTENCES: Final[Mapping[ErrorKind, str]] = {
    ErrorKind.WILL_RETRY: "Something went wrong. It will be tried again by itself.",
    ErrorKind.BAD_INPUT: "The input cannot be used.",
    ErrorKind.BUSY: "What it needs is busy at the moment. It will be tried again by itself.",
    ErrorKind.QUOTA: "A limit has been reached.",
    ErrorKind.PERMANENT: "It failed, and will not be tried again by itself.",
}

_NEWS: Final[Mapping[Outcome, News]] = {
    Outcome.HANDLED: News.SUCCEEDED,
    Outcome.DUPLICATE: News.KNOWN_DONE,
    Outcome.DISCARDED: News.CANCELLED,
    Outcome.RETRIED: News.RETRYING,
    Outcome.SNOOZED: News.RETRYING,
    Outcome.DEAD: News.FAILED,
    Outcome.REFUSED: News.FAILED,
}
"""A delivery that was given back is no news: it comes again at once."""


# --- input -----------------------------------------------------------------------------------------


def summary_of(payload: Payload) -> dict[str, Any]:
    """Show a payload in short, without credentials: long texts, lists and objects are cut."""
    try:
        shown = redacted(payload.model_dump(mode="json", warnings=False))
    except Exception as error:  # noqa: BLE001 - its author's serializers; and what is told must cost no delivery
        return {"…": f"cannot be shown: {type(error).__name__}"}  # the error's text may quote the payload
    document = shown if isinstance(shown, dict) else {}
    hidden = {name: HIDDEN for name in payload.payload_hidden if name in document}
    return dict(_short(document | hidden, 0))


def _short(value: Any, depth: int) -> Any:
    match value:
        case dict() if depth < DEPTH_MAX:
            cut = {_short(str(name), depth): _short(each, depth + 1) for name, each in list(value.items())[:ITEMS_MAX]}
            return cut | ({"…": f"{len(value) - ITEMS_MAX} more"} if len(value) > ITEMS_MAX else {})
        case list() if depth < DEPTH_MAX:
            cut_list = [_short(each, depth + 1) for each in value[:ITEMS_MAX]]
            return cut_list + ([f"… {len(value) - ITEMS_MAX} more"] if len(value) > ITEMS_MAX else [])
        case dict() | list():
            return "…"
        case str():
            text = sendable(value)
            return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"
        case _:
            return value


# --- failures --------------------------------------------------------------------------------------

Errors = Mapping[type[BaseException], str | tuple[str, str]]


def explain(end: End, said: BaseException | None, errors: Errors) -> JobError | None:
    """Say what a failed delivery means to the one who waits; None when nothing failed. `said` is what was raised.

    What the consumer says of an exception's class goes first, of the nearest class when several fit.
    """
    if _NEWS.get(end.outcome) not in (News.RETRYING, News.FAILED):
        return None
    kind = _kind_of(end, said)
    for cls in type(said).__mro__ if said is not None else ():
        if cls in errors:
            told = errors[cls]
            named, sentence = (told, "") if isinstance(told, str) else told
            return JobError(ErrorKind(named), _filled(sentence, said) or _sentence(ErrorKind(named), end))
    return JobError(kind, _sentence(kind, end))


def _kind_of(end: End, said: BaseException | None) -> ErrorKind:
    if end.fate in ("invalid", "too-new"):
        return ErrorKind.BAD_INPUT
    if end.outcome in (Outcome.DEAD, Outcome.REFUSED):
        return ErrorKind.PERMANENT
    return ErrorKind.BUSY if isinstance(said, RetryAfter) else ErrorKind.WILL_RETRY


def _sentence(kind: ErrorKind, end: End) -> str:
    if end.fate == "invalid":  # written by us, without the values
        return f"{_SENTENCES[kind][:-1]}: {end.reason}"[:SENTENCE_MAX]
    return _SENTENCES[kind]


def _filled(sentence: str, said: BaseException | None) -> str:
    text = text_of(said) if said is not None else ""
    return sentence.replace("{error}", text)[:SENTENCE_MAX]


# --- news ------------------------------------------------------------------------------------------


def place_of(past: Past) -> Place:
    """Where a delivery stands in the life of its job."""
    return Place(past.replays, past.attempt, past.snoozes, past.crashes)


def queued(payload: Payload, job: str, topology: Topology, at: datetime) -> Tracked | None:
    """Tell that a job's message is stored; None when its class is not tracked."""
    if not payload.payload_track:
        return None
    queues = queues_of(payload.payload_type, topology)
    queue = queues[0] if queues else None
    change = Change(
        sendable(job),
        News.QUEUED,
        at,
        type=payload.payload_type,
        queue=queue.name if queue else "",
        attempts=queue.attempts if queue else 1,
        summary=summary_of(payload),
    )
    return Tracked(change)


def queues_of(type: str, topology: Topology) -> list[WorkQueue]:  # noqa: A002 - AMQP's word
    """The work queues that accept a payload type."""
    return [queue for queue in topology.work_queues.values() if type in queue.accepts]


def check_jobs(topology: Topology, consumers: Iterable[Consumer[Any]]) -> None:
    """Raise ConsumerError when a tracked type is accepted by several queues: a job has one state."""
    for cls in (cls for consumer in consumers for cls in consumer.payloads if cls.payload_track):
        if len(queues := queues_of(cls.payload_type, topology)) > 1:
            names = ", ".join(queue.name for queue in queues)
            msg = (
                f'{cls.__name__} says track=True, but type "{cls.payload_type}" is accepted by {names}: a job has one '
                "queue; publish a type of its own for each"
            )
            raise ConsumerError(msg)


@dataclass(frozen=True, slots=True)
class Ended:
    """What is known of a delivery of a job when it has ended."""

    end: End
    said: BaseException | None
    begun: bool


def news_of(ended: Ended) -> News | None:
    """Say what the end of a delivery means to its job; None when it means nothing."""
    if ended.end.outcome is Outcome.SNOOZED and not ended.begun:
        return None  # put off before it began: what is true of the job is still true
    return _NEWS.get(ended.end.outcome)


def next_attempt(end: End, work: WorkQueue | None, at: datetime) -> datetime | None:
    """Say when a copy comes back."""
    if work is None or end.delay is None:
        return None
    waits = {queue.key: queue.milliseconds for delay in (*work.delays, *work.snoozes) for queue in delay.queues}
    wait = waits.get(end.delay)
    return None if wait is None else at + timedelta(milliseconds=wait)
