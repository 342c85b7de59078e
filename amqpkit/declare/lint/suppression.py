"""Comments that silence a rule: `# amqpkit: ignore[AK301] reason`. Pure.

A comment speaks for its line; on the line of a name it speaks for all that stands below that name; alone on a line it
speaks for the next line that holds something.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from amqpkit.declare.lint.findings import Placed, Rule, Severity
from amqpkit.declare.spec.document import quoted_spans
from amqpkit.declare.spec.tree import Place

_COMMENT: Final = re.compile(
    r"(?:^|(?<=[ \t]))#[ \t]*amqpkit:[ \t]*ignore\b[ \t]*(?:\[([^\]\n]*)\])?([^\n]*)", re.MULTILINE
)

NO_REASON = Rule(
    "AK901",
    "suppression-without-reason",
    Severity.WARNING,
    "A suppression that does not say why",
    "Whoever reads it next year cannot tell whether it still holds. It silences nothing until it has a reason and the "
    "codes that it is about.",
    bad="queues:\n  jobs: {arguments: {x-colour: red}}  # amqpkit: ignore[AK102]\n",
    good="queues:\n  jobs: {arguments: {x-colour: red}}  # amqpkit: ignore[AK102] read by our plugin\n",
)
UNUSED = Rule(
    "AK902",
    "suppression-unused",
    Severity.WARNING,
    "A suppression that silences nothing",
    "The rule is not broken here (any more), or has no such code. Left standing, it would hide the next mistake.",
    bad="queues:\n  jobs: {arguments: {x-max-length: 9, x-overflow: reject-publish}}  "
    "# amqpkit: ignore[AK102] read by our plugin\n",
    good="queues:\n  jobs: {arguments: {x-colour: red}}  # amqpkit: ignore[AK102] read by our plugin\n",
)
RULES: Final = (NO_REASON, UNUSED)


@dataclass(frozen=True, slots=True)
class Suppression:
    """One comment: where it stands, the line that it speaks for, which rules, and why."""

    place: Place
    line: int
    codes: frozenset[str]
    reason: str

    @property
    def is_valid(self) -> bool:
        """Whether it names rules and says why."""
        return bool(self.codes and self.reason)


def suppressions(texts: Iterable[tuple[str, str]]) -> Iterator[Suppression]:
    """Find the comments of all files; what stands inside a quoted or block text is no comment."""
    for order, (file, text) in enumerate(texts):
        found = list(_COMMENT.finditer(text))
        if not found:
            continue
        spans = quoted_spans(text)
        for match in found:
            if any(first <= match.start() < last for first, last in spans):
                continue
            codes = frozenset(code.strip().upper() for code in (match[1] or "").split(",") if code.strip())
            before = text[: match.start()]
            line, column = before.count("\n") + 1, match.start() - before.rfind("\n")
            place = Place(order, line, column, file)
            yield Suppression(place, _spoken_for(text, line), codes, match[2].strip(" \t\r:-"))


def silence(
    located: Iterable[tuple[Placed, frozenset[tuple[int, int]]]],
    comments: Sequence[Suppression],
    unjudged: frozenset[str] = frozenset(),
) -> tuple[list[Placed], int]:
    """Keep what no comment speaks for, add the comments' own faults, and count what was silenced.

    A finding comes with the lines (file, line) on which a comment may speak for it. `unjudged` are codes that nobody
    looked for, so that a comment for them is not idle.
    """
    speaking: dict[tuple[int, int], list[Suppression]] = defaultdict(list)
    for comment in comments:
        if comment.is_valid:
            speaking[comment.place.order, comment.line].append(comment)
    used: set[tuple[Suppression, str]] = set()
    kept: list[Placed] = []
    silenced = 0
    for finding, lines in located:
        near = (comment for line in lines & speaking.keys() for comment in speaking[line]) if speaking else ()
        speaks = [comment for comment in near if finding.rule.code in comment.codes]
        used.update((comment, finding.rule.code) for comment in speaks)
        silenced += bool(speaks)
        if not speaks:
            kept.append(finding)
    return [*kept, *_faults_of(comments, used, unjudged)], silenced


def _faults_of(
    comments: Iterable[Suppression], used: set[tuple[Suppression, str]], unjudged: frozenset[str]
) -> Iterator[Placed]:
    for comment in comments:
        if not comment.is_valid:
            message = "this suppression does not say why" if comment.codes else "this suppression names no rule"
            remedy = "write # amqpkit: ignore[AK102] and the reason"
            yield Placed(NO_REASON, comment.place, "", message, remedy)
            continue
        for code in sorted(comment.codes - unjudged):
            if (comment, code) not in used:
                yield Placed(UNUSED, comment.place, "", f"{code} is not found here", "drop it from the suppression")


def _spoken_for(text: str, line: int) -> int:
    lines = text.splitlines()
    if not lines[line - 1].lstrip().startswith("#"):
        return line
    below = (at for at in range(line, len(lines)) if lines[at].strip() and not lines[at].lstrip().startswith("#"))
    return next(below, line - 1) + 1
