"""RabbitMQ's definitions, of one vhost or a whole cluster, as objects and notes.

Pure: gets the decoded JSON. Tolerant as RabbitMQ is: what is missing has RabbitMQ's default.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from amqpkit.declare.importing.found import Found
from amqpkit.declare.importing.removed import without_removed
from amqpkit.declare.importing.unmanaged import default_queue_type, notes
from amqpkit.errors import AmqpkitError, Problem, TopologyError
from amqpkit.model import Binding, DeclaredObject, Exchange, Policy, Queue, Topology

_OBJECTS: Final = ("exchanges", "queues", "bindings", "policies")
_OF_A_VHOST: Final = (*_OBJECTS, "parameters", "permissions", "topic_permissions")
_KNOWN: Final = frozenset({*_OF_A_VHOST, "users", "vhosts", "global_parameters", "rabbit_version", "rabbitmq_version"})
_MISSING: Final = object()


def read(document: object, file: str, vhost: str | None = None) -> Found:
    """Read definitions; of several vhosts, the one that is asked for.

    Raises TopologyError with every object that is not one, AmqpkitError when it must be said which vhost.
    """
    if not isinstance(document, Mapping) or not _KNOWN & document.keys():
        known = ", ".join(_OBJECTS)
        problem = f"not a definitions file of RabbitMQ: it is no JSON object with one of {known}"
        raise TopologyError([Problem(file, problem)])
    if faults := list(_shapes(document)):
        raise TopologyError([Problem(file, fault) for fault in faults])
    chosen = _chosen(document, file, vhost)
    mine = {section: list(_of(chosen, section, document)) for section in _OF_A_VHOST}
    reader = _Reader(default_queue_type(document, chosen))
    read_in = {section: [each for each in reader.read(section, mine[section]) if each] for section in _OBJECTS}
    if reader.faults:
        raise TopologyError([Problem(file, fault) for fault in reader.faults])
    policies, changed = without_removed(read_in["policies"], str(_version(document)))
    topology = Topology(
        exchanges=_unique(read_in["exchanges"]),
        queues=_unique(read_in["queues"]),
        bindings=tuple(each for each in read_in["bindings"] if each.source),
        policies=_unique(policies),
        vhost=chosen,
    )
    items = {section: [item for _, item in found] for section, found in mine.items()}
    return Found(topology, (*notes(document, items, chosen), *changed))


def vhosts(document: Mapping[str, Any]) -> tuple[str, ...]:
    """Name every vhost that a definitions file speaks of."""
    named = {str(item["name"]) for item in document.get("vhosts", ()) if isinstance(item, Mapping) and "name" in item}
    for section in _OF_A_VHOST:
        named |= {str(item["vhost"]) for item in document.get(section, ()) if "vhost" in item}
    if original := document.get("original_vhost_name"):
        named.add(str(original))
    return tuple(sorted(named))


def _chosen(document: Mapping[str, Any], file: str, vhost: str | None) -> str | None:
    there = vhosts(document)
    if vhost is not None:
        if there and vhost not in there:
            raise AmqpkitError(f'{file} has no vhost "{vhost}"; it has {_quoted(there)}')
        return vhost
    if len(there) > 1:
        raise AmqpkitError(f"{file} has several vhosts: {_quoted(there)}; say which with --vhost")
    return there[0] if there else None


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _shapes(document: Mapping[str, Any]) -> Iterator[str]:
    for section in (*_OF_A_VHOST, "users", "vhosts", "global_parameters"):
        listing = document.get(section, [])
        if not isinstance(listing, list):
            yield f"{section}: expected a list"
            continue
        yield from (f"{section}[{at}]: expected an object" for at, it in enumerate(listing) if not isinstance(it, dict))


def _of(vhost: str | None, section: str, document: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Give the objects of a vhost, those that name none too, each with its place."""
    for at, item in enumerate(document.get(section, ())):
        if vhost is None or item.get("vhost", vhost) == vhost:
            yield at, item


def _version(document: Mapping[str, Any]) -> object:
    return document.get("rabbitmq_version") or document.get("rabbit_version") or ""


def _unique(declared: Iterable[Any]) -> tuple[Any, ...]:
    """Sort by name; the first of two wins, as on import."""
    by_name: dict[str, Any] = {}
    for each in declared:
        by_name.setdefault(each.name, each)
    return tuple(by_name[name] for name in sorted(by_name))


class _Reader:
    """Turns items into objects and collects what is wrong with them."""

    def __init__(self, default_type: str) -> None:
        self.default_type = default_type
        self.faults: list[str] = []
        self._at = ""

    def read(self, section: str, items: Iterable[tuple[int, Mapping[str, Any]]]) -> Iterator[Any]:
        """Read the objects of a section; a faulty one is None."""
        makers: dict[str, Callable[[Mapping[str, Any]], DeclaredObject]] = {
            "exchanges": self._exchange,
            "queues": self._queue,
            "bindings": self._binding,
            "policies": self._policy,
        }
        for at, item in items:
            before, self._at = len(self.faults), f"{section}[{at}]"
            made = makers[section](item)
            yield made if len(self.faults) == before else None

    def _exchange(self, item: Mapping[str, Any]) -> Exchange:
        return Exchange(
            name=self._get(item, "name", str),
            type=self._get(item, "type", str, "direct"),
            durable=self._get(item, "durable", bool, default=True),
            auto_delete=self._get(item, "auto_delete", bool, default=False),
            internal=self._get(item, "internal", bool, default=False),
            arguments=self._table(item, "arguments"),
        )

    def _queue(self, item: Mapping[str, Any]) -> Queue:
        arguments = self._table(item, "arguments")
        kind = str(arguments.get("x-queue-type", item.get("type") or self.default_type))
        return Queue(
            name=self._get(item, "name", str),
            type=kind,
            durable=self._get(item, "durable", bool, default=True),
            auto_delete=self._get(item, "auto_delete", bool, default=False),
            arguments=MappingProxyType({"x-queue-type": kind, **arguments}),
        )

    def _binding(self, item: Mapping[str, Any]) -> Binding:
        kind = self._get(item, "destination_type", str, "queue")
        if kind not in {"queue", "exchange"}:
            self.faults.append(f"{self._at}.destination_type: neither queue nor exchange")
        return Binding(
            source=self._get(item, "source", str),
            destination=self._get(item, "destination", str),
            routing_key=self._get(item, "routing_key", str, ""),
            destination_type="exchange" if kind == "exchange" else "queue",
            arguments=self._table(item, "arguments"),
        )

    def _policy(self, item: Mapping[str, Any]) -> Policy:
        return Policy(
            name=self._get(item, "name", str),
            pattern=self._get(item, "pattern", str),
            definition=self._table(item, "definition"),
            apply_to=self._get(item, "apply-to", str, "all"),
            priority=self._get(item, "priority", int, 0),
        )

    def _get(self, item: Mapping[str, Any], key: str, kind: type, default: Any = _MISSING) -> Any:
        value = item.get(key, default)
        if value is _MISSING:
            self.faults.append(f"{self._at}: has no {key}")
            return kind()
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            wanted = {str: "text", bool: "true or false", int: "a whole number"}[kind]
            self.faults.append(f"{self._at}.{key}: expected {wanted}")
            return kind()
        return value

    def _table(self, item: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        value = item.get(key) or {}  # some old exports have [] for an empty table
        if not isinstance(value, Mapping):
            self.faults.append(f"{self._at}.{key}: expected an object")
            return MappingProxyType({})
        return MappingProxyType(dict(value))
