"""Which bindings of an exchange a message follows. Pure: knows no queue, no clock, no broker.

The in-memory broker routes by this too, so what `route` says is what a test sees.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

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
MATCHES: Final = ("all", "any", "all-with-x", "any-with-x")
HASHES_MAX: Final = 2
"""From 4.3 on a topic binding may hold no more `#`."""


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
    words = words_of(routing_key)
    # reached[i]: the pattern so far can match the first i words.
    reached = [True] + [False] * len(words)
    for part in words_of(pattern):
        if part == "#":
            first = reached.index(True) if True in reached else len(reached)
            reached = [at >= first for at in range(len(reached))]
        else:
            reached = [False] + [reached[at] and part in ("*", word) for at, word in enumerate(words)]
    return reached[-1]


def words_of(key: str) -> list[str]:
    """Split a key into its words; an empty one has none."""
    return key.split(".") if key else []


def headers_match(arguments: Mapping[str, Any], headers: Mapping[str, Any]) -> bool:
    """Match a headers binding: values equal in type and value, None meaning presence.

    Plain `all` and `any` look at no argument that begins with `x-`; `all-with-x` and `any-with-x` look at
    all but `x-match` itself.
    """
    found: Iterable[bool] = (
        name in headers and same_header(value, headers[name]) for name, value in wanted_headers(arguments).items()
    )
    return any(found) if str(arguments.get("x-match", "all")).startswith("any") else all(found)


def wanted_headers(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Give the headers that a binding looks at."""
    with_x = str(arguments.get("x-match", "all")).endswith("-with-x")
    return {k: v for k, v in arguments.items() if k != "x-match" and (with_x or not k.startswith("x-"))}


def same_header(wanted: Any, actual: Any) -> bool:
    """Compare one header as RabbitMQ does: the number 1 is not the text "1"."""
    return wanted is None or (_kind(wanted) is _kind(actual) and bool(wanted == actual))


def _kind(value: Any) -> type:
    """A number's kind, whatever its width on the wire."""
    return next((kind for kind in (bool, int, float) if isinstance(value, kind)), type(value))
