"""A database with a store in it, once in SQLite and once in PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.stores import places
from tests.unit.stores.places import Place


@pytest.fixture(params=["sqlite", "postgresql-server"])
async def place(request, tmp_path) -> AsyncIterator[Place]:
    if request.param == "sqlite":
        made = places.sqlite(str(tmp_path / "claims.db"))
    else:
        made = places.postgresql(request.getfixturevalue("postgres"))
    await made.prepare()
    yield made
    await made.close()
