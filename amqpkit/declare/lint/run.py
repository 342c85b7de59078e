"""Texts to findings at their places. Pure: opens nothing."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from amqpkit.declare.compiler import compile_topology
from amqpkit.declare.lint.catalogue import CHECKS, LIVE_RULES, REFUSED
from amqpkit.declare.lint.findings import Finding, Placed, Severity
from amqpkit.declare.lint.secrets import secrets
from amqpkit.declare.lint.subject import NEWEST, Subject
from amqpkit.declare.lint.suppression import silence, suppressions
from amqpkit.declare.spec.parsing import Reading, read
from amqpkit.declare.spec.tree import Node, Path, Place, place_of, walk
from amqpkit.model import Topology

Check = Callable[[Subject], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class Report:
    """What lint found, in the order of the files, and the topology if it could be compiled."""

    findings: tuple[Placed, ...]
    suppressed: int = 0
    topology: Topology | None = None

    def at_least(self, severity: Severity) -> tuple[Placed, ...]:
        """Give the findings of a severity and above."""
        return tuple(finding for finding in self.findings if finding.severity >= severity)

    def count(self, severity: Severity) -> int:
        """Count the findings of one severity."""
        return sum(finding.severity is severity for finding in self.findings)


def lint(
    texts: Sequence[tuple[str, str]],
    environ: Mapping[str, str],
    *,
    version: tuple[int, int] = NEWEST,
    allowed: Iterable[str] = (),
    live: Sequence[Check] = (),
) -> Report:
    """Lint one topology, given as (file name, text) pairs that are laid over each other.

    `version` is the RabbitMQ that it is for, `allowed` are plugins' arguments, `live` are checks that know a broker.
    A file that cannot be compiled is a finding too; what can be judged of it nevertheless is.
    """
    reading = read(texts, environ)
    located = [(each, _line(each.place)) for each in (*_refused(reading), *secrets(texts))]
    topology = None
    if reading.spec is not None and reading.root is not None:
        topology = compile_topology(reading.spec)
        subject = Subject(reading.spec, topology, version, frozenset(allowed))
        faulty = {fault.place for fault in reading.faults}  # one mistake, one line
        found = [finding for check in (*CHECKS, *live) for finding in check(subject)]
        located += [each for each in _located(reading.root, reading.files, found) if each[0].place not in faulty]
    unjudged = frozenset() if live else frozenset(LIVE_RULES)
    kept, silenced = silence(located, tuple(suppressions(texts)), unjudged)
    return Report(tuple(sorted(set(kept), key=_order)), silenced, None if reading.faults else topology)


def _refused(reading: Reading) -> Iterator[Placed]:
    for fault in reading.faults:
        yield Placed(REFUSED, fault.place, "", fault.message, "")


def _located(
    root: Node, files: tuple[Node, ...], found: Iterable[Finding]
) -> Iterator[tuple[Placed, frozenset[tuple[int, int]]]]:
    """Place each finding, and say the lines on which a comment may speak for it."""
    for finding in found:
        place = place_of(root, finding.loc, key=finding.key)
        along = (_line(at) for file in files for at in _places_along(file, finding.loc))
        placed = Placed(finding.rule, place, finding.address, finding.message, finding.remedy)
        yield placed, _line(place).union(*along)


def _line(place: Place) -> frozenset[tuple[int, int]]:
    return frozenset({(place.order, place.line)})


def _places_along(root: Node, loc: Path) -> Iterator[Place]:
    """Give the lines of the names on the way; a whole section cannot be silenced."""
    for depth, (_, place, _) in enumerate(walk(root, loc)):
        if depth > 0:
            yield place


def _order(finding: Placed) -> tuple[Place, str, str]:
    return finding.place, finding.rule.code, finding.message
