import asyncio
import stat
from contextlib import nullcontext

import pytest

from amqpkit.brokers.memory.transport import MemoryTransport
from amqpkit.errors import ConnectionFailed, QueueMissing
from amqpkit.model import Message, Properties
from amqpkit.operate.dead_letters.exports import export_letters, new_file, part_of
from amqpkit.operate.dead_letters.filters import Filter
from amqpkit.operate.dead_letters.imports import Fault, Standing, import_letters
from amqpkit.operate.dead_letters.targets import REMEDY


async def exported(lab, **settings):
    lines: list[str] = []
    report = await lab.live(export_letters(lab.transport, "work.dlq", lines.append, clock=lab.clock, **settings))
    return report, lines


async def imported(lab, lines, **settings):
    return await lab.live(import_letters(lab.transport, lines, clock=lab.clock, **settings), within=5000)


def contents(lab, queue="work.dlq"):
    return [(stored.body, stored.properties) for stored in lab.broker.messages(queue)]


async def test_what_was_exported_is_imported_as_it_was(lab):
    await lab.bury(130, headers={"n": [1, {"a": None}], "x-death": [{"queue": "q", "count": 1}]}, reply_to="r")
    await lab.transport.publish("", "work.dlq", Message(bytes(range(256)) * 10))
    before = contents(lab)

    report, lines = await exported(lab)
    assert (report.total, report.written, report.complete, contents(lab)) == (131, 131, True, before)
    lab.broker.purge("work.dlq")
    back = await imported(lab, lines)

    assert (back.read, back.stored, back.complete, back.changed) == (131, 131, True, 0)
    assert contents(lab) == before


async def test_what_is_not_meant_is_not_exported(lab):
    await lab.bury(50)

    report, lines = await exported(lab, filter=Filter(id="m-3"))
    assert (report.written, report.stayed, len(lines)) == (1, 49, 1)

    report, lines = await exported(lab, limit=5)
    assert (report.written, len(lines), len(lab.ids())) == (5, 5, 50)

    report, lines = await exported(lab, limit=0)
    assert (report.written, len(lines), len(lab.ids())) == (0, 0, 50)


async def test_letters_go_to_another_queue_when_asked(lab):
    ids = await lab.bury(5)
    _, lines = await exported(lab)

    assert (await imported(lab, lines, to="work")).stored == 5
    assert lab.ids("work") == ids


async def test_broken_lines_are_named_and_stop_nothing(lab):
    await lab.bury(4)
    _, lines = await exported(lab)
    lab.broker.purge("work.dlq")
    kept = []
    mixed = [lines[0], "{", lines[1], "", '{"format": "other"}', lines[2], b"\xff\xfe", lines[3].encode()]

    report = await imported(lab, mixed, on_fault=lambda fault, line: kept.append((fault.line, line)))

    assert (report.read, report.stored, report.complete) == (8, 4, False)
    assert [fault.line for fault in report.faults] == [2, 5, 7]
    assert kept == [(2, "{"), (5, '{"format": "other"}'), (7, b"\xff\xfe")]
    assert lab.ids() == ["m-0", "m-1", "m-2", "m-3"]


async def test_lines_can_be_skipped(lab):
    ids = await lab.bury(10)
    _, lines = await exported(lab)
    lab.broker.purge("work.dlq")

    report = await imported(lab, lines, skip=6)

    assert (report.read, report.stored, lab.ids()) == (10, 4, ids[6:])


async def test_stopped_on_the_way_it_says_where_to_go_on(lab):
    ids, stop = await lab.bury(400), asyncio.Event()
    _, lines = await exported(lab)
    lab.broker.purge("work.dlq")
    lab.broker.confirm_delay = 0.1

    def after(standing: Standing) -> None:
        if standing.stored >= 150:
            stop.set()

    first = await imported(lab, lines, stop=stop, on_progress=after)
    assert first.stored == first.read < 400
    second = await imported(lab, lines, skip=first.read)

    assert second.complete
    assert lab.ids() == ids


async def test_it_says_up_to_where_all_is_stored(lab):
    await lab.bury(300)
    _, lines = await exported(lab)
    lab.broker.purge("work.dlq")
    lab.broker.confirm_delay = 0.1
    told: list[tuple[int, int]] = []

    await imported(lab, lines, on_progress=lambda standing: told.append((standing.safe, len(lab.ids()))))

    assert all(safe <= stored for safe, stored in told)
    assert all(stored - safe <= 101 for safe, stored in told)
    assert told[-1] == (300, 300)


async def test_a_missing_queue_is_a_fault_of_each_line(lab):
    await lab.bury(3)
    _, lines = await exported(lab)

    report = await imported(lab, lines, to="nowhere")

    assert (report.stored, [fault.line for fault in report.faults]) == (0, [1, 2, 3])
    assert '"nowhere" does not exist' in report.faults[0].reason


async def test_a_full_queue_ends_it_and_every_line_is_stored_or_named(lab):
    lab.queue("small", x_max_length=10, x_overflow="reject-publish")
    await lab.bury(300)
    _, lines = await exported(lab)

    report = await imported(lab, lines, to="small")

    assert "failures in a row" in report.trouble
    named = {fault.line for fault in report.faults}
    assert report.stored == len(lab.ids("small"))
    assert {*range(1, report.read + 1)} - named == {int(each[2:]) + 1 for each in lab.ids("small")}


async def test_a_fate_that_is_not_known_ends_it(lab):
    await lab.bury(300)
    _, lines = await exported(lab)
    lab.broker.purge("work.dlq")
    lab.broker.confirm_delay = 0.1
    cut = []

    def drop(standing: Standing) -> None:
        if standing.stored >= 100 and not cut:
            cut.append(1)
            lab.broker.drop_connections()

    report = await imported(lab, lines, on_progress=drop)

    assert "not known" in report.trouble
    unsure = {fault.line for fault in report.faults if fault.uncertain}
    assert unsure
    missing = {*range(1, report.read + 1)} - {int(each[2:]) + 1 for each in lab.ids()}
    assert missing <= {fault.line for fault in report.faults}


class Deaf(MemoryTransport):
    """To a broker that goes away when it is asked about one queue."""

    async def depth(self, queue: str) -> int:
        if queue == "work":
            raise ConnectionFailed("gone")
        return await super().depth(queue)


async def test_a_line_whose_queue_could_not_be_asked_for_is_not_counted_as_read(lab):
    await lab.bury(2)
    _, lines = await exported(lab)
    lines += [lines[0].replace('"work.dlq"', '"work"')]
    lab.broker.purge("work.dlq")
    transport = Deaf(lab.broker)
    await transport.open()

    report = await lab.live(import_letters(transport, lines, clock=lab.clock))

    # whoever goes on after `read` lines must not pass the third one over
    assert (report.read, report.stored, report.faults, report.trouble) == (2, 2, (), "gone")


async def test_a_letter_with_copies_and_a_login_goes_to_its_queue_alone(lab):
    message = Message(b"", Properties(message_id="m", headers={"CC": ["work"], "a": 1}))
    await lab.transport.publish("", "work.dlq", message)
    _, lines = await exported(lab)
    for queue in ("work", "work.dlq"):
        lab.broker.purge(queue)

    report = await imported(lab, lines)

    assert (report.stored, report.changed) == (1, 1)
    assert lab.broker.ledger() == {"work.dlq": ["m"]}


async def test_a_message_without_an_id_whose_queue_goes_meanwhile_is_not_counted_as_safe(lab):
    await lab.transport.publish("", "work.dlq", Message(b"one"))
    _, lines = await exported(lab)

    report = await imported(lab, lines, on_progress=lambda _: lab.broker.delete_queue("work.dlq"))

    assert report.faults == (Fault(1, str(QueueMissing("work.dlq", REMEDY)), uncertain=True),)


def test_a_file_is_there_when_it_is_whole_and_is_its_owners_alone(tmp_path):
    path = tmp_path / "letters.jsonl"
    with new_file(path) as file:
        file.write("one")
        assert not path.exists()
        file.write("two")
        file.finish()

    assert path.read_text() == "one\ntwo\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not part_of(path).exists()
    with pytest.raises(FileExistsError), new_file(path):
        pass


@pytest.mark.parametrize("error", [None, KeyError])
def test_a_file_that_was_not_finished_has_another_name_and_is_begun_anew(tmp_path, error):
    path = tmp_path / "letters.jsonl"

    def breaks() -> None:
        with new_file(path) as file:
            file.write("one")
            if error:
                raise error

    for _ in range(2):
        with pytest.raises(error) if error else nullcontext():
            breaks()
        assert not path.exists()
        assert (tmp_path / "letters.jsonl.part").read_text() == "one\n"
