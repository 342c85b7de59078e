import asyncio
import json
import stat

import pytest

from amqpkit.errors import AmqpkitError
from amqpkit.model import Message, Properties
from amqpkit.operate.dead_letters.audit import AuditFile
from amqpkit.operate.dead_letters.discard import Grounds, discard
from amqpkit.operate.dead_letters.filters import Filter
from amqpkit.operate.dead_letters.imports import import_letters
from amqpkit.operate.dead_letters.lines import from_line

GROUNDS = Grounds("ada", "customer is gone")


@pytest.fixture
def audit(tmp_path):
    file = AuditFile(tmp_path / "audit.jsonl")
    yield file
    file.close()


def lines(audit):
    return audit.path.read_text().splitlines()


async def discarded(lab, write, **settings):
    return await lab.live(discard(lab.transport, "work.dlq", GROUNDS, write, clock=lab.clock, **settings))


async def test_discarded_letters_are_gone_and_each_is_a_line_with_who_when_and_why(lab, audit):
    ids = await lab.bury(250, headers={"a": 1})

    report = await discarded(lab, audit.append)

    assert (report.total, report.discarded, report.complete) == (250, 250, True)
    assert lab.broker.ledger() == {}
    kept = [from_line(line) for line in lines(audit)]
    assert [each.message.properties.message_id for each in kept] == ids
    assert {(each.queue, each.extra["who"], each.extra["why"], each.extra["when"][:10]) for each in kept} == {
        ("work.dlq", "ada", "customer is gone", "2026-01-01")
    }


async def test_a_discard_can_be_undone(lab, audit):
    ids = await lab.bury(30, headers={"a": 1}, type="order")
    before = [(stored.body, stored.properties) for stored in lab.broker.messages("work.dlq")]
    await discarded(lab, audit.append)

    imported = await lab.live(import_letters(lab.transport, lines(audit), clock=lab.clock))

    assert (imported.stored, lab.ids()) == (30, ids)
    assert [(stored.body, stored.properties) for stored in lab.broker.messages("work.dlq")] == before


async def test_no_letter_is_acked_before_it_is_written(lab):
    await lab.bury(150)
    there = []

    def write(batch: list[str]) -> None:
        there.append((len(batch), len(lab.ids("work.dlq"))))

    await discarded(lab, write)

    written = 0
    for count, left in there:
        assert left == 150 - written
        written += count
    assert written == 150


async def test_what_cannot_be_written_down_is_not_discarded(lab):
    ids = await lab.bury(300)
    calls = []

    def full(batch: list[str]) -> None:
        calls.append(batch)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")

    report = await discarded(lab, full)

    assert report.discarded == len(calls[0])
    assert "No space left" in report.trouble
    assert lab.ids() == ids[report.discarded :]


async def test_only_what_is_meant_goes(lab, audit):
    ids = await lab.bury(120)

    report = await discarded(lab, audit.append, filter=Filter(id="m-60"))

    assert (report.discarded, report.stayed) == (1, 119)
    assert lab.ids() == [each for each in ids if each != "m-60"]


async def test_a_limit_and_a_dry_run(lab, audit):
    ids = await lab.bury(50)

    dry = await discarded(lab, audit.append, dry_run=True, limit=7)
    assert (dry.discarded, lines(audit), lab.ids()) == (7, [], ids)

    wet = await discarded(lab, audit.append, limit=7)
    assert (wet.discarded, len(lines(audit)), lab.ids()) == (7, 7, ids[7:])


async def test_a_letter_that_no_line_can_hold_stays_and_is_named(lab, audit):
    deep = []
    for _ in range(300):
        deep = [deep]
    await lab.transport.publish("", "work.dlq", Message(b"", Properties(message_id="deep", headers={"a": deep})))
    await lab.bury(2)

    report = await discarded(lab, audit.append)

    assert (report.discarded, [name for name, _ in report.unwritable], report.complete) == (2, ["deep"], False)
    assert lab.ids() == ["deep"]


@pytest.mark.parametrize("grounds", [("", "why"), ("who", ""), ("who", "  ")])
def test_nobody_discards_without_a_reason(grounds):
    with pytest.raises(AmqpkitError, match="not discarded without"):
        Grounds(*grounds)


async def test_told_to_stop_what_was_taken_is_written_or_stays(lab, audit):
    ids, stop = await lab.bury(200), asyncio.Event()

    def after(seen: int, _total: int) -> None:
        if seen == 50:
            stop.set()

    report = await discarded(lab, audit.append, stop=stop, on_progress=after)

    assert report.trouble
    assert [from_line(line).message.properties.message_id for line in lines(audit)] == ids[: report.discarded]
    assert lab.ids() == ids[report.discarded :]


def test_the_audit_file_is_its_owners_alone_and_only_grows(tmp_path):
    path = tmp_path / "audit.jsonl"
    for word in ("one", "two"):
        file = AuditFile(path)
        file.append([json.dumps(word)])
        file.close()

    assert path.read_text() == '"one"\n"two"\n'
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_line_torn_by_a_crash_does_not_take_the_next_one_along(tmp_path):
    path = tmp_path / "audit.jsonl"
    path.write_text('"one"\n"to')
    file = AuditFile(path)

    file.append(['"two"'])
    file.append(['"three"'])
    file.close()

    assert path.read_text() == '"one"\n"to\n"two"\n"three"\n'
