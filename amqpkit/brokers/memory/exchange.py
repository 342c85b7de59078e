"""What the broker refuses to bind. Pure: knows no queue, no clock, no broker."""

from amqpkit.brokers.memory.arguments import kind_of
from amqpkit.declare.routing import HASHES_MAX, MATCHES
from amqpkit.model import Binding


def binding_fault(kind: str, binding: Binding, *, since_4_3: bool) -> str | None:
    """Say why the broker would refuse a binding, or None."""
    word = binding.arguments.get("x-match", "all")
    if kind == "headers" and not isinstance(word, str):
        return f"Invalid x-match field type {kind_of(word)} (value {word}); expected longstr"
    if kind == "headers" and word not in MATCHES:
        return f'Invalid x-match field value <<"{word}">>; expected all, any, all-with-x, or any-with-x'
    hashes = binding.routing_key.split(".").count("#")
    if kind == "topic" and since_4_3 and hashes > HASHES_MAX:
        used = f"uses {hashes} '#' wildcards, at most {HASHES_MAX} are allowed"
        return f"Topic binding key '{binding.routing_key}' {used}"
    return None
