"""A topology as RabbitMQ's definitions: what `rabbitmqctl import_definitions` and the management API read. Pure."""

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from amqpkit.declare.rendering import rendered
from amqpkit.model import Topology

_SECTIONS = ("exchanges", "queues", "bindings", "policies")


def definitions(topology: Topology, vhost: str | None = None) -> dict[str, Any]:
    """Give the declared objects and what they hold, sorted.

    With `vhost` it has the form of a whole cluster, which RabbitMQ loads at boot. Without it
    they are for `POST /api/definitions/VHOST`. Users, permissions and parameters are in no topology.
    """
    document = rendered(topology)
    listed = {section: sorted(map(_in_order, document[section]), key=_place) for section in _SECTIONS}
    if vhost is None:
        return listed
    placed = {section: [{**item, "vhost": vhost} for item in items] for section, items in listed.items()}
    return {"vhosts": [{"name": vhost}], **placed}


def _place(item: dict[str, Any]) -> tuple[str, ...]:
    ends = itemgetter("source", "destination_type", "destination", "routing_key")
    return (item["name"],) if "name" in item else (*ends(item), repr(sorted(item["arguments"].items())))


def _in_order(item: dict[str, Any]) -> dict[str, Any]:
    """Sort the keys within an object, not its own: the name stays first."""
    return {key: _sorted(value) for key, value in item.items()}


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [_sorted(each) for each in value]
    return value
