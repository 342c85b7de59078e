"""What an import starts from and what it has to tell. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from amqpkit.model import Topology

Kind = Literal["left-out", "changed", "unmanaged", "raw", "guess", "secret"]


@dataclass(frozen=True, slots=True)
class Note:
    """Something that the topology file does not say, or says otherwise; never holds a secret.

    `left-out`: a declared object that no topology file can hold; `changed`: one that is written differently;
    `unmanaged`: what topology files are not about; `raw`: what looks like a work queue and is none; `guess`: what no
    broker knows; `secret`: where the source itself holds one.
    """

    kind: Kind
    subject: str
    message: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.message}"


@dataclass(frozen=True, slots=True)
class Found:
    """What is declared there, and what else was seen."""

    topology: Topology = field(default_factory=Topology)
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class Imported:
    """A topology file as plain data, what it compiles to, and what it does not say."""

    document: Mapping[str, Any]
    topology: Topology
    notes: tuple[Note, ...] = ()


def listed(names: list[str], most: int = 10) -> str:
    """Join names for a message, the first ones by name."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")
