"""What a broker has, as something to import. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from amqpkit.declare.identity import address
from amqpkit.declare.importing.found import Found, Note, listed
from amqpkit.declare.importing.unmanaged import LIMITS, NOT_HERE, OPERATOR, of_operator_policies, of_parameters
from amqpkit.model import Binding, Surroundings, Topology


@dataclass(frozen=True, slots=True)
class Beyond:
    """What of a vhost no topology holds; names only, for the values may be secret. None: the user may not see it."""

    parameters: tuple[tuple[str, str], ...] | None = ()
    """Component and name."""
    users: tuple[str, ...] | None = ()
    """Those with a permission in the vhost."""
    bindings: tuple[Binding, ...] = ()
    """Those that lead to RabbitMQ's own exchanges."""


def found(topology: Topology, surroundings: Surroundings, beyond: Beyond) -> Found:
    """Put together what is declared and what else was seen."""
    return Found(topology, tuple(_notes(surroundings, beyond)))


def _notes(surroundings: Surroundings, beyond: Beyond) -> Iterator[Note]:
    yield from of_operator_policies([each.name for each in surroundings.operator_policies])
    limited = surroundings.max_queues is not None
    if beyond.parameters is None:
        yield Note("unmanaged", "parameters", "shovels, federation and the like could not be seen: policymakers may")
        if limited:
            yield Note("unmanaged", "vhost limits", NOT_HERE)
    else:
        listing = [{"component": component, "name": name} for component, name in beyond.parameters]
        yield from of_parameters(each for each in listing if each["component"] != OPERATOR)
        if limited and not any(component == LIMITS for component, _ in beyond.parameters):
            yield Note("unmanaged", "vhost limits", NOT_HERE)
    if surroundings.default_queue_type != "classic":
        yield Note("unmanaged", "the vhost's default_queue_type", NOT_HERE)
    if beyond.users is None:
        yield Note("unmanaged", "users, permissions", "could not be seen: only administrators may")
    elif beyond.users:
        yield Note("unmanaged", "users, permissions", f"{listed(sorted(set(beyond.users)))}: {NOT_HERE}")
    for binding in beyond.bindings:
        yield Note("left-out", address(binding), "not in the file: it leads to an exchange that is RabbitMQ's own")
