"""Delete queues so that no message goes with them: look twice, fence, look again, delete.

Statistics of the management API lag by up to 10 s, a passive declare does not count what is unacknowledged, and quorum
queues know no `if-empty` (all measured); so both counts are asked, two intervals of statistics apart. Whoever publishes
meanwhile, through the default exchange, fills the queue and so keeps it.

A work queue goes whole or not at all: all of its queues are looked at and fenced before one is deleted.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from amqpkit.declare.identity import address
from amqpkit.declare.naming import escape, pattern
from amqpkit.declare.plan.extras import FENCE, references
from amqpkit.declare.plan.vanished import Vanished
from amqpkit.errors import BrokerError
from amqpkit.model import DeclaredObject, Holding, Policy, Queue
from amqpkit.ports import Admin, Sentry, Surveyor

SETTLE: Final = 10.0
"""Seconds between two looks: two intervals of RabbitMQ's statistics."""
FENCED: Final = 1.0
"""Seconds until a policy surely rules."""
_EMPTY: Final = Holding(0, 0)
_PRIORITY: Final = 999
Failure = tuple[DeclaredObject, BrokerError]
"""A queue that stays or a fence that stands, and why."""
_PATTERN: Final = 1_000
"""Bytes of a fence's pattern; RabbitMQ 4.3 takes 1,024 (measured)."""
_AT_ONCE: Final = 16
_KINDS: Final = {"classic": "classic_queues", "quorum": "quorum_queues"}


@dataclass(frozen=True, slots=True)
class Pruning:
    """What it takes to delete queues: eyes on AMQP, and a way to wait."""

    sentry: Sentry
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    settle: float = SETTLE
    fenced: float = FENCED


class StillNeeded(BrokerError):
    """A queue was not deleted: it holds messages, has consumers, or somebody names it as a target."""


class _Staying:
    """The queues that went, and those that stay: of a work queue all that are left, for the first reason found."""

    def __init__(self, wholes: Iterable[Vanished]) -> None:
        self.wholes = tuple(wholes)
        self.failures: list[Failure] = []
        self.gone: dict[str, Queue] = {}
        self._whole_of = {queue.name: whole.queue for whole in self.wholes for queue in whole.queues}
        self._names: set[str] = set()

    def __contains__(self, queue: Queue) -> bool:
        return self._whole_of.get(queue.name, queue).name in self._names

    def judges(self, queue: Queue) -> bool:
        return queue in self or queue.name in self.gone

    def add(self, queue: Queue, reason: BrokerError) -> None:
        if queue in self:
            return
        whole = self._whole_of.get(queue.name, queue)
        self._names.add(whole.name)
        if whole == queue or whole.name in self.gone:
            self.failures.append((queue, reason))
        else:
            self.failures.append((whole, _of_its_part(queue, reason)))


def _of_its_part(part: Queue, reason: BrokerError) -> BrokerError:
    text = f"it stays whole with its part {address(part)}: {reason}"
    return StillNeeded(text) if isinstance(reason, StillNeeded) else BrokerError(text)


async def prune_queues(
    queues: Iterable[Queue], admin: Admin, pruning: Pruning, wholes: Iterable[Vanished] = ()
) -> tuple[list[Queue], list[Failure]]:
    """Delete those of the queues that are empty and idle; give those that went, and what stays with the reason.

    A queue that cannot be deleted hinders no other but those of its own work queue, which stay untold; and no
    BrokerError comes out. Every fence is taken away that the broker lets us take; one that stands all the same is among
    what stays, and the next apply clears it away.
    """
    asked = list(queues)
    staying = _Staying(wholes)
    fenced: list[tuple[Queue, ...]] = []
    try:
        ready = await _idle(asked, admin, pruning, staying)
        if ready:
            await pruning.sleep(pruning.settle)
            ready = await _idle(ready, admin, pruning, staying)
        for group in _groups(queue for queue in ready if can_be_fenced(queue)):
            fenced.append(group)
            await fence(*group, admin=admin)
        if fenced:
            await pruning.sleep(pruning.fenced)
        await _delete(await _idle(ready, admin, pruning, staying), pruning, staying)
    except BrokerError as error:
        staying.failures += [(queue, error) for queue in asked if not staying.judges(queue)]
    finally:
        for group in fenced:
            try:
                await admin.delete(fence_of(*group))
            except BrokerError as error:
                staying.failures.append((fence_of(*group), _standing(error)))
    return list(staying.gone.values()), staying.failures


async def in_use(wholes: Iterable[Vanished], pruning: Pruning) -> list[Failure]:
    """Tell which work queues hold a message or have a consumer now, before anything of them is taken away."""
    staying = _Staying(wholes)
    queues = [queue for whole in staying.wholes for queue in whole.queues]
    try:
        looks = await _looks(queues, pruning.sentry)
    except BrokerError as error:
        return [(queue, error) for queue in queues[:1]]
    for queue, looked in zip(queues, looks, strict=True):
        if reason := _reason([looked or _EMPTY]):
            staying.add(queue, StillNeeded(reason))
    return staying.failures


def _groups(queues: Iterable[Queue]) -> Iterator[tuple[Queue, ...]]:
    """Put queues of one type behind one fence, as many as a pattern holds.

    For each policy that comes or goes RabbitMQ looks at every queue: with a fence for each of two thousand queues that
    took it two seconds a fence (measured).
    """
    by_type: dict[str, list[list[Queue]]] = {}
    sizes: dict[str, int] = {}
    for queue in queues:
        groups = by_type.setdefault(queue.type, [[]])
        size = len(pattern(queue.name).encode())
        if sizes.get(queue.type, 0) + size > _PATTERN and groups[-1]:
            groups.append([])
            sizes[queue.type] = 0
        sizes[queue.type] = sizes.get(queue.type, 0) + size
        groups[-1].append(queue)
    return (tuple(group) for groups in by_type.values() for group in groups)


async def _delete(queues: Iterable[Queue], pruning: Pruning, staying: _Staying) -> None:
    """Delete queues one by one, of a work queue in the order of `Vanished.queues`, until one of its queues stays."""
    for queue in queues:
        if queue in staying:
            continue
        if (reason := await _kept(queue, pruning)) is None:
            staying.gone[queue.name] = queue
        else:
            staying.add(queue, reason)


async def _kept(queue: Queue, pruning: Pruning) -> BrokerError | None:
    """Delete a queue, or say why it stays."""
    try:
        gone = await pruning.sentry.delete_empty(queue)
    except BrokerError as error:
        return error
    return None if gone else StillNeeded("a message or a consumer came at the last moment: it stays")


def _standing(error: BrokerError) -> BrokerError:
    return BrokerError(f"{error}; until it is gone its queues take no message: applying again takes it away")


async def _idle(queues: list[Queue], admin: Admin, pruning: Pruning, staying: _Staying) -> list[Queue]:
    """Give those that are empty and unused now, in everybody's eyes; the others go onto `staying`."""
    if not queues:
        return []
    counted = await admin.holdings([queue.name for queue in queues]) if isinstance(admin, Surveyor) else {}
    used = references(await admin.read())
    for queue, looked in zip(queues, await _looks(queues, pruning.sentry), strict=True):
        if reason := _reason([counted.get(queue.name, _EMPTY), looked or _EMPTY]):
            staying.add(queue, StillNeeded(reason))
    return _unused(queues, used, staying)


def _unused(queues: Collection[Queue], used: Mapping[tuple[str, str], list[str]], staying: _Staying) -> list[Queue]:
    """Give those that go: what dead-letters to a queue may go together with it; when it stays, so does the queue."""
    going = [queue for queue in queues if queue not in staying]
    while True:
        together = {address(queue) for queue in going}
        for queue in going:
            if users := [user for user in used.get(("queue", queue.name), []) if user not in together]:
                staying.add(queue, StillNeeded(f"{users[0]} dead-letters to it: it stays"))
        left = [queue for queue in going if queue not in staying]
        if len(left) == len(going):
            return going
        going = left


async def _looks(queues: list[Queue], sentry: Sentry) -> list[Holding | None]:
    """Look at each queue, at some side by side."""
    free = asyncio.Semaphore(_AT_ONCE)

    async def look(queue: Queue) -> Holding | None:
        async with free:
            return await sentry.look(queue.name)

    return await asyncio.gather(*map(look, queues))


def _reason(seen: list[Holding]) -> str:
    messages, consumers = max(each.messages for each in seen), max(each.consumers for each in seen)
    if messages:
        return f"it holds {messages:,} message{'s' * (messages != 1)}: it stays"
    return f"it has {consumers} consumer{'s' * (consumers != 1)}: it stays" if consumers else ""


def can_be_fenced(queue: Queue) -> bool:
    """A classic queue obeys its own overflow argument before a policy; behind such a fence it would drop messages."""
    if queue.type == "classic":
        return bool(queue.arguments.get("x-overflow", "reject-publish") == "reject-publish")
    return queue.type in _KINDS


async def fence(*queues: Queue, admin: Admin) -> None:
    """Let queues of one type refuse every publisher and keep what they have."""
    fence = fence_of(*queues)
    if fence.apply_to == _KINDS["classic"]:
        # A classic queue would apply the length under its old overflow, and drop what it holds (measured).
        first = {"overflow": "reject-publish"}
        await admin.create(Policy(fence.name, fence.pattern, first, fence.apply_to, fence.priority))
    await admin.create(fence)


def fence_of(first: Queue, *others: Queue) -> Policy:
    """Give the policy that lets one message into each queue, as a trace of whoever publishes, and refuses all others.

    The queues are of one type; the first gives the name. A quorum queue takes one message even at a length of 0. A
    classic one would take none, look idle, and be deleted under a publisher's hands: RabbitMQ confirms what is on its
    way to a classic queue that goes (measured: 6 of 12 times).
    """
    definition = {"max-length": 1 if first.type == "classic" else 0, "overflow": "reject-publish"}
    names = "|".join(escape(queue.name) for queue in (first, *others))
    only = f"^({names})$" if others else pattern(first.name)
    return Policy(f"{FENCE}{first.name}", only, definition, _KINDS.get(first.type, "queues"), _PRIORITY)
