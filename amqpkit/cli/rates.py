"""How fast, on a command line: one spelling for every command that has a `--rate`."""

import math
import re
from typing import Annotated, Final

from cyclopts import Parameter

from amqpkit.cli.usage import UsageError
from amqpkit.units import parse_rate

_NUMBER: Final = re.compile(r"\s*\d+(?:\.\d+)?\s*")

Rate = Annotated[
    str | None,
    Parameter(show_default=False, help="How fast at most: 20/s, 600/m, or a bare number of messages a second."),
]
"""The option; a file's rates always name their unit, a bare number is for whoever types."""


def rate_of(text: str | None) -> float | None:
    """Read --rate as messages a second; raises UsageError."""
    if text is None:
        return None
    try:
        rate = float(text) if _NUMBER.fullmatch(text) else parse_rate(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < math.inf:
        msg = f"--rate {text!r} is not a rate; write 20/s, 600/m, or a number of messages a second"
        raise UsageError(msg)
    return rate
