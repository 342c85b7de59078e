"""What a vhost has, as far as a plan wants to know. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from amqpkit.model import Holding, Surroundings, Topology, nothing


@dataclass(frozen=True, slots=True)
class Actual:
    """What is declared there, what rules over it, and what some of its queues hold."""

    topology: Topology = field(default_factory=Topology)
    surroundings: Surroundings = field(default_factory=Surroundings)
    holdings: Mapping[str, Holding] = field(default_factory=nothing)
    """Only of queues that somebody asked about."""
