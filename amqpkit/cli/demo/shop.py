"""Where the demo's shop is: in a clone under examples/ and topology/, in an installed amqpkit next to this package."""

import importlib
import os
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

from amqpkit.declare.load import load_topology
from amqpkit.errors import AmqpkitError
from amqpkit.model import Topology

_HOMES: Final = ("amqpkit.examples.shop", "examples.shop")
CONSUMERS: Final = ("SendEmail", "ResizeImage", "ChargeCard", "EnrichLead", "ReportLead")
_ADVICE: Final = "run it from a clone of the repository (make demo), or install a release of amqpkit"


@dataclass(frozen=True, slots=True)
class Shop:
    """The shop's modules and files."""

    payloads: ModuleType
    consumers: ModuleType
    topology_file: Path
    short_delays_file: Path

    def topology(self, *, short_delays: bool = False) -> Topology:
        """Load the topology, with delays for real time if asked for."""
        return load_topology(*self.files(short_delays=short_delays))

    def files(self, *, short_delays: bool) -> tuple[Path, ...]:
        """Name the topology files."""
        return (self.topology_file, self.short_delays_file) if short_delays else (self.topology_file,)

    @property
    def is_installed(self) -> bool:
        """Whether it came with an installed amqpkit, not with a clone."""
        return self.consumers.__name__.startswith("amqpkit.")


def shown(path: Path) -> str:
    """Spell a path as somebody in this directory would."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def find_shop() -> Shop:
    """Import the shop; raises AmqpkitError that says what is missing."""
    for home in _HOMES:
        try:
            payloads = importlib.import_module(f"{home}.payloads")
            consumers = importlib.import_module(f"{home}.consumers")
        except ModuleNotFoundError as error:
            if error.name and f"{home}.".startswith(f"{error.name}."):
                continue
            raise
        return _with_files(payloads, consumers)
    msg = f"the demo's shop (examples/shop) is not here: {_ADVICE}"
    raise AmqpkitError(msg)


def _with_files(payloads: ModuleType, consumers: ModuleType) -> Shop:
    folder = Path(payloads.__file__ or "").resolve().parent
    places = (folder / "shop.yaml", folder.parents[1] / "topology" / "shop.yaml")
    topology = next((place for place in places if place.is_file()), None)
    if topology is None:
        msg = f"the demo's topology (topology/shop.yaml) is not here: {_ADVICE}"
        raise AmqpkitError(msg)
    return Shop(payloads, consumers, topology, folder / "short-delays.yaml")
