"""The demo on a terminal, 100 columns wide; without one, plain text that is the same each time."""

import json
import textwrap
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from amqpkit.cli.demo.script import HANDLED, Act
from amqpkit.cli.demo.story import Journey, Line
from amqpkit.model import Topology

WIDTH: Final = 100
_NAME, _PATH = 10, 45
_INDENT: Final = 9 + _NAME + _PATH
_UNDER: Final = 9 + _NAME + 2
_ROOM: Final = 30
"""With less than this beside the path, a long reason goes under it."""
_WIDE: Final = 95
"""With less than this a table has no room for reasons."""
_PROVEN: Final = (
    "Checked: every message ended as it had to, no work queue and no delay queue holds one any more, "
    "each dead letter has its fate, its history and the bytes it was published with, and in the shop's books each "
    "charge that was made stands once."
)
_STYLES: Final[Mapping[str, str]] = {
    "published": "bold",
    "begun": "",
    "retried": "yellow",
    "handled": "green",
    "dead": "red",
    "died": "bold red",
    "other": "magenta",
}


class Screen(Protocol):
    """What the demo shows, from its beginning to its end."""

    def opening(self, where: str, topology: Topology, file: str) -> None:
        """Say where we are."""

    def act(self, number: int, act: Act) -> None:
        """Announce an act."""

    def line(self, line: Line) -> None:
        """Show a movement."""

    def closing(self, journeys: Sequence[Journey], topology: Topology, problems: Sequence[str]) -> None:
        """Show how everything ended, and whether that is as promised."""

    def farewell(self, text: str) -> None:
        """Say what to do next."""


class TextScreen:
    """For people; `pace` in seconds is how long each line may be looked at before the next."""

    def __init__(self, *, pace: float = 0.0) -> None:
        console = Console(highlight=False, emoji=False, markup=False)
        if not console.is_terminal or console.width > WIDTH:
            console.width = WIDTH
        self._console = console
        self._arrow = " → " if console.encoding.lower().startswith("utf") else " -> "
        self._pace = pace if console.is_terminal else 0.0

    def opening(self, where: str, topology: Topology, file: str) -> None:
        """Say what is declared, and how to read what follows."""
        self._console.print(Text.assemble(("A small shop ", "bold"), f"on {where}."))
        self._paragraph(
            f"{file} declares {len(topology.work_queues)} work queues; amqpkit has applied them as "
            f"{len(topology.queues)} queues, {len(topology.exchanges)} exchanges, {len(topology.bindings)} bindings "
            f"and {len(topology.policies)} policies."
        )
        self._paragraph("Each line below: time, message, where it goes, and why.", style="dim")

    def act(self, number: int, act: Act) -> None:
        """Announce it, with what to look for."""
        self._console.print()
        self._console.print(f"{number}. {act.title}", style="bold cyan")
        self._paragraph(act.text, indent=3, style="dim")
        time.sleep(self._pace * 8)

    def line(self, line: Line) -> None:
        """Show it in columns."""
        path, style = self._arrow.join(line.path), _STYLES[line.kind]
        room = self._console.width - _INDENT
        beside = len(line.text) <= room or room >= _ROOM
        first, *rest = textwrap.wrap(line.text, room) if beside else ("", line.text)
        start = Text.assemble((f"{_clock(line.at):>7}  ", "dim"), f"{line.message:<{_NAME}}")
        self._console.print(start.append(f"{path:<{_PATH}}{first}".rstrip(), style=style), soft_wrap=True)
        for more in rest:
            self._console.print(" " * (_INDENT if beside else _UNDER) + more, style=style, soft_wrap=True)
        time.sleep(self._pace)

    def closing(self, journeys: Sequence[Journey], topology: Topology, problems: Sequence[str]) -> None:
        """Show the table, the dead letters' owners and the verdict."""
        self._console.print()
        wide = self._console.width >= _WIDE
        self._console.print(_table(journeys, why=wide))
        self._paragraph(_sum(journeys))
        if letters := _letters(journeys, topology, why=not wide):
            self._paragraph("The dead letters, and whose they are, as the file says:")
            for letter in letters:
                self._paragraph(letter, indent=2)
        self._console.print()
        if not problems:
            self._paragraph(_PROVEN, style="green")
            return
        self._paragraph("This is not how it had to end:", style="bold red")
        for problem in problems:
            self._paragraph(problem, indent=2, style="red")

    def _paragraph(self, text: str, *, indent: int = 0, style: str = "") -> None:
        space = " " * indent
        for line in textwrap.wrap(
            text, self._console.width, initial_indent=space, subsequent_indent=space, break_on_hyphens=False
        ):
            self._console.print(line, style=style, soft_wrap=True)

    def farewell(self, text: str) -> None:
        """Say it."""
        self._console.print(text, soft_wrap=True)


class JsonScreen:
    """For programs: one document on stdout."""

    def __init__(self) -> None:
        self._document: dict[str, Any] = {"format_version": "1.0"}
        self._lines: list[dict[str, Any]] = []

    def opening(self, where: str, topology: Topology, file: str) -> None:  # noqa: ARG002
        """Note it."""
        self._document |= {"broker": where, "topology": file}

    def act(self, number: int, act: Act) -> None:
        """Programs need no announcement."""

    def line(self, line: Line) -> None:
        """Keep it."""
        at = round(line.at, 3)
        self._lines.append(
            {"at": at, "message": line.message, "path": list(line.path), "text": line.text, "kind": line.kind}
        )

    def closing(self, journeys: Sequence[Journey], topology: Topology, problems: Sequence[str]) -> None:  # noqa: ARG002
        """Print everything."""
        self._document["lines"] = self._lines
        self._document["journeys"] = [
            {
                "message": journey.message,
                "queue": journey.queue,
                "calls": journey.calls,
                "crashes": journey.crashes,
                "duplicates": journey.duplicates,
                "delays": journey.delays,
                "ended": journey.end,
                "why": journey.why,
            }
            for journey in journeys
        ]
        self._document |= {"problems": list(problems), "ok": not problems}
        print(json.dumps(self._document, indent=2, ensure_ascii=False))

    def farewell(self, text: str) -> None:
        """Programs know what to do next."""


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds, 1), 60)
    return f"{int(minutes)}:{rest:04.1f}"


def _table(journeys: Sequence[Journey], *, why: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), show_edge=False)
    for name in ("message", "queue"):
        table.add_column(name, no_wrap=True)
    table.add_column("handler\ncalls", justify="right")
    table.add_column("waited\nin retry", no_wrap=True)
    table.add_column("ended", no_wrap=True)
    if why:
        table.add_column("why")
    for journey in journeys:
        handled = journey.end == HANDLED
        end = HANDLED if handled else f"dead: {journey.end}" if journey.end else "not yet"
        table.add_row(
            journey.message,
            journey.queue,
            str(journey.calls),
            ", ".join(journey.delays) or "-",
            Text(end, style="green" if handled else "red"),
            *([journey.why or _after(journey)] if why else []),
        )
    return table


def _after(journey: Journey) -> str:
    first = f"after {_count(len(journey.delays), 'failure')}" if journey.delays else "at once"
    return f"{first}, and never again" if journey.duplicates else first


def _sum(journeys: Sequence[Journey]) -> str:
    handled = sum(journey.end == HANDLED for journey in journeys)
    dead = sum(journey.end not in ("", HANDLED) for journey in journeys)
    retries, crashes = sum(len(each.delays) for each in journeys), sum(each.crashes for each in journeys)
    duplicates = sum(each.duplicates for each in journeys)
    lost = len(journeys) - handled - dead
    return (
        f"{handled} handled, {dead} dead, {lost} lost; on the way {_count(retries, 'retry', 'retries')}, "
        f"{_count(crashes, 'crash', 'crashes')} of a worker and {_count(duplicates, 'duplicate')}."
    )


def _letters(journeys: Sequence[Journey], topology: Topology, *, why: bool) -> list[str]:
    """Say whose each dead letter is."""
    lines = []
    for journey in journeys:
        if journey.end not in ("", HANDLED):
            work = topology.work_queues[journey.queue]
            runbook = f", runbook {work.runbook}" if work.runbook else ""
            reason = f"; {journey.why}" if why else ""
            lines.append(f"{work.dead_queue}: {journey.message}, owner {work.owner}{runbook}{reason}")
    return lines


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
