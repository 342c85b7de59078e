"""Export, import and discard on real brokers: hostile letters, and processes that die."""

import signal
from dataclasses import replace

import pytest
from pika.spec import BasicProperties

from amqpkit.model import Message, Received
from amqpkit.operate.dead_letters.audit import AuditFile
from amqpkit.operate.dead_letters.browse import browse
from amqpkit.operate.dead_letters.discard import Grounds, discard
from amqpkit.operate.dead_letters.exports import export_letters
from amqpkit.operate.dead_letters.imports import COUNTS, import_letters
from amqpkit.operate.dead_letters.letter import Letter, read_letter
from amqpkit.operate.dead_letters.lines import Kept, from_line
from amqpkit.operate.dead_letters.window import WINDOW
from tests.broker.letters.rig import CLOCK, all_back, bury, doubled, ids_in, numbered, take_all
from tests.broker.letters.victim import WORK, Point, Settings
from tests.broker.life.rig import applied

ESCAPES = "\x1b[2J\x1b]0;owned\x07\r\n\u202e<b>"
HOSTILE = (
    (bytes(range(256)) * 20_480, BasicProperties(message_id="five mebibytes, binary", delivery_mode=2)),
    (b"{}", BasicProperties(message_id="fat", headers={f"theirs-{n}": "x" * 6000 for n in range(10)})),
    (ESCAPES.encode(), BasicProperties(message_id=ESCAPES[:20], type=ESCAPES[:20], headers={ESCAPES[:20]: ESCAPES})),
    (b"\xff\xfe\x00", BasicProperties(content_type="application/json", headers={"x-death": "forged", "n": 2**62})),
    (b"", None),
    (b"{}", BasicProperties(message_id="odd", headers={"amqpkit-replays": -1, "amqpkit-history": "no", "$int32": 1})),
)


@pytest.fixture
def audit(tmp_path):
    file = AuditFile(tmp_path / "audit.jsonl")
    yield file
    file.close()


def said(line: str) -> Kept:
    """What a line says, without the broker's count of looks."""
    kept = from_line(line)
    properties = kept.message.properties
    headers = {name: value for name, value in properties.headers.items() if name not in COUNTS}
    message = Message(kept.message.body, replace(properties, headers=headers))
    return Kept(kept.queue, kept.exchange, kept.routing_key, message)


async def exported(rig) -> list[str]:
    lines: list[str] = []
    report = await export_letters(rig.transport, "work.dlq", lines.append, work=WORK, clock=CLOCK)
    assert report.complete
    return lines


async def test_hostile_letters_are_read_exported_discarded_and_imported_unchanged(broker, audit):
    async with applied(broker) as rig:
        await rig.send("work.dlq", *HOSTILE)
        letters: list[Letter] = []

        def read(received: Received) -> None:
            letters.append(read_letter(received, work=WORK))

        browsed = await browse(rig.transport, "work.dlq", read, clock=CLOCK)
        assert (browsed.seen, browsed.trouble) == (len(HOSTILE), "")
        assert [letter.size for letter in letters] == [len(body) for body, _ in HOSTILE]

        lines = await exported(rig)
        assert all(line.isascii() and "\x1b" not in line and "\n" not in line for line in lines)
        assert [from_line(line).message.body for line in lines] == [body for body, _ in HOSTILE]

        grounds = Grounds("ada", "to see them back")
        gone = await discard(rig.transport, "work.dlq", grounds, audit.append, work=WORK, clock=CLOCK)
        assert (gone.discarded, await rig.ready("work.dlq")) == (len(HOSTILE), 0)
        imported = await import_letters(rig.transport, audit.path.read_bytes().splitlines(), clock=CLOCK)
        assert imported.complete

        again = await exported(rig)
        assert [said(line) for line in again] == [said(line) for line in lines]
        assert [typed(said(line)) for line in again] == [typed(said(line)) for line in lines]


def typed(kept: Kept) -> list[tuple[str, str]]:
    return [(name, type(value).__name__) for name, value in sorted(kept.message.properties.headers.items())]


async def test_a_discard_that_is_killed_loses_nothing(broker, audit, letters_nursery, tmp_path):
    async with applied(broker) as rig:
        ids = await bury(rig.transport, numbered(600))
        settings = Settings(broker.url, "discard", str(tmp_path / "out"), Point.WRITTEN, after=4, file=str(audit.path))

        ended = await letters_nursery.run(settings)
        assert ended.status == -signal.SIGKILL
        written = [from_line(line).message.properties.message_id for line in audit.path.read_text().splitlines()]
        await all_back(rig.transport, "work.dlq", 600 - len(written))

        rest = await discard(rig.transport, "work.dlq", Grounds("ada", "go on"), audit.append, work=WORK, clock=CLOCK)
        assert rest.complete
        imported = await import_letters(rig.transport, audit.path.read_text().splitlines(), clock=CLOCK)
        assert imported.complete
        back = await ids_in(rig.transport, "work.dlq")
        assert set(back) == set(ids)
        assert len(back) - 600 <= 100  # one batch


async def test_an_import_that_is_killed_goes_on_where_it_was(broker, letters_nursery, tmp_path):
    async with applied(broker) as rig:
        ids = await bury(rig.transport, numbered(800))
        file = tmp_path / "letters.jsonl"
        lines: list[str] = []
        await export_letters(rig.transport, "work.dlq", lines.append, clock=CLOCK)
        await take_all(rig.transport, "work.dlq")
        file.write_text("\n".join(lines))
        settings = Settings(broker.url, "import", str(tmp_path / "out"), Point.CONFIRMED, after=400, file=str(file))

        ended = await letters_nursery.run(settings)
        assert ended.status == -signal.SIGKILL
        safe = int((tmp_path / "out.safe").read_text())
        assert 250 <= safe <= 400
        imported = await import_letters(rig.transport, lines, skip=safe, clock=CLOCK)

        assert imported.complete
        found = await ids_in(rig.transport, "work.dlq")
        assert set(found) == set(ids)
        assert len(found) - 800 == len(doubled(found)) <= WINDOW + 1
