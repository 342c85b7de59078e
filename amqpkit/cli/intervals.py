"""How often a command looks again."""

from typing import Annotated, Final

from cyclopts import Parameter

SHORTEST: Final = 0.01
LONGEST: Final = 86_400.0


def _check(_type: object, seconds: float) -> None:
    if not SHORTEST <= seconds <= LONGEST:  # which NaN is not either
        msg = f"must be from {SHORTEST:g} to {LONGEST:.0f} seconds"
        raise ValueError(msg)


Every = Annotated[float, Parameter(validator=_check)]
"""Seconds between two looks."""
