"""What the kit's events tell, as lines to read and as one journey per message and queue.

Pure: is handed events and the time, knows no broker, no clock and no screen.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from amqpkit.cli.demo.script import HANDLED
from amqpkit.declare.routing import follows
from amqpkit.events import Begun, Event, Outcome, Settled
from amqpkit.model import Topology

Kind = Literal["published", "begun", "retried", "handled", "dead", "died", "other"]


@dataclass(frozen=True, slots=True)
class Line:
    """One movement; `path` is where from and where to, `at` seconds since the start."""

    at: float
    message: str
    path: tuple[str, ...]
    text: str
    kind: Kind


@dataclass(slots=True)
class Journey:
    """What became of one message in one queue."""

    message: str
    queue: str
    calls: int = 0
    crashes: int = 0
    duplicates: int = 0
    delays: list[str] = field(default_factory=list)
    end: str = ""
    why: str = ""
    running: bool = False


class Story:
    """Hears everything, tells `tell` each line, remembers the journeys."""

    def __init__(
        self, topology: Topology, consumers: Mapping[str, str], now: Callable[[], float], tell: Callable[[Line], None]
    ) -> None:
        """Keep the parts; `consumers` names the class that handles each queue."""
        self._topology, self._consumers, self._now, self._tell = topology, consumers, now, tell
        self._names: dict[str, str] = {}
        self.journeys: dict[tuple[str, str], Journey] = {}
        self.lines: list[Line] = []

    def published(self, name: str, message_id: str, exchange: str, routing_key: str, note: str = "") -> None:
        """Follow this message from now on; call it before the broker can answer."""
        self._names[message_id] = name
        queues = self._queues(exchange, routing_key)
        path = ("publisher", exchange, ", ".join(queues)) if exchange else ("publisher", routing_key)
        text = f"with key {routing_key}" if exchange else "straight into its queue"
        self._line(name, path, f"{text}, {note}" if note else text, "published")

    def happened(self, event: Event) -> None:
        """Take in an event of the worker."""
        if not isinstance(event, Begun | Settled) or event.message_id not in self._names:
            return
        name = self._names[event.message_id]
        journey = self.journeys.setdefault((name, event.queue), Journey(name, event.queue))
        if isinstance(event, Begun):
            self._begun(journey, event)
        else:
            self._settled(journey, event)

    def died(self) -> None:
        """Take in that the worker's process is gone, and with it whatever it was doing."""
        for journey in self.journeys.values():
            if journey.running:
                journey.running = False
                journey.crashes += 1
                limit = self._topology.work_queues[journey.queue].delivery_limit
                text = f"the worker dies (crash {journey.crashes} of {limit})"
                self._line(journey.message, (self._consumers[journey.queue], journey.queue), text, "died")

    def ended(self, name: str, queue: str, duplicates: int = 0) -> bool:
        """Whether this message has come to an end in this queue, and so many duplicates of it too."""
        journey = self.journeys.get((name, queue))
        return journey is not None and bool(journey.end) and journey.duplicates >= duplicates

    def _begun(self, journey: Journey, event: Begun) -> None:
        journey.calls += 1
        journey.running = True
        path = (event.queue, self._consumers[event.queue])
        text = f"attempt {event.attempt} of {self._topology.work_queues[event.queue].attempts}"
        if journey.crashes:
            text += ", delivered again"
        elif journey.delays:
            path = (self._delay_queue(event.queue, journey.delays[-1]), event.queue)
        self._line(journey.message, path, text, "begun")

    def _settled(self, journey: Journey, event: Settled) -> None:
        was_running, journey.running = journey.running, False
        source = self._consumers[event.queue] if was_running else event.queue
        match event.outcome:
            case Outcome.HANDLED:
                journey.end = HANDLED
                self._line(journey.message, (source, "done"), "handled", "handled")
            case Outcome.DUPLICATE:
                journey.end, journey.duplicates = journey.end or HANDLED, journey.duplicates + 1
                self._line(journey.message, (source, "done"), f"a duplicate: it {event.reason}", "handled")
            case Outcome.RETRIED:
                journey.delays.append(event.delay or "")
                path = (source, self._delay_queue(event.queue, event.delay or ""))
                self._line(journey.message, path, event.reason, "retried")
            case Outcome.DEAD:
                journey.end, journey.why = event.fate or "dead", event.reason
                path = (source, self._topology.work_queues[event.queue].dead_queue)
                self._line(journey.message, path, f"{journey.end}: {event.reason}", "dead")
            case Outcome.REQUEUED:
                pass  # its worker has gone: told by `died`
            case _:
                self._line(journey.message, (source, event.queue), f"{event.outcome}: {event.reason}", "other")

    def _queues(self, exchange: str, routing_key: str) -> list[str]:
        kinds = {each.name: each.type for each in self._topology.exchanges}
        return [
            binding.destination
            for binding in self._topology.bindings
            if binding.source == exchange and follows(kinds[exchange], binding, routing_key, {})
        ]

    def _delay_queue(self, queue: str, key: str) -> str:
        levels = self._topology.work_queues[queue].snoozes
        return next(each.queue for level in levels for each in level.queues if each.key == key)

    def _line(self, name: str, path: tuple[str, ...], text: str, kind: Kind) -> None:
        line = Line(self._now(), name, path, text, kind)
        self.lines.append(line)
        self._tell(line)
