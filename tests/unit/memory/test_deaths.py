"""TTL, dead-lettering and its history: sections 1 and 2.2 of the measured broker facts."""

from datetime import UTC, datetime

import pytest

from amqpkit.brokers.memory.channel import Fate
from amqpkit.brokers.memory.queue import Way
from amqpkit.model import Binding, Exchange, Policy

BOTH = pytest.mark.parametrize("kind", ["quorum", "classic"])


@BOTH
@pytest.mark.parametrize(("queue_ttl", "own", "dies_after"), [(300, "200", 200), (200, "300", 200), (200, None, 200)])
async def test_of_queue_ttl_and_message_ttl_the_smaller_wins(lab, kind, queue_ttl, own, dies_after):  # §1.1
    lab.queue("dlq")
    lab.queue("q", kind, message_ttl=queue_ttl, dead_letter_exchange="", dead_letter_routing_key="dlq")
    lab.publish("q", "m", expiration=own)

    await lab.clock.advance((dies_after - 1) / 1000)
    assert lab.broker.ledger() == {"q": ["m"]}
    await lab.clock.advance(0.001)
    assert lab.broker.ledger() == {"dlq": ["m"]}


@BOTH
async def test_only_the_head_expires_and_a_short_one_waits_behind_a_long_one(lab, kind):  # §1.1, case 101
    lab.queue("out")
    lab.queue("delay", kind, dead_letter_exchange="", dead_letter_routing_key="out")
    lab.publish("delay", "slow", expiration="3000")
    lab.publish("delay", "fast", expiration="200")

    await lab.clock.advance("2s")
    assert lab.broker.depth("delay") == 2
    await lab.clock.advance("1s")
    assert lab.broker.ledger() == {"out": ["slow", "fast"]}


@BOTH
async def test_once_the_head_is_taken_a_late_message_is_dead_lettered_instead_of_delivered(lab, kind):  # §1.1
    lab.queue("dlq")
    lab.queue("q", kind, dead_letter_exchange="", dead_letter_routing_key="dlq")
    lab.publish("q", "forever")
    lab.publish("q", "late", expiration="200")
    await lab.clock.advance("1s")

    reader = lab.read("q", prefetch=10)

    assert reader.ids == ["forever"]
    assert lab.broker.ledger() == {"dlq": ["late"], "q": ["forever"]}


@BOTH
async def test_held_past_its_deadline_it_expires_when_given_back(lab, kind):  # §1.1
    lab.queue("dlq")
    lab.queue("q", kind, message_ttl=200, dead_letter_exchange="", dead_letter_routing_key="dlq")
    reader = lab.read("q")
    lab.publish("q", "m")
    await lab.clock.advance("1m")
    assert lab.broker.ledger() == {"q": ["m"]}

    lab.broker.cancel(reader.consumer)
    lab.broker.requeue(reader.inbox[0])

    assert lab.broker.ledger() == {"dlq": ["m"]}
    assert lab.broker.messages("dlq")[0].deaths[0].reason == "expired"


@BOTH
async def test_giving_back_does_not_renew_the_deadline(lab, kind):  # §1.1
    lab.queue("q", kind, message_ttl=1000)
    reader = lab.read("q")
    lab.publish("q", "m")
    await lab.clock.advance(0.9)
    lab.broker.cancel(reader.consumer)
    lab.broker.requeue(reader.inbox[0])

    await lab.clock.advance(0.1)

    assert lab.broker.ledger() == {}
    assert lab.broker.journey("m") == ["q", "dropped (expired)"]


@BOTH
async def test_a_policy_ttl_stamps_only_what_comes_after_it(lab, kind):  # §1.1
    lab.queue("q", kind)
    lab.publish("q", "before")
    lab.declare(Policy("ttl", "^q$", {"message-ttl": 100}, apply_to="queues"))
    lab.publish("q", "after")

    await lab.clock.advance("1h")
    assert lab.broker.depth("q") == 2, "the old one has no deadline and blocks the head"


@BOTH
async def test_ttl_0_is_delivered_when_a_consumer_waits_else_it_dies_at_once(lab, kind):  # §1.1
    lab.queue("q", kind, message_ttl=0)
    lab.publish("q", "nobody")
    await lab.clock.advance(0.001)
    assert lab.broker.ledger() == {}

    reader = lab.read("q")
    lab.publish("q", "somebody")
    assert reader.ids == ["somebody"]


@BOTH
async def test_the_dead_letter_exchange_is_looked_up_at_death(lab, kind):  # §1.1
    lab.queue("dlq")
    lab.queue("q", kind, message_ttl=100)
    policy = Policy("dlx", "^q$", {"dead-letter-exchange": "", "dead-letter-routing-key": "dlq"}, apply_to="queues")
    lab.declare(policy)
    lab.publish("q", "m")
    lab.broker.delete(policy)

    await lab.clock.advance("1s")
    assert lab.broker.journey("m") == ["q", "dropped (expired)"]


@pytest.mark.parametrize(("version", "left"), [("4.3", ["high"]), ("4.0", ["high", "low"])])
async def test_each_priority_has_its_own_head_on_4_3_and_one_head_blocks_all_on_4_0(make_lab, version, left):  # §1.1
    lab = make_lab(version)
    lab.queue("q")
    lab.publish("q", "high", priority=9)
    lab.publish("q", "low", priority=0, expiration="100")

    await lab.clock.advance("1s")

    assert lab.broker.ledger() == {"q": left}


async def test_x_death_merges_by_queue_and_reason_with_the_newest_first(lab):  # §1.2
    lab.declare(Exchange("ev", "topic"), Exchange("retry"))
    lab.queue("work", dead_letter_exchange="retry", dead_letter_routing_key="wait")
    lab.queue("wait", message_ttl=1300, dead_letter_exchange="", dead_letter_routing_key="work")
    lab.declare(Binding("ev", "work", "order.#"), Binding("retry", "wait", "wait"))
    reader = lab.read("work")
    lab.publish("order.paid", "m", exchange="ev", expiration="60000")
    for _ in range(3):
        lab.broker.refuse(reader.inbox.pop())
        await lab.clock.advance(1.3)

    headers = lab.headers(reader.inbox[0])

    assert headers["x-death"] == [
        {
            "count": 3,
            "reason": "expired",
            "queue": "wait",
            "time": datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC),
            "exchange": "retry",
            "routing-keys": ["wait"],
        },
        {
            "count": 3,
            "reason": "rejected",
            "queue": "work",
            "time": datetime(2026, 1, 1, tzinfo=UTC),
            "exchange": "ev",
            "routing-keys": ["order.paid"],
            "original-expiration": "60000",
        },
    ]
    assert {name: value for name, value in headers.items() if "-death-" in name} == {
        "x-first-death-queue": "work",
        "x-first-death-reason": "rejected",
        "x-first-death-exchange": "ev",
        "x-last-death-queue": "wait",
        "x-last-death-reason": "expired",
        "x-last-death-exchange": "retry",
    }
    assert reader.inbox[0].stored.properties.expiration is None


async def test_the_last_deaths_exchange_is_that_of_the_last_time(lab):  # probed: unlike the entry's
    lab.declare(Exchange("ev", "fanout"))
    lab.queue("work", dead_letter_exchange="", dead_letter_routing_key="work")
    lab.declare(Binding("ev", "work"))
    reader = lab.read("work")
    lab.publish("", "m", exchange="ev")
    lab.broker.refuse(reader.inbox.pop())
    lab.broker.refuse(reader.inbox.pop())
    headers = lab.headers(reader.inbox[0])
    assert (headers["x-death"][0]["exchange"], headers["x-death"][0]["count"]) == ("ev", 2)
    assert (headers["x-first-death-exchange"], headers["x-last-death-exchange"]) == ("ev", "")


@pytest.mark.parametrize("forged", [[{"count": 7, "queue": "work", "reason": "rejected"}], "nonsense"])
async def test_a_clients_own_x_death_is_shown_once_and_wiped_at_the_first_death(lab, forged):  # §1.2, case 103
    lab.queue("dlq")
    lab.queue("work", dead_letter_exchange="", dead_letter_routing_key="dlq")
    reader, buried = lab.read("work"), lab.read("dlq")
    lab.publish("work", "m", headers={"x-death": forged, "x-first-death-queue": "forged", "mine": 1})

    assert lab.headers(reader.inbox[0])["x-death"] == forged
    lab.broker.refuse(reader.inbox[0])

    headers = lab.headers(buried.inbox[0])
    assert [entry["count"] for entry in headers["x-death"]] == [1]
    assert (headers["x-first-death-queue"], headers["mine"]) == ("work", 1)


async def test_routing_keys_of_a_death_hold_cc_but_not_bcc(lab):  # §1.2, §4
    for name in ("a", "b", "c", "dlq"):
        lab.queue(name, dead_letter_exchange="", dead_letter_routing_key="dlq")
    reader, buried = lab.read("a"), lab.read("dlq")
    lab.publish("a", "m", headers={"CC": ["b"], "BCC": ["c"]})
    assert lab.broker.ledger() == {name: ["m"] for name in "abc"}
    assert lab.headers(reader.inbox[0]) == {"CC": ["b"]}
    assert {lab.broker.messages(name)[0].routing_keys[0] for name in "abc"} == {"a"}

    lab.broker.refuse(reader.inbox[0])

    assert lab.headers(buried.inbox[0])["x-death"][0]["routing-keys"] == ["a", "b"]


# --- §1.3 cycles -----------------------------------------------------------------------------------


async def test_expiry_round_a_ring_is_dropped_on_the_way_back(lab):  # §1.3
    lab.queue("a", message_ttl=100, dead_letter_exchange="", dead_letter_routing_key="b")
    lab.queue("b", message_ttl=100, dead_letter_exchange="", dead_letter_routing_key="a")
    lab.publish("a", "m")
    await lab.clock.advance("1s")
    assert lab.broker.journey("m") == ["a", "b", "dropped (cycle)"]


async def test_a_queue_that_dead_letters_to_itself_drops_by_expiry_and_loops_by_reject(lab):  # §1.3
    lab.queue("q", dead_letter_exchange="", dead_letter_routing_key="q")
    reader = lab.read("q")
    lab.publish("q", "m")
    for _ in range(30):
        lab.broker.refuse(reader.inbox.pop())
    assert lab.broker.ledger() == {"q": ["m"]}
    lab.queue("t", message_ttl=10, dead_letter_exchange="", dead_letter_routing_key="t")
    lab.publish("t", "n")
    await lab.clock.advance("1s")
    assert lab.broker.journey("n") == ["t", "dropped (cycle)"]


async def test_reject_and_expiry_go_round_for_ever(lab):  # §1.3
    lab.queue("work", dead_letter_exchange="", dead_letter_routing_key="wait")
    lab.queue("wait", message_ttl=10, dead_letter_exchange="", dead_letter_routing_key="work")
    reader = lab.read("work")
    lab.publish("work", "m")
    for _ in range(12):
        lab.broker.refuse(reader.inbox.pop())
        await lab.clock.advance(0.01)
    assert reader.ids == ["m"]


async def test_a_work_queue_that_dies_of_its_limit_into_a_retry_queue_loses_the_message(lab):  # §1.3
    lab.queue("work", delivery_limit=0, dead_letter_exchange="", dead_letter_routing_key="wait")
    lab.queue("wait", message_ttl=10, dead_letter_exchange="", dead_letter_routing_key="work")
    reader = lab.read("work")
    lab.publish("work", "m")
    lab.broker.requeue(reader.inbox.pop(), Way.REJECT)
    await lab.clock.advance("1s")
    assert lab.broker.journey("m") == ["work", "wait", "dropped (cycle)"]


async def test_an_old_rejection_behind_the_newest_lap_saves_nobody(lab):  # §1.3
    lab.queue("work", message_ttl=1000, dead_letter_exchange="", dead_letter_routing_key="wait")
    lab.queue("wait", message_ttl=10, dead_letter_exchange="", dead_letter_routing_key="work")
    reader = lab.read("work")
    lab.publish("work", "m")
    lab.broker.cancel(reader.consumer)
    lab.broker.refuse(reader.inbox.pop())
    await lab.clock.advance(0.01)
    assert lab.broker.ledger() == {"work": ["m"]}
    await lab.clock.advance("2s")
    assert lab.broker.journey("m") == ["work", "wait", "work", "dropped (cycle)"]


# --- §2.2 strategies -------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("exchange", ["nowhere", "unbound"])
async def test_at_most_once_drops_silently_when_nobody_takes_the_letter(lab, kind, exchange):  # §2.2
    lab.declare(Exchange("unbound"))
    lab.queue("q", kind, message_ttl=10, dead_letter_exchange=exchange)
    lab.publish("q", "m")
    await lab.clock.advance("1s")
    assert lab.broker.journey("m") == ["q", "dropped (dead letter unroutable)"]


@pytest.mark.parametrize(("kind", "stored"), [("quorum", True), ("classic", False)])
async def test_an_at_most_once_letter_enters_a_full_quorum_queue_and_is_lost_at_a_full_classic_one(lab, kind, stored):
    lab.queue("full", kind, max_length=0, overflow="reject-publish")  # probed
    if kind == "quorum":
        lab.publish("full", "fills")
    lab.queue("q", message_ttl=10, dead_letter_exchange="", dead_letter_routing_key="full")
    lab.publish("q", "m")
    await lab.clock.advance("1s")
    assert lab.broker.ledger() == ({"full": ["fills", "m"]} if stored else {})
    assert lab.broker.journey("m")[-1] == ("full" if stored else "dropped (dead letter refused)")


SAFE = {"dead_letter_strategy": "at-least-once", "overflow": "reject-publish"}


async def test_at_least_once_waits_in_the_source_and_tries_again_every_180_seconds(lab):  # §2.2
    lab.declare(Exchange("dlx", "fanout"))
    lab.queue("q", message_ttl=10, dead_letter_exchange="dlx", **SAFE)
    lab.publish("q", "m")
    await lab.clock.advance("1m")
    assert lab.broker.ledger() == {"q": ["m"]}
    assert lab.broker.depth("q") == 0

    lab.queue("dlq")
    lab.declare(Binding("dlx", "dlq"))
    await lab.clock.advance("2m")
    assert lab.broker.ledger() == {"q": ["m"]}, "the fix alone moves nothing"
    await lab.clock.advance(0.01)
    assert lab.broker.ledger() == {"dlq": ["m"]}


async def test_at_least_once_holds_a_letter_for_a_full_target_and_no_copy_is_made_twice(make_lab):  # §2.2
    lab = make_lab("4.3", dead_letter_retry=2.0)
    lab.declare(Exchange("dlx", "fanout"))
    lab.queue("full", max_length=0, overflow="reject-publish")
    lab.queue("free")
    lab.declare(Binding("dlx", "full"), Binding("dlx", "free"))
    lab.queue("q", message_ttl=10, dead_letter_exchange="dlx", **SAFE)
    lab.publish("full", "fills")
    lab.publish("q", "m")

    await lab.clock.advance("1m")
    assert lab.broker.ledger() == {"free": ["m"], "full": ["fills"], "q": ["m"]}
    lab.drained("full")
    await lab.clock.advance("2s")
    assert lab.broker.ledger() == {"free": ["m"], "full": ["m"]}


async def test_at_least_once_holds_what_is_caught_in_a_cycle(lab):  # §1.3
    lab.queue("q", message_ttl=10, dead_letter_exchange="", dead_letter_routing_key="q", **SAFE)
    lab.publish("q", "m")
    await lab.clock.advance("1h")
    assert lab.broker.ledger() == {"q": ["m"]}
    assert lab.broker.depth("q") == 0


async def test_held_letters_count_toward_the_sources_max_length(lab):  # §2.2
    lab.queue("q", message_ttl=10, max_length=2, dead_letter_exchange="nowhere", **SAFE)
    lab.publish("q", "a", "b", "c")
    await lab.clock.advance("1s")
    assert lab.publish("q", "d") == [Fate.NACKED]
    assert lab.broker.ledger() == {"q": ["a", "b", "c"]}


@pytest.mark.parametrize("overflow", [{}, {"overflow": "drop-head"}])
async def test_at_least_once_without_reject_publish_falls_back_to_at_most_once(lab, overflow):  # §2.2
    lab.queue("q", message_ttl=10, dead_letter_exchange="no", dead_letter_strategy="at-least-once", **overflow)
    lab.publish("q", "m")
    await lab.clock.advance("1s")
    assert lab.broker.journey("m") == ["q", "dropped (dead letter unroutable)"]


async def test_somebodys_drop_head_policy_ends_at_least_once(lab):  # topology facts §2.2: quorum, policy wins
    lab.queue("q", message_ttl=10, dead_letter_exchange="nowhere", **SAFE)
    lab.publish("q", "m")
    await lab.clock.advance("1s")
    lab.declare(Policy("somebody", ".*", {"overflow": "drop-head"}, apply_to="queues"))
    assert lab.broker.ledger() == {}
    assert lab.broker.journey("m")[-1] == "dropped (at-least-once ended)"


@BOTH
async def test_delete_and_purge_never_dead_letter(lab, kind):  # §8
    lab.queue("dlq")
    for name in ("purged", "deleted"):
        lab.queue(name, kind, dead_letter_exchange="", dead_letter_routing_key="dlq")
        lab.publish(name, name)
    assert lab.broker.purge("purged") == 1
    lab.broker.delete_queue("deleted")
    assert lab.broker.ledger() == {}
    assert lab.broker.journey("deleted") == ["deleted", "deleted with its queue"]
