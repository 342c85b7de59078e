"""From what was found to a topology file that says exactly that, and notes on what it cannot say. Pure.

The file is compiled as it would be read, and compared: what a file cannot hold, or would make into something else,
stays out of it and is noted.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pydantic import ValidationError

from amqpkit.declare.compiler import compile_topology
from amqpkit.declare.identity import address, identity
from amqpkit.declare.importing.found import Found, Imported, Note, listed
from amqpkit.declare.importing.recognition import WorkQueueEntry, binding_entry, recognise
from amqpkit.declare.importing.text import entry_text
from amqpkit.declare.lint.secrets import secrets
from amqpkit.declare.plan.differences import differences
from amqpkit.declare.plan.extras import all_of, extras
from amqpkit.declare.spec.checks import check
from amqpkit.declare.spec.format import ExchangeSpec, PolicySpec, QueueSpec, Spec
from amqpkit.declare.spec.wording import worded
from amqpkit.model import Binding, DeclaredObject, Exchange, Policy, Queue, Topology

_HELD_BACK: Final = "it holds what looks like a secret; write it by hand, with ${VARIABLE} in the secret's place"
_WITHHELD: Final = "not shown, as it looks like a secret"

Identity = tuple[object, ...]


def outline(found: Found) -> Imported:
    """Write down what was found; the first plan of the file against it is empty."""
    draft = _Draft(found.topology)
    while draft.refine():
        pass
    notes = (*found.notes, *draft.notes())
    return Imported(draft.document, draft.compiled, tuple(_discreet(note) for note in notes))


class _Draft:
    """A file in the making: what is in it shrinks until it compiles to what is there."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        recognised, self.strangers = recognise(topology)
        self.work_queues = {each.name: each for each in recognised}
        self.left: dict[Identity, tuple[DeclaredObject, str]] = {}
        self.refused: dict[str, str] = {}
        self.document: dict[str, Any] = {}
        self.compiled = Topology()
        self._leave(_secret_ones(topology))

    def refine(self) -> bool:
        """Write, read and compare once; says whether something had to be taken out."""
        before = len(self.left) + len(self.refused)
        self._write()
        spec = self._read()
        if spec is not None and before == len(self.left) + len(self.refused):
            self.compiled = compile_topology(spec)
            self._leave(self._changed())
        changed = before != len(self.left) + len(self.refused)
        if not changed:
            self._retain()
        return changed

    def notes(self) -> Iterator[Note]:
        """Say what is not in the file, and what was guessed."""
        for declared, reason in self.left.values():
            yield Note("left-out", _name(declared, reason), f"not in the file: {reason}")
        for each in self.strangers:
            yield Note("raw", f"queue {each.name}", f"not taken for a work queue, stays as it is: {each.reason}")
        for name, reason in sorted(self.refused.items()):
            yield Note("raw", f"queue {name}", f"not taken for a work queue, stays as it is: {reason}")
        if self.work_queues:
            yield from _guesses(self.work_queues.values())

    def _leave(self, declared: Iterable[tuple[DeclaredObject, str]]) -> None:
        """Take objects out, and with a queue or exchange the bindings that would stand at it."""
        for each, reason in declared:
            self.left.setdefault(identity(each), (each, reason))
        gone = {
            ("exchange" if isinstance(each, Exchange) else "queue", each.name)
            for each, _ in self.left.values()
            if isinstance(each, Exchange | Queue)
        }
        for binding in self.topology.bindings if gone else ():
            if (binding.destination_type, binding.destination) in gone:
                end = f"the {binding.destination_type} that it leads to is not in the file"
                self.left.setdefault(identity(binding), (binding, end))

    def _kept(self, declared: Iterable[Any]) -> Iterator[Any]:
        parts = self._parts
        for each in declared:
            key = identity(each)
            if key not in parts and key not in self.left:
                yield each

    def _write(self) -> None:
        self._parts = frozenset().union(*(each.parts for each in self.work_queues.values()))
        self._at: dict[tuple[str, str], list[Binding]] = defaultdict(list)
        for binding in self._kept(self.topology.bindings):
            self._at[f"{binding.destination_type}s", binding.destination].append(binding)
        sections = {
            "exchanges": {each.name: self._exchange(each) for each in self._kept(self.topology.exchanges)},
            "queues": {each.name: self._queue(each) for each in self._kept(self.topology.queues)},
            "work_queues": {name: dict(each.entry) for name, each in sorted(self.work_queues.items())},
            "policies": {each.name: _policy(each) for each in self._kept(self.topology.policies)},
        }
        self.document = {"version": 1, **{key: value for key, value in sections.items() if value}}

    def _read(self) -> Spec | None:
        """Check the file as it is checked when it is read, and take out what is faulty."""
        try:
            spec = Spec.model_validate(self.document)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                self._fault(detail["loc"], worded(detail, str(detail["loc"][-1])))
            return None
        for finding in check(spec):
            self._fault(finding.loc, finding.message)
        return spec

    def _fault(self, loc: tuple[Any, ...], message: str) -> None:
        section, name = str(loc[0]), str(loc[1])
        if section == "work_queues" and name in self.work_queues:
            del self.work_queues[name]
            self.refused[name] = message
        elif loc[2:3] == ("bindings",):
            binding = self._at[section, name][loc[3]]
            self._leave([(binding, _missing("exchange", binding.source) if "source" in loc[4:] else message)])
        else:
            listing: tuple[Queue | Exchange | Policy, ...] = getattr(self.topology, section)
            self._leave([(each, message) for each in listing if each.name == name])

    def _changed(self) -> Iterator[tuple[DeclaredObject, str]]:
        """Find what the file would make into something else, or not at all."""
        made = {identity(each): each for each in all_of(self.compiled)}
        for each in all_of(self.topology):
            key = identity(each)
            if key in self.left:
                continue
            if key not in made:
                # Only bindings are written at something else, which may be missing.
                ends = (each.destination_type, each.destination) if isinstance(each, Binding) else ("queue", each.name)
                yield each, _missing(*ends)
            elif differing := differences(each, made[key]):
                yield each, f"a topology file would make it another one ({differing[0]})"

    def _retain(self) -> None:
        """Keep `apply --prune` off what is there, within what the file owns, and not in it."""
        stay = extras(self.compiled, self.topology)
        names = sorted({each.destination if isinstance(each, Binding) else each.name for each in stay})
        if names:
            self.document["on-remove"] = dict.fromkeys(names, "retain")
            self.compiled = compile_topology(Spec.model_validate(self.document))

    def _exchange(self, exchange: Exchange) -> dict[str, Any]:
        arguments = dict(exchange.arguments)
        alternate = arguments.get("alternate-exchange")
        if isinstance(alternate, str) and alternate:
            del arguments["alternate-exchange"]
        else:
            alternate = None
        given = {
            "type": exchange.type,
            "durable": exchange.durable,
            "auto_delete": exchange.auto_delete,
            "internal": exchange.internal,
            "alternate-exchange": alternate,
            "arguments": arguments,
            "bindings": self._bindings("exchanges", exchange.name),
        }
        return {"type": exchange.type, **_other_than_default(given, ExchangeSpec)}

    def _queue(self, queue: Queue) -> dict[str, Any]:
        given = {
            "type": queue.type,
            "durable": queue.durable,
            "auto_delete": queue.auto_delete,
            "arguments": {key: value for key, value in queue.arguments.items() if key != "x-queue-type"},
            "bindings": self._bindings("queues", queue.name),
        }
        return {"type": queue.type, **_other_than_default(given, QueueSpec)}

    def _bindings(self, section: str, name: str) -> list[dict[str, Any]]:
        return [binding_entry(each) for each in self._at.get((section, name), ())]


def _missing(kind: str, name: str) -> str:
    if kind == "queue":
        return f"there is no queue {name}"
    if name.startswith("amq."):
        return "it leads to an exchange that is RabbitMQ's own"
    lost = "RabbitMQ 4.3 leaves internal exchanges out of its definitions; importing the live vhost finds them"
    return f"there is no exchange {name} ({lost})"


def _policy(policy: Policy) -> dict[str, Any]:
    about = {"apply-to": policy.apply_to, "priority": policy.priority}
    return {"pattern": policy.pattern, **_other_than_default(about, PolicySpec), "definition": dict(policy.definition)}


def _other_than_default(given: Mapping[str, Any], model: type[ExchangeSpec | QueueSpec | PolicySpec]) -> dict[str, Any]:
    defaults = {info.alias or name: info.default for name, info in model.model_fields.items()}
    return {key: value for key, value in given.items() if value != defaults[key] and value != []}


def _secret_ones(topology: Topology) -> Iterator[tuple[DeclaredObject, str]]:
    """Find what cannot be written down without a secret."""
    for each in all_of(topology):
        if _holds_secret(entry_text(getattr(each, "name", ""), _written(each))):
            yield each, _HELD_BACK


def _written(declared: DeclaredObject) -> Mapping[str, Any]:
    match declared:
        case Binding():
            return {"source": declared.source, "key": declared.routing_key, "arguments": dict(declared.arguments)}
        case Policy():
            return {"pattern": declared.pattern, "definition": dict(declared.definition)}
        case _:
            return dict(declared.arguments)


def _holds_secret(text: str) -> bool:
    return next(secrets([("", text)]), None) is not None


def _name(declared: DeclaredObject, reason: str) -> str:
    if reason is _HELD_BACK and isinstance(declared, Binding):
        return f"a binding from {declared.source} to {declared.destination_type} {declared.destination}"
    return address(declared)


def _discreet(note: Note) -> Note:
    """Keep what looks like a secret out of a note, wherever it has come from."""
    return Note(note.kind, note.subject, _WITHHELD) if _holds_secret(note.message) else note


def _guesses(work_queues: Iterable[WorkQueueEntry]) -> Iterator[Note]:
    names = [each.name for each in work_queues]
    unknown = "accepts, consume, limits.depth, dead_letter (owner, runbook, alert, replay), equal delays in a row"
    yield Note("guess", "work queues", f"{listed(names)}: write in what no broker knows: {unknown}")
    ambiguous = [each.name for each in work_queues if each.guessed_none]
    if ambiguous:
        yield Note(
            "guess",
            "retry: none",
            f"{listed(ambiguous)}: one delay queue of 30s is there for `retry: none` and for `delays: [30s]` alike; "
            "see which was meant",
        )
