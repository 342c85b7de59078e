"""`amqpkit export asyncapi`."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from cyclopts import Parameter

from amqpkit.cli.files import topology_files
from amqpkit.cli.lockfiles import read_lock
from amqpkit.cli.modules import find_payloads
from amqpkit.cli.written import deliver, refuse_to_overwrite
from amqpkit.declare.export.asyncapi import asyncapi as exported
from amqpkit.declare.export.asyncapi import without_schema
from amqpkit.declare.load import load_topology
from amqpkit.declare.spec.document import to_yaml
from amqpkit.deliver.schemas.document import schema_document
from amqpkit.deliver.schemas.lock import Key, versions

LOCK: Final = Path("topology/schemas")


def asyncapi(  # noqa: PLR0913 - the command's options
    *files: Path,
    schemas: Path = LOCK,
    payloads: Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)] = (),
    title: Annotated[str | None, Parameter(show_default=False)] = None,
    release: str = "1.0.0",
    format: Literal["yaml", "json"] = "yaml",  # noqa: A002 - the command's word
    json_: Annotated[bool, Parameter(negative=())] = False,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"], show_default=False)] = None,
    force: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Write an AsyncAPI 3 document: what is received from which work queue, what is sent where, and how it looks.

    Every version of a payload that is locked is a message; without a schema a message has no payload, and stderr says
    so.

    Exit codes: 0 written; 1 failed.

    Parameters
    ----------
    files
        Topology files, laid over each other in order (default: topology.yaml, or the one in topology/).
    schemas
        The folder of the locked payload schemas, as `amqpkit schema export` writes it.
    payloads
        A module with Payload or Consumer classes, as in an import: package.module; its schemas go before the locked
        ones. May be given several times.
    title
        The document's title (default: the vhost, or the first file's name).
    release
        The version of what the document describes.
    format
        How to write it.
    json_
        Short for --format json.
    out
        Write there instead of to stdout.
    force
        Let --out replace a file.
    """
    refuse_to_overwrite(out, force=force)
    paths = topology_files(files)
    topology = load_topology(*paths, environ=os.environ)
    known = _schemas(schemas, payloads)
    document = exported(topology, known, title=title or topology.vhost or paths[0].stem, version=release)
    as_json = json_ or format == "json"
    deliver(json.dumps(document, indent=2, ensure_ascii=False) + "\n" if as_json else to_yaml(document), out)
    for name in without_schema(topology, known):
        advice = f"lock it with `amqpkit schema export MODULE --out {schemas}`, or name its module with --payloads"
        print(
            f"amqpkit: payload {name} has no schema in {schemas}: its message has no payload; {advice}", file=sys.stderr
        )
    return 0


def _schemas(folder: Path, modules: tuple[str, ...]) -> dict[Key, Mapping[str, Any]]:
    code = versions(cls for module in modules for cls in find_payloads(module))
    return {**read_lock(folder), **{key: schema_document(cls) for key, cls in code.items()}}
