"""Which queues a message reaches, by which way, and why not the others. Pure.

Routes as RabbitMQ does: through bindings between exchanges, to the alternate exchange of one that leads nowhere, and
under every key of the headers `CC` and `BCC` too.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from amqpkit.declare.policies import PolicyIndex
from amqpkit.declare.routing import PREDECLARED, follows, same_header, wanted_headers, words_of
from amqpkit.model import Binding, Exchange, Topology, nothing

_HASHING: Final = frozenset({"x-consistent-hash", "x-modulus-hash", "x-random", "x-local-random"})
_AS_FANOUT: Final = frozenset({"fanout", "x-recent-history"})
_KNOWN: Final = frozenset({"direct", "topic", "headers"})


@dataclass(frozen=True, slots=True)
class Sent:
    """What is known of a message when it is published."""

    exchange: str
    routing_key: str = ""
    headers: Mapping[str, Any] = field(default_factory=nothing)

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key that it is routed by: its own and those of `CC` and `BCC`."""
        more = [key for name in ("CC", "BCC") for key in _texts(self.headers.get(name))]
        return tuple(dict.fromkeys((self.routing_key, *more)))


@dataclass(frozen=True, slots=True)
class Hop:
    """One step: along a binding, to an alternate exchange, or to the queue that the key names."""

    source: str
    destination: str
    destination_type: Literal["queue", "exchange"]
    by: Literal["binding", "alternate", "name"]
    binding: Binding | None = None


@dataclass(frozen=True, slots=True)
class Reached:
    """A queue that gets the message; not `certain` when the exchange picks one of several."""

    queue: str
    way: tuple[Hop, ...]
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Missed:
    """A binding on the way that the message does not follow, and why."""

    binding: Binding
    reason: str


@dataclass(frozen=True, slots=True)
class Itinerary:
    """Where a message goes; `others` are queues to which no binding leads from the exchanges on the way."""

    sent: Sent
    reached: tuple[Reached, ...]
    missed: tuple[Missed, ...]
    others: tuple[str, ...]
    notes: tuple[str, ...] = ()


def itinerary(topology: Topology, sent: Sent) -> Itinerary:
    """Follow a message through a topology."""
    walk = _Walk(topology, sent)
    walk.go()
    missed = tuple(
        each for each in walk.missed if (each.binding.destination_type, each.binding.destination) not in walk.ways
    )
    seen = {*walk.reached, *(each.binding.destination for each in missed if each.binding.destination_type == "queue")}
    others = tuple(queue.name for queue in topology.queues if queue.name not in seen)
    return Itinerary(sent, tuple(walk.reached.values()), missed, others, tuple(walk.notes))


class _Walk:
    """One message on its way; each exchange is visited once."""

    def __init__(self, topology: Topology, sent: Sent) -> None:
        self.sent = sent
        self.queues = {queue.name for queue in topology.queues}
        self.exchanges = {exchange.name: exchange for exchange in topology.exchanges}
        self.policies = PolicyIndex(topology.policies)
        self.bindings: dict[str, list[Binding]] = defaultdict(list)
        for binding in topology.bindings:
            self.bindings[binding.source].append(binding)
        self.reached: dict[str, Reached] = {}
        self.missed: list[Missed] = []
        self.notes: list[str] = []
        self.ways: dict[tuple[str, str], tuple[tuple[Hop, ...], bool]] = {}

    def go(self) -> None:
        first = self.sent.exchange
        start = self.exchanges.get(first)
        if start and start.internal:
            self.notes.append(f'exchange "{first}" is internal: publishing to it is refused (403)')
        self.ways["exchange", first] = ((), True)
        ahead = [first]
        for name in ahead:  # it grows while we go
            for hop, certain in self.hops(name):
                ahead += self.take(name, hop, certain=certain)

    def take(self, name: str, hop: Hop, *, certain: bool) -> list[str]:
        """Note where a hop leads; give the exchange to go on from, if it is a new one."""
        before, sure = self.ways["exchange", name]
        end = (hop.destination_type, hop.destination)
        way, certain = (*before, hop), certain and sure
        if end in self.ways and (self.ways[end][1] or not certain):
            return []
        again = end in self.ways  # now it is certain
        self.ways[end] = (way, certain)
        if hop.destination_type == "exchange":
            return [] if again else [hop.destination]
        self.reached[hop.destination] = Reached(hop.destination, way, certain)
        return []

    def hops(self, name: str) -> Iterator[tuple[Hop, bool]]:
        """Give the steps from one exchange, and whether each is certain."""
        if not name:
            for key in self.sent.keys:
                if key in self.queues:
                    yield Hop("", key, "queue", "name"), True
                else:
                    self.notes.append(f'the default exchange leads to the queue that the key names; no "{key}" is here')
            return
        declared = self.exchanges.get(name)
        kind = declared.type if declared else PREDECLARED.get(name)
        if kind is None:
            self.notes.append(f'exchange "{name}" is not declared here: RabbitMQ would close the channel (404)')
            return
        hits, certain = self.hits(name, _routes_as(kind, declared))
        for hit in hits:
            yield Hop(name, hit.destination, hit.destination_type, "binding", hit), certain
        alternate = None if hits else self.alternate(declared)
        if alternate is not None:
            yield Hop(name, alternate, "exchange", "alternate"), True

    def hits(self, name: str, kind: str) -> tuple[list[Binding], bool]:
        """Give the bindings that are followed; of a hashing exchange, all of which one will be."""
        bindings = self.bindings.get(name, [])
        if kind in _HASHING:
            if len(bindings) > 1:
                self.notes.append(f'exchange "{name}" ({kind}) picks one of its {len(bindings)} bindings')
            return bindings, len(bindings) < 2  # noqa: PLR2004 - one alone is certain
        if kind not in _KNOWN | _AS_FANOUT:
            self.notes.append(f'how exchange "{name}" ({kind}) routes is its plugin\'s affair: any binding may do')
            return bindings, False
        found = []
        for binding in bindings:
            if kind in _AS_FANOUT or any(follows(kind, binding, key, self.sent.headers) for key in self.sent.keys):
                found.append(binding)
            else:
                self.missed.append(Missed(binding, why_not(kind, binding, self.sent)))
        return found, True

    def alternate(self, declared: Exchange | None) -> str | None:
        if declared is None:
            return None
        ruling = self.policies.ruling(declared).winner
        found: str | None = declared.arguments.get(
            "alternate-exchange", ruling.definition.get("alternate-exchange") if ruling else None
        )
        return found


def why_not(kind: str, binding: Binding, sent: Sent) -> str:
    """Say why an exchange of this type does not send a message along a binding."""
    if kind == "headers":
        return _header_reason(binding.arguments, sent.headers)
    if kind == "direct":
        return f'a direct exchange wants the key "{binding.routing_key}" exactly'
    return _topic_reason(binding.routing_key, sent.routing_key)


def _topic_reason(pattern: str, key: str) -> str:
    wanted, words = words_of(pattern), words_of(key)
    for position, (want, word) in enumerate(zip(wanted, words, strict=False), start=1):
        if want == "#":
            return f'"{pattern}" does not match'
        if want not in {"*", word}:
            return f'word {position} is "{word}", the pattern wants "{want}"'
    needs = len([word for word in wanted if word != "#"])
    if "#" in wanted:
        return f"the key has {_counted(len(words))}, the pattern wants {needs} at least"
    return f"the key has {_counted(len(words))}, the pattern wants {needs}"


def _counted(number: int) -> str:
    return f"{number} word" if number == 1 else f"{number} words"


def _header_reason(arguments: Mapping[str, Any], headers: Mapping[str, Any]) -> str:
    reasons = []
    for name, value in wanted_headers(arguments).items():
        if name not in headers:
            reasons.append(f"it has no header {name}")
        elif not same_header(value, headers[name]):
            reasons.append(f"header {name} is {_shown(headers[name])}, the binding wants {_shown(value)}")
    if not reasons:
        return "x-match any, and no header is asked for"
    return " and ".join(reasons)


def _shown(value: Any) -> str:
    kind = {str: "text", bool: "truth value", int: "number"}.get(type(value), type(value).__name__)
    return f"the {kind} {value!r}"


def _routes_as(kind: str, declared: Exchange | None) -> str:
    if kind == "x-delayed-message" and declared:
        return str(declared.arguments.get("x-delayed-type", "direct"))
    return kind


def _texts(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list | tuple) else []
