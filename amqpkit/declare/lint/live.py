"""Rules that take a look at a broker: what rules over our objects there, what it denies, what it lacks. Pure.

Differences between file and broker are `plan`'s and `drift`'s; here is what the file cannot know.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from amqpkit.declare.effective import delivery_limit, overflow
from amqpkit.declare.lint.findings import Finding, Rule, Severity
from amqpkit.declare.lint.policies import some
from amqpkit.declare.lint.subject import Subject, address, kind
from amqpkit.declare.plan.settings import Setting, settings, value_of
from amqpkit.declare.policies import UNREAD, PolicyIndex
from amqpkit.declare.routing import PREDECLARED
from amqpkit.declare.spec.tree import Path
from amqpkit.model import Exchange, Policy, Queue, Surroundings, Topology

FOREIGN = Rule(
    "AK701",
    "foreign-policy-rules",
    Severity.ERROR,
    "A policy of somebody else's that takes the place of ours",
    "RabbitMQ applies one policy, the one of the highest priority: nothing of ours applies to those objects. `plan` is "
    "blocked by it. Measured.",
)
LOSES = Rule(
    "AK702",
    "operator-policy-loses",
    Severity.ERROR,
    "An operator policy under which a queue of ours drops messages",
    "Operator policies are merged over ours: the smaller number, and the operator's overflow. A TTL, an expiry, a "
    "drop-head or a delivery limit on a dead-letter queue then deletes what ours keeps. Measured.",
)
TIGHTENS = Rule(
    "AK703",
    "operator-policy-tightens",
    Severity.WARNING,
    "An operator policy that lowers a limit of ours",
    "The smaller number holds. Write what really holds into the file, or have the operator's changed. Measured.",
)
DENIED = Rule(
    "AK704",
    "denied-on-this-broker",
    Severity.ERROR,
    "A deprecated feature that this broker denies",
    "Declaring such a queue closes the whole connection (541). `GET /api/deprecated-features` says so on 4.3; 4.0 does "
    "not tell. Measured.",
)
NO_TYPE = Rule(
    "AK705",
    "exchange-type-missing",
    Severity.ERROR,
    "An exchange type that this broker does not have",
    "Declaring it is refused; the plugin that brings the type is not enabled there.",
)
NOT_THERE = Rule(
    "AK706",
    "external-exchange-missing",
    Severity.ERROR,
    "A dead-letter or alternate exchange that is neither in the file nor on the broker",
    "RabbitMQ does not check that it exists; what should go there is dropped. Measured.",
)
RULES: Final = (FOREIGN, LOSES, TIGHTENS, DENIED, NO_TYPE, NOT_THERE)
_TRANSIENT: Final = "transient_nonexcl_queues"
Check = Callable[[Subject], Iterator[Finding]]


def checks(actual: Topology, around: Surroundings) -> tuple[Check, ...]:
    """Give the checks that compare with what was read of a vhost and around it."""
    return (partial(_foreign, actual), partial(_operators, actual, around), partial(_lacking, actual, around))


def _foreign(actual: Topology, subject: Subject) -> Iterator[Finding]:
    theirs = PolicyIndex(_foreign_policies(actual, subject))
    found: dict[tuple[str, Path], list[str]] = defaultdict(list)
    by_name: dict[str, Policy] = {}
    for declared in _objects(subject):
        mine = subject.rulings[kind(declared), declared.name].winner
        winner = theirs.ruling(declared).winner
        for foreign in (*((winner,) if winner else ()), *theirs.perhaps(declared)):
            if mine and foreign.priority >= mine.priority:
                by_name[foreign.name] = foreign
                found[foreign.name, subject.loc(declared)].append(declared.name)
    unread = {policy.name for policy in theirs.unreadable}
    for (name, loc), names in found.items():
        rules = f"has {UNREAD}: it may rule" if name in unread else "rules"
        message = f'policy "{name}" (priority {by_name[name].priority}) {rules} instead of ours on {some(names)}'
        remedy = "have its pattern narrowed or its priority lowered below 100"
        yield Finding(FOREIGN, loc, f"policy {name}", message, remedy, key=True)


def _foreign_policies(actual: Topology, subject: Subject) -> list[Policy]:
    ours = {policy.name for policy in subject.topology.policies}
    return [policy for policy in actual.policies if policy.name not in ours]


def _operators(actual: Topology, around: Surroundings, subject: Subject) -> Iterator[Finding]:
    operators = PolicyIndex(around.operator_policies)
    policies = PolicyIndex((*_foreign_policies(actual, subject), *subject.topology.policies))
    found: dict[tuple[Rule, str, str, Path], list[str]] = defaultdict(list)
    for queue in subject.topology.queues:
        winner = operators.ruling(queue).winner
        policy = policies.ruling(queue).winner
        for operator in (*((winner,) if winner else ()), *operators.perhaps(queue)):
            before, after = settings(queue, policy), settings(queue, policy, operator)
            for key, setting in after.items():
                if setting.value != value_of(before, key):
                    rule = LOSES if _loses(subject, queue, key, after) else TIGHTENS
                    found[rule, operator.name, _change(key, before, setting), subject.loc(queue)].append(queue.name)
    unread = {operator.name for operator in operators.unreadable}
    for (rule, name, change, loc), names in found.items():
        doubt = f" has {UNREAD}, and may reach ours" if name in unread else ""
        message = f'operator policy "{name}"{doubt}: {change} on {some(names)}'
        yield Finding(rule, loc, f"operator policy {name}", message, "have it changed, or plan with it", key=True)


def _change(key: str, before: Mapping[str, Setting], setting: Setting) -> str:
    was: Any = before[key].value if key in before else "unset"
    return f"{key} is {setting.value} instead of {was}"


def _loses(subject: Subject, queue: Queue, key: str, after: Mapping[str, Setting]) -> bool:
    if key in {"message-ttl", "expires"}:
        return True
    if key in {"overflow", "max-length", "max-length-bytes"}:
        return overflow(queue, after) == "drop-head"
    kept = queue.name in subject.dead_queues or queue.name in subject.takes_failures
    return key == "delivery-limit" and kept and delivery_limit(queue, after) is not None


def _lacking(actual: Topology, around: Surroundings, subject: Subject) -> Iterator[Finding]:
    for name, queue in subject.spec.queues.items():
        if not queue.durable and _TRANSIENT in around.denied:
            message = f"this broker denies queues that are neither durable nor exclusive, such as {name}"
            loc: Path = ("queues", name, "durable")
            yield Finding(DENIED, loc, f"queue {name}", message, "make it durable")
    for name, exchange in subject.spec.exchanges.items():
        if around.exchange_types and exchange.type not in around.exchange_types:
            message = f"this broker has no {exchange.type} exchanges"
            loc = ("exchanges", name, "type")
            yield Finding(NO_TYPE, loc, f"exchange {name}", message, "enable the plugin that brings them")
    there = {*PREDECLARED, *(exchange.name for exchange in actual.exchanges)}
    for declared, target, loc in _targets(subject):
        if not subject.reach.is_known(target) and target not in there:
            message = f'exchange "{target}" is neither in the file nor on this broker'
            yield Finding(NOT_THERE, loc, address(declared), message, "declare it, here or there")


def _targets(subject: Subject) -> Iterator[tuple[Queue | Exchange, str, Path]]:
    for queue in subject.topology.queues:
        target = subject.setting(queue.name, "dead-letter-exchange")
        if isinstance(target, str):
            yield queue, target, subject.setting_loc(queue.name, "dead-letter-exchange")
    for exchange in subject.topology.exchanges:
        alternate = subject.reach.alternate(exchange.name)
        if alternate is not None:
            yield exchange, alternate, subject.loc(exchange)


def _objects(subject: Subject) -> Iterator[Queue | Exchange]:
    yield from subject.topology.queues
    yield from subject.topology.exchanges
