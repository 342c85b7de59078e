"""The store in memory, in virtual time: compared with a description of what a store is, over all histories."""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from amqpkit.brokers.memory.clock import VirtualClock
from amqpkit.ports import Claimed, Hold
from amqpkit.stores import MemoryStore
from amqpkit.stores.rules import PLAIN_LIMIT, stored_key

KEEP = 100


def now(verb: Coroutine[Any, Any, Any]) -> Any:
    """Run what never waits."""
    try:
        verb.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("the memory store waits for nobody")


class StoreMachine(RuleBasedStateMachine):
    """The model keeps, for each key, the whole history of what happened to it, and asks that."""

    keys, owners = st.sampled_from("kl"), st.sampled_from("abc")
    leases = st.integers(1, 30)
    released = Bundle("released")

    @initialize()
    def begin(self) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock, keep=timedelta(seconds=KEEP))
        self.time = 0
        self.holder: dict[str, str] = {}
        self.free_at: dict[str, int] = {}
        self.done_until: dict[str, int] = {}

    @rule(key=keys, owner=owners, lease=leases)
    def claim(self, key: str, owner: str, lease: int) -> None:
        answer = now(self.store.claim(key, owner=owner, lease=lease))

        if self.done_until.get(key, -1) > self.time:
            assert answer == Claimed(Hold.DONE)
        elif key in self.holder and self.holder[key] != owner and self.free_at[key] > self.time:
            assert answer == Claimed(Hold.HELD, self.free_at[key] - self.time)
        else:
            assert answer == Claimed(Hold.CLAIMED)
            self.holder[key], self.free_at[key] = owner, self.time + lease
            self.done_until.pop(key, None)

    @rule(key=keys, owner=owners, lease=leases)
    def renew(self, key: str, owner: str, lease: int) -> None:
        if self._may_be_forgotten(key):
            return
        ours = self.holder.get(key) == owner
        assert now(self.store.renew(key, owner=owner, lease=lease)) is ours
        if ours and key not in self.done_until:
            self.free_at[key] = self.time + lease

    @rule(key=keys, owner=owners, result=st.none() | st.binary())
    def complete(self, key: str, owner: str, result: bytes | None) -> None:
        if self._may_be_forgotten(key):
            return
        ours = self.holder.get(key) == owner
        assert now(self.store.complete(key, owner=owner, result=result)) is ours
        if ours:
            self.done_until[key] = self.time + KEEP

    @rule(key=keys, owner=owners)
    def release(self, key: str, owner: str) -> None:
        now(self.store.release(key, owner=owner))
        if self.holder.get(key) == owner and key not in self.done_until:
            del self.holder[key], self.free_at[key]

    @rule(seconds=st.integers(1, 40))
    def pass_time(self, seconds: int) -> None:
        self.clock._elapsed += seconds * 1_000_000
        self.time += seconds

    @invariant()
    def room_is_given_back(self) -> None:
        if hasattr(self, "store"):
            assert len(self.store._claims) <= 2

    def _may_be_forgotten(self, key: str) -> bool:
        """What nobody asked for in a long time may be there or not: no store promises either."""
        last = self.done_until.get(key, self.free_at.get(key, 0) + KEEP)
        return last <= self.time


TestStoreMachine = StoreMachine.TestCase


async def test_a_week_of_memory_passes_in_no_time():
    clock = VirtualClock()
    store = MemoryStore(clock)
    await store.claim("k", owner="a", lease=30)
    await store.complete("k", owner="a", result=None)

    await clock.advance(timedelta(days=6, hours=23))
    assert await store.claim("k", owner="b", lease=30) == Claimed(Hold.DONE)

    await clock.advance("1h")
    assert await store.claim("k", owner="b", lease=30) == Claimed(Hold.CLAIMED)


async def test_claims_of_the_dead_are_forgotten_at_last():
    clock = VirtualClock()
    store = MemoryStore(clock, keep=timedelta(seconds=KEEP))
    for number in range(50):
        await store.claim(f"{number}", owner="dead", lease=30)
    assert await store.renew("7", owner="dead", lease=1000)

    await clock.advance(timedelta(seconds=30 + KEEP))
    await store.claim("new", owner="a", lease=30)

    assert set(store._claims) == {"7", "new"}
    assert repr(store) == "MemoryStore(2 keys)"


@pytest.mark.parametrize("keep", [timedelta(0), timedelta(days=-1)])
def test_a_store_that_would_remember_nothing_is_refused(keep):
    with pytest.raises(ValueError, match="keep"):
        MemoryStore(keep=keep)


def test_keys_are_written_as_they_are_where_they_can_be():
    assert stored_key("email.send/welcome:7 ñ🐇") == "email.send/welcome:7 ñ🐇"
    assert stored_key("k" * PLAIN_LIMIT) == "k" * PLAIN_LIMIT


@pytest.mark.parametrize("key", ["k" * (PLAIN_LIMIT + 1), "é" * PLAIN_LIMIT, "a\x00", "\ud800", "a\n", "sha256:x"])
def test_other_keys_become_digests_of_their_own(key):
    assert stored_key(key).startswith("sha256:")
    assert len(stored_key(key)) == 71
    assert stored_key(stored_key(key)) != stored_key(key)
