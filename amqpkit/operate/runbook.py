"""A runbook for each dead-letter queue: whose it is, what each fate means, which commands to type. Pure."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from amqpkit.model import Topology, WorkQueue
from amqpkit.operate.alerts import spoken
from amqpkit.units import format_duration, format_rate


@dataclass(frozen=True, slots=True)
class Fate:
    """One way to die: what happened, what to do first, and whether a replay helps once that is done."""

    name: str
    meaning: str
    remedy: str


FATES: Final = (
    Fate(
        "exhausted",
        "The handler failed at every attempt.",
        "Read the error and its history. Once the cause is gone (a service is back, a fix is deployed), replay.",
    ),
    Fate(
        "permanent",
        "The handler said that it can never succeed: it raised DeadLetter or an exception of `never_retry`.",
        "Read the reason. Mend the data at its source; replay only if the handler would decide otherwise now.",
    ),
    Fate(
        "invalid",
        "The payload does not fit its class, or the queue does not accept its type. It was never handled.",
        "A producer is wrong, or ahead of the workers. Mend the producer, or deploy workers that know it, and replay.",
    ),
    Fate(
        "too-new",
        "The payload's version was newer than every worker's for a day.",
        "Deploy workers that know the version, then replay.",
    ),
    Fate(
        "crashed",
        "Its workers died, or lost their lease, as often as `delivery-limit` allows. It may kill the next one too.",
        "Find out what kills the worker (memory, a native library, a handler that never ends). Replay one, and watch.",
    ),
    Fate(
        "rejected, expired, maxlen or delivery_limit",
        "The broker itself moved it here, so it carries no error of ours.",
        "`rejected`: its headers left no room for a copy, see the worker's log. Others: look at the queue's policies.",
    ),
)
_REPLAYABLE: Final = ("exhausted", "permanent", "invalid", "too-new", "crashed")


def runbook(topology: Topology, queues: Sequence[str] = (), *, files: Sequence[str] = ()) -> str:
    """Write Markdown: one section for each dead-letter queue; `files` is what the commands name as topology."""
    works = [work for name, work in sorted(topology.work_queues.items()) if not queues or name in queues]
    return "\n\n".join(_section(work, " ".join(map(shlex.quote, files))) for work in works) + "\n"


def _section(work: WorkQueue, files: str) -> str:
    parts = (f"# {work.dead_queue}", _about(work), _first(work, files), *(_fate(work, fate, files) for fate in FATES))
    return "\n\n".join((*parts, _ending(work, files)))


def _about(work: WorkQueue) -> str:
    delays = ", ".join(format_duration(delay.milliseconds) for delay in work.delays)
    retries = f"{work.attempts} attempts, with {delays} between them" if delays else "1 attempt, no retries"
    rows = (
        ("owner", work.owner or "nobody: write `dead_letter.owner` into the topology file"),
        ("runbook of the team", work.runbook),
        ("holds", f"messages of `{work.name}` that were given up"),
        ("payload types", ", ".join(f"`{name}`" for name in work.accepts)),
        ("a message got", retries),
        ("alert", _alert(work)),
        ("kept", "until somebody replays or discards them; nothing here expires"),
    )
    return "\n".join(("| | |", "|---|---|", *(f"| {name} | {_cell(value)} |" for name, value in rows if value)))


def _alert(work: WorkQueue) -> str:
    messages = f"from {work.alert.messages} on" if work.alert.messages is not None else ""
    age = f"when one has waited {spoken(work.alert.age)}" if work.alert.age is not None else ""
    return ", and ".join(filter(None, (messages, age))) or "none: write `dead_letter.alert` into the topology file"


def _first(work: WorkQueue, files: str) -> str:
    queue = shlex.quote(work.name)
    commands = (
        ("how many, since when, who consumes", _command("status", files)),
        ("what they died of, the same things together", _command("dlq groups", queue, files)),
        ("one by one", _command("dlq list", f"--letters {queue}", files)),
        ("one letter whole: error, history, traceback", _command("dlq show", queue, "MESSAGE-ID", files)),
    )
    return "## Look first\n\nLooking changes nothing.\n\n" + _shell(commands)


def _fate(work: WorkQueue, fate: Fate, files: str) -> str:
    text = f"## {fate.name}\n\n{fate.meaning} {fate.remedy}"
    if fate.name not in _REPLAYABLE:
        return text
    queue, rate = shlex.quote(work.name), f"--rate {format_rate(work.replay.rate)}" if work.replay.rate else ""
    replay = ("dlq replay", queue, files, f"--fate {fate.name}")
    commands = (
        ("what would go where", _command(*replay, "--dry-run")),
        ("send them back, each with all its attempts", _command(*replay, rate, _one(fate))),
    )
    return f"{text}\n\n{_shell(commands)}"


def _one(fate: Fate) -> str:
    return "--limit 1" if fate.name == "crashed" else ""


def _ending(work: WorkQueue, files: str) -> str:
    queue, name = shlex.quote(work.name), shlex.quote(f"{work.name}.jsonl")
    most = work.replay.max_replays
    bound = f" A letter that was replayed {most} times is left out unless `--force` is given." if most else ""
    commands = (
        ("keep a copy", _command("dlq export", queue, files, f"--out {name}")),
        ("throw away, on the record", _command("dlq discard", queue, files, "--reason 'TICKET: why'")),
    )
    return f"## When no replay will help\n\nAsk the owner before anything is thrown away.{bound}\n\n{_shell(commands)}"


def _command(*words: str) -> str:
    return " ".join(("amqpkit", *filter(None, words)))


def _shell(commands: Sequence[tuple[str, str]]) -> str:
    return "\n".join(("```sh", *(f"{command}  # {text}" for text, command in commands), "```"))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
