"""Durations, sizes and rates as people write them, and their one canonical spelling.

Pure: knows nothing of files, brokers or clocks.
"""

import re
from decimal import Decimal
from typing import Final

_MILLISECONDS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_BYTES: Final = {
    "B": 1,
    "KiB": 1024,
    "MiB": 1024**2,
    "GiB": 1024**3,
    "TiB": 1024**4,
    "kB": 1000,
    "KB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "TB": 1000**4,
}
_QUANTITY: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*")
_PERCENT: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")
_RATE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*/\s*(s|m|h|d)\s*")


def parse_duration(text: str) -> int:
    """Read `30s`, `2m`, `1h`, `7d` or `1500ms` as milliseconds; raises ValueError that says what to write."""
    match = _QUANTITY.fullmatch(text)
    unit = match and _MILLISECONDS.get(match[2])
    if not match or not unit:
        raise ValueError(_duration_advice(text))
    exact = Decimal(match[1]) * unit  # a float would make 1.001s a fraction of a millisecond
    if exact != int(exact):
        msg = f"{text!r} is not a whole number of milliseconds"
        raise ValueError(msg)
    return int(exact)


def _duration_advice(text: str) -> str:
    if text.strip().isdigit():
        return f"{text.strip()} what? write {text.strip()}s (units: ms, s, m, h, d)"
    return f"{text!r} is not a duration; write 30s, 2m, 1h or 7d"


def format_duration(milliseconds: int) -> str:
    """Spell a duration with the largest unit that divides it: `90s`, `1m`, `28500ms`."""
    for unit, size in _MILLISECONDS.items():
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return "0s"


def parse_size(text: str) -> int:
    """Read `1GiB`, `500MB` or `64KiB` as bytes; raises ValueError that says what to write."""
    match = _QUANTITY.fullmatch(text)
    unit = match and _BYTES.get(match[2])
    if not match or not unit:
        msg = f"{text!r} is not a size; write 64KiB, 10MiB or 1GiB"
        raise ValueError(msg)
    return int(Decimal(match[1]) * unit)


def parse_rate(text: str) -> float:
    """Read `50/s` or `600/m` as events per second; raises ValueError that says what to write."""
    match = _RATE.fullmatch(text)
    if not match or float(match[1]) == 0:
        msg = f"{text!r} is not a rate; write 50/s or 600/m"
        raise ValueError(msg)
    return float(match[1]) * 1000 / _MILLISECONDS[match[2]]


def format_rate(rate: float) -> str:
    """Spell a rate in events per second so that `parse_rate` reads it back: `50/s`, `30/m`, `1/h`."""
    for unit in ("s", "m", "h", "d"):
        count = rate * _MILLISECONDS[unit] / 1000
        if count == int(count):
            return f"{int(count)}/{unit}"
    return f"{rate:f}/s"


def parse_percent(text: str) -> float:
    """Read `10%` as 10.0; raises ValueError that says what to write."""
    match = _PERCENT.fullmatch(text)
    if not match:
        msg = f"{text!r} is not a percentage; write 10%"
        raise ValueError(msg)
    return float(match[1])
