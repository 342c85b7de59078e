"""The rule about secrets in a file, comments included. Pure.

Looks at the text as it stands: what a `${VARIABLE}` brings is not in the file. Never shows what it found.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from amqpkit.declare.lint.findings import Placed, Rule, Severity
from amqpkit.declare.spec.tree import Place

SECRET = Rule(
    "AK801",
    "secret-in-file",
    Severity.ERROR,
    "A password or a key in the file",
    "A topology file is read by everybody who can read the repository, and stays in its history. Take it "
    "out, change it "
    "where it is valid, and write `${VARIABLE}`. The finding does not repeat the secret.",
    bad="work_queues:\n  jobs: {limits: {depth: 9}, dead_letter: {runbook: "
    '"https://admin:hunter2secret@wiki.example.com/"}}\n',
    good='work_queues:\n  jobs: {limits: {depth: 9}, dead_letter: {runbook: "https://wiki.example.com/"}}\n',
)
RULES: Final = (SECRET,)
_NOT_A_VARIABLE: Final = r"(?!\$\{|\*{3}|<|xxx)"
_PATTERNS: Final = (
    (
        "a URL with a password",
        re.compile(rf"\b[a-z][a-z0-9+.-]*://[^\s/:@\"']*:{_NOT_A_VARIABLE}[^\s/@\"']+@", re.IGNORECASE),
    ),
    (
        "a password or token",
        re.compile(
            rf"""(?:password|passwd|secret|token|api[-_]?key|private[-_]?key)["']?\s*[:=]\s*["']?"""
            rf"""{_NOT_A_VARIABLE}[^\s"',}}\]#]{{6,}}""",
            re.IGNORECASE,
        ),
    ),
    ("a private key", re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")),
    ("an access key", re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b")),
    (
        "a token",
        re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|xox[abprs]-[A-Za-z0-9-]{10,}|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.)"),
    ),
)


def secrets(texts: Iterable[tuple[str, str]]) -> Iterator[Placed]:
    """Find what looks like a secret, once per line."""
    for order, (file, text) in enumerate(texts):
        for number, line in enumerate(text.splitlines(), start=1):
            for what, pattern in _PATTERNS:
                if found := pattern.search(line):
                    place = Place(order, number, found.start() + 1, file)
                    remedy = "take it out, change it where it is valid, and write ${VARIABLE}"
                    yield Placed(SECRET, place, "", f"this line holds {what}", remedy)
                    break
