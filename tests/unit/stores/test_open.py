"""A store is opened by its URL; its library is loaded then, and named when it is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from amqpkit.stores import MemoryStore, open_store
from amqpkit.stores.redis import RedisStore
from amqpkit.stores.sql import SqlStore, metadata

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    ("url", "kind", "shown"),
    [
        ("memory:", MemoryStore, "MemoryStore(0 keys)"),
        ("sqlite:////var/claims.db", SqlStore, "SqlStore(sqlite:////var/claims.db)"),
        (f"postgresql://u:{SECRET}@host:5433/claims?sslmode=require&password={SECRET}", SqlStore, None),
        (f"postgres://u:{SECRET}@host/claims", SqlStore, "SqlStore(postgresql://host/claims)"),
        (f"redis://:{SECRET}@host:6380/3", RedisStore, "RedisStore(host:6380/3, prefix='amqpkit:')"),
        (f"rediss://u:{SECRET}@host", RedisStore, "RedisStore(host:6379/0, prefix='amqpkit:')"),
    ],
)
async def test_a_url_names_a_store_and_secrets_are_not_shown(url, kind, shown):
    store = open_store(url)

    assert isinstance(store, kind)
    assert SECRET not in repr(store)
    assert shown in {repr(store), None}
    await store.close()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (f"mysql://u:{SECRET}@host/db", "memory:, sqlite"),
        (f"postgresql://u:{SECRET}:x@host:no/db", "cannot be read"),
        (f"postgresql+asyncpg://u:{SECRET}@host/db", "AsyncEngine"),
        (f"redis://u:{SECRET}@host:no/0", "cannot be read"),
        ("sqlite://", "file"),
        ("sqlite:///:memory:", "file"),
        ("", "memory:"),
    ],
)
def test_a_url_that_names_none_is_refused_without_its_secrets(url, said):
    with pytest.raises(ValueError, match=said) as caught:
        open_store(url)

    shown = str(caught.value) + str(caught.value.__cause__) + str(caught.value.__suppress_context__ or "")
    assert SECRET not in shown


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize(
    ("missing", "url", "command"),
    [
        ("sqlalchemy", "sqlite:///x", "pip install 'amqpkit[sqlite]' or 'amqpkit[postgres]'"),
        ("aiosqlite", "sqlite:///x", "pip install 'amqpkit[sqlite]'"),
        ("psycopg", "postgresql://h/d", "pip install 'amqpkit[postgres]'"),
        ("redis", "redis://h", "pip install 'amqpkit[redis]'"),
    ],
)
def test_a_missing_library_is_named_with_the_command_that_installs_it(missing, url, command):
    said = run(
        f"import sys; sys.modules[{missing!r}] = None\n"
        f"from amqpkit.stores import open_store\n"
        f"try: open_store({url!r})\n"
        f"except ImportError as error: print(error)"
    )

    assert command in said


def test_opening_a_store_in_memory_loads_no_database():
    loaded = run(
        "from amqpkit.stores import open_store; open_store('memory:')\n"
        "import sys; print(*{name.partition('.')[0] for name in sys.modules})"
    ).split()

    assert not {"sqlalchemy", "alembic", "aiosqlite", "psycopg", "redis"} & set(loaded)


def test_the_table_is_there_for_users_who_run_their_own_migrations():
    assert list(metadata.tables) == ["amqpkit_claims", "amqpkit_jobs", "amqpkit_steps"]
