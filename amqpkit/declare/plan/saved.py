"""A plan kept in a file, to be reviewed and then done exactly as it was: with a fingerprint of both sides. Pure."""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from pydantic import TypeAdapter, ValidationError

from amqpkit.declare.identity import identity
from amqpkit.declare.plan.actual import Actual
from amqpkit.declare.plan.document import FORMAT, document, plain
from amqpkit.declare.plan.extras import all_of, extras
from amqpkit.declare.plan.planning import Plan, Wishes
from amqpkit.declare.plan.rule import Rule
from amqpkit.errors import StalePlan
from amqpkit.model import DeclaredObject, Exchange, Queue, Topology
from amqpkit.ports import BrokerInfo

_AGAIN: Final = "make the plan again, and have it reviewed again"
_NO_WISHES: Final = Wishes()
_DEEPEST: Final = 100
"""Levels of a plan's JSON; what is deeper was not written by us, and Python's own recursion has an end."""


@dataclass(frozen=True, slots=True)
class _Broker:
    cluster_name: str
    vhost: str


@dataclass(frozen=True, slots=True)
class _Document:
    """What of a kept plan is read; the rest is for people."""

    broker: _Broker
    fingerprint: str
    prune: bool
    accepted_policies: list[str]
    changes: list[dict[str, Any]]
    desired: Topology


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """What was planned for which broker, and what it was made of."""

    topology: Topology
    wishes: Wishes
    cluster_name: str
    vhost: str
    fingerprint: str
    changes: tuple[Mapping[str, Any], ...]


def fingerprint(wanted: Topology, actual: Actual, wishes: Wishes = _NO_WISHES) -> str:
    """Sum up what is wanted, what was asked for, and what is there, as far as a plan depends on it.

    Other people's objects count only where they reach ours, so that their work does not make our plans stale. What
    queues hold does not count.
    """
    declared = {identity(each) for each in all_of(wanted)}
    there = [each for each in all_of(actual.topology) if identity(each) in declared]
    rule = Rule(wanted, actual)
    declarations: tuple[Queue | Exchange, ...] = (*wanted.queues, *wanted.exchanges)
    ruling = {
        (kind, policy.name): policy
        for each in declarations
        for kind, reach in (("policy", rule.before), ("operator", rule.operators))
        for policy in reach.reaching(each)
    }
    parts = [
        _sorted(all_of(wanted)),
        _sorted(there),
        _sorted(extras(wanted, actual.topology)),
        sorted(f"{kind} {_text(policy)}" for (kind, _), policy in ruling.items()),
        [sorted(wanted.owns), sorted(wanted.retained)],
        [wishes.prune, sorted(wishes.accepted)],
    ]
    return hashlib.sha256(_text(parts).encode()).hexdigest()


def save(wanted: Topology, actual: Actual, plan: Plan, wishes: Wishes, broker: BrokerInfo) -> dict[str, Any]:
    """Give the document that a plan is kept in."""
    return {
        "format_version": FORMAT,
        "broker": {"version": broker.version, "cluster_name": broker.cluster_name, "vhost": actual.topology.vhost},
        "fingerprint": fingerprint(wanted, actual, wishes),
        "prune": wishes.prune,
        "accepted_policies": sorted(wishes.accepted),
        **document(plan),
        "desired": plain(wanted),
    }


def read(text: str) -> SavedPlan:
    """Read a kept plan's text, whatever it holds; raises StalePlan when it is none."""
    try:
        saved = json.loads(text, parse_constant=_no_number)
    except RecursionError:
        raise StalePlan(f"this is no plan: it is nested too deeply; {_AGAIN}") from None
    except ValueError as error:
        raise StalePlan(f"this is no plan: {error}; {_AGAIN}") from error
    return restore(saved)


def restore(saved: object) -> SavedPlan:
    """Read such a document; raises StalePlan when it is none, or of another version."""
    if not isinstance(saved, Mapping) or str(saved.get("format_version", "")).split(".")[0] != FORMAT.split(".")[0]:
        raise StalePlan(f"this is no plan of format {FORMAT}; {_AGAIN}")
    _require_sane(saved)
    try:
        # As JSON, for only that may be read strictly: a number is no text, and a text is no truth value.
        whole = TypeAdapter(_Document).validate_json(json.dumps(saved), strict=True)
    except ValidationError as error:
        raise StalePlan(f"this is no whole plan: {_first(error)}; {_AGAIN}") from error
    return SavedPlan(
        topology=whole.desired,
        wishes=Wishes(whole.prune, frozenset(whole.accepted_policies)),
        cluster_name=whole.broker.cluster_name,
        vhost=whole.broker.vhost,
        fingerprint=whole.fingerprint,
        changes=tuple(whole.changes),
    )


def _no_number(word: str) -> NoReturn:
    message = f"{word} is no number of JSON"
    raise ValueError(message)


def _require_sane(saved: object) -> None:
    """Look at every level without recursion."""
    level = [saved]
    for _ in range(_DEEPEST):
        if any(isinstance(each, float) and not math.isfinite(each) for each in level):
            raise StalePlan(f"this is no plan: it holds a number that is too large; {_AGAIN}")
        level = [
            inner
            for each in level
            if isinstance(each, Mapping | list)
            for inner in (each.values() if isinstance(each, Mapping) else each)
        ]
        if not level:
            return
    raise StalePlan(f"this is no plan: it is nested too deeply; {_AGAIN}")


def _first(error: ValidationError) -> str:
    fault = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, fault['loc']))}: {fault['msg'].lower()}"


def require_fresh(saved: SavedPlan, plan: Plan, actual: Actual, broker: BrokerInfo) -> None:
    """Check that a saved plan is what would be planned now for this broker; raises StalePlan."""
    here = (broker.cluster_name, actual.topology.vhost)
    if here != (saved.cluster_name, saved.vhost):
        there = f'vhost "{saved.vhost}" of cluster "{saved.cluster_name}"'
        raise StalePlan(f'the plan is for {there}, the connection for vhost "{here[1]}" of "{here[0]}"')
    if fingerprint(saved.topology, actual, saved.wishes) != saved.fingerprint:
        raise StalePlan(f"stale plan: the broker has changed since it was made, or the file has; {_AGAIN}")
    now = document(plan)["changes"]
    if _text(now) != _text(list(saved.changes)):
        raise StalePlan(f"stale plan: what is in it is not what would be done now; {_AGAIN}")


def _sorted(objects: Iterable[DeclaredObject]) -> list[str]:
    return sorted(f"{type(each).__name__} {_text(each)}" for each in objects)


def _text(value: object) -> str:
    return json.dumps(plain(value), sort_keys=True, ensure_ascii=False, default=str)
