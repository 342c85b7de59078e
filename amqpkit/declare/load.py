"""Topology files to a compiled Topology; the one module of this room that opens files."""

from collections.abc import Mapping
from pathlib import Path

from amqpkit.declare.compiler import compile_topology
from amqpkit.declare.spec.parsing import parse
from amqpkit.errors import Problem, TopologyError
from amqpkit.model import Topology


def load_topology(*paths: str | Path, environ: Mapping[str, str] | None = None) -> Topology:
    """Read topology files, lay later ones over earlier ones, check and compile them.

    `environ` gives the values of `${VAR}`; without it no variable is set. Raises TopologyError with
    every problem, each at its `file:line:column`, and ValueError when no path is given.
    """
    return compile_topology(parse(read_texts(*paths), environ or {}))


def read_texts(*paths: str | Path) -> list[tuple[str, str]]:
    """Read files as (name, text) pairs for the parser.

    Raises TopologyError that names every file that cannot be read, ValueError when no path is given.
    """
    if not paths:
        msg = "a topology needs at least one file"
        raise ValueError(msg)
    texts: list[tuple[str, str]] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            texts.append((str(path), _text(Path(path))))
        except TopologyError as error:
            problems.extend(error.problems)
    if problems:
        raise TopologyError(problems)
    return texts


def _text(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise TopologyError([Problem(str(path), f"cannot be read: {reason}")]) from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, error.start - (before.rfind(b"\n") + 1) + 1
        problem = Problem(f"{path}:{line}:{column}", f"not UTF-8: byte 0x{content[error.start]:02X}; save it as UTF-8")
        raise TopologyError([problem]) from error
