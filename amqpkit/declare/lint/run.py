"""Texts to findings at their places. Pure: opens nothing."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from amqpkit.declare.compiler import compile_topology
from amqpkit.declare.lint.catalogue import CHECKS, REFUSED
from amqpkit.declare.lint.findings import Finding, Placed, Severity
from amqpkit.declare.lint.subject import NEWEST, Subject
from amqpkit.declare.lint.suppression import NO_REASON, UNUSED, Suppression, suppressions
from amqpkit.declare.spec.parsing import read
from amqpkit.declare.spec.tree import Node, Path, Place, place_of, walk
from amqpkit.model import Topology

Check = Callable[[Subject], Iterator[Finding]]
NO_CHECKS: Final[tuple[Check, ...]] = ()


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
    live: Iterable[Check] = NO_CHECKS,
) -> Report:
    """Lint one topology, given as (file name, text) pairs that are laid over each other.

    `version` is the RabbitMQ that it is for, `allowed` are plugins' arguments, `live` are checks that know a broker.
    A file that cannot be compiled is a finding too; what can be judged of it nevertheless is.
    """
    reading = read(texts, environ)
    refused = [Placed(REFUSED, fault.place, "", fault.message, "") for fault in reading.faults]
    if reading.spec is None or reading.root is None:
        return Report(tuple(refused))
    topology = compile_topology(reading.spec)
    subject = Subject(reading.spec, topology, tuple(texts), version, frozenset(allowed))
    faulty = {fault.place for fault in reading.faults}  # one mistake, one line
    found = [finding for check in (*CHECKS, *live) for finding in check(subject)]
    kept, silenced, used = _silenced(reading.root, reading.files, found, list(suppressions(texts)), faulty)
    placed = sorted({*refused, *kept, *used}, key=_order)
    return Report(tuple(placed), silenced, None if reading.faults else topology)


def _order(finding: Placed) -> tuple[Place, str, str]:
    return finding.place, finding.rule.code, finding.message


def _silenced(
    root: Node, files: tuple[Node, ...], found: list[Finding], comments: list[Suppression], faulty: set[Place]
) -> tuple[list[Placed], int, list[Placed]]:
    """Split findings into those that stand and a count of those silenced; comments with a fault are findings."""
    by_line = {(comment.place.order, comment.line): comment for comment in comments if comment.is_valid}
    used: set[tuple[Suppression, str]] = set()
    kept: list[Placed] = []
    silenced = 0
    for finding in found:
        place = place_of(root, finding.loc, key=finding.key)
        comment = _comment_for(files, finding, place, by_line)
        if comment is not None:
            used.add((comment, finding.rule.code))
            silenced += 1
        elif place not in faulty:
            kept.append(Placed(finding.rule, place, finding.address, finding.message, finding.remedy))
    return kept, silenced, list(_faults_of(comments, used))


def _comment_for(
    files: Iterable[Node], finding: Finding, place: Place, by_line: Mapping[tuple[int, int], Suppression]
) -> Suppression | None:
    if not by_line:
        return None
    code = finding.rule.code
    lines = [
        (place.order, place.line),
        *((at.order, at.line) for root in files for at in _places_along(root, finding.loc)),
    ]
    return next((by_line[line] for line in lines if line in by_line and code in by_line[line].codes), None)


def _places_along(root: Node, loc: Path) -> Iterator[Place]:
    """Give the lines of the names on the way; a whole section cannot be silenced."""
    for depth, (_, place, _) in enumerate(walk(root, loc)):
        if depth > 0:
            yield place


def _faults_of(comments: Iterable[Suppression], used: set[tuple[Suppression, str]]) -> Iterator[Placed]:
    for comment in comments:
        if not comment.is_valid:
            message = "this suppression names no rule" if not comment.codes else "this suppression does not say why"
            remedy = "write # amqpkit: ignore[AK102] and the reason"
            yield Placed(NO_REASON, comment.place, "", message, remedy)
            continue
        for code in sorted(comment.codes - {code for one, code in used if one is comment}):
            yield Placed(UNUSED, comment.place, "", f"{code} is not found here", "drop it from the suppression")
