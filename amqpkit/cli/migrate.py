"""`amqpkit migrate`: change what RabbitMQ never changes on a live queue."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated, Final, Literal

from cyclopts import Parameter

from amqpkit.brokers.aio.declarer import AioDeclarer
from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.cli.connect import AdminOptions, administered
from amqpkit.cli.files import topology_files
from amqpkit.cli.locked import declined, locked
from amqpkit.cli.migrating import Face, JsonFace, TextFace
from amqpkit.cli.usage import UsageError
from amqpkit.declare.load import load_topology
from amqpkit.declare.migration.request import Migration
from amqpkit.declare.migration.steps import next_step
from amqpkit.declare.plan.planning import Wishes
from amqpkit.errors import StalePlan
from amqpkit.operate.migrate.prepare import changes, prepare
from amqpkit.operate.migrate.report import CannotMigrate, MigrationStopped, Report
from amqpkit.operate.migrate.run import Tools
from amqpkit.operate.migrate.run import migrate as perform
from amqpkit.operate.permissions import require_permissions
from amqpkit.operate.prune import Pruning
from amqpkit.units import parse_duration

TAKES: Final = "it takes all three on the queue's name and on those that begin with it and .migrating"
NO_TERMINAL: Final = "nothing was changed: there is no terminal to ask at; look at --dry-run, then say --yes"


async def migrate(  # noqa: PLR0913 - a command's options
    kind: Literal["queue"],
    name: str,
    /,
    *files: Path,
    connection: AdminOptions | None = None,
    accept_policy: Annotated[list[str] | None, Parameter(negative=(), show_default=False)] = None,
    timeout: str = "10m",  # noqa: ASYNC109 - for what others do
    settle: str = "10s",
    dry_run: Annotated[bool, Parameter(negative=())] = False,
    yes: Annotated[bool, Parameter(negative=())] = False,
    json_: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Change what RabbitMQ never changes on a live queue: its type or an argument. No message is lost.

    Messages are moved into a holding queue (NAME.migrating), confirmed before they are acked, the bindings follow, the
    old queue is deleted when it is seen empty twice, the new one is made as the file says, and all comes back.
    Publishers through exchanges and consumers keep running. Publishers through the default exchange cannot be seen or
    redirected: they are nacked for some seconds, and for a moment their messages are returned if mandatory, else lost.

    There is no state but the broker's: interrupted or killed at any point, run it again and it goes on. Some messages
    may then be there twice; the report says how many at most.

    Exit codes: 0 migrated, or nothing to do; 1 refused, failed or declined with nothing changed; 3 stopped half-way:
    run it again to go on.

    Parameters
    ----------
    kind
        What to migrate: queue.
    name
        Its name, in the file and on the broker.
    files
        Topology files, laid over each other in order (default: topology.yaml, or the one in topology/).
    connection
        Which broker.
    accept_policy
        Let this policy or operator policy of somebody else rule over the new queue; may be given several times.
    timeout
        How long to wait for what consumers hold unacknowledged, or for a queue that refuses what is moved.
    settle
        How long to watch a queue that looks empty before it is deleted: RabbitMQ's statistics, which alone tell of
        unacknowledged messages, are up to two intervals old (collect_statistics_interval, 5 s by default).
    dry_run
        Say what would be done, and change nothing.
    yes
        Do not ask.
    json_
        Print one JSON document: format_version, broker {version, cluster_name, vhost}, queue, outcome (migrated,
        unchanged, planned, declined, refused, stopped), differences, steps, cautions, report {moved_in, moved_back,
        duplicates_at_most, left, runs}, errors.
    """
    del kind
    patience, quiet = _seconds("--timeout", timeout), _seconds("--settle", settle)
    topology = load_topology(*topology_files(files), environ=os.environ)
    place = (connection or AdminOptions()).place(topology.vhost)
    wishes = Wishes(accepted=frozenset(accept_policy or ()))
    async with administered(place) as (admin, broker):
        face: Face = JsonFace(place, broker, name) if json_ else TextFace(place, broker, name)
        try:
            prospect = await prepare(name, topology, admin, wishes)
        except CannotMigrate as error:
            return face.refused(error)
        if next_step(prospect.seen) is None:
            return face.unchanged()
        face.prospect(prospect)
        if dry_run:
            return face.planned()
        if not yes and (reason := declined(f'Migrate queue "{name}"?', NO_TERMINAL)):
            return face.declined(reason)
        try:
            async with locked(place, admin, "migrate") as sentry:
                # Somebody may have changed something while we asked, or waited for the lock.
                if (await prepare(name, topology, admin, wishes)).migration != prospect.migration:
                    raise StalePlan("the broker has changed since the steps were shown; nothing was changed")
                async with await AioDeclarer.open(admin, place.url, "amqpkit migrate") as declarer:
                    await require_permissions(changes(prospect), declarer, hint=TAKES)
                tools = Tools(
                    admin,
                    Pruning(sentry, settle=quiet),
                    AioTransport(place.url, name="amqpkit migrate"),
                    patience=patience,
                    on_step=face.step,
                    on_moved=face.moved,
                    trouble=lambda: sentry.trouble,
                )
                return face.migrated(await _perform(prospect.migration, tools))
        except MigrationStopped as error:
            return face.stopped(error)
        except asyncio.CancelledError:
            print("\ninterrupted: no message is lost; run the same command again to go on", file=sys.stderr)
            raise


async def _perform(migration: Migration, tools: Tools) -> Report:
    await tools.transport.open()
    try:
        return await perform(migration, tools)
    finally:
        await tools.transport.close()


def _seconds(option: str, text: str) -> float:
    try:
        return parse_duration(text) / 1000
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
