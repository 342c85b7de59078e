"""Migrate a queue: look, take the next step, look again, until there is none."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

from amqpkit.declare.migration.request import Migration, see
from amqpkit.declare.migration.scaffold import Note
from amqpkit.declare.migration.steps import (
    Build,
    ClearAway,
    DeclareNew,
    DeleteHolding,
    DeleteOld,
    Direction,
    Fence,
    Move,
    Rebind,
    Seen,
    Standing,
    Step,
    Unfence,
    Write,
    next_step,
)
from amqpkit.errors import AmqpkitError, BrokerError
from amqpkit.model import Holding, Queue
from amqpkit.operate.migrate.copy import moved_back, moved_in
from amqpkit.operate.migrate.mover import Mover, Way
from amqpkit.operate.migrate.prepare import try_out
from amqpkit.operate.migrate.report import MigrationStopped, Report
from amqpkit.operate.prune import Pruning, can_be_fenced, fence, fence_of, prune_queues
from amqpkit.ports import Admin, Surveyor, Transport

IN_FLIGHT: Final = 0.1
"""Seconds until what was routed before a binding went has surely reached its queue."""
_ATTEMPTS: Final = 10
_POLL: Final = 0.5
_NOTHING: Final = Holding(0, 0)
OnStep = Callable[[Step, Seen], None]


def _ignore(_step: Step, _seen: Seen) -> None:
    """Listen to no step."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What it takes: hands on the broker, and patience in seconds for what others do not give back or let in."""

    admin: Admin
    pruning: Pruning
    transport: Transport
    patience: float = 600.0
    in_flight: float = IN_FLIGHT
    on_step: OnStep = _ignore
    on_moved: Callable[[], None] = lambda: None
    trouble: Callable[[], BrokerError | None] = lambda: None


async def migrate(migration: Migration, tools: Tools) -> Report:
    """Do what is left of a migration, from wherever it stands.

    Who calls holds the vhost's lock. `trouble` is asked before each step for a reason to stop, such as a lost lock.
    Raises MigrationStopped, or any BrokerError before the first change: the broker has judged the new queue by then.
    """
    run = _Run(migration, tools)
    if migration.differences:
        await try_out(migration, tools.admin)
    try:
        return await run.to_the_end()
    except MigrationStopped:
        raise
    except AmqpkitError as error:
        if not run.touched:
            raise
        raise MigrationStopped(run.report, str(error)) from error


@dataclass(slots=True)
class _Run:
    """One run, and what it knows of itself."""

    migration: Migration
    tools: Tools
    report: Report = field(init=False)
    begun: bool = False
    touched: bool = False
    rounds: int = 0
    waited: float = 0.0
    old: Queue | None = None

    def __post_init__(self) -> None:
        self.report = Report(self.migration.wanted.name)
        self.old = self.migration.found

    async def to_the_end(self) -> Report:
        """Take step after step."""
        seen = await self._look()
        self.touched = seen.holding
        while step := next_step(seen):
            if reason := self.tools.trouble():
                raise reason
            self.tools.on_step(step, seen)
            await self._take(step, seen)
            self.touched = True
            seen = await self._look()
        return self.report

    async def _look(self) -> Seen:
        there = await self.tools.admin.read()
        names = (self.migration.wanted.name, self.migration.holding.name)
        looks = {name: await self.tools.pruning.sentry.look(name) for name in names}
        seen = see(self.migration, there, {name: look.messages for name, look in looks.items() if look})
        fenceable = self.old is not None and can_be_fenced(self.old)
        if seen.note:
            self.report = replace(self.report, doubled=seen.note.doubled, runs=seen.note.runs)
        left = seen.held + (seen.ready if seen.standing is Standing.OLD else 0)
        self.report = replace(self.report, left=left)
        return replace(seen, fenceable=fenceable, begun=self.begun, rounds=self.rounds)

    async def _take(self, step: Step, seen: Seen) -> None:
        match step:
            case Move():
                await self._move(step)
            case Rebind():
                await self._rebind(step, seen.note or Note())
            case Fence():
                assert self.old is not None  # noqa: S101 - it stands
                await fence(self.old, admin=self.tools.admin)
            case DeleteOld():
                await self._delete_old()
            case DeleteHolding():
                await self._delete_holding()
            case _:
                await self._declare(step)

    async def _declare(self, step: Write | Build | Unfence | DeclareNew | ClearAway) -> None:
        admin = self.tools.admin
        match step:
            case Write(note):
                if (
                    not self.begun
                ):  # a run that was killed at its end may have left this one, which would let nothing in
                    await admin.delete(fence_of(self.migration.holding))
                self.begun = True
                await admin.create(self.migration.scaffold.guard(note))
            case Build(objects):
                for each in objects:
                    await admin.create(each)
            case DeclareNew():
                await admin.create(self.migration.wanted)
            case Unfence():
                await admin.delete(fence_of(self.migration.wanted))
            case ClearAway(objects):
                for each in objects:
                    await admin.delete(each)
            case _:
                assert_never(step)

    async def _move(self, step: Move) -> None:
        await self._move_by(step.direction, most=step.messages if step.catching_up else None)
        self.rounds += 1

    async def _move_by(self, direction: Direction, *, most: int | None = None) -> None:
        """Move, and note what may be there twice by that; raises MigrationStopped."""
        tools, forward = self.tools, direction is Direction.IN
        mover = Mover(tools.transport, sleep=tools.pruning.sleep, patience=tools.patience, on_moved=tools.on_moved)
        moved = await mover.move(self._way_in if forward else self._way_back, most=most)
        self.report = self.report.with_moved(moved.messages, forward=forward)
        if moved.doubled:
            note = Note(self.report.runs, self.report.doubled + moved.doubled)
            await tools.admin.create(self.migration.scaffold.guard(note))
        if moved.trouble:
            await self._look()
            raise MigrationStopped(self.report, moved.trouble)

    @property
    def _way_in(self) -> Way:
        return Way(self.migration.wanted.name, self.migration.scaffold.into.name, moved_in)

    @property
    def _way_back(self) -> Way:
        through = self.migration.scaffold.into.name
        return Way(
            self.migration.holding.name,
            self.migration.scaffold.back.name,
            lambda received: moved_back(received, through=through),
        )

    async def _rebind(self, step: Rebind, note: Note) -> None:
        """Each binding at once after its like: meanwhile messages reach both queues, and are counted."""
        admin, names = self.tools.admin, (self.migration.wanted.name, self.migration.holding.name)
        target = names[1] if step.direction is Direction.IN else names[0]
        if note.opened is None:
            note = replace(note, opened=await self._held())
            await admin.create(self.migration.scaffold.guard(note))
        for binding in step.bindings:
            await admin.create(replace(binding, destination=target))
            await admin.delete(binding)
        self.rounds = 0
        await self.tools.pruning.sleep(self.tools.in_flight)
        await admin.create(self.migration.scaffold.guard(note.closed(await self._held())))

    async def _held(self) -> int:
        return (await self.tools.pruning.sentry.look(self.migration.holding.name) or _NOTHING).messages

    async def _delete_old(self) -> None:
        """Delete the old queue when nobody has anything of it.

        Once that is so, only whoever publishes straight to it can put something in: a message whenever it is empty,
        which is moved like the others.
        """
        assert self.old is not None  # noqa: S101 - it stands
        pruning = self.tools.pruning
        await self._returned(self.old.name)
        await pruning.sleep(pruning.settle)
        await self._returned(self.old.name)
        for _ in range(_ATTEMPTS):
            if await pruning.sentry.delete_empty(self.old, in_use=True):
                return
            await self._move_by(Direction.IN)
        reason = "somebody keeps publishing to it through the default exchange: stop that publisher"
        raise MigrationStopped(self.report, reason)

    async def _returned(self, name: str) -> None:
        """Wait until nobody holds anything of a queue unacknowledged; raises MigrationStopped when that takes long."""
        waited = 0.0
        while True:
            look = await self.tools.pruning.sentry.look(name) or _NOTHING
            held = (await self._holdings(name)).get(name, _NOTHING).messages - look.messages
            if held <= 0:
                return
            if waited >= self.tools.patience:
                reason = f"{held:,} messages of {name} are with consumers, unacknowledged, for {waited:.0f} s"
                raise MigrationStopped(self.report, reason)
            await self.tools.pruning.sleep(_POLL)
            waited += _POLL

    async def _delete_holding(self) -> None:
        """Delete the holding queue; return without when a message has come."""
        holding = self.migration.holding
        await self._returned(holding.name)
        _, staying = await prune_queues([holding], self.tools.admin, self.tools.pruning)
        if staying and self.waited >= self.tools.patience:
            raise MigrationStopped(self.report, f"{holding.name}: {staying[0][1]}")
        if staying:  # the API may count our own consumer yet
            await self.tools.pruning.sleep(_POLL)
            self.waited += _POLL

    async def _holdings(self, name: str) -> Mapping[str, Holding]:
        admin = self.tools.admin
        return await admin.holdings([name]) if isinstance(admin, Surveyor) else {}
