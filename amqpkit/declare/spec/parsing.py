"""Texts to a checked Spec, or every problem at its place.

Pure: gets texts and a mapping of variables, opens nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pydantic import ValidationError

from amqpkit.declare.spec import definitions, document
from amqpkit.declare.spec.checks import Finding, check
from amqpkit.declare.spec.format import SECTIONS, WORDS, Spec
from amqpkit.declare.spec.tree import (
    Fault,
    Node,
    Path,
    Spelling,
    merged,
    path_of,
    place_of,
    plain,
    pruned,
    spelled,
    walk,
)
from amqpkit.declare.spec.wording import where, without_tags, worded
from amqpkit.errors import Problem, TopologyError

_SPELLING: Final = Spelling(words=WORDS, named=SECTIONS, raw=("arguments",), hyphened=("definition",))


@dataclass(frozen=True, slots=True)
class Reading:
    """What could be read: `spec` whenever every value has its right shape, even if `faults` say what cannot be."""

    spec: Spec | None
    root: Node | None
    faults: tuple[Fault, ...]
    files: tuple[Node, ...] = ()
    """Each file's own tree, before they were laid over each other."""

    @property
    def vhost(self) -> str | None:
        """The vhost that the files name, if they can be read."""
        return self.spec.vhost if self.spec else None

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The faults, sorted by file and line, for people."""
        return tuple(Problem(str(fault.place), fault.message) for fault in self.faults)


def parse(texts: Iterable[tuple[str, str]], environ: Mapping[str, str]) -> Spec:
    """Read one topology from (file name, text) pairs, later ones laid over earlier ones.

    Mappings merge key by key, everything else is replaced. Raises TopologyError with every problem,
    sorted by file and line.
    """
    reading = read(texts, environ)
    if reading.faults or reading.spec is None:
        raise TopologyError(reading.problems)
    return reading.spec


def read(texts: Iterable[tuple[str, str]], environ: Mapping[str, str]) -> Reading:
    """Read as `parse` does, and give the places and the faults too instead of raising."""
    files, faults = _trees(texts, environ)
    root = reduce(merged, files) if files else None
    spec = None
    if root is not None:
        spec, shape_faults = _checked(root)
        known = {fault.place for fault in faults}  # what YAML made of a faulty value is no second fault
        faults += [fault for fault in shape_faults if fault.place not in known]
    return Reading(spec, root, tuple(sorted(set(faults))), files)


def _trees(texts: Iterable[tuple[str, str]], environ: Mapping[str, str]) -> tuple[tuple[Node, ...], list[Fault]]:
    roots: list[Node | None] = []
    faults: list[Fault] = []
    for order, (file, text) in enumerate(texts):
        root, found = definitions.read(file, order, text) or document.read(file, order, text, environ)
        faults += found
        if root is not None:
            root, found = spelled(root, _SPELLING)
            faults += found
        roots.append(root)
    whole = [root for root in roots if root is not None]
    if not whole or len(whole) < len(roots):  # what a broken file lacks would only cause false alarms
        return (), faults
    return tuple(whole), faults


def _checked(root: Node) -> tuple[Spec | None, list[Fault]]:
    try:
        spec = Spec.model_validate(plain(root))
    except ValidationError as error:
        errors = error.errors(include_url=False)
    else:
        return spec, [_fault(root, finding) for finding in check(spec)]
    faults = []
    for detail in errors:
        loc = without_tags(detail["loc"])
        at_key = detail["type"] == "extra_forbidden"
        faults.append(Fault(place_of(root, loc, key=at_key), worded(detail, _written(root, loc))))
    sound = _sound_part(root, [without_tags(detail["loc"]) for detail in errors])
    if sound is not None:
        faults += _checked_rest(sound)
    return None, faults


def _checked_rest(sound: Node) -> list[Fault]:
    try:
        spec = Spec.model_validate({**plain(sound), "version": 1})
    except ValidationError:  # the wrong values hid more: report those first
        return []
    return [_fault(sound, finding) for finding in check(spec)]


def _fault(root: Node, finding: Finding) -> Fault:
    text = finding.message if finding.key else f"{where(finding.loc)}: {finding.message}"
    return Fault(place_of(root, finding.loc, key=finding.key), text)


def _written(root: Node, loc: Path) -> str:
    """Find how the file spells the last key of `loc`."""
    *above, last = loc
    node = root
    for _, _, node in walk(root, above):  # noqa: B007 - the last one counts
        pass
    entry = node.value.get(last) if isinstance(node.value, dict) else None
    return entry.written if entry else str(last)


def _sound_part(root: Node, locs: Iterable[Path]) -> Node | None:
    """Cut away what has the wrong shape, so that the rest can be checked in the same run.

    None when a whole section is wrong: everything that refers to it would be a false alarm.
    """
    cuts: set[Path] = set()
    emptied: set[Path] = set()
    for path in (path_of(root, loc) for loc in locs):
        match path:
            case () | ("version" | "vhost" | "owns", *_):
                cuts.add(path[:1])
            case (_,):
                return None
            case (("exchanges" | "queues" | "work_queues"), _):
                emptied.add(path)
            case (_, _):
                cuts.add(path)
            case (_, _, "bindings", _, *_):
                cuts.add(path[:4])
            case _:
                cuts.add(path[:3])
    return pruned(root, cuts, emptied)
