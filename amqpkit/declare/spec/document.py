"""YAML text to a tree of places, and plain values back to YAML; the only module that knows ruamel.

Pure: gets texts and a mapping of variables, opens nothing.
"""

import io
import math
import re
from collections.abc import Mapping
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode
from ruamel.yaml.tokens import ScalarToken

from amqpkit.declare.spec.tree import Entry, Fault, Node, Place

_TAG: Final = "tag:yaml.org,2002:"
_MERGE: Final = f"{_TAG}merge"
_VARIABLE: Final = re.compile(r"\$\$\{|\$\{([^{}]*)\}|\$\{")
_NAME: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_INT64: Final = range(-(2**63), 2**63)


def read(file: str, order: int, text: str, environ: Mapping[str, str]) -> tuple[Node | None, list[Fault]]:
    """Parse one YAML 1.2 document whose root is a mapping; None when there is no such tree.

    `${VAR}` and `${VAR:-default}` in scalars are replaced from `environ`; `$${` stands for a literal `${`.
    """
    reader = _Reader(file, order, environ)
    try:
        root = reader.yaml.compose(text)
        if root is None:
            reader.fault(1, 1, "the file is empty; a topology starts with `version: 1`")
        elif not isinstance(root, MappingNode):
            reader.fault_at(root, "a topology is a mapping; start with `version: 1`")
        else:
            return reader.node(root, ()), reader.faults
    except MarkedYAMLError as error:
        reader.syntax(error)
    except YAMLError as error:  # the stream itself: characters that YAML does not allow
        reader.unreadable(text, error)
    except RecursionError:
        reader.fault(1, 1, "the file is nested too deeply")
    return None, reader.faults


def to_yaml(data: Any) -> str:
    """Write dicts, lists and scalars as YAML 1.2 that `read` reads back; keys keep their order."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment] # ruamel annotates None only
    yaml.allow_unicode = True
    yaml.width = 4096
    out = io.StringIO()
    yaml.dump(data, out)
    return out.getvalue()


class _Reader:
    """Turns ruamel's nodes into ours and collects faults on the way."""

    def __init__(self, file: str, order: int, environ: Mapping[str, str]) -> None:
        self.file, self.order, self.environ = file, order, environ
        self.faults: list[Fault] = []
        self.yaml = YAML(typ="safe", pure=True)

    def place(self, mark: Any) -> Place:
        return Place(self.order, mark.line + 1, mark.column + 1, self.file)

    def fault(self, line: int, column: int, message: str) -> None:
        self.faults.append(Fault(Place(self.order, line, column, self.file), message))

    def fault_at(self, node: Any, message: str) -> None:
        self.faults.append(Fault(self.place(node.start_mark), message))

    def syntax(self, error: MarkedYAMLError) -> None:
        mark = error.problem_mark or error.context_mark
        problem = str(error.problem or error.context)
        if r"'\t'" in problem:
            problem = "a tab cannot indent YAML; use spaces"
        elif "expected ',' or '}', but got '{'" in problem:
            problem += "; put a value with braces in quotes"
        elif "but found another document" in problem:
            problem = "a second document starts here; write one document per file"
        context = f" ({error.context})" if error.context and error.problem and "tab" not in problem else ""
        self.fault(mark.line + 1, mark.column + 1, f"not YAML: {problem}{context}")

    def unreadable(self, text: str, error: YAMLError) -> None:
        position = getattr(error, "position", 0)
        before = text[:position]
        column = position - (before.rfind("\n") + 1) + 1
        character = ord(text[position]) if position < len(text) else 0
        self.fault(before.count("\n") + 1, column, f"not YAML: the character U+{character:04X} is not allowed")

    def node(self, node: Any, above: tuple[int, ...]) -> Node:
        place = self.place(node.start_mark)
        if id(node) in above:
            self.fault_at(node, "this value contains itself through an alias")
            return Node(place, None)
        match node:
            case MappingNode():
                return Node(place, self.mapping(node, (*above, id(node))))
            case SequenceNode():
                return Node(place, [self.node(item, (*above, id(node))) for item in node.value])
            case _:
                return Node(place, self.scalar(node))

    def mapping(self, node: MappingNode, above: tuple[int, ...]) -> dict[str, Entry]:
        entries: dict[str, Entry] = {}
        inherited: dict[str, Entry] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                inherited = {**self.inherited(value_node, above), **inherited}
                continue
            if not isinstance(key_node, ScalarNode):
                self.fault_at(key_node, "a key must be a single word or name")
                continue
            key = self.substituted(key_node)
            if key in entries:
                self.fault_at(key_node, f'"{key}" is already given on line {entries[key].key.line}')
                continue
            entries[key] = Entry(self.place(key_node.start_mark), key, self.node(value_node, above))
        return {**inherited, **entries}

    def inherited(self, node: Any, above: tuple[int, ...]) -> dict[str, Entry]:
        sources = node.value if isinstance(node, SequenceNode) else [node]
        entries: dict[str, Entry] = {}
        for source in sources:
            value = self.node(source, above).value
            if not isinstance(value, dict):
                self.fault_at(source, "`<<` merges mappings only")
                continue
            entries = {**value, **entries}
        return entries

    def scalar(self, node: Any) -> Any:
        text = self.substituted(node)
        tag = node.tag
        if text != node.value and not node.style:  # plain text is typed by what it became
            tag = self.yaml.resolver.resolve(ScalarNode, text, (True, False))
        try:
            return scalar_value(str(tag), text)
        except ValueError as error:
            self.fault_at(node, str(error))
            return None

    def substituted(self, node: Any) -> str:
        def value(match: re.Match[str]) -> str:
            if match[0] == "$${":
                return "${"
            name = _NAME.fullmatch(match[1] or "")
            if not name:
                self.fault_at(node, f"{match[0]!r} is not a variable; write ${{NAME}} or ${{NAME:-default}}")
                return ""
            found = self.environ.get(name[1])
            if found is None and name[2] is None:
                self.fault_at(node, f"variable {name[1]} is not set; set it or write ${{{name[1]}:-default}}")
            return found or name[2] or ""

        return _VARIABLE.sub(value, node.value)


def scalar_value(tag: str, text: str) -> Any:
    """Type a scalar by its resolved tag; raises ValueError for what a topology cannot hold."""
    match tag.removeprefix(_TAG):
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int":
            return _integer(text)
        case "float":
            return _real(text)
        case "str" | "timestamp" | "merge" | "value":  # a date is text to us
            return text
        case other:
            msg = f"the tag {other} is not supported"
            raise ValueError(msg)


def _integer(text: str) -> int:
    digits = text.replace("_", "")
    number = int(digits, 0) if digits.lstrip("+-")[:2] in {"0o", "0x", "0b"} else int(digits)
    if number not in _INT64:
        msg = f"{text} does not fit into 64 bits"
        raise ValueError(msg)
    return number


def _real(text: str) -> float:
    number = math.nan if text.lower() == ".nan" or "inf" in text.lower() else float(text.replace("_", ""))
    if not math.isfinite(number):
        msg = f"{text} is not a finite number"
        raise ValueError(msg)
    return number


def quoted_spans(text: str) -> list[tuple[int, int]]:
    """Say from where to where (character offsets) the scalars of a text reach: a `#` inside is no comment."""
    try:
        tokens = YAML(typ="safe", pure=True).scan(text)
        return [(token.start_mark.index, token.end_mark.index) for token in tokens if isinstance(token, ScalarToken)]
    except YAMLError:
        return []
