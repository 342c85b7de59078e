"""Which policies reach an object, and which one rules it. Pure.

RabbitMQ applies to a queue or exchange the one matching policy of the highest priority, whole or not at all; among
equal priorities it does not say which (4.0 and 4.3 were seen to differ).
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from amqpkit.model import Exchange, Policy, Queue

_TYPES: Final = {"classic_queues": "classic", "quorum_queues": "quorum", "streams": "stream"}
_STREAMS_ONLY: Final = frozenset({"max-age", "stream-max-segment-size-bytes", "stream-filter-size-bytes"})
_LACKS: Final = {
    # RabbitMQ skips a queue whose type lacks one key of a policy, for all of its keys (measured).
    "classic": _STREAMS_ONLY | {"delivery-limit", "dead-letter-strategy", "target-group-size"},
    "quorum": _STREAMS_ONLY | {"queue-mode", "max-priority"},
    "stream": frozenset(
        {
            "expires",
            "message-ttl",
            "max-length",
            "overflow",
            "delivery-limit",
            "dead-letter-exchange",
            "dead-letter-routing-key",
            "dead-letter-strategy",
        }
    ),
}
_ESCAPED_OR_PLAIN: Final = re.compile(r"\\([^A-Za-z0-9])|([^\\.^$*+?()\[\]{}|])")
_REPEATS: Final = frozenset("*?{+")


class Reach:
    """Policies, asked by the objects that they reach.

    Most patterns begin with a literal (`^email`), and are only looked at for names that begin with it: asking
    for every queue stays linear in queues and policies together.
    """

    def __init__(self, policies: Iterable[Policy]) -> None:
        """Take the patterns apart, once."""
        self.unreadable: list[Policy] = []
        self._by_prefix: dict[str, list[tuple[re.Pattern[str] | None, Policy]]] = defaultdict(list)
        for policy in policies:
            prefix, rest = _anchored(policy.pattern)
            try:
                # `$` alone is the commonest rest, and an exact name needs no regular expression.
                compiled = None if prefix and rest == "$" else re.compile(rest)
            except re.error:
                self.unreadable.append(policy)
            else:
                self._by_prefix[prefix].append((compiled, policy))
        self._lengths = sorted({len(prefix) for prefix in self._by_prefix})

    def reaching(self, declared: Queue | Exchange) -> tuple[Policy, ...]:
        """Give the policies that reach an object, the one that rules first; Python reads the patterns, not PCRE."""
        name = declared.name
        found = []
        for length in self._lengths:
            if length > len(name):
                break
            for pattern, policy in self._by_prefix.get(name[:length], ()):
                matches = _search(pattern, name, length) if pattern else len(name) == length
                if matches and suits(policy, declared):
                    found.append(policy)
        if len(found) > 1:
            found.sort(key=lambda policy: (-policy.priority, policy.name))
        return tuple(found)

    def ruling(self, declared: Queue | Exchange) -> Policy | None:
        """Give the policy that rules an object; of equal priorities the first by name."""
        reaching = self.reaching(declared)
        return reaching[0] if reaching else None


def suits(policy: Policy, declared: Queue | Exchange) -> bool:
    """Tell whether a policy is for this kind of object, whatever its name."""
    if isinstance(declared, Exchange):
        return policy.apply_to in {"all", "exchanges"}
    meant = policy.apply_to in {"all", "queues"} or _TYPES.get(policy.apply_to) == declared.type
    return meant and _LACKS.get(declared.type, frozenset()).isdisjoint(policy.definition)


def _search(pattern: re.Pattern[str], name: str, length: int) -> bool:
    return (pattern.match(name, length) if length else pattern.search(name)) is not None


def _anchored(pattern: str) -> tuple[str, str]:
    """Split a pattern into the literal that a name must begin with, and what must match right after it."""
    if not pattern.startswith("^") or _alternates(pattern):
        return "", pattern
    position, literal = 1, []
    while part := _ESCAPED_OR_PLAIN.match(pattern, position):
        if pattern[part.end() : part.end() + 1] in _REPEATS and part.end() < len(pattern):
            break  # the last character may be there several times, or not at all
        literal.append(part[1] or part[2])
        position = part.end()
    return ("".join(literal), pattern[position:]) if literal else ("", pattern)


def _alternates(pattern: str) -> bool:
    """Whether a `|` outside of parentheses offers a second pattern; a doubt counts as yes."""
    depth = 0
    for character in re.sub(r"\\.", "", pattern):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "|" and depth <= 0:
            return True
    return False
