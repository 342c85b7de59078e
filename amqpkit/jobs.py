"""What is known of a job, and how news of it is taken in: in whatever order it comes, the end is the same.

Pure: knows no broker, no database and no clock. News has a rank; a job stands where its highest news has put it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple


class JobState(StrEnum):
    """Where a job is: `pending → running → succeeded | failed | retrying | cancelled`."""

    PENDING = "pending"
    RUNNING = "running"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        """Whether nothing more happens by itself."""
        return self in _FINAL


_FINAL: Final = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})


class News(StrEnum):
    """What can be heard of a job."""

    QUEUED = "queued"
    BEGUN = "begun"
    PROGRESS = "progress"
    RETRYING = "retrying"
    FAILED = "failed"
    KNOWN_DONE = "known-done"
    """A copy of it was not handled, because the job had been done before."""
    CANCELLED = "cancelled"
    SUCCEEDED = "succeeded"


class ErrorKind(StrEnum):
    """What a failure means to the one who waits for the job."""

    WILL_RETRY = "will-retry"
    BAD_INPUT = "bad-input"
    BUSY = "busy"
    QUOTA = "quota"
    PERMANENT = "permanent"


class Place(NamedTuple):
    """Which delivery of the job's message is spoken of; every copy and every crash counts one of these up."""

    replays: int = 0
    attempt: int = 0
    """Attempts used up before."""
    snoozes: int = 0
    crashes: int = 0


FIRST: Final = Place()


@dataclass(frozen=True, slots=True)
class Transition:
    """Where news puts a job; within one life the more final wins, then the later delivery, then the later `step`."""

    state: JobState
    finality: int
    step: int


TRANSITIONS: Final[Mapping[News, Transition]] = {
    News.QUEUED: Transition(JobState.PENDING, 0, 0),
    News.BEGUN: Transition(JobState.RUNNING, 0, 1),
    News.PROGRESS: Transition(JobState.RUNNING, 0, 1),  # its beginning may not have been heard
    News.RETRYING: Transition(JobState.RETRYING, 0, 2),
    News.FAILED: Transition(JobState.FAILED, 1, 3),
    # hearsay: who was there knows better whether it was done or cancelled
    News.KNOWN_DONE: Transition(JobState.SUCCEEDED, 2, 3),
    News.CANCELLED: Transition(JobState.CANCELLED, 3, 3),
    News.SUCCEEDED: Transition(JobState.SUCCEEDED, 4, 3),
}
"""A replay begins another life: only that takes a job out of a final state."""

Rank = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is: `fraction` from 0 to 1, and in the handler's own words."""

    fraction: float = 0.0
    text: str = ""


@dataclass(frozen=True, slots=True)
class JobError:
    """A failure as the one who waits for the job may read it: no traceback, no text of the exception."""

    kind: ErrorKind
    sentence: str


@dataclass(frozen=True, slots=True)
class Change:
    """One piece of news; `summary` is the redacted input, `next_attempt` when a retry comes back."""

    id: str
    news: News
    at: datetime
    place: Place = FIRST
    type: str = ""
    queue: str = ""
    attempts: int = 0
    summary: Mapping[str, Any] | None = None
    progress: Progress | None = None
    error: JobError | None = None
    next_attempt: datetime | None = None

    @property
    def rank(self) -> Rank:
        """Where it stands among all news of its job."""
        transition, place = TRANSITIONS[self.news], self.place
        return (place.replays, transition.finality, *place[1:], transition.step)


_NEVER: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Standing:
    """How much the news was worth that a job's parts rest on; of equal rank, the later."""

    state: tuple[Rank, datetime] = ((), _NEVER)
    error: tuple[Rank, datetime] = ((), _NEVER)
    progress: tuple[Rank, datetime] = ((), _NEVER)


@dataclass(frozen=True, slots=True)
class Job:
    """What is known of a job; its id is its message's, `attempt` the attempts begun, of at most `attempts`."""

    id: str
    created: datetime
    updated: datetime
    state: JobState = JobState.PENDING
    type: str = ""
    queue: str = ""
    attempt: int = 0
    attempts: int = 0
    summary: Mapping[str, Any] | None = None
    progress: Progress = Progress()
    error: JobError | None = None
    next_attempt: datetime | None = None
    cancel_requested: datetime | None = None
    standing: Standing = field(default=Standing(), repr=False)

    def as_json(self) -> dict[str, Any]:
        """Say it as JSON has it, times in RFC 3339: fit for the one who waits for the job."""
        return {
            "id": self.id,
            "type": self.type,
            "queue": self.queue,
            "state": self.state.value,
            "attempt": self.attempt,
            "attempts": self.attempts,
            "input": self.summary,
            "progress": {"fraction": round(self.progress.fraction, 4), "text": self.progress.text},
            "error": None if self.error is None else {"kind": self.error.kind.value, "sentence": self.error.sentence},
            "created_at": _instant(self.created),
            "updated_at": _instant(self.updated),
            "next_attempt_at": _instant(self.next_attempt),
            "cancel_requested_at": _instant(self.cancel_requested),
        }


@dataclass(frozen=True, slots=True)
class JobQuery:
    """Which jobs are asked for, the newest first; what is empty asks for nothing in particular."""

    states: tuple[JobState, ...] = ()
    queue: str = ""
    type: str = ""
    ids: tuple[str, ...] = ()
    limit: int = 100

    def matches(self, job: Job) -> bool:
        """Whether it asks for this one."""
        return (
            (not self.states or job.state in self.states)
            and (not self.queue or job.queue == self.queue)
            and (not self.type or job.type == self.type)
            and (not self.ids or job.id in self.ids)
        )


def merge(job: Job | None, change: Change) -> tuple[Job, bool]:
    """Take news in; the flag says that it came too late, or again, and moved nothing."""
    known = Job(change.id, change.at, change.at) if job is None else job
    worth = (change.rank, change.at)
    late = worth <= known.standing.state
    merged = replace(
        known,
        created=min(known.created, change.at),
        updated=max(known.updated, change.at),
        type=known.type or change.type,
        queue=known.queue or change.queue,
        attempts=max(known.attempts, change.attempts),
        summary=change.summary if known.summary is None else known.summary,
    )
    if not late:
        merged = replace(
            merged,
            state=TRANSITIONS[change.news].state,
            attempt=0 if change.news is News.QUEUED else change.place.attempt + 1,
            next_attempt=change.next_attempt,
            # what has failed can be replayed, and then nobody has asked to cancel that
            cancel_requested=None if change.news is News.FAILED else known.cancel_requested,
            standing=replace(merged.standing, state=worth),
        )
    return _with_details(merged, change, worth), late and change.news is not News.PROGRESS


def _with_details(job: Job, change: Change, worth: tuple[Rank, datetime]) -> Job:
    """The error and the progress are the highest news' that tells any: a success does not hide the last error."""
    if change.error is not None and worth > job.standing.error:
        job = replace(job, error=change.error, standing=replace(job.standing, error=worth))
    if change.progress is not None:
        # a later attempt begins at nothing again, whatever an earlier one had reached
        reached = ((*change.place, TRANSITIONS[change.news].step), change.at)
        if reached > job.standing.progress:
            job = replace(job, progress=change.progress, standing=replace(job.standing, progress=reached))
    return job


def _instant(instant: datetime | None) -> str | None:
    if instant is None:
        return None
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
