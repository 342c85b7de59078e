"""Rules about what RabbitMQ has removed, denies, or advises against. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from amqpkit.declare.lint.arguments import REMOVED_KEYS
from amqpkit.declare.lint.findings import Finding, Rule, Severity
from amqpkit.declare.lint.subject import Subject
from amqpkit.declare.spec.tree import Path

MIRRORING = Rule(
    "AK501",
    "classic-mirroring",
    Severity.ERROR,
    "Mirroring, which RabbitMQ 4 does not have",
    "Policies with `ha-` keys are refused with 400, and a definitions file that holds one is not loaded; the argument "
    "`x-ha-policy` is accepted and does nothing: the queue is on one node only. Quorum queues replicate. Measured.",
    bad="queues: {jobs: {type: classic}}\npolicies:\n  ha: {pattern: ^jobs$, definition: {ha-mode: all}}\n",
    good="queues: {jobs: {type: quorum}}\n",
)
TRANSIENT = Rule(
    "AK502",
    "transient-shared-queue",
    Severity.WARNING,
    "A queue that is neither durable nor exclusive",
    "RabbitMQ 4.3 denies these by default and closes the whole connection (541); some distributions permit them again. "
    "`GET /api/deprecated-features` says which; `lint --live` asks. Measured on a broker that permits and one that "
    "denies.",
    bad="queues: {control: {type: classic, durable: false}}\n",
    good="queues: {control: {type: classic}}\n",
)
VOID = Rule(
    "AK503",
    "queue-mode",
    Severity.WARNING,
    "A queue mode, which has no effect any more",
    "Classic queues keep messages on disk whatever the mode says. 4.3 accepts the argument and ignores it; the "
    "documentation says that it will be refused. Measured.",
    bad="queues: {jobs: {type: classic, arguments: {x-queue-mode: lazy}}}\n",
    good="queues: {jobs: {type: classic}}\n",
)
REFUSED = Rule(
    "AK504",
    "removed-queue-setting",
    Severity.ERROR,
    "A setting of older brokers that this one refuses",
    "`queue-version: 1` is gone in 4.3 (406), `queue-master-locator` is denied there (541, connection closed; 400 in a "
    "policy). 4.0 still takes both. Measured.",
    bad="queues: {jobs: {type: classic, arguments: {x-queue-version: 1}}}\n",
    good="queues: {jobs: {type: classic}}\n",
)
CLASSIC = Rule(
    "AK505",
    "classic-queue",
    Severity.INFO,
    "A classic queue: on one node only, and it counts no crashes",
    "When its node is down, so is the queue. A message that kills its worker comes back for ever, as nothing is "
    "counted. For replies and caches that is fine; for work take a quorum queue, or a work queue.",
    bad="queues: {jobs: {type: classic}}\n",
    good="queues: {jobs: {type: quorum}}\n",
)
RULES: Final = (MIRRORING, TRANSIENT, VOID, REFUSED, CLASSIC)
_PLACED: Final = ("x-queue-master-locator", "queue-master-locator")


def check(subject: Subject) -> Iterator[Finding]:
    """Judge what a person wrote."""
    for name, queue in subject.spec.queues.items():
        loc: Path = ("queues", name)
        yield from _settings(subject, (*loc, "arguments"), f"queue {name}", queue.arguments)
        if not queue.durable and queue.type == "classic":
            message = f"{name} is neither durable nor exclusive; 4.3 may refuse it and close the connection"
            remedy = "make it durable (with x-expires if it may go), or let the application declare it exclusive"
            yield Finding(TRANSIENT, (*loc, "durable"), f"queue {name}", message, remedy)
        if queue.type == "classic":
            message = f"{name} is on one node only and counts no crashes"
            yield Finding(CLASSIC, (*loc, "type"), f"queue {name}", message, "make it quorum if it carries work")
    for name, policy in subject.spec.policies.items():
        at: Path = ("policies", name, "definition")
        yield from _settings(subject, at, f"policy {name}", policy.definition)


def _settings(subject: Subject, loc: Path, where: str, given: Mapping[str, Any]) -> Iterator[Finding]:
    for key, value in given.items():
        at = (*loc, key)
        plain = key.removeprefix("x-")
        if key in REMOVED_KEYS or key == "x-ha-policy":
            message = f"{key}: RabbitMQ 4 has no mirrored queues"
            yield Finding(MIRRORING, at, where, message, "drop it, and make the queues quorum", key=True)
        elif plain == "queue-mode":
            yield Finding(VOID, at, where, f"{key} has no effect any more", "drop it", key=True)
        elif subject.since_4_3 and (plain == "queue-version" and value == 1):
            yield Finding(REFUSED, at, where, f"{key} 1 is refused from 4.3 on", "drop it", key=True)
        elif subject.since_4_3 and key in _PLACED:
            remedy = "drop it, or write queue-leader-locator"
            yield Finding(REFUSED, at, where, f"{key} is denied from 4.3 on", remedy, key=True)
