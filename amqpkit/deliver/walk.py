"""The life of one delivery, as a conversation with whoever has the hands.

Pure: this module may not know a broker, a store, a loop, a clock or a log. It yields effects and is sent replies;
the async driver, the blocking driver and the tests perform them. Every path ends in Ack, Requeue or Refuse.
"""

from collections.abc import AsyncGenerator, Awaitable, Generator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, assert_never

from amqpkit.deliver import headers as h
from amqpkit.deliver.case import Case, Done, End, Judged, Judgement, Skip, Terms
from amqpkit.deliver.copies import dead_headers, reason_of, retry_headers, snooze_headers
from amqpkit.deliver.effects import (
    Ack,
    AskCancelled,
    Claim,
    Compensate,
    Complete,
    Effect,
    GivenUp,
    Invoke,
    Moment,
    Publish,
    Raised,
    Refuse,
    Release,
    Requeue,
    Returned,
    Stopped,
    Undone,
)
from amqpkit.deliver.payload import Decoded, Invalid, Payload, TooNew
from amqpkit.deliver.retry import (
    SNOOZE_SLACK,
    Dead,
    Retry,
    Snooze,
    bound_of,
    crashed,
    decide,
    draw,
    instant_of,
    put_off,
    put_off_within_bound,
    without_looks,
)
from amqpkit.errors import LeaseLost, StoreUnavailable, Unsendable
from amqpkit.events import Outcome
from amqpkit.model import Cancelled, DeadLetter, Discard, Received, RetryAfter, Verdict
from amqpkit.ports import Claimed, Hold

Walk = Generator[Effect, Any, End]


def walk(received: Received, terms: Terms, begun: Moment) -> Walk:
    """Take one delivery from its bytes to its ack.

    Yields effects in an order in which a crash at any point loses nothing: a copy is confirmed before the
    original is acked. The driver throws `Stopped` to end it early and `Unsendable` when a copy can never leave.
    """
    key = h.read_key(received)
    case = Case(received, terms, h.read_past(received), begun, f"{terms.queue}:{key}" if key else None)
    judged: Judged | None = None
    try:
        judged = yield from examine(case)
        end = yield from settle(case, judged)
    except Stopped as stop:
        # stopped before judgement: at the claim, which may have been granted, or with it in hand
        yield from _release(judged.claim if judged else case.key)
        yield Requeue()
        return case.end(Outcome.REQUEUED, reason=str(stop))
    except Unsendable as error:
        yield from _release(judged.claim if judged else case.key)
        yield Refuse()
        return case.end(Outcome.REFUSED, reason=str(error))
    yield Refuse() if end.outcome is Outcome.REFUSED else Ack()
    return end


def _release(claim: str | None) -> Generator[Effect, Any, None]:
    # only what this walk holds: a store cannot tell two walks of one worker from each other
    if claim:
        yield Release(claim)


# --- judging ---------------------------------------------------------------------------------------


def examine(case: Case) -> Generator[Effect, Any, Judged]:
    """Find out what is to become of the delivery: by its past, its bytes, its claim, its handler."""
    early = _before_decoding(case)
    if early is not None:
        return Judged(early, case.begun)
    decoding = case.terms.decode(case.received)
    if not isinstance(decoding, Decoded):
        return _not_decoded(case, decoding)
    if case.key:
        claimed: Claimed = yield Claim(case.key, case.terms.lease)
        if claimed.hold is Hold.DONE:
            return Judged(Skip(Outcome.DUPLICATE, "was handled before"), case.begun)
        if claimed.hold is Hold.HELD:
            return Judged(_wait_for_lease(case, claimed), case.begun)
    if (yield from _is_cancelled(case, decoding.payload)):
        return Judged(Skip(Outcome.DISCARDED, "cancelled", undo=True), case.begun, case.key)
    reply: Returned | Raised = yield Invoke(decoding.payload, case.past)
    return replace(_judge(case, reply), invoked=True)


def _is_cancelled(case: Case, payload: Payload) -> Generator[Effect, Any, bool]:
    job = case.received.properties.message_id
    return bool(payload.payload_track and job and (yield AskCancelled(job)))


def _before_decoding(case: Case) -> Snooze | Dead | None:
    work, now = case.terms.work, case.begun.now
    if work is None:
        return None
    past = case.past
    if past.acquired:
        past = without_looks(past, h.read_published_at(case.received), now, work.consumer_timeout)
    if (dead := crashed(past, work.delivery_limit)) is not None:
        return dead
    due = min(past.not_before or now, bound_of(past, now))  # beyond the bound it is handled, and judged by what it says
    return put_off(work.snoozes, due, now, "was not due yet") if due - now > SNOOZE_SLACK else None


def _not_decoded(case: Case, decoding: Invalid | TooNew) -> Judged:
    work, past, now = case.terms.work, case.past, case.begun.now
    if isinstance(decoding, Invalid) or work is None:
        details = decoding.errors if isinstance(decoding, Invalid) else ()
        return Judged(Dead("invalid", decoding.reason), case.begun, details=details)
    # a rolling deploy: look again after each delay in turn, then after the longest for a day
    wait = work.snoozes[min(past.snoozes, len(work.snoozes) - 1)].milliseconds
    until = now + timedelta(milliseconds=wait)
    return Judged(
        put_off_within_bound(work.snoozes, until, now, past, fate="too-new", reason=decoding.reason), case.begun
    )


def _wait_for_lease(case: Case, claimed: Claimed) -> Judgement:
    work, now = case.terms.work, case.begun.now
    if work is None:
        return Dead("held", "another worker handles it, and a plain queue has no delay to wait in")
    return put_off(work.snoozes, now + timedelta(seconds=claimed.seconds), now, "another worker handles it")


def _judge(case: Case, reply: Returned | Raised) -> Judged:
    said = reply.value if isinstance(reply, Returned) else _alone(reply.error)
    moment, claim = reply.moment, case.key
    match said:
        case GivenUp():
            return Judged(_as_before(said), moment, claim, said, handled=True)
        case Cancelled():
            return Judged(Skip(Outcome.DISCARDED, h.text_of(said) or "cancelled", undo=True), moment, claim)
        case Discard():
            return Judged(Skip(Outcome.DISCARDED, h.text_of(said)), moment, claim, handled=True)
        case DeadLetter():
            dead = Dead("permanent", h.text_of(said) or "the handler gave it up")
            return Judged(dead, moment, claim, said, handled=True)
        case RetryAfter():
            return Judged(_later(case, said, moment.now), moment, claim, handled=False)
        case LeaseLost():
            return Judged(_look_again(case, moment.now, "its claim ran out and another worker took it over"), moment)
        case StoreUnavailable():  # out of context.transaction(), which rolled back: not the handler's failure
            return Judged(_look_again(case, moment.now, h.text_of(said)), moment, claim)
        case BaseException() if isinstance(reply, Raised):
            return Judged(_failed(case, said), moment, claim, said, handled=True)
        case _ if _is_no_result(said):
            mistake = TypeError(f"handle returned {_name(said)}, which is neither a result nor a verdict")
            return Judged(_failed(case, mistake), moment, claim, mistake, handled=True)
        case _:
            return Judged(Done(said), moment, claim, handled=True)


def _as_before(said: GivenUp) -> Skip | Dead:
    """What an earlier delivery had judged when it began to undo the job, and did not come to an end."""
    if said.dead.fate == "cancelled":
        return Skip(Outcome.DISCARDED, said.dead.reason, undo=True)
    return said.dead


def _failed(case: Case, failure: BaseException) -> Retry | Dead:
    delays = case.terms.work.delays if case.terms.work else ()
    return decide(failure, case.past.attempt, delays, case.terms.never_retry)


def _look_again(case: Case, now: datetime, reason: str) -> Snooze | Dead:
    """What was done here is rolled back, through no fault of the message: soon again, no attempt used, for a day."""
    work = case.terms.work
    if work is None:
        return Dead("held", reason)
    return put_off_within_bound(work.snoozes, now, now, case.past, fate="exhausted", reason=reason)


def _alone(error: BaseException) -> BaseException:
    """What a task group wraps around its one failure is not what the handler wanted to say."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _is_no_result(said: object) -> bool:
    """Whether to ack would hide a mistake: work that never ran (a decorated `async def`), a verdict not called."""
    if isinstance(said, type):
        return issubclass(said, Verdict)
    return isinstance(said, Awaitable | Generator | AsyncGenerator | Verdict)


def _name(said: object) -> str:
    return f"the class {said.__name__}" if isinstance(said, type) else f"a {type(said).__name__}"


def _later(case: Case, verdict: RetryAfter, now: datetime) -> Snooze | Dead:
    work = case.terms.work
    reason = f"asked to come back: {verdict.reason}" if verdict.reason else "asked to come back"
    if work is None:
        return Dead("permanent", "RetryAfter on a plain queue, which has no delay to wait in")
    return put_off_within_bound(work.snoozes, instant_of(verdict, now), now, case.past, fate="exhausted", reason=reason)


# --- settling --------------------------------------------------------------------------------------


def settle(case: Case, judged: Judged) -> Generator[Effect, Any, End]:
    """Make the judgement true everywhere except in the queue: the ack comes after."""
    judgement = judged.judgement
    match judgement:
        case Done(result):
            if judged.claim:
                yield Complete(judged.claim, result)
            return case.end(Outcome.HANDLED)
        case Skip():
            return (yield from _skip(case, judged, judgement))
        case Retry() | Snooze():
            return (yield from _delay(case, judged, judgement))
        case Dead():
            return (yield from _bury(case, judged, judgement))
        case _:
            assert_never(judgement)


def _skip(case: Case, judged: Judged, skip: Skip) -> Generator[Effect, Any, End]:
    if skip.undo:
        undone = yield from _undo(case, judged, Dead("cancelled", skip.reason))
        if any(step.error for step in undone):
            # what a cancelled job has left behind is somebody's to look at
            dead = Dead("permanent", f"{skip.reason}, and not everything that it had done could be undone")
            return (yield from _bury(case, judged, dead, undone))
    if judged.claim:
        yield Complete(judged.claim)
    return case.end(skip.outcome, reason=skip.reason)


def _undo(case: Case, judged: Judged, dead: Dead) -> Generator[Effect, Any, tuple[Undone, ...]]:
    """Undo a job's steps, if there can be any: a message that nobody has begun has none."""
    past = case.past
    begun = judged.invoked or case.received.redelivered or past.attempt or past.snoozes or past.crashes or past.replays
    if not case.key or not begun:
        return ()
    return tuple((yield Compensate(case.key, h.run_of(past), GivenUp.of(dead, judged.error))) or ())


def _delay(case: Case, judged: Judged, judgement: Retry | Snooze) -> Generator[Effect, Any, End]:
    work = case.terms.work
    assert work is not None  # noqa: S101 - without delays nothing is judged to be a Retry or a Snooze
    target = draw(judgement.delay, judged.moment.chance)
    if isinstance(judgement, Retry):
        ours, outcome, reason = (retry_headers(case, judged, target.key), Outcome.RETRIED, reason_of(judged, "failed"))
    else:
        ours, outcome, reason = (snooze_headers(case, judgement), Outcome.SNOOZED, judgement.reason)
    yield Publish(work.retry_exchange, target.key, h.copy_of(case.received, ours, first_seen=case.begun.now))
    yield from _release(judged.claim)
    return case.end(outcome, reason=reason, delay=target.key)


def _bury(
    case: Case, judged: Judged, dead: Dead, undone: tuple[Undone, ...] | None = None
) -> Generator[Effect, Any, End]:
    if undone is None:
        undone = yield from _undo(case, judged, dead)
    work = case.terms.work
    if work is None:
        yield from _release(judged.claim)
        return case.end(Outcome.REFUSED, reason=reason_of(judged, dead.reason), fate=dead.fate)
    ours = dead_headers(case, judged, dead, undone)
    yield Publish(work.dead_exchange, work.name, h.copy_of(case.received, ours, first_seen=case.begun.now))
    yield from _release(judged.claim)
    return case.end(Outcome.DEAD, reason=reason_of(judged, dead.reason), fate=dead.fate)
