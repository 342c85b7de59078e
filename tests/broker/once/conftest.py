"""Stores and worker processes for the tests of this folder."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.once.crew import Nest
from tests.broker.once.place import Place

HERE = Path(__file__).parent
BOTH = {"test_poison.py"}
"""Where the releases of RabbitMQ count deliveries differently; everything else runs on one of them."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each test of this folder one of the brokers, always the same: here both have nothing to add."""
    kin: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if HERE in item.path.parents and item.path.name not in BOTH and isinstance(item, pytest.Function):
            name = item.callspec.params["broker"]
            kin[item.nodeid.replace(f"rabbitmq-{name}", "")].append(item)
    unwanted = set()
    for what, same in kin.items():
        same.sort(key=lambda item: item.nodeid)
        unwanted.update(same)
        unwanted.discard(same[zlib.crc32(what.encode()) % len(same)])
    if unwanted:
        config.hook.pytest_deselected(items=list(unwanted))
        items[:] = [item for item in items if item not in unwanted]


@pytest.fixture(scope="session")
def nest() -> Iterator[Nest]:
    """What forks worker processes that have a store."""
    nest = Nest()
    try:
        yield nest
    finally:
        nest.close()


@pytest.fixture
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """The store that the test's parameter names, ready to be used."""
    match request.param:
        case "sqlite":
            found = Place(f"sqlite:///{tmp_path / 'claims.db'}")
        case "postgresql":
            found = Place(request.getfixturevalue("postgres"))
        case "memory":
            found = Place("memory:")
        case _:
            keys = request.getfixturevalue("redis")
            found = Place(keys.url, keys.prefix)
    await found.prepare()
    return found
