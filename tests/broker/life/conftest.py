"""Worker processes for the tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.broker.life.process import Nursery


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """What forks worker processes."""
    nursery = Nursery()
    try:
        yield nursery
    finally:
        nursery.close()
