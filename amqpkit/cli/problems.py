"""Many problems for people: those that a screen or two can hold, and how many there are."""

from collections.abc import Sequence
from typing import Final

MOST: Final = 100
"""A definitions file with one exchange too few has a problem in each of its bindings, which may be 50,000."""


def listed(problems: Sequence[object]) -> str:
    """Write problems one per line, the first hundred of them."""
    lines = [str(problem) for problem in problems[:MOST]]
    if left := len(problems) - len(lines):
        lines.append(f"… and {left:,} more; `amqpkit validate --json` names them all")
    return "\n".join(lines)
