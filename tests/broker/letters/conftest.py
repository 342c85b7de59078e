"""Commands in processes of their own, for the tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.broker.letters.rig import Nursery


@pytest.fixture(scope="session")
def letters_nursery() -> Iterator[Nursery]:
    """What forks them."""
    nursery = Nursery()
    try:
        yield nursery
    finally:
        nursery.close()
