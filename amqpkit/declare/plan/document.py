"""A plan as plain data, as `--json` prints it and a saved plan keeps it; docs/plan-format.md describes it. Pure."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

from amqpkit.declare.identity import address
from amqpkit.declare.plan import changes as judged
from amqpkit.declare.plan.changes import Change, Create, Delete, Replace, Update, UpdateLossy
from amqpkit.declare.plan.extras import Kept
from amqpkit.declare.plan.obstacles import Obstacle
from amqpkit.declare.plan.planning import Plan, lossy
from amqpkit.declare.plan.promises import Promise
from amqpkit.model import DeclaredObject, Policy, Queue

FORMAT: Final = "1.0"
_ACTIONS: Final = {
    Create: ["create"],
    Update: ["update"],
    UpdateLossy: ["update"],
    Replace: ["delete", "create"],
    Delete: ["delete"],
}


def summary(plan: Plan) -> dict[str, int]:
    """Count what a plan does, as its last line does."""
    kinds = [type(change) for change in plan.changes]
    created = sum(judged.before(change) is None for change in plan.steps)
    return {
        "add": created,
        "change": len(plan.steps) - created - kinds.count(Delete),
        "may_drop": len(lossy(plan)),
        "replace": len(plan.replaces),
        "delete": kinds.count(Delete),
        "unchanged": plan.unchanged,
        "extra": len(plan.extras),
        "kept": len(plan.kept),
        "obstacles": len(plan.obstacles),
    }


def summary_line(plan: Plan) -> str:
    """Sum a plan up in one line."""
    counts = summary(plan)
    drops = f" ({counts['may_drop']} may drop messages)" if counts["may_drop"] else ""
    return (
        f"Plan: {counts['add']} to add, {counts['change']} to change{drops}, "
        f"{counts['replace']} to replace, {counts['delete']} to delete."
    )


def document(plan: Plan) -> dict[str, Any]:
    """Give a plan as dicts, lists and scalars."""
    return {
        "changes": [change_document(change, blocked=isinstance(change, Replace)) for change in plan.changes],
        "obstacles": [_obstacle(each) for each in plan.obstacles],
        "extras": [address(each) for each in plan.extras],
        "kept": [_kept(each) for each in plan.kept],
        "warnings": list(plan.warnings),
        "summary": summary(plan),
    }


def _kept(kept: Kept) -> dict[str, Any]:
    parts = {"parts": [address(each) for each in kept.parts]} if kept.parts else {}
    return {"address": kept.address, "reason": kept.reason, **parts}


def change_document(change: Change, *, blocked: bool = False) -> dict[str, Any]:
    """Give one change."""
    first = change.first if isinstance(change, UpdateLossy) else None
    return {
        "address": judged.address(change),
        "actions": _ACTIONS[type(change)],
        "before": _object(judged.before(change)),
        "after": _object(judged.after(change)),
        **({"first": _object(first)} if first else {}),
        **({"bindings": [address(each) for each in change.bindings]} if isinstance(change, Replace) else {}),
        "properties": [plain(each) for each in judged.differences_of(change)],
        "risk": judged.risk(change),
        "reason": judged.reason(change),
        "requires": list(judged.requires(change)),
        "blocked": blocked,
    }


def promise_document(promise: Promise) -> dict[str, Any]:
    """Give one work queue's promise."""
    document: dict[str, Any] = plain(promise)
    return document


def plain(value: Any) -> Any:
    """Turn frozen values into what JSON has."""
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


def _object(declared: DeclaredObject | None) -> Any:
    """Spell an object's keys as RabbitMQ's definitions do."""
    if declared is None:
        return None
    given = plain(declared)
    if isinstance(declared, Policy):
        given["apply-to"] = given.pop("apply_to")
    if isinstance(declared, Queue):
        given.pop("type")  # it is in the arguments
    return given


def _obstacle(obstacle: Obstacle) -> dict[str, Any]:
    return {
        "kind": obstacle.kind,
        "name": obstacle.name,
        "reason": obstacle.reason,
        "remedy": obstacle.remedy,
        "queues": list(obstacle.queues),
    }
