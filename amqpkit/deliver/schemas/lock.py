"""The lock: the schemas that messages in queues may have been written under, against those of the code.

Pure: it is handed documents and classes, and gives findings.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from amqpkit.deliver.payload import Payload
from amqpkit.deliver.schemas.changes import Change, changes
from amqpkit.deliver.schemas.document import ABOUT, schema_document
from amqpkit.deliver.schemas.nodes import Node
from amqpkit.errors import ConsumerError

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Finding:
    """What has changed in one version of one type."""

    type: str
    version: int
    change: Change

    def as_json(self) -> dict[str, Any]:
        """The finding as `--json` gives it."""
        verdicts = {
            side: {"verdict": "breaking" if reason else "compatible", "reason": reason}
            for side, reason in (("consumers", self.change.consumers), ("producers", self.change.producers))
        }
        named = asdict(self.change)
        return {"type": self.type, "version": self.version, "path": named["path"], "what": named["what"], **verdicts}


def versions(classes: Iterable[type[Payload]]) -> dict[Key, type[Payload]]:
    """Every version of every type, older ones by their chain; raises ConsumerError when two do not belong together."""
    newest: dict[str, type[Payload]] = {}
    found = list(dict.fromkeys(classes))
    for cls in sorted(found, key=lambda each: each.payload_version):
        newest[cls.payload_type] = cls
    for cls in found:
        last = newest[cls.payload_type]
        if last.payload_versions.get(cls.payload_version) is not cls:
            msg = (
                f'{cls.__name__} and {last.__name__} both have type "{cls.payload_type}", and {last.__name__} does not '
                f"lead back to {cls.__name__}: name it as previous="
            )
            raise ConsumerError(msg)
    return {(type_, number): cls for type_, last in newest.items() for number, cls in last.payload_versions.items()}


def read_key(document: Mapping[str, Any]) -> Key | None:
    """The type and version that a locked document says it is of, None when it is not one of ours."""
    about = document.get(ABOUT)
    if not isinstance(about, Mapping):
        return None
    type_, version = about.get("type"), about.get("version")
    if isinstance(type_, str) and isinstance(version, int) and not isinstance(version, bool):
        return type_, version
    return None


def check(locked: Mapping[Key, Node], code: Mapping[Key, type[Payload]]) -> tuple[Finding, ...]:
    """Compare the code's schemas with the locked ones; findings in the order of types and versions."""
    last = {type_: max(version for other, version in code if other == type_) for type_, _ in code}
    findings: list[Finding] = []
    for key in sorted({*locked, *code}):
        if key not in code:
            gone = "messages of this version can no longer be read"
            findings.append(Finding(*key, Change("$", "version removed", consumers=gone)))
        elif key not in locked:
            findings.append(Finding(*key, Change("$", "new version, not locked yet")))
        else:
            document = schema_document(code[key])
            found = changes(locked[key], document, produced=last[key[0]] == key[1])
            if not found and document != locked[key]:
                found = (Change("$", "only names, descriptions or order differ"),)
            findings += [Finding(*key, change) for change in found]
    return tuple(findings)
