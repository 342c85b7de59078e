"""`amqpkit apply`: make the broker have what the files declare."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from amqpkit.brokers.aio.declarer import AioDeclarer
from amqpkit.cli.applied import Face, JsonFace, TextFace
from amqpkit.cli.connect import AdminOptions, administered
from amqpkit.cli.files import topology_files
from amqpkit.cli.locked import declined, locked
from amqpkit.cli.planned import PlanOptions
from amqpkit.cli.usage import UsageError
from amqpkit.cli.waiting import Waiting, reading
from amqpkit.declare.load import load_topology
from amqpkit.declare.plan.planning import Plan, Wishes
from amqpkit.declare.plan.saved import SavedPlan, read, require_fresh
from amqpkit.errors import AmqpkitError, StalePlan
from amqpkit.model import Topology
from amqpkit.operate.apply import perform
from amqpkit.operate.prune import Pruning
from amqpkit.operate.refusals import ApplyFailed, conflicts, missing_rights
from amqpkit.operate.survey import survey
from amqpkit.ports import Admin, BrokerInfo

NO_TERMINAL: Final = (
    "nothing was changed: there is no terminal to ask at; "
    "review the plan and say --yes, or apply one that was saved with `amqpkit plan --out FILE` (--plan FILE)"
)


async def apply(
    *files: Path,
    connection: AdminOptions | None = None,
    options: PlanOptions | None = None,
    plan: Annotated[Path | None, Parameter(show_default=False)] = None,
    yes: Annotated[bool, Parameter(negative=())] = False,
    json_: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Make the broker have what the topology declares, after a plan and a question.

    Policies that differ are overwritten. Where a queue or an exchange differs, or somebody else's policy would rule
    over our queues, nothing at all is changed and you are told what can be done. Nothing is deleted without --prune;
    applying twice changes nothing. Only one apply at a time runs in a vhost.

    Permissions are looked at before the first change: an administrator's on every name, another user's on some.

    Exit codes: 0 the broker has it all; 1 refused, failed or declined with nothing changed; 3 stopped on the way: what
    was made stays, and applying again does the rest, when the cause of a refusal is removed.

    Parameters
    ----------
    files
        Topology files, laid over each other in order (default: topology.yaml, or the one in topology/).
    connection
        Which broker.
    options
        What to do beyond the files.
    plan
        Do exactly this plan, which `amqpkit plan --out FILE` has made, and refuse when it is stale. Takes no files, and
        does not ask.
    yes
        Do not ask.
    json_
        Print one JSON document: format_version, broker {version, cluster_name, vhost}, outcome (applied, unchanged,
        declined, refused, failed, partly-applied), changes as in docs/plan-format.md, each with done, unchanged, kept,
        conflicts [{object, argument, wanted, actual, remedy}], warnings, errors.
    """
    face: Face = JsonFace() if json_ else TextFace()
    with face.ending():
        return await _apply(files, connection, options, plan, yes=yes, face=face)


async def _apply(  # noqa: PLR0913 - a command's options
    files: tuple[Path, ...],
    connection: AdminOptions | None,
    options: PlanOptions | None,
    plan: Path | None,
    *,
    yes: bool,
    face: Face,
) -> int:
    saved = _saved(plan, files, options) if plan else None
    topology = saved.topology if saved else _loaded(topology_files(files))
    wishes = saved.wishes if saved else (options or PlanOptions()).wishes
    place = (connection or AdminOptions()).place(topology.vhost)
    async with administered(place) as (admin, broker):
        face.meet(place, broker)
        todo = _Todo(topology, wishes, saved, broker)
        with Waiting("asking the broker what is there"):
            planned = await todo.planned(admin)
        if blocked := conflicts(planned):
            return face.refused(planned, blocked)
        face.plan(planned)
        if planned.steps and not (yes or saved) and (reason := declined("Apply these changes?", NO_TERMINAL)):
            return face.declined(reason)
        if not planned.steps:
            return face.applied(await perform(planned, topology, admin, wishes=wishes))
        async with locked(place, admin, "apply") as sentry:
            # Somebody may have changed something while we asked, or waited for the lock.
            if await todo.planned(admin) != planned:
                raise StalePlan("the broker has changed since the plan was shown; nothing was changed, apply again")
            try:
                async with await AioDeclarer.open(admin, place.url, "amqpkit apply") as declarer:
                    report = await perform(
                        planned,
                        topology,
                        declarer,
                        wishes=wishes,
                        pruning=Pruning(sentry),
                        on_step=face.step,
                        trouble=lambda: sentry.trouble,
                    )
            except ApplyFailed as error:
                return face.failed(error)
        return face.applied(report)


class _Todo:
    """What is to be applied, planned for the broker as it is now."""

    def __init__(self, topology: Topology, wishes: Wishes, saved: SavedPlan | None, broker: BrokerInfo) -> None:
        self._topology, self._wishes, self._saved, self._broker = topology, wishes, saved, broker

    async def planned(self, admin: Admin) -> Plan:
        """Plan; raises StalePlan when a saved plan is another, AccessRefused when the user may not do it."""
        planned, actual = await survey(self._topology, admin, self._wishes)
        if self._saved:
            require_fresh(self._saved, planned, actual, self._broker)
        if not planned.blocked and (refused := missing_rights(planned, actual.surroundings)):
            raise refused
        return planned


def _loaded(paths: Sequence[Path]) -> Topology:
    with reading(paths):
        return load_topology(*paths, environ=os.environ)


def _saved(plan: Path, files: tuple[Path, ...], options: PlanOptions | None) -> SavedPlan:
    if files or options is not None:
        raise UsageError("a saved plan says all: give no files, --prune or --accept-policy with --plan")
    try:
        return read(plan.read_text(encoding="utf-8"))
    except OSError as error:
        raise AmqpkitError(f"{plan} cannot be read: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise StalePlan(f"{plan} is no saved plan: {error}") from error
    except StalePlan as error:
        raise StalePlan(f"{plan}: {error}") from error
