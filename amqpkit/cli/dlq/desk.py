"""Where the verbs work: which queue is meant, whose it is, and what looking at it costs."""

import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.brokers.clock import SystemClock
from amqpkit.cli.connect import AdminOptions, Place, administered
from amqpkit.cli.dlq.wording import note
from amqpkit.cli.files import topology_files_if_any
from amqpkit.declare.load import load_topology
from amqpkit.errors import AmqpkitError, BrokerError, QueueMissing
from amqpkit.model import Policy, Topology, WorkQueue
from amqpkit.operate.dead_letters.costs import Cost, Price, cost_of_looking
from amqpkit.operate.dead_letters.likely import dead_letter_queues
from amqpkit.ports import Clock, Transport

_NAMED: Final = 10


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class DeskOptions(AdminOptions):
    """Which broker; its management API says what looking costs, and is not needed otherwise.

    Parameters
    ----------
    yes
        Do not ask, also where each look costs every letter a delivery.
    """

    yes: Annotated[bool, Parameter(negative=())] = False


@dataclass(frozen=True, slots=True)
class Desk:
    """A broker, the file's topology if there is one, and what the vhost holds if the management API says so."""

    transport: Transport
    place: Place
    topology: Topology | None
    actual: Topology | None
    operator_policies: tuple[Policy, ...]
    options: DeskOptions
    clock: Clock = field(default_factory=SystemClock)

    async def find(self, name: str) -> "Found":
        """Find the queue that is meant: a work queue's dead-letter queue, or the queue of that name.

        Raises QueueMissing with a remedy that fits, before anybody is warned of what looking into it costs.
        """
        for work in self.topology.work_queues.values() if self.topology else ():
            if name in (work.name, work.dead_queue):
                await self.transport.depth(work.dead_queue)
                return Found(work.dead_queue, work)
        try:
            await self.transport.depth(name)
        except QueueMissing as error:
            if self.topology and any(queue.name == name for queue in self.topology.queues):
                raise
            raise QueueMissing(name, self._remedy(name)) from error
        if self.topology is None and await self._exists(f"{name}.dlq"):
            note(f'there is no topology file, so "{name}" is the queue itself; its dead letters are in "{name}.dlq"')
        return Found(name, None)

    def _remedy(self, name: str) -> str:
        """What to do about a queue that is nobody's, as far as we know."""
        declares = "the topology does not declare it either" if self.topology else "no topology file was given"
        remedy = f'{declares}: check the name and the vhost, which is "{self.place.vhost}"'
        if self.actual is None:
            return remedy
        close = get_close_matches(name, [queue.name for queue in self.actual.queues], n=1)
        likely = [f'"{queue}"' for queue in dead_letter_queues(self.actual)]
        more = f" and {len(likely) - _NAMED} more" if len(likely) > _NAMED else ""
        return (
            remedy
            + (f' (did you mean "{close[0]}"?)' if close else "")
            + (f"; dead letters seem to be in {', '.join(likely[:_NAMED])}{more}" if likely else "")
        )

    async def _exists(self, queue: str) -> bool:
        try:
            await self.transport.depth(queue)
        except (QueueMissing, AmqpkitError):
            return False
        return True

    def cost(self, queue: str) -> Cost:
        """What a look costs; where the API is silent the file speaks for the queues that it declares."""
        known = self.actual
        if known is None and self.topology and any(each.name == queue for each in self.topology.queues):
            known = self.topology
        version = self.transport.broker.version
        return cost_of_looking(queue, known, version=version, operator_policies=self.operator_policies)

    def may_look(self, queue: str) -> bool:
        """Warn of what a look costs; ask where each costs a delivery. Raises AmqpkitError where there is no looking."""
        cost = self.cost(queue)
        if cost.price is Price.REFUSED:
            raise AmqpkitError(cost.warning)
        if cost.warning:
            note(f"warning: {cost.warning}")
        if cost.price is not Price.EACH_TIME or self.options.yes:
            return True
        return agreed("Look all the same?", without="nothing was looked at")


@dataclass(frozen=True, slots=True)
class Found:
    """A queue, and the work queue whose dead letters it holds."""

    queue: str
    work: WorkQueue | None


def agreed(question: str, *, without: str) -> bool:
    """Ask on a terminal; without one the answer is no, and `--yes` is named."""
    if not sys.stdin.isatty():
        note(f"{without}: there is no terminal to ask at; say --yes to do it without a question")
        return False
    sys.stderr.write(f"{question} Only yes is accepted: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip() == "yes":
        return True
    note(without)
    return False


@asynccontextmanager
async def desk(files: Sequence[Path], options: DeskOptions | None, *, verb: str) -> AsyncIterator[Desk]:
    """Read the files if there are any, connect, and ask the management API if it answers."""
    options = options or DeskOptions()
    paths = topology_files_if_any(files)
    topology = load_topology(*paths, environ=os.environ) if paths else None
    place = options.place(topology.vhost if topology else None)
    transport = AioTransport(place.url, name=f"amqpkit dlq {verb}")
    await transport.open()
    try:
        actual, policies = await _held(place)
        yield Desk(transport, place, topology, actual, policies, options)
    finally:
        await transport.close()


async def _held(place: Place) -> tuple[Topology | None, tuple[Policy, ...]]:
    try:
        async with administered(place) as (admin, _):
            return await admin.read(), (await admin.surroundings()).operator_policies
    except BrokerError as error:
        note(f"the management API does not help: {error}")
        return None, ()
