"""What every idempotency store must do, whoever keeps its claims."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from amqpkit.ports import Claimed, Hold, IdempotencyStore, TransactionalStore
from amqpkit.stores import MemoryStore
from amqpkit.stores.redis import RedisStore
from amqpkit.stores.rules import RESULT_LIMIT
from amqpkit.stores.sql import SqlStore

CLAIMED, DONE = Claimed(Hold.CLAIMED), Claimed(Hold.DONE)
MINUTE = 60.0
DAY = timedelta(days=1)


class Shelf:
    """One place for claims, and as many stores on it as there are workers."""

    def __init__(self, kind: str, make: Callable[[timedelta], Any]) -> None:
        self.kind, self._make = kind, make
        self.stores: list[Any] = []

    async def open(self, keep: timedelta = DAY) -> Any:
        store = self._make(keep)
        self.stores.append(store)
        await store.prepare()
        return store

    async def close(self) -> None:
        for store in self.stores:
            await store.close()

    async def result(self, store: Any, key: str) -> bytes | None:
        """Look for what a store has kept of a result, behind its back."""
        match store:
            case MemoryStore():
                return store._claims[key].result
            case RedisStore():
                return await store._redis.hget(store._prefix + key, "result")
            case SqlStore():
                row = store._table.c
                async with store._plain.connect() as connection:
                    return await connection.scalar(sa.select(row.result).where(row.key == key))

    async def size(self, store: Any) -> int:
        """Count the keys that take up room."""
        match store:
            case MemoryStore():
                return len(store._claims)
            case RedisStore():
                return len([key async for key in store._redis.scan_iter(f"{store._prefix}*")])
            case SqlStore():
                async with store._plain.connect() as connection:
                    return await connection.scalar(sa.select(sa.func.count()).select_from(store._table))


@pytest.fixture(params=["memory", "sqlite", "postgresql-server", "redis-server"])
async def shelf(request, tmp_path) -> AsyncIterator[Shelf]:
    match request.param:
        case "memory":
            one = {}
            made = Shelf("memory", lambda keep: one.setdefault(keep, MemoryStore(keep=keep)))
        case "sqlite":
            made = Shelf("sqlite", lambda keep: SqlStore(f"sqlite:///{tmp_path}/claims.db", keep=keep))
        case "postgresql-server":
            url = request.getfixturevalue("postgres")
            made = Shelf("postgresql", lambda keep: SqlStore(url, keep=keep))
        case _:
            place = request.getfixturevalue("redis")
            made = Shelf("redis", lambda keep: RedisStore(place.url, keep=keep, prefix=place.prefix))
    yield made
    await made.close()


@pytest.fixture
async def store(shelf) -> IdempotencyStore:
    return await shelf.open()


async def taken(store: IdempotencyStore, key: str, owner: str) -> float:
    """Claim until it succeeds; return how long that took."""
    began = time.monotonic()
    while (await store.claim(key, owner=owner, lease=MINUTE)).hold is not Hold.CLAIMED:
        assert time.monotonic() - began < 10
        await asyncio.sleep(0.01)
    return time.monotonic() - began


async def run_out(store: IdempotencyStore, key: str, owner: str) -> None:
    """Hold a claim, and let its lease end."""
    assert await store.claim(key, owner=owner, lease=0.02) == CLAIMED
    await asyncio.sleep(0.05)


async def test_a_new_key_is_claimed_once_and_held_for_others(store):
    assert await store.claim("k", owner="a", lease=MINUTE) == CLAIMED

    held = await store.claim("k", owner="b", lease=MINUTE)

    assert held.hold is Hold.HELD
    assert 50 < held.seconds <= MINUTE


async def test_the_same_owner_may_claim_again(store):
    await store.claim("k", owner="a", lease=1)

    assert await store.claim("k", owner="a", lease=MINUTE) == CLAIMED
    assert (await store.claim("k", owner="b", lease=MINUTE)).seconds > 50


async def test_what_is_done_stays_done_for_everybody(store):
    await store.claim("k", owner="a", lease=0.02)
    assert await store.complete("k", owner="a", result=None)
    await asyncio.sleep(0.05)

    assert await store.claim("k", owner="a", lease=MINUTE) == DONE
    assert await store.claim("k", owner="b", lease=MINUTE) == DONE


async def test_keys_do_not_know_each_other(store):
    await store.claim("k", owner="a", lease=MINUTE)
    await store.complete("k", owner="a", result=None)

    assert await store.claim("k2", owner="b", lease=MINUTE) == CLAIMED
    assert await store.claim("K", owner="b", lease=MINUTE) == CLAIMED
    assert await store.claim("k ", owner="b", lease=MINUTE) == CLAIMED


async def test_a_lease_runs_out_and_not_before(store):
    await store.claim("k", owner="a", lease=0.3)

    assert await taken(store, "k", "b") >= 0.25
    assert not await store.renew("k", owner="a", lease=MINUTE)


async def test_a_renewed_lease_does_not_run_out(store):
    await store.claim("k", owner="a", lease=0.05)
    assert await store.renew("k", owner="a", lease=MINUTE)
    await asyncio.sleep(0.1)

    assert (await store.claim("k", owner="b", lease=MINUTE)).hold is Hold.HELD


async def test_a_lease_that_ran_out_is_renewed_if_nobody_took_it(store):
    await run_out(store, "k", "a")

    assert await store.renew("k", owner="a", lease=MINUTE)
    assert (await store.claim("k", owner="b", lease=MINUTE)).hold is Hold.HELD


async def test_nobody_renews_what_is_anothers_or_nobodys(store):
    await store.claim("k", owner="a", lease=MINUTE)

    assert not await store.renew("k", owner="b", lease=MINUTE)
    assert not await store.renew("nobody's", owner="b", lease=MINUTE)
    assert await store.claim("nobody's", owner="c", lease=MINUTE) == CLAIMED


async def test_a_renewal_after_our_own_completion_is_true_and_changes_nothing(store):
    await store.claim("k", owner="a", lease=MINUTE)
    await store.complete("k", owner="a", result=None)

    assert await store.renew("k", owner="a", lease=0.01)
    await asyncio.sleep(0.03)
    assert await store.claim("k", owner="b", lease=MINUTE) == DONE


async def test_a_claim_that_ran_out_is_completed_if_nobody_took_it(store):
    await run_out(store, "k", "a")

    assert await store.complete("k", owner="a", result=None)
    assert await store.claim("k", owner="b", lease=MINUTE) == DONE


async def test_a_claim_that_was_taken_over_is_not_completed_by_its_first_owner(store):
    await run_out(store, "k", "a")
    await taken(store, "k", "b")

    assert not await store.complete("k", owner="a", result=b"a")
    assert (await store.claim("k", owner="c", lease=MINUTE)).hold is Hold.HELD
    assert await store.complete("k", owner="b", result=b"b")
    assert not await store.complete("k", owner="a", result=b"a")


async def test_completing_twice_is_true(shelf, store):
    await store.claim("k", owner="a", lease=MINUTE)

    assert await store.complete("k", owner="a", result=b"first")
    assert await store.complete("k", owner="a", result=None)
    assert await shelf.result(store, "k") == b"first"
    assert not await store.complete("k", owner="b", result=b"stranger")
    assert await shelf.result(store, "k") == b"first"


async def test_what_was_never_claimed_is_not_completed(store):
    assert not await store.complete("k", owner="a", result=None)
    assert await store.claim("k", owner="b", lease=MINUTE) == CLAIMED


async def test_a_released_key_is_free(store):
    await store.claim("k", owner="a", lease=MINUTE)
    await store.release("k", owner="a")

    assert await store.claim("k", owner="b", lease=MINUTE) == CLAIMED
    assert not await store.complete("k", owner="a", result=None)


async def test_a_stranger_releases_nothing(store):
    await store.claim("k", owner="a", lease=MINUTE)
    await store.release("k", owner="b")
    await store.release("nobody's", owner="b")

    assert (await store.claim("k", owner="b", lease=MINUTE)).hold is Hold.HELD


async def test_what_is_done_is_not_released(store):
    await store.claim("k", owner="a", lease=MINUTE)
    await store.complete("k", owner="a", result=None)
    await store.release("k", owner="a")

    assert await store.claim("k", owner="a", lease=MINUTE) == DONE


async def test_one_of_fifty_wins(shelf):
    stores = [await shelf.open() for _ in range(2)]

    for key in ("x", "y", "z"):
        answers = await asyncio.gather(*(stores[n % 2].claim(key, owner=f"owner-{n}", lease=MINUTE) for n in range(50)))
        holds = [answer.hold for answer in answers]
        assert holds.count(Hold.CLAIMED) == 1
        assert holds.count(Hold.HELD) == 49


async def test_one_of_fifty_takes_over_what_ran_out(shelf):
    stores = [await shelf.open() for _ in range(2)]
    await run_out(stores[0], "k", "dead")

    answers = await asyncio.gather(*(stores[n % 2].claim("k", owner=f"{n}", lease=MINUTE) for n in range(50)))

    assert [answer.hold for answer in answers].count(Hold.CLAIMED) == 1


async def test_another_store_on_the_same_shelf_sees_the_same(shelf):
    first, second = await shelf.open(), await shelf.open()
    await first.claim("k", owner="a", lease=MINUTE)
    assert (await second.claim("k", owner="b", lease=MINUTE)).hold is Hold.HELD

    await first.complete("k", owner="a", result=None)
    assert await second.claim("k", owner="b", lease=MINUTE) == DONE


async def test_ten_workers_prepare_the_same_place_at_once(shelf):
    stores = await asyncio.gather(*(shelf.open() for _ in range(10)))

    answers = await asyncio.gather(*(store.claim("k", owner=f"{n}", lease=MINUTE) for n, store in enumerate(stores)))
    assert [answer.hold for answer in answers].count(Hold.CLAIMED) == 1
    await stores[0].prepare()


KEYS = {
    "empty": "",
    "unicode": "заказ/🐇/ñ",
    "two kilobytes": "k" * 2048,
    "two thousand wide characters": "🐇" * 2048,
    "another of the same start": "🐇" * 2047 + "k",
    "nul": "a\x00b",
    "lone surrogate": "a\ud800",
    "line": "a\nb",
    "like a digest": "sha256:" + "0" * 64,
    "wildcards": "a%_*?[b]",
    "quotes": "a'\"`;--",
}


async def test_any_text_is_a_key(store):
    for key in KEYS.values():
        assert await store.claim(key, owner="a", lease=MINUTE) == CLAIMED
    for key in KEYS.values():
        assert (await store.claim(key, owner="b", lease=MINUTE)).hold is Hold.HELD
        assert await store.renew(key, owner="a", lease=MINUTE)
        assert await store.complete(key, owner="a", result=None)
        assert await store.claim(key, owner="b", lease=MINUTE) == DONE


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (None, None),
        (b"", b""),
        (bytes(range(256)), bytes(range(256))),
        (b"x" * RESULT_LIMIT, b"x" * RESULT_LIMIT),
        (b"x" * (RESULT_LIMIT + 1), None),
    ],
    ids=["none", "empty", "binary", "largest", "too large"],
)
async def test_a_result_is_kept_unless_it_is_too_large(shelf, store, given, kept):
    await store.claim("k", owner="a", lease=MINUTE)

    assert await store.complete("k", owner="a", result=given)
    assert await shelf.result(store, "k") == kept
    assert await store.claim("k", owner="b", lease=MINUTE) == DONE


async def test_a_result_is_added_to_a_completion_without_one(shelf, store):
    await store.claim("k", owner="a", lease=MINUTE)
    await store.complete("k", owner="a", result=None)
    await store.complete("k", owner="a", result=b"later")

    assert await shelf.result(store, "k") == b"later"


async def test_what_is_done_is_forgotten_after_a_while_and_its_room_given_back(shelf):
    store = await shelf.open(timedelta(seconds=0.3))
    for number in range(30):
        await store.claim(f"k{number}", owner="a", lease=0.01)
        if number < 20:
            await store.complete(f"k{number}", owner="a", result=b"r")

    assert await taken(store, "k0", "b") <= 5
    await asyncio.sleep(0.4)  # the last of them was done a moment after the first
    for number in range(101):
        await store.claim(f"later{number}", owner="a", lease=MINUTE)
        await store.complete(f"later{number}", owner="a", result=None)
        await store.claim(f"later{number}", owner="a", lease=MINUTE)

    assert await shelf.size(store) <= 102


async def test_a_done_key_that_was_forgotten_begins_anew(shelf):
    store = await shelf.open(timedelta(seconds=0.2))
    await store.claim("k", owner="a", lease=MINUTE)
    await store.complete("k", owner="a", result=b"old")
    await taken(store, "k", "b")

    assert await shelf.result(store, "k") is None
    assert not await store.complete("k", owner="a", result=b"again")


@pytest.mark.parametrize("seed", range(3))
async def test_a_random_script_is_answered_as_in_memory(store, seed):
    script, memory = random.Random(seed), MemoryStore()
    for _ in range(150):
        key, owner = script.choice("kl"), script.choice("abc")
        match script.choice(["claim", "claim", "renew", "complete", "release"]):
            case "claim":
                here, there = [await each.claim(key, owner=owner, lease=MINUTE) for each in (store, memory)]
                assert here.hold is there.hold
            case "renew":
                assert len({await each.renew(key, owner=owner, lease=MINUTE) for each in (store, memory)}) == 1
            case "complete" if script.random() < 0.2:
                assert len({await each.complete(key, owner=owner, result=None) for each in (store, memory)}) == 1
            case _:
                for each in (store, memory):
                    await each.release(key, owner=owner)


async def test_a_closed_store_can_be_closed_again(store):
    await store.claim("k", owner="a", lease=MINUTE)
    await store.close()
    await store.close()


async def test_only_databases_have_transactions(shelf, store):
    assert isinstance(store, TransactionalStore) == (shelf.kind in {"sqlite", "postgresql"})
    assert "tester" not in repr(store)
    assert ":***@" not in repr(store)
