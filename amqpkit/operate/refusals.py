"""How an apply ends when it does not end well."""

from amqpkit.declare.identity import address
from amqpkit.declare.plan import changes as judged
from amqpkit.declare.plan.changes import POLICYMAKER, Change
from amqpkit.declare.plan.obstacles import Obstacle
from amqpkit.declare.plan.planning import Plan
from amqpkit.errors import AccessRefused, BrokerError, ConnectionFailed, Refused
from amqpkit.model import DeclaredObject, Surroundings
from amqpkit.operate.report import Report


class Conflicts(Refused):
    """The plan is blocked, so nothing was touched.

    `refusals` has a Refused for each difference that RabbitMQ cannot change and for each obstacle; the error's own
    facts are those of the first.
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
    """Applying stopped on the way; what was done stays, and applying again does the rest, once no refusal stands in it.

    `report` has what was done, `failures` what went wrong with which object, `missing` what was not begun, `unread` why
    the result could not be read back. `touched` says whether the broker may be changed: a request that was not answered
    may have been carried out.
    """

    def __init__(
        self,
        report: Report,
        failures: tuple[tuple[DeclaredObject, BrokerError], ...] = (),
        missing: tuple[Change, ...] = (),
        *,
        unread: BrokerError | None = None,
    ) -> None:
        """Put both sides into one text."""
        self.report, self.failures, self.missing, self.unread = report, failures, missing, unread
        done = report.changed
        self.touched = done > 0 or any(isinstance(error, ConnectionFailed) for _, error in failures)
        undone = len(failures) + len(missing)
        lasting = any(isinstance(error, AccessRefused | Refused) for _, error in failures)
        advice = "remove the cause, then apply again" if lasting else "applying again does the rest"
        lines = [f"applied {done} of {done + undone} changes, then stopped; {advice}"]
        lines += [f"failed: {reason}" for reason in self.reasons]
        lines += [f"not done: {judged.address(change)}" for change in missing]
        super().__init__("\n".join(lines))

    @property
    def reasons(self) -> tuple[str, ...]:
        """What went wrong, a sentence for each object."""
        unread = () if self.unread is None else (f"the result could not be read back: {self.unread}",)
        return (*(_named(declared, error) for declared, error in self.failures), *unread)


def conflicts(plan: Plan) -> Conflicts | None:
    """Give the error of a plan that is blocked."""
    refusals = [
        Refused(
            object=judged.address(change),
            reason=f"{each.name} differs",
            argument=each.name,
            wanted=each.after,
            actual=each.before,
            remedy=judged.reason(change),
        )
        for change in plan.replaces
        for each in change.differences
    ]
    refusals += map(_refusal, plan.obstacles)
    return Conflicts(tuple(refusals)) if refusals else None


def missing_rights(plan: Plan, surroundings: Surroundings) -> AccessRefused | None:
    """Give the error of a user who may not do the plan, as far as the broker tells us about ourselves.

    That is the tags: which names a user may configure RabbitMQ tells to administrators only.
    """
    tags = surroundings.tags
    if tags is None or tags & {POLICYMAKER, "administrator"}:
        return None
    asking = [judged.address(change) for change in plan.steps if POLICYMAKER in judged.requires(change)]
    if not asking:
        return None
    user = surroundings.user
    return AccessRefused(
        f'{asking[0]}: user "{user}" needs the tag {POLICYMAKER} for policies'
        f" (rabbitmqctl set_user_tags {user} {POLICYMAKER}); nothing was changed"
    )


def _refusal(obstacle: Obstacle) -> Refused:
    text = str(obstacle).removesuffix(f"; {obstacle.remedy}")
    # The error begins with the object's name, and a plan's line with the reason: once is enough.
    named = f'{obstacle.kind.replace("-", " ")} "{obstacle.name}" '
    text = f"it {text.removeprefix(named)}" if text.startswith(named) else text
    return Refused(object=f"{obstacle.kind} {obstacle.name}", reason=text, remedy=obstacle.remedy)


def _named(declared: DeclaredObject, error: BrokerError) -> str:
    """Begin with the object's name, once."""
    text, name = str(error), address(declared)
    return text if text.startswith(name) else f"{name}: {text}"
