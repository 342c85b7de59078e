"""What an apply did."""

from collections.abc import Iterable
from dataclasses import dataclass

from amqpkit.declare.plan import changes as judged
from amqpkit.declare.plan.changes import Change, Delete, subject
from amqpkit.declare.plan.extras import Kept
from amqpkit.declare.plan.planning import Plan
from amqpkit.model import DeclaredObject


@dataclass(frozen=True, slots=True)
class Report:
    """What was done, how much was right before, what stayed though it was to go, and what deserves a look."""

    created: tuple[DeclaredObject, ...] = ()
    updated: tuple[DeclaredObject, ...] = ()
    deleted: tuple[DeclaredObject, ...] = ()
    unchanged: int = 0
    kept: tuple[Kept, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def changed(self) -> int:
        """How many changes were made."""
        return len(self.created) + len(self.updated) + len(self.deleted)


def report_of(done: Iterable[Change], plan: Plan) -> Report:
    """Count what was done of a plan."""
    changes = tuple(done)
    making = [change for change in changes if not isinstance(change, Delete)]
    return Report(
        created=tuple(subject(change) for change in making if judged.before(change) is None),
        updated=tuple(subject(change) for change in making if judged.before(change) is not None),
        deleted=tuple(subject(change) for change in changes if isinstance(change, Delete)),
        unchanged=plan.unchanged,
        kept=plan.kept,
        warnings=plan.warnings,
    )
