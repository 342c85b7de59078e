"""What a rule is and what it finds. Pure."""

from dataclasses import dataclass
from enum import IntEnum

from amqpkit.declare.spec.tree import Path, Place


class Severity(IntEnum):
    """How bad it is; to compare."""

    INFO = 1
    WARNING = 2
    ERROR = 3

    @property
    def word(self) -> str:
        """The severity as people write it."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its stable code, what it says in a line, and why; `bad` breaks it, `good` does not.

    Examples leave out the line `version: 1`. `why` ends with what was measured or read, and where.
    """

    code: str
    name: str
    severity: Severity
    title: str
    why: str
    bad: str = ""
    good: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule broken at `loc`: at the key itself with `key`, else at its value; `address` is the object's."""

    rule: Rule
    loc: Path
    address: str
    message: str
    remedy: str
    key: bool = False


@dataclass(frozen=True, slots=True)
class Placed:
    """A finding where it stands in the files."""

    rule: Rule
    place: Place
    address: str
    message: str
    remedy: str

    @property
    def severity(self) -> Severity:
        """The rule's."""
        return self.rule.severity

    @property
    def text(self) -> str:
        """What is wrong and what to do, in one line."""
        return f"{self.message}; {self.remedy}" if self.remedy else self.message
