"""Rules about policies: of those that reach a queue one rules, whole or not at all. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from amqpkit.declare.lint.findings import Finding, Rule, Severity
from amqpkit.declare.lint.subject import ARGUMENT, Subject
from amqpkit.declare.plan.settings import settings
from amqpkit.declare.policies import readable
from amqpkit.model import Exchange, Policy, Queue

SHADOWS = Rule(
    "AK401",
    "policy-over-work-queue",
    Severity.ERROR,
    "A policy that takes the place of a work queue's own",
    "RabbitMQ applies one policy, the one of the highest priority; a work queue's tunables are in one of priority 100. "
    "What wins over it, or ties with it, turns off reject-publish and the delivery limits: its dead "
    "letters may then be "
    "deleted. Measured.",
    bad="work_queues: {jobs: {}}\npolicies:\n  all: {pattern: .*, definition: {max-length: 1000}, priority: 200}\n",
    good="work_queues: {jobs: {}}\npolicies:\n"
    "  logs: {pattern: ^logs$, definition: {max-length: 1000, overflow: drop-head}, priority: 200}\n",
)
TIED = Rule(
    "AK402",
    "policies-of-equal-priority",
    Severity.ERROR,
    "Two policies of the same priority that reach the same object",
    "Which of them rules is not defined: 4.3.6 and 4.0.5 were seen to choose differently, and it may change with a "
    "restart. Nothing is merged.",
    bad="queues: {jobs: {}}\npolicies:\n  a: {pattern: ^jobs, definition: {max-length: 9, overflow: reject-publish}}\n"
    "  b: {pattern: ^jobs$, definition: {delivery-limit: 3}}\n",
    good="queues: {jobs: {}}\npolicies:\n  a: {pattern: ^jobs$, definition: {max-length: 9, overflow: reject-publish, "
    "delivery-limit: 3}}\n",
)
OVERLAP = Rule(
    "AK403",
    "policy-ignored",
    Severity.WARNING,
    "A policy of which nothing applies, because another has a higher priority",
    "Policies are not merged: RabbitMQ takes the one of the highest priority and nothing of the others. Repeat in the "
    "higher one what should hold. Measured.",
    bad="queues: {jobs: {}}\npolicies:\n  low: {pattern: ^jobs, definition: {delivery-limit: 3}}\n"
    "  high: {pattern: ^jobs$, definition: {max-length: 9, overflow: reject-publish}, priority: 5}\n",
    good="queues: {jobs: {}}\npolicies:\n"
    " "
    " high: {pattern: ^jobs$, definition: {max-length: 9, overflow: reject-publish, delivery-limit: 3}, priority: 5}\n",
)
DISABLED = Rule(
    "AK404",
    "key-disables-policy",
    Severity.WARNING,
    "A policy that RabbitMQ passes over for a queue, because of one key",
    "If a policy holds one key that the queue's type does not support, nothing of it applies to that "
    "queue. Split it by "
    "`apply-to: classic_queues` and `quorum_queues`. Measured.",
    bad="queues: {jobs: {type: classic}}\npolicies:\n"
    "  net: {pattern: ^jobs$, definition: {max-length: 9, overflow: reject-publish, delivery-limit: 3}}\n",
    good="queues: {jobs: {type: classic}}\npolicies:\n"
    "  net: {pattern: ^jobs$, definition: {max-length: 9, overflow: reject-publish}, apply-to: classic_queues}\n",
)
NOTHING = Rule(
    "AK405",
    "policy-reaches-nothing",
    Severity.INFO,
    "A policy that reaches nothing in this file",
    "It may be meant for objects that others declare; it may also be a slip in its pattern or its `apply-to`.",
    bad="queues: {jobs: {}}\npolicies:\n  net: {pattern: ^job$, definition: {delivery-limit: 3}}\n",
    good="queues: {jobs: {}}\npolicies:\n  net: {pattern: ^jobs$, definition: {delivery-limit: 3}}\n",
)
UNREADABLE = Rule(
    "AK406",
    "policy-pattern",
    Severity.WARNING,
    "A pattern that is no regular expression here",
    "RabbitMQ reads patterns as PCRE and refuses a bad one with 400. This one cannot be read here, so nobody can say "
    "what it reaches.",
    bad="queues: {jobs: {}}\npolicies:\n  net: {pattern: '^jobs(', definition: {delivery-limit: 3}}\n",
    good="queues: {jobs: {}}\npolicies:\n  net: {pattern: '^jobs', definition: {delivery-limit: 3}}\n",
)
WITHOUT_EFFECT = Rule(
    "AK407",
    "policy-key-without-effect",
    Severity.WARNING,
    "A policy key that loses to the queue's argument",
    "Which side wins differs: for dead-letter settings the argument, for numbers the smaller one, for overflow the "
    "argument on classic queues and the policy on quorum queues. Measured on 4.0 and 4.3.",
    bad="exchanges: {dlx: {type: fanout}}\nqueues:\n  jobs: {arguments: {x-dead-letter-exchange: dlx}}\n"
    "  dead: {bindings: [{source: dlx}], arguments: {x-delivery-limit: -1}}\npolicies:\n"
    '  net: {pattern: ^jobs$, definition: {dead-letter-exchange: "", dead-letter-routing-key: dead}}\n',
    good="exchanges: {dlx: {type: fanout}}\nqueues:\n  jobs: {arguments: {x-dead-letter-exchange: dlx}}\n"
    "  dead: {bindings: [{source: dlx}], arguments: {x-delivery-limit: -1}}\npolicies:\n"
    "  net: {pattern: ^jobs$, definition: {delivery-limit: 3}}\n",
)
RULES: Final = (SHADOWS, TIED, OVERLAP, DISABLED, NOTHING, UNREADABLE, WITHOUT_EFFECT)
_SHOWN: Final = 3


def check(subject: Subject) -> Iterator[Finding]:
    """Judge every policy that a person wrote against the objects of the file; one finding for each pair of policies."""
    written = subject.spec.policies
    for name in written:
        if readable(written[name].pattern) is None:
            message = f"the pattern {written[name].pattern!r} cannot be read here"
            loc = ("policies", name, "pattern")
            yield Finding(UNREADABLE, loc, f"policy {name}", message, "check it; RabbitMQ reads PCRE")
    if not written:
        return
    yield from _pairs(subject)
    yield from _disabled(subject)
    yield from _without_effect(subject)
    yield from _nothing(subject)


def _pairs(subject: Subject) -> Iterator[Finding]:
    """Tell of each pair of written policies once, and of each that stands over work queues once."""
    tied: dict[tuple[str, str], list[str]] = defaultdict(list)
    ignored: dict[tuple[str, str], list[str]] = defaultdict(list)
    over_ours: dict[str, list[str]] = defaultdict(list)
    written = subject.spec.policies
    for (_, name), ruling in subject.rulings.items():
        if ruling.winner is None:
            continue
        for other in (*ruling.rivals, *ruling.ignored):
            tie = other.priority == ruling.winner.priority
            pair = (ruling.winner.name, other.name)
            mine = [each for each in pair if each in written]
            if len(mine) == len(pair):
                (tied if tie else ignored)[pair].append(name)
            elif mine and (tie or mine[0] == ruling.winner.name):
                over_ours[mine[0]].append(name)
    for (one, other_name), names in tied.items():
        message = f'policies "{one}" and "{other_name}" have the same priority and both reach {some(names)}'
        yield _at_policy(TIED, one, message, "make one of the two, or give them different priorities")
    for (winner, loser), names in ignored.items():
        message = f'nothing of policy "{loser}" applies to {some(names)}: "{winner}" has a higher priority'
        yield _at_policy(OVERLAP, loser, message, f'repeat in "{winner}" what should hold')
    for offender, names in over_ours.items():
        message = f'policy "{offender}" takes the place of a work queue\'s own on {some(names)}'
        yield _at_policy(SHADOWS, offender, message, "narrow its pattern, or lower its priority below 100")


def _at_policy(rule: Rule, name: str, message: str, remedy: str) -> Finding:
    return Finding(rule, ("policies", name), f"policy {name}", message, remedy, key=True)


def _disabled(subject: Subject) -> Iterator[Finding]:
    found: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for (_, name), ruling in subject.rulings.items():
        for policy, key in ruling.disabled:
            if policy.name in subject.spec.policies:
                found[policy.name, key, subject.queues[name].type].append(name)
    for (policy_name, key, kind), names in found.items():
        message = f'{kind} queues have no {key}, so nothing of policy "{policy_name}" applies to {some(names)}'
        loc = ("policies", policy_name, "definition", key)
        remedy = "move the key into a policy for the queues that have it"
        yield Finding(DISABLED, loc, f"policy {policy_name}", message, remedy, key=True)


def _without_effect(subject: Subject) -> Iterator[Finding]:
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    declared: Iterable[Queue | Exchange] = (*subject.topology.queues, *subject.topology.exchanges)
    for each in declared:
        kind = "queue" if isinstance(each, Queue) else "exchange"
        ruling = subject.rulings[kind, each.name].winner
        if ruling is None or ruling.name not in subject.spec.policies:
            continue
        for key in _losing(each, ruling):
            found[ruling.name, key].append(each.name)
    for (policy_name, key), names in found.items():
        message = f'{key} of policy "{policy_name}" has no effect on {some(names)}: the argument wins'
        loc = ("policies", policy_name, "definition", key)
        yield Finding(WITHOUT_EFFECT, loc, f"policy {policy_name}", message, "drop one of the two", key=True)


def _losing(declared: Queue | Exchange, policy: Policy) -> Iterator[str]:
    if isinstance(declared, Exchange):
        yield from {"alternate-exchange"} & policy.definition.keys() & declared.arguments.keys()
        return
    for key, setting in settings(declared, policy).items():
        ruled = policy.definition.get(key)
        if setting.source == ARGUMENT and ruled is not None and ruled != setting.value:
            yield key


def _nothing(subject: Subject) -> Iterator[Finding]:
    reaching: set[str] = set()
    for ruling in subject.rulings.values():
        every = (ruling.winner, *ruling.rivals, *ruling.ignored, *(policy for policy, _ in ruling.disabled))
        reaching.update(policy.name for policy in every if policy)
    for name, policy in subject.spec.policies.items():
        if name not in reaching and readable(policy.pattern) is not None:
            message = f'policy "{name}" reaches nothing that this file declares'
            yield _at_policy(NOTHING, name, message, "check its pattern and its apply-to")


def some(names: list[str]) -> str:
    """Name a few."""
    more = len(names) - _SHOWN
    return ", ".join(sorted(names)[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
