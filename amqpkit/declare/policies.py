"""Which policy rules a queue or an exchange. Pure.

RabbitMQ applies the one matching policy of the highest priority, whole or not at all; among equal priorities it does
not say which (4.3 and 4.0 were seen to differ). A policy with one key that a queue's type does not support is passed
over for that queue (measured).
"""

import re
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from amqpkit.model import Exchange, Policy, Queue

_KINDS: Final = {"classic_queues": "classic", "quorum_queues": "quorum", "streams": "stream"}
_REPLICAS: Final = frozenset({"target-group-size", "max-in-memory-length", "max-in-memory-bytes"})
_COUNTING: Final = frozenset({"dead-letter-strategy", "delivery-limit"})
_LOGS: Final = frozenset({"max-age", "stream-max-segment-size-bytes", "initial-cluster-size"})
_FIFO: Final = frozenset(
    {"expires", "message-ttl", "max-length", "overflow", "dead-letter-exchange", "dead-letter-routing-key"}
)
UNSUPPORTED: Final[Mapping[str, frozenset[str]]] = {
    "classic": _LOGS | _COUNTING | _REPLICAS,
    "quorum": _LOGS | {"queue-mode", "queue-master-locator"},
    "stream": _FIFO | _COUNTING | _REPLICAS | {"queue-mode", "queue-master-locator"},
}
"""By queue type, the policy keys that make RabbitMQ pass over the whole policy (each measured on 4.0 and 4.3)."""


_ASCII: Final[Mapping[str, str]] = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "ascii": r"\x00-\x7f",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e",
    "space": r"\t-\r ",
    "upper": "A-Z",
    "word": r"\w",
    "xdigit": "0-9A-Fa-f",
}
_CLASS: Final = re.compile(r"\[:(\^?\w*):\]")
UNREAD: Final = "a pattern that only RabbitMQ can read"
_READ_OTHERWISE: Final = re.compile(r"\{,\d|\\v")
"""What Python takes without a word and RabbitMQ reads in another way, or each of its versions in its own."""
_LITERAL: Final = re.compile(r"\\([^A-Za-z0-9])|([^\\.^$*+?()\[\]{}|])")
_REPEATS: Final = frozenset("*?{+")


@dataclass(frozen=True, slots=True)
class Ruling:
    """The policies whose pattern and `apply-to` reach one object."""

    winner: Policy | None = None
    rivals: tuple[Policy, ...] = ()
    """Others of the winner's priority: which of them rules is not defined."""
    ignored: tuple[Policy, ...] = ()
    """Of lower priority: nothing of them applies."""
    disabled: tuple[tuple[Policy, str], ...] = ()
    """Passed over, each with the first key that the queue's type does not support."""


_NOBODY: Final = Ruling()


class PolicyIndex:
    """Finds the policies of a name without trying them all: generated patterns start with literal text."""

    def __init__(self, policies: Iterable[Policy]) -> None:
        """Sort the policies by the literal text that their pattern starts with."""
        self._prefixed: dict[str, list[tuple[str, Policy]]] = defaultdict(list)
        self._general: list[Policy] = []
        self.unreadable: list[Policy] = []
        """Those whose pattern only RabbitMQ can read; they reach nothing here, and there `perhaps`."""
        self._beginnings: list[str] = []
        for policy in policies:
            prefix, rest = literal_prefix(policy.pattern)
            if readable(rest) is None:
                self.unreadable.append(policy)
                self._beginnings.append(prefix)
            elif prefix:
                self._prefixed[prefix].append((rest, policy))
            else:
                self._general.append(policy)
        self._lengths = sorted({len(prefix) for prefix in self._prefixed})

    def ruling(self, declared: Queue | Exchange) -> Ruling:
        """Say what rules an object, and what would if it could."""
        reaching = self._reaching(declared)
        if not reaching:
            return _NOBODY
        if len(reaching) > 1:
            reaching.sort(key=lambda policy: (-policy.priority, policy.name))
        lacks = [(policy, unsupported(policy, declared)) for policy in reaching]
        able = [policy for policy, key in lacks if key is None]
        winner = able[0] if able else None
        rivals = [policy for policy in able[1:] if winner and policy.priority == winner.priority]
        return Ruling(
            winner=winner,
            rivals=tuple(rivals),
            ignored=tuple(able[1 + len(rivals) :]),
            disabled=tuple((policy, key) for policy, key in lacks if key is not None),
        )

    def perhaps(self, declared: Queue | Exchange) -> tuple[Policy, ...]:
        """Give the unreadable policies that may reach an object: its name begins as their pattern does."""
        return tuple(
            policy
            for policy, beginning in zip(self.unreadable, self._beginnings, strict=True)
            if concerns(policy, declared) and declared.name.startswith(beginning)
        )

    def _reaching(self, declared: Queue | Exchange) -> list[Policy]:
        name = declared.name
        found = [policy for policy in self._general if reaches(policy, declared)]
        for length in self._lengths:
            if length > len(name):
                break
            for rest, policy in self._prefixed.get(name[:length], ()):
                # Equal names need no regular expression, and thousands of generated patterns share one rest.
                fits = len(name) == length if rest == "$" else _continues(rest, name, name[:length])
                if fits and concerns(policy, declared):
                    found.append(policy)
        return found


def _continues(rest: str, name: str, beginning: str) -> bool:
    pattern = readable(rest)
    return pattern is not None and pattern.match(_bytes(name), len(_bytes(beginning))) is not None


def reaches(policy: Policy, declared: Queue | Exchange) -> bool:
    """Tell whether a policy's pattern and `apply-to` take in an object; an unreadable pattern takes in nothing."""
    return concerns(policy, declared) and matches(policy.pattern, declared.name)


def concerns(policy: Policy, declared: Queue | Exchange) -> bool:
    """Tell whether a policy's `apply-to` takes in this kind of object."""
    if isinstance(declared, Exchange):
        return policy.apply_to in {"all", "exchanges"}
    return policy.apply_to in {"all", "queues"} or _KINDS.get(policy.apply_to) == declared.type


@lru_cache(maxsize=65536)
def readable(pattern: str) -> re.Pattern[bytes] | None:
    """Compile a pattern, or give None; Python's expressions are close to RabbitMQ's PCRE, not the same.

    RabbitMQ reads names as bytes, and letters as those of ASCII (measured on 4.0 and 4.3).
    """
    if _READ_OTHERWISE.search(pattern):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of what Python may read otherwise one day
            return re.compile(_bytes(_CLASS.sub(_in_ascii, pattern) if "[:" in pattern else pattern))
    except (re.error, KeyError):
        return None


def matches(pattern: str, name: str) -> bool:
    """Tell whether a pattern fits a name anywhere, as RabbitMQ reads both; an unreadable one fits none."""
    found = readable(pattern)
    return found is not None and found.search(_bytes(name)) is not None


def _in_ascii(found: re.Match[str]) -> str:
    """Spell a class such as `[:alpha:]`, which Python takes for its characters."""
    return _ASCII[found[1]]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def unsupported(policy: Policy, declared: Queue | Exchange) -> str | None:
    """Name the first key for which RabbitMQ passes the policy over, or None; exchanges ignore keys of queues."""
    if isinstance(declared, Exchange):
        return None
    wrong = UNSUPPORTED.get(declared.type, frozenset())
    return next((key for key in policy.definition if key in wrong), None)


def literal_prefix(pattern: str) -> tuple[str, str]:
    """Split a pattern into the text that every match starts with and what has to follow it.

    No text when nothing can be said: the pattern is not anchored, or has alternatives at its top.
    """
    if not pattern.startswith("^") or _has_top_alternatives(pattern):
        return "", pattern
    literal: list[str] = []
    at = 1
    while part := _LITERAL.match(pattern, at):
        if pattern[part.end() : part.end() + 1] in _REPEATS:
            break  # the last character may be there several times, or not at all
        literal.append(part[1] or part[2])
        at = part.end()
    return ("".join(literal), pattern[at:]) if literal else ("", pattern)


def _has_top_alternatives(pattern: str) -> bool:
    depth, escaped = 0, False
    for character in pattern:
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
        elif character == "|" and depth <= 0:
            return True
    return False
