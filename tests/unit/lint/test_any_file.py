"""Whatever stands in a file, lint answers; and what compiles can be drawn and routed."""

import random

import pytest

from amqpkit.declare.graph.mermaid import mermaid
from amqpkit.declare.graph.page import page
from amqpkit.declare.graph.picture import picture
from amqpkit.declare.lint.run import lint
from amqpkit.declare.route import Sent, itinerary
from amqpkit.declare.spec.document import to_yaml

NAMES = ["a", "b", "a.dlq", "a.retry.10s", "a.dlx", "amq.q", "x" * 256]
KEYS = ["", "#", "a.*", "a", "{x}.b", "{"]
ARGUMENTS = ["message-ttl", "dead-letter-exchange", "dead-letter-routing-key", "overflow", "max-length", "expires"]
ARGUMENTS += ["delivery-limit", "queue-type", "max-age", "consumer-timeout", "alternate-exchange", "ha-mode"]


class Dice(random.Random):
    """`tame` throws keep to what compiles, mostly."""

    tame = False

    def name(self) -> str:
        return self.choice(["a", "b"] if self.tame else NAMES)


def value(dice: Dice):
    odd = [
        None,
        True,
        0,
        -1,
        5,
        "5",
        "1h",
        "",
        [],
        {},
        [1],
        {"a": 1},
        1.5,
        "none",
        "${X}",
        "drop-head",
        "reject-publish",
    ]
    return dice.choice([*odd, *NAMES])


def binding(dice: Dice):
    arguments = {"x-match": value(dice)} if dice.random() < 0.3 else {}
    source = dice.choice(["amq.topic", "amq.headers"]) if dice.tame else dice.name()
    return {"source": source, "routing_key": dice.choice(KEYS), "arguments": arguments}


def exchange(dice: Dice):
    other = {"alternate-exchange": dice.name()} if dice.random() < 0.4 else {}
    kind = dice.choice(["topic", "direct", "fanout", "headers", "x-q"])
    return {"type": kind, "bindings": [binding(dice)] if dice.random() < 0.4 else [], **other}


def queue(dice: Dice):
    arguments = {f"x-{dice.choice(ARGUMENTS)}": value(dice) for _ in range(dice.randrange(4))}
    kind = dice.choice(["classic", "quorum", "stream"])
    return {"type": kind, "arguments": arguments, "bindings": [binding(dice)]}


def work_queue(dice: Dice):
    every = {
        "limits": {"depth": dice.choice([1, 5])},
        "max-length": dice.choice([1, 20]),
        "retry": dice.choice(["none", {"delays": ["1s", "1m"]}, {"attempts": 3}, {"first": "1s"}]),
        "consume": {"timeout": dice.choice(["1s", "40m"])},
    }
    return {key: each for key, each in every.items() if dice.random() < 0.5}


def message(dice: Dice):
    return {"exchange": "amq.topic" if dice.tame else dice.name(), "routing_key": dice.choice(KEYS[:-1])}


def policy(dice: Dice):
    return {
        "pattern": dice.choice([".*", "^a", "^a$", "(", "dlq$"]),
        "definition": {dice.choice(ARGUMENTS): value(dice) for _ in range(1 + dice.randrange(3))},
        "priority": dice.choice([0, 100, 200]),
        "apply-to": dice.choice(["all", "queues", "exchanges", "quorum_queues"]),
    }


SECTIONS = {
    "exchanges": exchange,
    "queues": queue,
    "work_queues": work_queue,
    "messages": message,
    "policies": policy,
}


def spoiled(dice: Dice, part):
    """Put something odd in the place of one thing in thirty."""
    if not dice.tame and dice.random() < 0.03:
        return value(dice)
    if isinstance(part, dict):
        return {key: spoiled(dice, each) for key, each in part.items()}
    return [spoiled(dice, each) for each in part] if isinstance(part, list) else part


@pytest.mark.parametrize("seed", range(3))
def test_any_file_is_judged_and_what_compiles_is_drawn_and_routed(seed):
    dice = Dice(seed)
    compiled = 0
    for _ in range(40):
        dice.tame = not dice.tame
        document = {
            section: spoiled(dice, {dice.name(): make(dice) for _ in range(dice.randrange(1, 4))})
            for section, make in SECTIONS.items()
            if dice.random() < 0.7
        }
        report = lint([("t", to_yaml({"version": 1, **document}))], {})
        assert all(finding.place.line for finding in report.findings)
        if report.topology is not None:
            compiled += 1
            drawn = picture(report.topology)
            assert mermaid(drawn)
            assert page(drawn, "t")
            for name in ("", "a", "amq.topic"):
                itinerary(report.topology, Sent(name, "a.b", {"a": 1}))
    assert compiled, "not one was whole: the test tests nothing"
