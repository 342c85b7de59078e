"""`amqpkit graph`."""

import os
import sys
from pathlib import Path
from typing import Annotated, Final, Literal

from cyclopts import Parameter

from amqpkit.cli.connect import AdminOptions, administered
from amqpkit.cli.files import topology_files
from amqpkit.cli.usage import UsageError
from amqpkit.cli.written import deliver, refuse_to_overwrite
from amqpkit.declare.graph.dot import dot
from amqpkit.declare.graph.mermaid import mermaid
from amqpkit.declare.graph.page import page
from amqpkit.declare.graph.picture import Picture, picture
from amqpkit.declare.load import load_topology
from amqpkit.errors import AmqpkitError
from amqpkit.model import Topology

Format = Literal["mermaid", "dot", "svg", "html"]
_ENDINGS: Final[dict[str, Format]] = {".mmd": "mermaid", ".dot": "dot", ".gv": "dot", ".svg": "svg", ".html": "html"}


async def graph(
    *files: Path,
    format: Annotated[Format | None, Parameter(show_default=False)] = None,  # noqa: A002 - the command's word
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    force: Annotated[bool, Parameter(negative=())] = False,
    live: Annotated[bool, Parameter(negative=())] = False,
    connection: AdminOptions | None = None,
) -> int:
    """Draw a topology: messages, exchanges, queues, retry ladders, dead letters.

    Exit codes: 0 drawn; 1 failed.

    Parameters
    ----------
    files
        Topology files, laid over each other in order (default: topology.yaml, or the one in topology/).
    format
        mermaid (the default) for Markdown, dot for Graphviz, svg (needs amqpkit[graph] and Graphviz's program `dot`),
        html for one file that needs nothing else. Without it, --out's ending says which.
    out
        Write there instead of to stdout.
    force
        Let --out replace a file.
    live
        Draw what a broker has instead of files.
    connection
        Which broker, with --live.
    """
    if live and files:
        msg = "graph draws the files or, with --live, the broker: give one of the two"
        raise UsageError(msg)
    refuse_to_overwrite(out, force=force)
    how = format or (_ENDINGS.get(out.suffix) if out else None) or "mermaid"
    if live:
        topology = await _read(connection or AdminOptions())
        title = f"vhost {topology.vhost}"
    else:
        paths = topology_files(files)
        topology, title = load_topology(*paths, environ=os.environ), " + ".join(map(str, paths))
    text = _written(picture(topology), how, title)
    deliver(text, out)
    if out is not None:
        print(f"{out}: {how}, {len(topology.exchanges)} exchanges, {len(topology.queues)} queues", file=sys.stderr)
    return 0


async def _read(connection: AdminOptions) -> Topology:
    async with administered(connection.place()) as (admin, _):
        return await admin.read()


def _written(drawn: Picture, how: Format, title: str) -> str:
    match how:
        case "mermaid":
            return mermaid(drawn)
        case "dot":
            return dot(drawn)
        case "svg":
            return _svg(dot(drawn))
        case _:
            return page(drawn, title)


def _svg(text: str) -> str:
    try:
        import graphviz  # type: ignore[import-untyped]
    except ImportError as error:
        msg = "--format svg needs the extra `graph`: pip install 'amqpkit[graph]'; --format html needs nothing"
        raise AmqpkitError(msg) from error
    try:
        return str(graphviz.Source(text).pipe(format="svg", encoding="utf-8"))
    except graphviz.ExecutableNotFound as error:
        msg = "--format svg needs Graphviz's program `dot` (Debian's package graphviz); --format html needs nothing"
        raise AmqpkitError(msg) from error
