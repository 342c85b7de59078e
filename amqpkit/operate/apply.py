"""Make a broker have what a topology declares; never delete, never repeat, never stop half-way without saying so."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, runtime_checkable

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_fixed

from amqpkit.brokers.declared import address
from amqpkit.declare.order import creation_stages
from amqpkit.errors import BrokerError, ConnectionFailed, Refused
from amqpkit.model import DeclaredObject, Policy, Topology
from amqpkit.operate.compare import Comparison, Step, compare
from amqpkit.operate.shadow import shadows
from amqpkit.ports import Admin

AT_ONCE: Final = 8
"""How many objects of a stage are made at the same time."""


@dataclass(frozen=True, slots=True)
class Report:
    """What was done, how much was right before, and what deserves a look."""

    created: tuple[DeclaredObject, ...] = ()
    updated: tuple[DeclaredObject, ...] = ()
    unchanged: int = 0
    warnings: tuple[str, ...] = ()


class Conflicts(Refused):
    """Objects that are there differ from the file in what RabbitMQ cannot change; nothing was touched.

    `refusals` has every difference; the error's own facts are those of the first.
    """

    def __init__(self, refusals: tuple[Refused, ...]) -> None:
        """Keep them all; the text has a line for each."""
        first = refusals[0]
        super().__init__(
            object=first.object,
            reason=first.reason,
            argument=first.argument,
            wanted=first.wanted,
            actual=first.actual,
            remedy=first.remedy,
        )
        self.refusals = refusals

    def __str__(self) -> str:
        return "\n".join(map(str, self.refusals))


class ApplyFailed(BrokerError):
    """Applying stopped on the way; what was made stays, and applying again does the rest.

    `report` has what was done, `failures` what went wrong with which object, `missing` what was not begun, `unread` why
    the result could not be read back. `touched` says whether the broker may be changed: a request that was not answered
    may have been carried out.
    """

    def __init__(
        self,
        report: Report,
        failures: tuple[tuple[DeclaredObject, BrokerError], ...] = (),
        missing: tuple[Step, ...] = (),
        *,
        unread: BrokerError | None = None,
    ) -> None:
        """Put both sides into one text."""
        self.report, self.failures, self.missing, self.unread = report, failures, missing, unread
        done = len(report.created) + len(report.updated)
        self.touched = done > 0 or any(isinstance(error, ConnectionFailed) for _, error in failures)
        undone = len(failures) + len(missing)
        lines = [f"applied {done} of {done + undone} changes, then stopped; applying again does the rest"]
        lines += [f"failed: {reason}" for reason in self.reasons]
        lines += [f"not done: {step.address}" for step in missing]
        super().__init__("\n".join(lines))

    @property
    def reasons(self) -> tuple[str, ...]:
        """What went wrong, a sentence for each object."""
        unread = () if self.unread is None else (f"the result could not be read back: {self.unread}",)
        return (*(_named(declared, error) for declared, error in self.failures), *unread)


@runtime_checkable
class KnowsOperatorPolicies(Protocol):
    """An Admin that can also read operator policies."""

    async def operator_policies(self) -> tuple[Policy, ...]:
        """Read them; they win over policies."""


def ignore(_step: Step) -> None:
    """Listen to no step."""


async def apply(topology: Topology, admin: Admin, *, on_step: Callable[[Step], None] = ignore) -> Report:
    """Create what is missing and overwrite policies that differ; a second call changes nothing.

    `on_step` is called for each change when it is done. Raises Conflicts before anything is changed, ApplyFailed when
    it stops on the way or a change does not take effect, and what the admin's `read` raises.
    """
    return await perform(await prepare(topology, admin), topology, admin, on_step=on_step)


async def prepare(topology: Topology, admin: Admin) -> Comparison:
    """Find out what there is to do; raises Conflicts when some of it cannot be done."""
    found = compare(creation_stages(topology), await admin.read())
    if found.conflicts:
        raise Conflicts(found.conflicts)
    return found


async def perform(
    todo: Comparison, topology: Topology, admin: Admin, *, on_step: Callable[[Step], None] = ignore
) -> Report:
    """Do the steps of a comparison, stage by stage, then read back and verify; raises ApplyFailed."""
    work = _Work(admin, on_step)
    for position, stage in enumerate(todo.stages):
        undone = await work.stage(stage)
        if work.failures:
            later = (step for each in todo.stages[position + 1 :] for step in each)
            raise ApplyFailed(work.report(todo.unchanged), tuple(work.failures), (*undone, *later))
    report = work.report(todo.unchanged)
    try:
        actual = await _verified(topology, admin, report)
        warnings = await _warnings(topology, actual, admin)
    except ApplyFailed:
        raise
    except BrokerError as error:
        raise ApplyFailed(report, unread=error) from error
    return replace(report, warnings=warnings)


@dataclass(slots=True)
class _Work:
    """The steps of one run: done, and failed."""

    admin: Admin
    on_step: Callable[[Step], None]
    done: list[Step] = field(default_factory=list)
    failures: list[tuple[DeclaredObject, BrokerError]] = field(default_factory=list)

    async def stage(self, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        """Do a stage's steps, several at once; after a failure none is begun. Return those that were not."""
        waiting = deque(steps)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(AT_ONCE, len(steps))):
                    group.create_task(self._take_from(waiting))
        except ExceptionGroup as unexpected:
            # No failure of a broker's (those are kept), so a bug, or what the broker in memory does not model.
            raise unexpected.exceptions[0] from None
        return tuple(waiting)

    async def _take_from(self, waiting: deque[Step]) -> None:
        while waiting and not self.failures:
            step = waiting.popleft()
            try:
                await self.admin.create(step.wanted)
            except BrokerError as error:
                self.failures.append((step.wanted, error))
            else:
                self.done.append(step)
                self.on_step(step)

    def report(self, unchanged: int) -> Report:
        return Report(
            created=tuple(step.wanted for step in self.done if step.replaces is None),
            updated=tuple(step.wanted for step in self.done if step.replaces is not None),
            unchanged=unchanged,
        )


class _NotYet(BrokerError):
    """What was made cannot be read back; on a cluster another node may need a moment to know."""


async def _verified(topology: Topology, admin: Admin, report: Report) -> Topology:
    """Read back until everything is there and equal; RabbitMQ answers 204 to some changes that it does not make."""
    again = AsyncRetrying(
        retry=retry_if_exception_type(_NotYet), stop=stop_after_attempt(3), wait=wait_fixed(0.1), reraise=True
    )
    found = Comparison((), (), 0)

    async def look() -> Topology:
        nonlocal found
        actual = await admin.read()
        found = compare(creation_stages(topology), actual)
        if found.steps or found.conflicts:
            raise _NotYet
        return actual

    try:
        return await again(look)
    except _NotYet:
        failures = tuple((step.wanted, BrokerError(_without_effect(step))) for step in found.steps)
        raise ApplyFailed(report, (*failures, *_refusals(topology, found))) from None


def _refusals(topology: Topology, found: Comparison) -> tuple[tuple[DeclaredObject, BrokerError], ...]:
    by_address = {address(each): each for stage in creation_stages(topology) for each in stage}
    return tuple((by_address[refusal.object], refusal) for refusal in found.conflicts)


def _without_effect(step: Step) -> str:
    return "the change had no effect" if step.replaces else "it is not there, though the broker accepted it"


async def _warnings(topology: Topology, actual: Topology, admin: Admin) -> tuple[str, ...]:
    operators = await admin.operator_policies() if isinstance(admin, KnowsOperatorPolicies) else ()
    return shadows(topology, actual, operators)


def _named(declared: DeclaredObject, error: BrokerError) -> str:
    """Begin with the object's name, once."""
    text, name = str(error), address(declared)
    return text if text.startswith(name) else f"{name}: {text}"
