"""Policy keys that RabbitMQ 4 refuses, and with them the whole file that holds them. Pure."""

from collections.abc import Iterable
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from amqpkit.declare.importing.found import Note
from amqpkit.model import Policy

_MIRRORING: Final = "ha-"
_PLACING: Final = "queue-master-locator"
"""4.0 still takes it, so a file from there keeps it; 4.3 refuses it."""
_FIRST_WITHOUT: Final = 4


def without_removed(policies: Iterable[Policy], version: str) -> tuple[list[Policy], list[Note]]:
    """Drop what RabbitMQ 4 has no word for, policies that then are empty too, and say so.

    `version` is the RabbitMQ that wrote the definitions; empty when they do not say.
    """
    major = version.partition(".")[0]
    old = not (major.isdigit() and int(major) >= _FIRST_WITHOUT)
    kept: list[Policy] = []
    told: list[Note] = []
    for policy in policies:
        gone = [key for key in policy.definition if key.startswith(_MIRRORING) or (old and key == _PLACING)]
        rest = {key: value for key, value in policy.definition.items() if key not in gone}
        if rest:
            kept.append(replace(policy, definition=MappingProxyType(rest)) if gone else policy)
        if gone or not rest:
            told.append(_note(policy, gone, empty=not rest))
    return kept, told


def _note(policy: Policy, gone: list[str], *, empty: bool) -> Note:
    what = f"without {', '.join(sorted(gone))}, which RabbitMQ 4 does not have" if gone else "it is empty"
    if empty and gone:
        what = f"left out: it has only {', '.join(sorted(gone))}, which RabbitMQ 4 does not have"
    advice = ""
    if any(key.startswith(_MIRRORING) for key in gone):
        advice = f"; queues that match {policy.pattern} were mirrored: quorum queues replicate, consider them"
    return Note("changed", f"policy {policy.name}", what + advice)
