"""Tracked jobs while a worker has them in hand: what is told of them, and whether they are still wanted."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from amqpkit.deliver.case import End, Terms
from amqpkit.deliver.context import Context
from amqpkit.deliver.headers import Past, read_past, sendable
from amqpkit.deliver.payload import Payload
from amqpkit.deliver.tracking import Ended, Errors, explain, news_of, next_attempt, place_of, summary_of
from amqpkit.errors import AmqpkitError
from amqpkit.events import OnEvent, Tracked
from amqpkit.jobs import Change, Job, JobQuery, JobState, News, Progress
from amqpkit.ports import Clock, Delivery, JobLog

log = logging.getLogger("amqpkit.worker")
T = TypeVar("T")

EVERY: Final = 0.25
"""Seconds between two reports of a job's progress."""
TEXT_MAX: Final = 200
PATIENCE: Final = 0.1
"""Seconds in which the job log may say that a job is cancelled; then it is handled."""
LOOK: Final = 1.0
"""Seconds between two looks at whether running jobs are cancelled."""


class RunningJob:
    """A job in its handler's hands; `tell` is called in the loop's thread, `progress` in any."""

    def __init__(self, tell: Callable[[News, Progress], None], clock: Clock) -> None:
        """Nothing is reached yet."""
        self._tell, self._clock, self._loop = tell, clock, asyncio.get_running_loop()
        self._reached, self._told = Progress(), Progress()
        self._armed = self._over = False
        self._last = -math.inf
        self._disarm: Callable[[], None] | None = None
        self.cancelled = False

    @property
    def reached(self) -> Progress:
        """How far it is, told or not."""
        return self._reached

    def progress(self, fraction: float, text: str) -> None:
        """Keep it, and see that it is told in time; raises TypeError when it is no number."""
        if not isinstance(fraction, int | float):
            msg = f"progress is a number from 0 to 1, not {fraction!r:.80}"
            raise TypeError(msg)
        held = 0.0 if math.isnan(fraction) else min(max(float(fraction), 0.0), 1.0)
        self._reached = Progress(held, sendable(str(text))[:TEXT_MAX])
        if not self._armed and not self._over:
            self._armed = True
            with suppress(RuntimeError):  # the loop is closed: a thread that nobody waits for any more
                self._loop.call_soon_threadsafe(self._arm)

    def end(self) -> None:
        """Tell what was not told yet, and nothing after that."""
        if self._disarm is not None:
            self._disarm()
        if not self._over and self._reached != self._told:
            self._report()
        self._over = True

    def _arm(self) -> None:
        if self._over:
            return
        passed = self._clock.now().timestamp() - self._last
        if 0 <= passed < EVERY:
            self._disarm = self._clock.call_later(EVERY - passed, self._report)
        else:  # also when the clock was set back
            self._report()

    def _report(self) -> None:
        if self._over:
            return
        self._armed, self._last, self._disarm = False, self._clock.now().timestamp(), None
        self._told = self._reached
        self._tell(News.PROGRESS, self._told)


class Cancellations:
    """Whether jobs are cancelled, as far as the log can say: no delivery waits for it longer than PATIENCE."""

    def __init__(self, jobs: JobLog, clock: Clock) -> None:
        """Watch nothing yet."""
        self._jobs, self._clock = jobs, clock
        self._running: dict[str, RunningJob] = {}
        self._question: asyncio.Task[Job | None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._away = False

    async def asked(self, job: str) -> bool:
        """Say whether a job is cancelled; False when nobody can tell in time."""
        if self._question is not None and not self._question.done():
            return False  # the last one has no answer yet: the log is away, and need not be waited for again
        question = asyncio.create_task(self._ask(job))
        done, _ = await asyncio.wait([question], timeout=PATIENCE)
        if not done:
            self._question = question  # not cancelled: a driver that is, asks a server that does not answer to cancel
            return False
        return _is_cancelled(question.result())

    async def _ask(self, job: str) -> Job | None:
        return await self._answer(self._jobs.get(job))

    async def _answer(self, question: Awaitable[T]) -> T | None:
        """Await what the log says; nothing when it fails, and that is told once until it answers again."""
        try:
            answer = await question
        except Exception as error:
            if not self._away:
                expected = isinstance(error, AmqpkitError)
                log.warning("the job log cannot say whether jobs are cancelled (%s)", error, exc_info=not expected)
            self._away = True
            return None
        self._away = False
        return answer

    def watch(self, job: str, running: RunningJob) -> None:
        """Look now and then whether it is cancelled, until `unwatch`."""
        self._running[job] = running
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._look())

    def unwatch(self, job: str, running: RunningJob) -> None:
        """Look no more; another copy of the same job may be in other hands."""
        if self._running.get(job) is running:
            del self._running[job]
        if not self._running and self._watching is not None:
            self._watching.cancel()
            self._watching = None

    async def close(self) -> None:
        """End what is still being asked."""
        for task in (self._question, self._watching):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait([task], timeout=1)

    async def _look(self) -> None:
        while self._running:
            await self._clock.sleep(LOOK)
            ids = tuple(self._running)
            for job in await self._answer(self._jobs.find(JobQuery(ids=ids, limit=len(ids)))) or ():
                running = self._running.get(job.id)
                if running is not None and _is_cancelled(job):
                    running.cancelled = True


def _is_cancelled(job: Job | None) -> bool:
    if job is None:
        return False
    # of a job that is cancelled there may be another copy
    return job.state is JobState.CANCELLED or (job.cancel_requested is not None and not job.state.final)


class Reporter:
    """Tells of one slot's tracked jobs, one delivery after the other."""

    def __init__(
        self, terms: Terms, errors: Errors, clock: Clock, on_event: OnEvent, cancellations: Cancellations | None
    ) -> None:
        """Tell of nothing yet."""
        self._terms, self._errors, self._clock, self._on_event = terms, errors, clock, on_event
        self._cancellations = cancellations
        self._running: RunningJob | None = None
        self._job = ""

    async def is_cancelled(self, job: str) -> bool:
        """Say whether a job is to be given up before it begins."""
        return self._cancellations is not None and await self._cancellations.asked(sendable(job))

    def begin(self, payload: Payload, context: Context, past: Past) -> RunningJob | None:
        """Tell that a handler is about to be called; None when its payload is not tracked."""
        if not payload.payload_track or not context.message_id:
            return None
        self._job = job = sendable(context.message_id)
        place, kind, summary = place_of(past), payload.payload_type, summary_of(payload)
        after = datetime.min.replace(tzinfo=UTC)

        def tell(news: News, progress: Progress) -> None:
            nonlocal after
            at = max(after, self._clock.now())  # of equal rank the later counts, also after the clock was set back
            after = at + timedelta(microseconds=1)
            self._tell(Change(job, news, at, place, kind, progress=progress, summary=summary))

        self._running = running = RunningJob(tell, self._clock)
        tell(News.BEGUN, Progress())
        if self._cancellations is not None:
            self._cancellations.watch(job, running)
        return running

    def pause(self) -> None:
        """The handler is done, or given up on: its progress is told to the last."""
        if self._running is not None:
            self._running.end()
            if self._cancellations is not None:
                self._cancellations.unwatch(self._job, self._running)

    def end(self, delivery: Delivery, end: End, said: BaseException | None) -> None:
        """Tell how a delivery has ended."""
        running, self._running = self._running, None
        properties = delivery.properties
        kind = properties.type or (self._terms.work.accepts[0] if self._terms.work else "")
        if kind not in self._terms.tracked or not properties.message_id:
            return
        news = news_of(Ended(end, said, running is not None))
        if news is None:
            return
        at = self._clock.now()
        reached = running.reached if running else None
        self._tell(
            Change(
                sendable(properties.message_id),
                news,
                at,
                place_of(read_past(delivery)),
                kind,
                progress=Progress(1.0, reached.text) if reached and news is News.SUCCEEDED else reached,
                error=explain(end, said, self._errors),
                next_attempt=next_attempt(end, self._terms.work, at),
            )
        )

    def _tell(self, change: Change) -> None:
        work = self._terms.work
        self._on_event(Tracked(replace(change, queue=self._terms.queue, attempts=work.attempts if work else 1)))
