"""Delete queues so that no message goes with them: look twice, fence, look again, delete.

Statistics of the management API lag by up to 10 s, a passive declare does not count what is unacknowledged, and quorum
queues know no `if-empty` (all measured); so both counts are asked, two intervals of statistics apart. Whoever publishes
meanwhile, through the default exchange, fills the queue and so keeps it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

from amqpkit.declare.identity import address
from amqpkit.declare.naming import pattern
from amqpkit.declare.plan.extras import FENCE, references
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


async def prune_queues(queues: Iterable[Queue], admin: Admin, pruning: Pruning) -> tuple[list[Queue], list[Failure]]:
    """Delete those of the queues that are empty and idle; give those that went, and what stays with the reason.

    A queue that cannot be deleted hinders no other, and no BrokerError comes out. Every fence is taken away that the
    broker lets us take; one that stands all the same is among what stays, and the next apply clears it away.
    """
    asked = list(queues)
    staying: list[Failure] = []
    fenced: list[Queue] = []
    gone: list[Queue] = []
    try:
        ready = await _idle(asked, admin, pruning, staying)
        if ready:
            await pruning.sleep(pruning.settle)
            ready = await _idle(ready, admin, pruning, staying)
        for queue in ready:
            if can_be_fenced(queue):
                fenced.append(queue)
                await fence(queue, admin)
        if fenced:
            await pruning.sleep(pruning.fenced)
        for queue in await _idle(ready, admin, pruning, staying):
            if (reason := await _kept(queue, pruning)) is None:
                gone.append(queue)
            else:
                staying.append((queue, reason))
    except BrokerError as error:
        judged = {address(each) for each in (*gone, *(each for each, _ in staying))}
        staying += [(queue, error) for queue in asked if address(queue) not in judged]
    finally:
        for queue in fenced:
            try:
                await admin.delete(fence_of(queue))
            except BrokerError as error:
                staying.append((fence_of(queue), _standing(error)))
    return gone, staying


async def _kept(queue: Queue, pruning: Pruning) -> BrokerError | None:
    """Delete a queue, or say why it stays."""
    try:
        gone = await pruning.sentry.delete_empty(queue)
    except BrokerError as error:
        return error
    return None if gone else StillNeeded("a message or a consumer came at the last moment: it stays")


def _standing(error: BrokerError) -> BrokerError:
    return BrokerError(f"{error}; until it is gone the queue takes no message: applying again takes it away")


async def _idle(queues: list[Queue], admin: Admin, pruning: Pruning, staying: list[Failure]) -> list[Queue]:
    """Give those that are empty and unused now, in everybody's eyes; the others go onto `staying`."""
    if not queues:
        return []
    counted = await admin.holdings([queue.name for queue in queues]) if isinstance(admin, Surveyor) else {}
    used = references(await admin.read())
    together = {address(queue) for queue in queues}
    idle = []
    for queue in queues:
        seen = [counted.get(queue.name, _EMPTY), await pruning.sentry.look(queue.name) or _EMPTY]
        users = [user for user in used.get(("queue", queue.name), []) if user not in together]
        if reason := _reason(seen, users):
            staying.append((queue, StillNeeded(reason)))
        else:
            idle.append(queue)
    return idle


def _reason(seen: list[Holding], users: list[str]) -> str:
    messages, consumers = max(each.messages for each in seen), max(each.consumers for each in seen)
    if messages:
        return f"it holds {messages:,} message{'s' * (messages != 1)}: it stays"
    if consumers:
        return f"it has {consumers} consumer{'s' * (consumers != 1)}: it stays"
    return f"{users[0]} dead-letters to it: it stays" if users else ""


def can_be_fenced(queue: Queue) -> bool:
    """A classic queue obeys its own overflow argument before a policy; behind such a fence it would drop messages."""
    if queue.type == "classic":
        return bool(queue.arguments.get("x-overflow", "reject-publish") == "reject-publish")
    return queue.type in _KINDS


async def fence(queue: Queue, admin: Admin) -> None:
    """Let the queue refuse every publisher and keep what it has."""
    fence = fence_of(queue)
    if queue.type == "classic":  # it would apply the length under its old overflow, and drop what it holds (measured)
        first = {"overflow": "reject-publish"}
        await admin.create(Policy(fence.name, fence.pattern, first, fence.apply_to, fence.priority))
    await admin.create(fence)


def fence_of(queue: Queue) -> Policy:
    """Give the policy that lets one message in, as a trace of whoever publishes, and refuses all others.

    A quorum queue takes one even at a length of 0. A classic one would take none, look idle, and be deleted under a
    publisher's hands: RabbitMQ confirms what is on its way to a classic queue that goes (measured: 6 of 12 times).
    """
    definition = {"max-length": 1 if queue.type == "classic" else 0, "overflow": "reject-publish"}
    kind = _KINDS.get(queue.type, "queues")
    return Policy(f"{FENCE}{queue.name}", pattern(queue.name), definition, kind, _PRIORITY)
