"""A topology as RabbitMQ's definitions: what `rabbitmqctl import_definitions` and the management API read. Pure."""

from operator import itemgetter
from typing import Any

from amqpkit.declare.rendering import rendered
from amqpkit.model import Topology

_SECTIONS = ("exchanges", "queues", "bindings", "policies")


def definitions(topology: Topology, vhost: str | None = None) -> dict[str, Any]:
    """Give the declared objects, sorted; with `vhost` in the form of a whole cluster, which RabbitMQ loads at boot.

    Without it they are for `POST /api/definitions/VHOST`. Users, permissions and parameters are in no topology.
    """
    document = rendered(topology)
    listed = {section: sorted(document[section], key=_place) for section in _SECTIONS}
    if vhost is None:
        return listed
    placed = {section: [{**item, "vhost": vhost} for item in items] for section, items in listed.items()}
    return {"vhosts": [{"name": vhost}], **placed}


def _place(item: dict[str, Any]) -> tuple[str, ...]:
    ends = itemgetter("source", "destination_type", "destination", "routing_key")
    return (item["name"],) if "name" in item else (*ends(item), repr(sorted(item["arguments"].items())))
