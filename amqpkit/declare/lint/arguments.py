"""Rules about `x-` arguments, exchange types and bindings: what RabbitMQ refuses, or takes and ignores. Pure.

RabbitMQ keeps an argument that it does not know and never looks at it again, so the table is ours (measured on 4.0
and 4.3, argument by argument).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

from amqpkit.declare.arguments import on_the_wire
from amqpkit.declare.lint.findings import Finding, Rule, Severity
from amqpkit.declare.lint.subject import Subject
from amqpkit.declare.routing import HASHES_MAX, MATCHES, PREDECLARED, TYPES
from amqpkit.declare.spec.checks import NAME_BYTES
from amqpkit.declare.spec.tree import Path

TTL_MAX: Final = 315_360_000_000
"""Ten years, in milliseconds."""
PATTERN_BYTES: Final = 1024
_CLASSIC, _QUORUM, _STREAM = frozenset({"classic"}), frozenset({"quorum"}), frozenset({"stream"})
_BOTH, _ALL = _CLASSIC | _QUORUM, _CLASSIC | _QUORUM | _STREAM
Check = Callable[[Any], str | None]

MISTYPED = Rule(
    "AK101",
    "mistyped-argument",
    Severity.ERROR,
    "An argument that RabbitMQ does not know, one letter from one that it knows",
    "RabbitMQ accepts every argument, keeps those that it does not know and never obeys them: "
    "`x-mesage-ttl` is no TTL, "
    "and nothing says so. A later correction is a change of an immutable argument. Measured on 4.0 and 4.3.",
    bad="queues:\n  jobs:\n    type: classic\n    arguments: {x-mesage-ttl: 1h}\n",
    good="queues:\n  jobs:\n    type: classic\n    arguments: {x-message-ttl: 1h}\n",
)
UNKNOWN = Rule(
    "AK102",
    "unknown-argument",
    Severity.WARNING,
    "An argument that RabbitMQ's core does not know",
    "It is stored and ignored, unless a plugin reads it. If one does, say so: `--allow x-name` on the "
    "command line, or a "
    "suppression with the plugin as its reason. Measured on 4.0 and 4.3.",
    bad="queues:\n  jobs:\n    arguments: {x-colour: red}\n",
    good="queues:\n  jobs:\n    arguments: {x-single-active-consumer: true}\n",
)
VALUE = Rule(
    "AK103",
    "argument-value",
    Severity.ERROR,
    "A value that RabbitMQ refuses",
    "Declaring fails with 406 and the channel is closed, at start, in production. The ranges and words are those that "
    "the brokers were seen to take: a TTL of 0 to ten years, an expiry of at least 1 ms, a priority of 0 to 255. "
    "A dead-letter key of more than 255 bytes is taken, and then ends every reader of the dead letters. Measured.",
    bad="queues:\n  jobs:\n    arguments: {x-overflow: drop-tail}\n",
    good="queues:\n  jobs:\n    arguments: {x-overflow: reject-publish}\n",
)
OTHER_TYPE = Rule(
    "AK104",
    "argument-of-another-type",
    Severity.ERROR,
    "An argument that this type of queue does not have",
    "RabbitMQ refuses the declaration with 406 `invalid arg ... of queue type`. Quorum queues have a fixed set of "
    "priorities, streams have neither TTL nor dead letters, only quorum queues count deliveries. Measured.",
    bad="queues:\n  jobs:\n    type: quorum\n    arguments: {x-max-priority: 5}\n",
    good="queues:\n  jobs:\n    type: classic\n    arguments: {x-max-priority: 5}\n",
)
NO_EFFECT = Rule(
    "AK105",
    "overflow-without-effect",
    Severity.WARNING,
    "`reject-publish-dlx` on a quorum queue, which then drops messages",
    "Quorum queues accept the word, log a warning and do `drop-head`: the oldest message goes, and its publisher had a "
    "confirm. Measured on 4.0 and 4.3.",
    bad="queues:\n  jobs:\n    arguments: {x-max-length: 9, x-overflow: reject-publish-dlx}\n",
    good="queues:\n  jobs:\n    arguments: {x-max-length: 9, x-overflow: reject-publish}\n",
)
POLICY_KEY = Rule(
    "AK106",
    "policy-key",
    Severity.ERROR,
    "A policy with a key or a value that RabbitMQ refuses",
    "Unlike arguments, policies are validated: one unknown key or wrong value and the whole policy is answered 400; "
    "from 4.3 on a pattern of more than 1024 bytes too. Measured on 4.0 and 4.3.",
    bad="queues: {jobs: {}}\npolicies:\n  net: {pattern: ^jobs$, definition: {max-lenght: 5}}\n",
    good="queues: {jobs: {}}\npolicies:\n"
    "  net: {pattern: ^jobs$, definition: {max-length: 5, overflow: reject-publish}}\n",
)
BINDING = Rule(
    "AK107",
    "binding-refused",
    Severity.ERROR,
    "A binding that RabbitMQ refuses",
    "A headers binding knows `x-match: all, any, all-with-x, any-with-x`; from 4.3 on a topic binding may hold two `#` "
    "at most. Measured.",
    bad="exchanges: {ev: {type: headers}}\nqueues:\n  jobs:\n    bindings: "
    "[{source: ev, arguments: {x-match: some, kind: a}}]\n",
    good="exchanges: {ev: {type: headers}}\nqueues:\n  jobs:\n    bindings: "
    "[{source: ev, arguments: {x-match: any, kind: a}}]\n",
)
PLUGIN = Rule(
    "AK108",
    "exchange-of-a-plugin",
    Severity.INFO,
    "An exchange type that needs a plugin",
    "Where the plugin is not enabled the broker answers `unknown exchange type`; a delayed message of "
    "`x-delayed-message` lives on one node only. `lint --live` asks the broker which types it has.",
    bad="exchanges: {ev: {type: x-recent-history}}\nqueues: {jobs: {bindings: [{source: ev}]}}\n",
    good="exchanges: {ev: {type: topic}}\nqueues: {jobs: {bindings: [{source: ev, routing_key: a.b}]}}\n",
)
RULES: Final = (MISTYPED, UNKNOWN, VALUE, OTHER_TYPE, NO_EFFECT, POLICY_KEY, BINDING, PLUGIN)


def _integer(low: int | None, high: int | None = None) -> Check:
    def check(value: Any) -> str | None:
        if isinstance(value, bool) or not isinstance(value, int):
            return f"RabbitMQ wants a whole number here, not {value!r}"
        if low is not None and value < low:
            return f"must be at least {low}"
        return f"must be at most {high}" if high is not None and value > high else None

    return check


def _word(*known: str) -> Check:
    def check(value: Any) -> str | None:
        if isinstance(value, str) and (value in known or not known):
            return None
        close = get_close_matches(str(value), known, n=1)
        return f'{value!r} is not a value of it; did you mean "{close[0]}"?' if close else _choices(value, known)

    return check


def _choices(value: Any, known: tuple[str, ...]) -> str:
    return f"{value!r} is not a value of it; write {' or '.join(known)}" if known else f"wants text, not {value!r}"


def _flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else f"wants true or false, not {value!r}"


def _age(value: Any) -> str | None:
    right = isinstance(value, str) and re.fullmatch(r"\d+[YMDhms]", value)
    return None if right else f"{value!r} is not an age; write 7D or 12h (Y, M, D, h, m, s)"


def _key(value: Any) -> str | None:
    if not isinstance(value, str):
        return f"wants text, not {value!r}"
    if (size := len(value.encode())) <= NAME_BYTES:
        return None
    return (
        f"it has {size} bytes, a routing key at most {NAME_BYTES}: RabbitMQ takes it, and ends (541) the connection of "
        "every consumer that is given such a dead letter"
    )


def _anything(_value: Any) -> str | None:
    return None


_OVERFLOW: Final = _word("drop-head", "reject-publish", "reject-publish-dlx")
_STRATEGY: Final = _word("at-most-once", "at-least-once")
_RETRY: Final = _word("disabled", "all", "failed", "returned")
_LOCATOR: Final = _word("client-local", "balanced")
# Who may have it, and which values. Judged by rules of their own: x-queue-mode, x-queue-version, locators of masters.
ARGUMENTS: Final[Mapping[str, tuple[frozenset[str], Check]]] = {
    "x-queue-type": (_ALL, _word("classic", "quorum", "stream")),
    "x-dead-letter-exchange": (_BOTH, _word()),
    "x-dead-letter-routing-key": (_BOTH, _key),
    "x-dead-letter-strategy": (_QUORUM, _STRATEGY),
    "x-expires": (_BOTH, _integer(1, TTL_MAX)),
    "x-message-ttl": (_BOTH, _integer(0, TTL_MAX)),
    "x-max-length": (_BOTH, _integer(0)),
    "x-max-length-bytes": (_ALL, _integer(0)),
    "x-overflow": (_BOTH, _OVERFLOW),
    "x-single-active-consumer": (_BOTH, _flag),
    "x-max-priority": (_CLASSIC, _integer(0, 255)),
    "x-delivery-limit": (_QUORUM, _integer(None)),
    "x-quorum-initial-group-size": (_QUORUM, _integer(1)),
    "x-queue-leader-locator": (_ALL, _LOCATOR),
    "x-consumer-timeout": (_QUORUM, _integer(0)),
    "x-consumer-disconnected-timeout": (_QUORUM, _integer(0)),
    "x-delayed-retry-type": (_QUORUM, _RETRY),
    "x-delayed-retry-min": (_QUORUM, _integer(1)),
    "x-delayed-retry-max": (_QUORUM, _integer(1)),
    "x-max-age": (_STREAM, _age),
    "x-stream-max-segment-size-bytes": (_STREAM, _integer(1)),
    "x-stream-filter-size-bytes": (_STREAM, _integer(16, 255)),
    "x-initial-cluster-size": (_STREAM, _integer(1)),
    "x-queue-mode": (_CLASSIC, _anything),
    "x-queue-version": (_CLASSIC, _integer(1)),
    "x-queue-master-locator": (_ALL, _anything),
    "x-ha-policy": (_ALL, _anything),
}
_SINCE_4_3: Final = frozenset(
    {"x-consumer-timeout", "x-consumer-disconnected-timeout"}
    | {f"x-delayed-retry-{part}" for part in ("type", "min", "max")}
)
EXCHANGE_ARGUMENTS: Final = frozenset(
    {"alternate-exchange", "x-delayed-type", "hash-header", "hash-property", "x-recent-history-length"}
    | {"x-message-deduplication", "x-cache-size", "x-cache-ttl", "x-cache-persistence"}
)
_NON_NEGATIVE: Final = _integer(0)
# The mirroring keys and the queue mode have rules of their own.
POLICY_KEYS: Final[Mapping[str, Check]] = {
    "message-ttl": _integer(0, TTL_MAX),
    "expires": _integer(1, TTL_MAX),
    "max-length": _NON_NEGATIVE,
    "max-length-bytes": _NON_NEGATIVE,
    "overflow": _OVERFLOW,
    "dead-letter-exchange": _word(),
    "dead-letter-routing-key": _key,
    "dead-letter-strategy": _STRATEGY,
    "delivery-limit": _integer(None),
    "consumer-timeout": _NON_NEGATIVE,
    "consumer-disconnected-timeout": _NON_NEGATIVE,
    "delayed-retry-type": _RETRY,
    "delayed-retry-min": _integer(1),
    "delayed-retry-max": _integer(1),
    "alternate-exchange": _word(),
    "queue-leader-locator": _LOCATOR,
    "queue-master-locator": _anything,
    "queue-version": _integer(1),
    "queue-mode": _anything,
    "max-age": _age,
    "stream-max-segment-size-bytes": _integer(1),
    "stream-filter-size-bytes": _integer(16, 255),
    "initial-cluster-size": _integer(1),
    "target-group-size": _integer(1),
    "federation-upstream": _word(),
    "federation-upstream-set": _word(),
    "federation-upstream-pattern": _word(),
    "max-in-memory-length": _NON_NEGATIVE,
    "max-in-memory-bytes": _NON_NEGATIVE,
}
_POLICY_SINCE_4_3: Final = frozenset(key.removeprefix("x-") for key in _SINCE_4_3) - {"consumer-timeout"}
REMOVED_KEYS: Final = frozenset(
    {"ha-mode", "ha-params", "ha-sync-mode", "ha-sync-batch-size"} | {"ha-promote-on-shutdown", "ha-promote-on-failure"}
)


def check(subject: Subject) -> Iterator[Finding]:
    """Judge every argument, policy key, exchange type and binding that a person wrote."""
    for name, queue in subject.spec.queues.items():
        loc: Path = ("queues", name)
        yield from _queue_arguments(subject, loc, queue.type, on_the_wire(queue.arguments))
    for name, exchange in subject.spec.exchanges.items():
        yield from _exchange(subject, name, exchange.type, exchange.arguments)
    for name, policy in subject.spec.policies.items():
        yield from _policy(subject, name, on_the_wire(policy.definition))
        if subject.since_4_3 and (size := len(policy.pattern.encode())) > PATTERN_BYTES:
            message = f"the pattern has {size} bytes; from 4.3 on RabbitMQ takes {PATTERN_BYTES}"
            remedy = "split it into several policies, or name the queues alike"
            yield Finding(POLICY_KEY, ("policies", name, "pattern"), f"policy {name}", message, remedy)
    yield from _bindings(subject)


def _queue_arguments(subject: Subject, loc: Path, kind: str, arguments: Mapping[str, Any]) -> Iterator[Finding]:
    where = f"queue {loc[1]}"
    for key, value in arguments.items():
        at = (*loc, "arguments", key)
        entry = ARGUMENTS.get(key)
        if entry is None:
            yield from _unknown(subject, at, where, key, ARGUMENTS)
            continue
        kinds, fault = entry
        if key in _SINCE_4_3 and not subject.since_4_3:
            # 4.0 takes these on every type of queue; it obeys the timeout and ignores the rest (measured).
            kinds = _ALL
        if kind not in kinds:
            remedy = f"only {' and '.join(sorted(kinds))} queues have it: drop it or change the type"
            yield Finding(OTHER_TYPE, at, where, f"a {kind} queue has no {key}", remedy, key=True)
        elif message := fault(value):
            yield Finding(VALUE, at, where, f"{key}: {message}", "")
    if "x-dead-letter-routing-key" in arguments and "x-dead-letter-exchange" not in arguments:
        message = "x-dead-letter-routing-key without x-dead-letter-exchange is refused"
        remedy = "name the exchange too"
        yield Finding(VALUE, (*loc, "arguments", "x-dead-letter-routing-key"), where, message, remedy, key=True)
    if kind == "quorum" and arguments.get("x-overflow") == "reject-publish-dlx":
        message = "a quorum queue takes reject-publish-dlx and drops the oldest message instead"
        yield Finding(NO_EFFECT, (*loc, "arguments", "x-overflow"), where, message, "write reject-publish")


def _unknown(
    subject: Subject, at: Path, where: str, key: str, known: Mapping[str, object] | frozenset[str]
) -> Iterator[Finding]:
    if key in subject.allowed or key in {"durable", "exclusive", "auto_delete", "auto-delete", "type", "passive"}:
        return  # the latter are properties: no file with them is taken
    spelled = key.replace("_", "-")
    close = get_close_matches(spelled if spelled.startswith("x-") else f"x-{spelled}", [*known], n=1, cutoff=0.8)
    if close:
        message = f'RabbitMQ knows no argument "{key}", and would ignore it'
        yield Finding(MISTYPED, at, where, message, f'did you mean "{close[0]}"?', key=True)
    else:
        remedy = "drop it, or allow it if a plugin reads it"
        yield Finding(UNKNOWN, at, where, f'RabbitMQ\'s core knows no argument "{key}"', remedy, key=True)


def _exchange(subject: Subject, name: str, kind: str, arguments: Mapping[str, Any]) -> Iterator[Finding]:
    loc, where = ("exchanges", name), f"exchange {name}"
    for key, value in arguments.items():
        if key not in EXCHANGE_ARGUMENTS:
            yield from _unknown(subject, (*loc, "arguments", key), where, key, EXCHANGE_ARGUMENTS)
        elif key == "alternate-exchange" and not isinstance(value, str):
            yield Finding(VALUE, (*loc, "arguments", key), where, f"{key} wants the name of an exchange", "")
    if kind == "x-delayed-message" and arguments.get("x-delayed-type") not in TYPES:
        message = "an x-delayed-message exchange needs x-delayed-type, how it routes in the end"
        yield Finding(VALUE, (*loc, "type"), where, message, "write arguments: {x-delayed-type: topic}")
    if kind not in {*TYPES, "x-modulus-hash", "x-local-random"}:
        message = f"{kind} exchanges come with a plugin"
        yield Finding(PLUGIN, (*loc, "type"), where, message, "see that every broker has it enabled")


def _policy(subject: Subject, name: str, definition: Mapping[str, Any]) -> Iterator[Finding]:
    loc: Path = ("policies", name, "definition")
    where = f"policy {name}"
    for key, value in definition.items():
        if key.startswith("x-") or key in REMOVED_KEYS:
            continue  # the file is refused, or another rule says it
        if key not in POLICY_KEYS or (key in _POLICY_SINCE_4_3 and not subject.since_4_3):
            close = get_close_matches(key, POLICY_KEYS, n=1, cutoff=0.75)
            known = f"it is known from 4.3 on, not on {subject.version[0]}.{subject.version[1]}"
            advice = f'did you mean "{close[0]}"?' if close and close[0] != key else ""
            remedy = known if key in POLICY_KEYS else advice
            yield Finding(POLICY_KEY, (*loc, key), where, f'RabbitMQ knows no policy key "{key}"', remedy, key=True)
        elif message := POLICY_KEYS[key](value):
            yield Finding(POLICY_KEY, (*loc, key), where, f"{key}: {message}", "")


def _bindings(subject: Subject) -> Iterator[Finding]:
    types = {**PREDECLARED, **{name: exchange.type for name, exchange in subject.spec.exchanges.items()}}
    for section in ("exchanges", "queues", "work_queues"):
        for name, entry in getattr(subject.spec, section).items():
            for position, binding in enumerate(entry.bindings):
                message = _binding_fault(subject, types.get(binding.source), binding.routing_key, binding.arguments)
                if message:
                    where = f"binding {binding.source} -{binding.routing_key}-> {name}"
                    yield Finding(BINDING, (section, name, "bindings", position), where, message, "")


def _binding_fault(subject: Subject, kind: str | None, key: str, arguments: Mapping[str, Any]) -> str | None:
    word = arguments.get("x-match", "all")
    if kind == "headers" and word not in MATCHES:
        return f"x-match is {word!r}; write {', '.join(MATCHES)}"
    hashes = key.split(".").count("#")
    if kind == "topic" and subject.since_4_3 and hashes > HASHES_MAX:
        return f'"{key}" has {hashes} `#`; from 4.3 on RabbitMQ takes {HASHES_MAX}'
    return None
