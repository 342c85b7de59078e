"""Events in the log: structured, never a payload, and a broken listener hurts nobody."""

import json
import logging
from dataclasses import fields
from typing import Any

import pytest

from amqpkit import Context
from amqpkit.deliver.listening import listeners
from amqpkit.events import Begun, Connected, Event, Fate, Outcome, Published, Settled
from amqpkit.operate.logs import JsonFormatter, LogListener, facts_of, level_of
from amqpkit.testing.simulator import Simulator
from tests.worker.parts import Does, Task, topology

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(JsonFormatter().format(record)) for record in caplog.records]


async def test_a_record_has_message_id_attempt_and_trace_and_nothing_of_the_payload(caplog):
    def does(_task: Task, context: Context) -> None:
        if context.attempt == 1:
            raise LookupError

    caplog.set_level(logging.DEBUG, "amqpkit.events")
    async with Simulator(topology(), [Does(does)]) as sim:
        log = LogListener()
        message_id = await sim.publish(
            Task(name="4111-1111"), headers={"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
        )
        await sim.advance("10s")
        for event in sim.events:
            log(event)

    written = [line for line in lines(caplog) if line["logger"] == "amqpkit.events"]
    ends = [line for line in written if line["event"] == "settled"]
    assert [(line["message_id"], line["attempt"], line["trace"], line["outcome"]) for line in ends] == [
        (message_id, 1, TRACE, "retried"),
        (message_id, 2, TRACE, "handled"),
    ]
    assert "4111-1111" not in json.dumps(written)


def test_no_fact_of_any_event_is_a_name_that_logging_uses_itself():
    taken = {*vars(logging.makeLogRecord({})), "message", "asctime", "event"}

    assert not [(kind, field.name) for kind in Event.__args__ for field in fields(kind) if field.name in taken]


@pytest.mark.parametrize(
    ("event", "level"),
    [
        (Settled("q", "m", "t", 1, Outcome.HANDLED), logging.DEBUG),
        (Settled("q", "m", "t", 1, Outcome.RETRIED), logging.WARNING),
        (Settled("q", "m", "t", 1, Outcome.DEAD), logging.ERROR),
        (Published("t", "x", "k", "m", Fate.CONFIRMED, 1, 0.1), logging.DEBUG),
        (Published("t", "x", "k", "m", Fate.NACKED, 1, 0.1), logging.WARNING),
        (Connected("consume", "rabbit"), logging.INFO),
        (Begun("q", "m", "t", 1), logging.DEBUG),
    ],
)
def test_what_went_wrong_is_louder(event, level):
    assert level_of(event) == level


def test_other_records_keep_their_text_fields_and_exception():
    record = logging.makeLogRecord({"msg": "half %s", "args": ("done",), "job": {1}, "levelname": "INFO"})
    try:
        raise ValueError("why")  # noqa: TRY301
    except ValueError as error:
        record.exc_info = (type(error), error, error.__traceback__)

    line = json.loads(JsonFormatter().format(record))

    assert (line["message"], line["job"], line["level"]) == ("half done", "{1}", "INFO")
    assert line["exception"].endswith("ValueError: why")


def test_a_listener_that_fails_is_logged_once_and_the_others_are_told(caplog):
    told: list[Event] = []

    def broken(event: Event) -> None:
        raise RuntimeError(event)

    tell = listeners(broken, told.append, broken)
    event = Connected("consume", "rabbit")
    for _ in range(3):
        tell(event)

    assert told == [event] * 3
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 2


def test_what_an_event_carries_besides_words_and_numbers_is_not_logged():
    assert facts_of(Settled("q", {"card": 1}, None, 1, Outcome.DEAD, fate="invalid")) == {
        "queue": "q",
        "attempt": 1,
        "outcome": Outcome.DEAD,
        "fate": "invalid",
        "seconds": 0.0,
    }


def test_a_stranger_s_message_id_cannot_write_a_line_of_its_own(caplog):
    LogListener()(Settled("q", "x\n2026-01-01\tERROR\x1b[31m", "t", 1, Outcome.RETRIED, reason='said "no"'))

    (record,) = caplog.records
    assert record.getMessage().isprintable()
    assert r'message_id="x\n2026-01-01\tERROR\u001b[31m"' in record.getMessage()
    assert r'reason="said \"no\""' in record.getMessage()
