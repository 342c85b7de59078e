"""Which bindings of an exchange a message follows. Pure: knows no queue, no clock, no broker."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from amqpkit.brokers.memory.arguments import kind_of
from amqpkit.model import Binding

TYPES: Final = ("direct", "fanout", "headers", "topic")
PREDECLARED: Final = {
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.headers": "headers",
    "amq.match": "headers",
    "amq.rabbitmq.trace": "topic",
    "amq.topic": "topic",
}
_HASHES_MAX: Final = 2
_MATCHES: Final = ("all", "any", "all-with-x", "any-with-x")


def follows(kind: str, binding: Binding, routing_key: str, headers: Mapping[str, Any]) -> bool:
    """Say whether an exchange of type `kind` sends a message along `binding`."""
    match kind:
        case "fanout":
            return True
        case "direct":
            return binding.routing_key == routing_key
        case "topic":
            return topic_matches(binding.routing_key, routing_key)
        case _:
            return headers_match(binding.arguments, headers)


@lru_cache(maxsize=4096)
def topic_matches(pattern: str, routing_key: str) -> bool:
    """Match words between dots: `*` is one word, `#` any number of them, none too.

    An empty routing key has no words; between two dots there is an empty one.
    """
    words = _words(routing_key)
    # reached[i]: the pattern so far can match the first i words.
    reached = [True] + [False] * len(words)
    for part in _words(pattern):
        if part == "#":
            first = reached.index(True) if True in reached else len(reached)
            reached = [at >= first for at in range(len(reached))]
        else:
            reached = [False] + [reached[at] and part in ("*", word) for at, word in enumerate(words)]
    return reached[-1]


def _words(key: str) -> list[str]:
    return key.split(".") if key else []


def headers_match(arguments: Mapping[str, Any], headers: Mapping[str, Any]) -> bool:
    """Match a headers binding: values equal in type and value, None meaning presence.

    Plain `all` and `any` look at no argument that begins with `x-`; `all-with-x` and `any-with-x` look at
    all but `x-match` itself.
    """
    kind = arguments.get("x-match", "all")
    with_x = kind.endswith("-with-x")
    wanted = {k: v for k, v in arguments.items() if k != "x-match" and (with_x or not k.startswith("x-"))}
    found: Iterable[bool] = (name in headers and _same(value, headers[name]) for name, value in wanted.items())
    return any(found) if kind.startswith("any") else all(found)


def _same(wanted: Any, actual: Any) -> bool:
    return wanted is None or (type(wanted) is type(actual) and bool(wanted == actual))


def binding_fault(kind: str, binding: Binding, *, since_4_3: bool) -> str | None:
    """Say why the broker would refuse a binding, or None."""
    word = binding.arguments.get("x-match", "all")
    if kind == "headers" and not isinstance(word, str):
        return f"Invalid x-match field type {kind_of(word)} (value {word}); expected longstr"
    if kind == "headers" and word not in _MATCHES:
        return f'Invalid x-match field value <<"{word}">>; expected all, any, all-with-x, or any-with-x'
    hashes = binding.routing_key.split(".").count("#")
    if kind == "topic" and since_4_3 and hashes > _HASHES_MAX:
        used = f"uses {hashes} '#' wildcards, at most {_HASHES_MAX} are allowed"
        return f"Topic binding key '{binding.routing_key}' {used}"
    return None
