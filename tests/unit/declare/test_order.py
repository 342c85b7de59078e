"""Creation order: every object once, and nothing before what it leads to."""

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amqpkit.declare.compiler import compile_topology
from amqpkit.declare.load import load_topology
from amqpkit.declare.order import creation_stages
from amqpkit.declare.spec.parsing import parse
from amqpkit.model import Binding, Topology

FULL = load_topology(Path(__file__).with_name("full.yaml"))


def spoken(topology: Topology) -> list[list[str]]:
    def name(object_):
        if isinstance(object_, Binding):
            return f"{object_.source} -{object_.routing_key}-> {object_.destination}"
        return f"{type(object_).__name__.lower()} {object_.name}"

    return [[name(object_) for object_ in stage] for stage in creation_stages(topology)]


def compiled(text: str) -> Topology:
    return compile_topology(parse([("a.yaml", f"version: 1\n{text}")], {}))


def test_messages_never_find_a_way_half_built():
    assert spoken(FULL) == [
        ["exchange email.send.dlx", "exchange email.send.retry", "exchange mail.unrouted"],
        ["exchange mail"],
        ["policy amqpkit.email.send", "policy amqpkit.email.send.parts"],
        [
            "queue email.send.dlq",
            "queue email.send.retry.10m",
            "queue email.send.retry.1h",
            "queue email.send.retry.2m",
            "queue email.send.retry.30s",
        ],
        [
            "email.send.dlx --> email.send.dlq",
            "email.send.retry -10m-> email.send.retry.10m",
            "email.send.retry -1h-> email.send.retry.1h",
            "email.send.retry -2m-> email.send.retry.2m",
            "email.send.retry -30s-> email.send.retry.30s",
        ],
        ["queue email.send", "queue mail.unrouted"],
        ["email.send.retry -return-> email.send"],
        ["mail -email.send.#-> email.send", "mail.unrouted --> mail.unrouted"],
    ]


def test_an_empty_topology_has_no_stage():
    assert creation_stages(Topology()) == ()


def test_dead_letter_targets_of_plain_queues_come_before_them():
    topology = compiled("""
exchanges: {elsewhere: {}, dead: {}, behind: {bindings: [{source: dead}]}, work: {}}
queues:
  jobs: {bindings: [{source: work}], arguments: {x-dead-letter-exchange: dead}}
  letters: {bindings: [{source: behind}, {source: work, routing_key: also}]}
  straight: {arguments: {x-dead-letter-exchange: "", x-dead-letter-routing-key: kept}}
  kept: {}
  ruled: {bindings: [{source: elsewhere}]}
policies: {p: {pattern: "^ruled$", definition: {dead-letter-exchange: elsewhere}}}
""")

    assert spoken(topology)[2:] == [
        ["queue kept", "queue letters", "queue ruled"],
        ["behind --> letters", "dead --> behind", "elsewhere --> ruled"],
        ["queue jobs", "queue straight"],
        ["work --> jobs", "work -also-> letters"],
    ]


def test_exchanges_that_are_each_others_alternate_come_together():
    topology = compiled("""
exchanges:
  a: {alternate-exchange: b}
  b: {alternate-exchange: a}
  itself: {alternate-exchange: itself}
  stranger: {alternate-exchange: unknown}
""")

    assert spoken(topology) == [["exchange itself", "exchange stranger"], ["exchange a", "exchange b"]]


NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
EXCHANGES = st.dictionaries(NAMES, NAMES | st.none(), min_size=1)


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    exchanges = draw(EXCHANGES)
    source = st.sampled_from(sorted(exchanges))
    lines = ["exchanges:"]
    lines += [f"  {name}: {{alternate-exchange: {other or 'amq.topic'}}}" for name, other in exchanges.items()]
    lines += ["work_queues:"]
    for name in draw(st.sets(NAMES.map("work-{}".format))):
        lines += [
            f"  {name}: {{bindings: [{{source: {draw(source)}}}], retry: {draw(st.sampled_from(['none', '{}']))}}}"
        ]
    lines += ["queues:"]
    for name in draw(st.sets(NAMES.map("plain-{}".format))):
        dead = f"x-dead-letter-exchange: {draw(source)}, x-dead-letter-routing-key: {draw(NAMES)}"
        lines += [f"  {name}: {{bindings: [{{source: {draw(source)}}}], arguments: {{{dead}}}}}"]
    return compiled("\n".join(lines))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no fault
@given(topologies())
def test_every_object_has_exactly_one_place_and_bindings_come_after_their_queues(topology):
    stages = creation_stages(topology)
    ordered = [object_ for stage in stages for object_ in stage]
    made: set[str] = set()

    assert len(ordered) == sum(map(len, (topology.exchanges, topology.queues, topology.bindings, topology.policies)))
    assert all(object_ in ordered for objects in (topology.exchanges, topology.queues) for object_ in objects)
    assert all(object_ in ordered for objects in (topology.bindings, topology.policies) for object_ in objects)
    for stage in stages:
        bindings = [object_ for object_ in stage if isinstance(object_, Binding)]
        assert all(binding.source in made and binding.destination in made for binding in bindings)
        made |= {object_.name for object_ in stage if not isinstance(object_, Binding)}
