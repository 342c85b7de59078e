"""Random topologies, drawn small and from few names, so that two of them meet in many ways."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from amqpkit.declare.compiler import compile_topology
from amqpkit.declare.identity import identity
from amqpkit.declare.plan.planning import Plan
from amqpkit.declare.spec.format import Spec
from amqpkit.model import Topology

NAMES = ("a", "b", "c", "d", "e/ü%")
EXCHANGES = ("x", "y", "a")
OWNS = [*NAMES, *EXCHANGES]
KINDS = ("none", "quorum", "classic", "work")

_LENGTH = st.integers(1, 3)
_ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "x-message-ttl": st.sampled_from([1000, 2000]),
        "x-max-length": _LENGTH,
        "x-overflow": st.sampled_from(["drop-head", "reject-publish"]),
        "x-dead-letter-exchange": st.sampled_from(["x", "y", ""]),
        "x-unknown": st.sampled_from([1, "1", True]),
    },
)
_DEFINITION = st.fixed_dictionaries(
    {"max-length": _LENGTH},
    optional={
        "overflow": st.sampled_from(["drop-head", "reject-publish"]),
        "message-ttl": st.sampled_from([1000, 2000]),
        "delivery-limit": st.integers(-1, 5),
        "dead-letter-exchange": st.sampled_from(["x", "y"]),
    },
)
_PATTERN = st.sampled_from(["^a$", "^[ab]$", ".*", "^c", "d|a", "^e/"])
_RETRY = st.one_of(
    st.just("none"),
    st.lists(st.sampled_from([1000, 5000, 60_000]), min_size=1, max_size=3).map(
        lambda levels: {"delays": sorted(levels)}
    ),
)


@st.composite
def bindings(draw: st.DrawFn, exchanges: list[str]) -> list[dict[str, Any]]:
    """Draw bindings from exchanges that are declared."""
    one = st.fixed_dictionaries(
        {"source": st.sampled_from(exchanges or ["amq.topic"]), "routing_key": st.sampled_from(["", "k", "#"])},
        optional={"arguments": st.sampled_from([{}, {"n": 1}, {"n": "1"}, {"n": True}])},
    )
    return draw(st.lists(one, max_size=3))


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Draw a topology file's worth, compiled."""
    exchanges = draw(st.lists(st.sampled_from(EXCHANGES), unique=True))
    kinds = {name: draw(st.sampled_from(KINDS)) for name in NAMES}
    spec: dict[str, Any] = {
        "version": 1,
        "owns": OWNS,
        "exchanges": {
            name: {"type": draw(st.sampled_from(["direct", "topic", "fanout", "headers"]))} for name in exchanges
        },
        "queues": {
            name: {"type": kind, "arguments": draw(_ARGUMENTS), "bindings": draw(bindings(exchanges))}
            for name, kind in kinds.items()
            if kind in {"quorum", "classic"}
        },
        "work_queues": {
            name: {
                "retry": {"delays": [f"{each}ms" for each in retry["delays"]]} if isinstance(retry, dict) else retry,
                "bindings": draw(bindings(exchanges)),
                **draw(st.fixed_dictionaries({}, optional={"max-length": _LENGTH, "delivery-limit": _LENGTH})),
            }
            for name, kind in kinds.items()
            if kind == "work"
            for retry in (draw(_RETRY),)
        },
        "policies": {
            # Equal priorities are undefined on RabbitMQ, and the priority of work queues is 100.
            f"p{number}": {
                "pattern": draw(_PATTERN),
                "definition": draw(_DEFINITION),
                "apply-to": draw(st.sampled_from(["queues", "classic_queues", "quorum_queues"])),
                "priority": number * 60 + draw(st.integers(0, 9)),
            }
            for number in draw(st.lists(st.integers(0, 3), unique=True, max_size=2))
        },
    }
    return compile_topology(Spec.model_validate(spec))


def without_blocked(wanted: Topology, plan: Plan) -> Topology:
    """Want instead of each replacement what is there."""
    there = {identity(change.wanted): change.found for change in plan.replaces}
    return replace(
        wanted,
        queues=tuple(there.get(identity(each), each) for each in wanted.queues),  # type: ignore[misc]
        exchanges=tuple(there.get(identity(each), each) for each in wanted.exchanges),  # type: ignore[misc]
    )
