"""The folder of locked schemas: one file for each version of each payload."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from amqpkit.deliver.payload import Payload
from amqpkit.deliver.schemas.document import file_name, schema_document, text_of
from amqpkit.deliver.schemas.lock import Key, read_key
from amqpkit.errors import AmqpkitError


def read_lock(folder: Path) -> dict[Key, Mapping[str, Any]]:
    """Read every locked schema; a folder that is not there holds none. Raises AmqpkitError naming a bad file."""
    found: dict[Key, Mapping[str, Any]] = {}
    for path in sorted(folder.glob("*.json")):
        document = _read(path)
        key = read_key(document)
        if key is None:
            msg = f"{path}: not a locked schema (x-amqpkit does not say which type and version it is of)"
            raise AmqpkitError(msg)
        if key in found:
            msg = f'{path}: a second schema of "{key[0]}" version {key[1]}'
            raise AmqpkitError(msg)
        found[key] = document
    return found


def _read(path: Path) -> Mapping[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        msg = f"{path}: cannot be read: {error}"
        raise AmqpkitError(msg) from error
    return document if isinstance(document, Mapping) else {}


def write_lock(folder: Path, code: Mapping[Key, type[Payload]]) -> int:
    """Write the schemas whose file is not equal already; says how many. Raises AmqpkitError."""
    written = 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for key, cls in sorted(code.items()):
            path, text = folder / file_name(*key), text_of(schema_document(cls))
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")
                written += 1
    except OSError as error:
        msg = f"{folder}: cannot be written: {error}"
        raise AmqpkitError(msg) from error
    return written
