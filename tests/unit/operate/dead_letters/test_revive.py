"""The message that a replay publishes: the producer's whole message, without the life that ended."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from amqpkit.deliver import headers as h
from amqpkit.errors import MessageTooLarge
from amqpkit.model import Int32, Message, Properties
from amqpkit.operate.dead_letters.letter import read_letter
from amqpkit.operate.dead_letters.revive import revived
from tests.unit.operate.dead_letters.letters import DEATHS, OURS, Found
from tests.walk.world import WORK

FULL = Properties(
    content_type="application/json",
    content_encoding="gzip",
    delivery_mode=1,
    priority=5,
    correlation_id="c-1",
    reply_to="rpc.r",
    expiration="60000",
    message_id="m-1",
    timestamp=datetime(2026, 1, 1, tzinfo=UTC),
    type="order.placed",
    user_id="guest",
    app_id="shop",
    headers={"tenant": "t1", "n": Int32(1), "list": [1, "a"]},
)


def revive(headers: dict[str, Any], *, work: Any = None, body: bytes = b"\xff\x00", run: str = "run-2") -> Message:
    found = Found(body=body, properties=replace(FULL, headers={**FULL.headers, **headers}))
    return revived(found, read_letter(found, work=work), run=run)


def test_everything_of_the_producers_stays() -> None:
    message = revive({})

    assert message.body == b"\xff\x00"
    kept = replace(FULL, delivery_mode=2, expiration=None, user_id=None, headers={})
    assert replace(message.properties, headers={}) == kept
    assert {name: message.properties.headers[name] for name in FULL.headers} == FULL.headers
    assert type(message.properties.headers["n"]) is Int32


def test_what_counted_down_to_the_death_goes_and_what_tells_of_it_stays() -> None:
    headers = {**OURS, h.SNOOZES: 3, h.NOT_BEFORE: "2026-03-01T12:00:00.000Z"}
    revived_headers = revive(headers, work=WORK).properties.headers

    for gone in (h.ATTEMPT, h.CRASHES, h.SNOOZES, h.NOT_BEFORE, h.FIRST_SEEN, h.FATE):
        assert gone not in revived_headers
    for kept in (h.VERSION, h.KEY, h.PUBLISHED_AT, h.EXCHANGE, h.ROUTING_KEY, h.ERROR, h.HISTORY, "traceparent"):
        assert revived_headers[kept] == OURS[kept]
    assert (revived_headers[h.REPLAYS], revived_headers[h.REPLAY_RUN]) == (1, "run-2")


def test_each_replay_is_counted_and_names_its_run() -> None:
    again = revive({h.REPLAYS: 4, h.REPLAY_RUN: "run-1"}).properties.headers
    forged = revive({h.REPLAYS: 2**40}).properties.headers

    assert (again[h.REPLAYS], again[h.REPLAY_RUN]) == (5, "run-2")
    assert forged[h.REPLAYS] == 1


def test_the_brokers_account_goes_and_is_kept_as_history() -> None:
    brokers = {
        "x-death": DEATHS,
        "x-first-death-queue": "work",
        "x-last-death-reason": "rejected",
        "x-delivery-count": 5,
        "x-acquired-count": 9,
        "CC": ["other"],
    }
    headers = revive(brokers).properties.headers

    assert not brokers.keys() & headers.keys()
    assert [(line["type"], line["message"]) for line in headers[h.HISTORY]] == [
        ("rejected", "by queue work (4 times since)"),
        ("expired", "by queue work.wait (3 times since)"),
    ]
    assert (headers[h.EXCHANGE], headers[h.ROUTING_KEY]) == ("events", "order.paid")


def test_what_is_revived_and_dies_again_reads_as_it_did() -> None:
    message = revive(OURS, work=WORK)
    buried = Found(
        body=message.body,
        properties=replace(message.properties, headers={**message.properties.headers, h.FATE: "crashed"}),
    )

    assert (
        read_letter(buried, work=WORK).history
        == read_letter(Found(properties=Properties(headers=OURS)), work=WORK).history
    )


def test_headers_that_leave_no_room_for_ours_cannot_be_sent() -> None:
    with pytest.raises(MessageTooLarge):
        revive({"big": "x" * 131_000})
