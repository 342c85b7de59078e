"""Where the demo's shop is: in a clone under examples/ and topology/, in an installed amqpkit next to this package."""

import importlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, Final

from amqpkit.declare.load import load_topology
from amqpkit.deliver.consumer import Consumer
from amqpkit.errors import AmqpkitError
from amqpkit.model import Topology
from amqpkit.ports import IdempotencyStore

_HOMES: Final = ("amqpkit.examples.shop", "examples.shop")
CONSUMERS: Final = ("SendEmail", "ResizeImage", "ChargeCard", "EnrichLead", "ReportLead")
WITHOUT_STORE: Final = ("image.resize",)
_NEEDED: Final = ("sqlalchemy", "alembic", "aiosqlite")
_ADVICE: Final = "run it from a clone of the repository (make demo), or install a release of amqpkit"
_NO_BOOKS: Final = "the demo's shop keeps its books in SQLite, which needs more: pip install 'amqpkit[cli,sqlite]'"


@dataclass(frozen=True, slots=True)
class Shop:
    """The shop's modules and files."""

    payloads: ModuleType
    consumers: ModuleType
    books: ModuleType
    topology_file: Path
    short_delays_file: Path

    def topology(self, *, short_delays: bool = False) -> Topology:
        """Load the topology, with delays for real time if asked for."""
        return load_topology(*self.files(short_delays=short_delays))

    def files(self, *, short_delays: bool) -> tuple[Path, ...]:
        """Name the topology files."""
        return (self.topology_file, self.short_delays_file) if short_delays else (self.topology_file,)

    @property
    def readers(self) -> dict[str, str]:
        """Name the class that handles each queue."""
        return {getattr(self.consumers, name).queue: name for name in CONSUMERS}

    @contextmanager
    def new_books(self) -> Iterator[tuple[str, Any]]:
        """Open empty books in a file that goes at the end: their URL, and the engine."""
        with TemporaryDirectory(prefix="amqpkit-demo-") as folder:
            url = f"sqlite:///{folder}/shop.db"
            books = self.books.open_books(url)
            try:
                yield url, books
            finally:
                books.dispose()

    @property
    def is_installed(self) -> bool:
        """Whether it came with an installed amqpkit, not with a clone."""
        return self.consumers.__name__.startswith("amqpkit.")


def crews(
    consumers: Iterable[Consumer[Any]], store: IdempotencyStore
) -> tuple[tuple[list[Consumer[Any]], IdempotencyStore | None], ...]:
    """Say who works with the store: all but the pictures.

    To resize one twice does no harm, and the claim of a worker that has died on one must first run out: nobody wants
    to watch that.
    """
    everybody = list(consumers)
    free = [each for each in everybody if each.queue in WITHOUT_STORE]
    return ((free, None), ([each for each in everybody if each not in free], store))


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
            books = importlib.import_module(f"{home}.books")
        except ModuleNotFoundError as error:
            if error.name and f"{home}.".startswith(f"{error.name}."):
                continue
            if error.name in _NEEDED:
                raise AmqpkitError(_NO_BOOKS) from error
            raise
        return _with_files(payloads, consumers, books)
    msg = f"the demo's shop (examples/shop) is not here: {_ADVICE}"
    raise AmqpkitError(msg)


def _with_files(payloads: ModuleType, consumers: ModuleType, books: ModuleType) -> Shop:
    folder = Path(payloads.__file__ or "").resolve().parent
    places = (folder / "shop.yaml", folder.parents[1] / "topology" / "shop.yaml")
    topology = next((place for place in places if place.is_file()), None)
    if topology is None:
        msg = f"the demo's topology (topology/shop.yaml) is not here: {_ADVICE}"
        raise AmqpkitError(msg)
    return Shop(payloads, consumers, books, topology, folder / "short-delays.yaml")
