"""Make a broker have what a plan says; never repeat, never stop half-way without saying so."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeGuard

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_fixed

from amqpkit.declare.identity import address, identity
from amqpkit.declare.plan import changes as judged
from amqpkit.declare.plan.changes import Change, Create, Delete, Replace, Update, UpdateLossy
from amqpkit.declare.plan.planning import Plan, Wishes
from amqpkit.declare.plan.vanished import Vanished
from amqpkit.errors import BrokerError
from amqpkit.model import Binding, DeclaredObject, Queue, Topology
from amqpkit.operate.permissions import require_permissions
from amqpkit.operate.prune import Pruning, in_use, prune_queues
from amqpkit.operate.refusals import ApplyFailed, Conflicts, conflicts, missing_rights
from amqpkit.operate.report import Report, report_of
from amqpkit.operate.survey import NO_WISHES, survey
from amqpkit.ports import Admin

__all__ = ["ApplyFailed", "Conflicts", "Report", "apply", "perform", "prepare"]

AT_ONCE: Final = 16
"""How many objects of a stage are made at the same time."""
_BLIND: Final = "queues are deleted only with an AMQP connection to look at them: give `pruning`"
OnStep = Callable[[Change], None]


def ignore(_change: Change) -> None:
    """Listen to no step."""


def untroubled() -> BrokerError | None:
    """Know of no reason to stop."""
    return None


async def apply(
    topology: Topology,
    admin: Admin,
    *,
    wishes: Wishes = NO_WISHES,
    pruning: Pruning | None = None,
    on_step: OnStep = ignore,
) -> Report:
    """Create what is missing and overwrite policies that differ; a second call changes nothing.

    What is in no file stays, unless the wishes say prune, which takes `pruning`. `on_step` is called for each change
    when it is done. Raises Conflicts and AccessRefused before anything is changed, ApplyFailed when it stops on the way
    or a change does not take effect, and what the admin's `read` raises.
    """
    plan = await prepare(topology, admin, wishes)
    return await perform(plan, topology, admin, wishes=wishes, pruning=pruning, on_step=on_step)


async def prepare(topology: Topology, admin: Admin, wishes: Wishes = NO_WISHES) -> Plan:
    """Find out what there is to do; raises Conflicts when it is blocked, AccessRefused when the user may not."""
    plan, actual = await survey(topology, admin, wishes)
    if blocked := conflicts(plan) or missing_rights(plan, actual.surroundings):
        raise blocked
    return plan


async def perform(  # noqa: PLR0913 - a plan, where, and how
    plan: Plan,
    topology: Topology,
    admin: Admin,
    *,
    wishes: Wishes = NO_WISHES,
    pruning: Pruning | None = None,
    on_step: OnStep = ignore,
    trouble: Callable[[], BrokerError | None] = untroubled,
) -> Report:
    """Do the steps of a plan, stage by stage, then read back and verify; raises ApplyFailed.

    A Gatekeeper is asked first whether the user may: raises AccessRefused, ConnectionFailed with nothing changed.
    `trouble` is asked before each step for a reason to stop, such as a lost lock.
    """
    await require_permissions(plan.steps, admin)
    work = _Work(admin, pruning, on_step, trouble, plan.vanished)
    try:
        missing = await work.stages(plan.stages)
    finally:  # when it is cancelled, too
        unbound = await work.bind_again()
    if work.failures:
        failed = {address(each) for each, _ in work.failures}  # a work queue may fail before its turn has come
        undone = tuple(change for change in (*unbound, *missing) if judged.address(change) not in failed)
        raise ApplyFailed(report_of(work.done, plan), tuple(work.failures), undone)
    report = report_of(work.done, plan)
    try:
        warnings = await _verified(topology, admin, wishes, report)
    except ApplyFailed:
        raise
    except BrokerError as error:
        raise ApplyFailed(report, unread=error) from error
    return replace(report, warnings=warnings)


@dataclass(slots=True)
class _Work:
    """The steps of one run: done, and failed."""

    admin: Admin
    pruning: Pruning | None
    on_step: OnStep
    trouble: Callable[[], BrokerError | None]
    vanished: tuple[Vanished, ...] = ()
    done: list[Change] = field(default_factory=list)
    failures: list[tuple[DeclaredObject, BrokerError]] = field(default_factory=list)

    async def stages(self, stages: tuple[tuple[Change, ...], ...]) -> tuple[Change, ...]:
        """Do one stage after the other until one fails. Return what was not begun."""
        for position, stage in enumerate(stages):
            undone = await self._stage(stage)
            if self.failures:
                return (*undone, *(change for each in stages[position + 1 :] for change in each))
        return ()

    async def bind_again(self) -> tuple[Change, ...]:
        """Make again the bindings of work queues that stay after all. Return the changes that are so undone.

        Only a run that is killed leaves such a queue without them; so `_stage` looks before it unbinds.
        """
        gone = {judged.address(change) for change in self.done if isinstance(change, Delete)}
        staying = [whole for whole in self.vanished if address(whole.queue) not in gone]
        theirs = {identity(binding) for whole in staying for binding in whole.bindings}
        deleted = [change for change in self.done if isinstance(change, Delete) and identity(change.unwanted) in theirs]
        again = []
        for change in deleted:
            try:
                if reason := self.trouble():
                    raise reason
                await self.admin.create(change.unwanted)
            except BrokerError as error:
                left = BrokerError(f"{error}; its work queue stays, and this binding of it is gone")
                self.failures.append((change.unwanted, left))
            else:
                again.append(change)
        undone = set(map(id, again))
        self.done[:] = [change for change in self.done if id(change) not in undone]
        return tuple(again)

    async def _stage(self, changes: tuple[Change, ...]) -> tuple[Change, ...]:
        """Do a stage's changes, several at once; after a failure none is begun. Return those that were not."""
        if deletions := _queue_deletions(changes):  # a stage holds objects of one kind
            return await self._prune(deletions)
        if self.pruning and (unbound := self._unbound(changes)):
            self.failures += await in_use(unbound, self.pruning)
            if self.failures:
                return changes
        waiting = deque(changes)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(AT_ONCE, len(changes))):
                    group.create_task(self._take_from(waiting))
        except ExceptionGroup as unexpected:
            # No failure of a broker's (those are kept), so a bug, or what the broker in memory does not model.
            raise unexpected.exceptions[0] from None
        return tuple(waiting)

    async def _take_from(self, waiting: deque[Change]) -> None:
        while waiting and not self.failures:
            change = waiting.popleft()
            try:
                if reason := self.trouble():
                    raise reason
                await self._do(change)
            except BrokerError as error:
                self.failures.append((judged.subject(change), error))
            else:
                self.done.append(change)
                self.on_step(change)

    async def _do(self, change: Change) -> None:
        match change:
            case Create() | Update():
                await self.admin.create(change.wanted)
            case UpdateLossy():
                if change.first is not None:
                    await self.admin.create(change.first)
                await self.admin.create(change.wanted)
            case Delete():
                await self.admin.delete(change.unwanted)
            case Replace():
                message = f"{judged.address(change)}: {judged.reason(change)}"
                raise BrokerError(message)

    def _unbound(self, changes: Iterable[Change]) -> list[Vanished]:
        """Give the work queues, still there, that lose bindings."""
        lost = {identity(change.unwanted) for change in changes if _unbinds(change)}
        gone = {judged.address(change) for change in self.done} if lost else set()
        return [
            whole
            for whole in self.vanished
            if address(whole.queue) not in gone and any(identity(each) in lost for each in whole.bindings)
        ]

    async def _prune(self, deletions: Mapping[str, tuple[Queue, Change]]) -> tuple[Change, ...]:
        queues = [queue for queue, _ in deletions.values()]
        if problem := self.trouble():
            self.failures += [(queue, problem) for queue in queues]
            return ()
        if self.pruning is None:
            self.failures += [(queue, BrokerError(_BLIND)) for queue in queues]
            return ()
        gone, staying = await prune_queues(queues, self.admin, self.pruning, self.vanished)
        self.failures += staying
        for queue in gone:
            self.done.append(deletions[queue.name][1])
            self.on_step(deletions[queue.name][1])
        told = {queue.name for queue in gone} | {each.name for each, _ in staying if isinstance(each, Queue)}
        return tuple(change for name, (_, change) in deletions.items() if name not in told)


def _unbinds(change: Change) -> TypeGuard[Delete]:
    return isinstance(change, Delete) and isinstance(change.unwanted, Binding)


def _queue_deletions(changes: Iterable[Change]) -> Mapping[str, tuple[Queue, Change]]:
    return {
        change.unwanted.name: (change.unwanted, change)
        for change in changes
        if isinstance(change, Delete) and isinstance(change.unwanted, Queue)
    }


class _NotYet(BrokerError):
    """What was made cannot be read back; on a cluster another node may need a moment to know."""


async def _verified(topology: Topology, admin: Admin, wishes: Wishes, report: Report) -> tuple[str, ...]:
    """Read back until everything is there and equal; RabbitMQ answers 204 to some changes that it does not make."""
    again = AsyncRetrying(
        retry=retry_if_exception_type(_NotYet), stop=stop_after_attempt(3), wait=wait_fixed(0.1), reraise=True
    )
    gone = {identity(each) for each in report.deleted}
    found = Plan()
    left: tuple[Change, ...] = ()

    async def look() -> tuple[str, ...]:
        nonlocal found, left
        found, _ = await survey(topology, admin, wishes)
        left = tuple(
            change for change in found.changes if not isinstance(change, Delete) or identity(change.unwanted) in gone
        )
        if left:
            raise _NotYet
        return found.warnings

    try:
        return await again(look)
    except _NotYet:
        failures = tuple((judged.subject(change), BrokerError(_without_effect(change))) for change in left)
        raise ApplyFailed(report, failures) from None


def _without_effect(change: Change) -> str:
    if isinstance(change, Delete):
        return "it is still there, though the broker accepted its deletion"
    if judged.before(change) is None:
        return "it is not there, though the broker accepted it"
    return "the change had no effect: " + "; ".join(map(str, judged.differences_of(change)))
