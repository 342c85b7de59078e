"""Applying on real brokers."""

import asyncio
import time
from pathlib import Path
from urllib.parse import quote

import pytest

from amqpkit.brokers.management import ManagementAdmin
from amqpkit.declare.load import load_topology
from amqpkit.declare.plan.drift import find_drift
from amqpkit.declare.plan.planning import Wishes
from amqpkit.errors import AccessRefused, ConnectionFailed, Refused
from amqpkit.model import Binding, Exchange, Policy, Queue, Topology
from amqpkit.operate.apply import ApplyFailed, Conflicts, apply
from amqpkit.operate.survey import survey

FULL = Path(__file__).parents[2] / "unit" / "declare" / "full.yaml"
# Names that must be escaped in URLs, and two that no escaping helps.
NAMES = ("a/b", "a%2Fb", "50%", "x?y#z", "a b", "a;b", "a.b.c", "a+b", "~", "очередь", "it's", '"', "..", ".")


def queue(name, kind="quorum", **arguments):
    return Queue(name, type=kind, arguments={"x-queue-type": kind, **arguments})


async def test_the_full_example_is_applied_once(admin):
    topology = load_topology(FULL)
    everything = (*topology.exchanges, *topology.queues, *topology.bindings, *topology.policies)

    first = await apply(topology, admin)
    second = await apply(topology, admin)

    assert len(first.created) == len(everything)
    assert (first.updated, first.unchanged, first.warnings) == ((), 0, ())
    assert (second.created, second.updated, second.unchanged) == ((), (), len(everything))


async def test_the_effective_policy_is_the_files(broker, admin):
    await apply(load_topology(FULL), admin)

    _, listing = broker.http("GET", f"queues/{broker.vhost}?disable_stats=true&page=1&page_size=500")

    # 4.0 leaves out the policy of a queue that has none, and says it late of others; then nothing is claimed.
    rules = {item["name"]: item.get("policy") for item in listing["items"]}
    assert rules.pop("mail.unrouted") is None
    if broker.release >= (4, 3):
        assert rules.pop("email.send") == "amqpkit.email.send"
        assert set(rules.values()) == {"amqpkit.email.send.parts"}


async def test_right_after_an_apply_there_is_no_difference_twenty_times_of_twenty(admin):
    for number in range(20):
        policy = Policy("p", "^q$", {"max-length": 10 + number, "overflow": "reject-publish"}, "queues")
        wanted = Topology(queues=(queue("q"),), policies=(policy,))

        await apply(wanted, admin)

        plan, actual = await survey(wanted, admin)
        assert plan.changes == ()
        assert find_drift(wanted, actual).found == ()


@pytest.mark.parametrize(
    ("there", "wanted", "argument", "wish", "fact"),
    [
        (queue("q", **{"x-message-ttl": 1000}), queue("q", **{"x-message-ttl": 2000}), "x-message-ttl", "2000", "1000"),
        (queue("q"), queue("q", **{"x-dead-letter-exchange": "d"}), "x-dead-letter-exchange", "d", "not set"),
        (
            queue("q", **{"x-dead-letter-exchange": "d"}),
            queue("q", **{"x-dead-letter-exchange": "e"}),
            "x-dead-letter-exchange",
            "e",
            "d",
        ),
        (queue("q", **{"x-max-length": 5}), queue("q"), "x-max-length", "not set", "5"),
        (queue("q", "classic"), queue("q"), "x-queue-type", "quorum", "classic"),
        (queue("q"), queue("q", "classic"), "x-queue-type", "classic", "quorum"),
        (Exchange("x", type="direct"), Exchange("x", type="topic"), "type", "topic", "direct"),
        (Exchange("x", durable=False), Exchange("x"), "durable", "true", "false"),
        (Exchange("x"), Exchange("x", arguments={"alternate-exchange": "a"}), "alternate-exchange", "a", "not set"),
    ],
)
async def test_a_conflict_is_named_before_and_by_the_broker_alike(admin, there, wanted, argument, wish, fact):
    await admin.create(there)
    others = Topology(exchanges=(Exchange("new"),))
    topology = (
        Topology(exchanges=(*others.exchanges, wanted))
        if isinstance(wanted, Exchange)
        else Topology(queues=(wanted,), exchanges=others.exchanges)
    )
    before = await admin.read()

    with pytest.raises(Conflicts) as ours:
        await apply(topology, admin)
    with pytest.raises(Refused) as theirs:
        await admin.create(wanted)

    assert (ours.value.argument, ours.value.wanted, ours.value.actual) == (argument, wish, fact)
    assert (theirs.value.argument, theirs.value.wanted, theirs.value.actual) == (argument, wish, fact)
    assert ours.value.object == theirs.value.object
    assert theirs.value.remedy in ours.value.remedy
    assert await admin.read() == before


async def test_a_queue_of_an_application_that_wrote_no_type_is_equal_to_the_vhosts_default(broker, admin):
    broker.http("PUT", f"queues/{broker.vhost}/q", {"durable": True, "arguments": {"x-message-ttl": 1000}})

    report = await apply(Topology(queues=(queue("q", "classic", **{"x-message-ttl": 1000}),)), admin)

    assert (report.created, report.unchanged) == ((), 1)


@pytest.mark.parametrize("vhost", ["plain", "team/orders", "50% a?#", "очередь"])
async def test_names_that_must_be_escaped(broker, vhost):
    name = f"{broker.vhost}-{vhost}"
    broker.http("PUT", f"vhosts/{quote(name, safe='')}", {})
    topology = Topology(
        exchanges=tuple(Exchange(each, type="topic") for each in NAMES),
        queues=tuple(queue(each) for each in NAMES),
        bindings=tuple(
            Binding(each, each, each, destination_type=kind) for each in NAMES for kind in ("queue", "exchange")
        ),
        policies=tuple(Policy(each, "^nothing$", {"max-length": 5}) for each in NAMES),
    )
    try:
        async with ManagementAdmin(broker.api, vhost=name) as admin:
            first = await apply(topology, admin)
            second = await apply(topology, admin)
            assert (len(first.created), second.created, second.unchanged) == (5 * len(NAMES), (), 5 * len(NAMES))

            for each in (*topology.bindings, *topology.queues, *topology.exchanges, *topology.policies):
                if {".", ".."}.isdisjoint({getattr(each, "name", ""), getattr(each, "source", "")}):
                    await admin.delete(each)
            left = await admin.read()
            assert {each.name for each in (*left.queues, *left.exchanges, *left.policies)} == {".", ".."}
    finally:
        broker.http("DELETE", f"vhosts/{quote(name, safe='')}")


async def test_bindings_are_told_apart_by_the_types_of_their_arguments(admin):
    bound = tuple(Binding("x", "q", "k", arguments={"n": value, "x-match": "all"}) for value in (1, "1", True, 1.5))
    topology = Topology(exchanges=(Exchange("x", type="headers"),), queues=(queue("q"),), bindings=bound)

    await apply(topology, admin)
    assert len((await admin.read()).bindings) == 4

    await admin.delete(bound[1])
    assert [each.arguments["n"] for each in (await admin.read()).bindings].count("1") == 0
    assert len((await apply(topology, admin)).created) == 1


async def test_a_binding_that_would_break_the_listing_is_refused_and_the_listing_works(admin):
    topology = Topology(
        exchanges=(Exchange("x"),), queues=(queue("q"),), bindings=(Binding("x", "q", "a~b", arguments={"n": 1}),)
    )

    with pytest.raises(ApplyFailed, match="use a routing key without `~`"):
        await apply(topology, admin)

    assert (await admin.read()).bindings == ()


async def test_a_policy_is_changed_in_place(broker, admin):
    def policy(length):
        return Topology(queues=(queue("q"),), policies=(Policy("p", "^q$", {"max-length": length}),))

    await apply(policy(5), admin)
    report = await apply(policy(6), admin)

    assert ([each.name for each in report.updated], report.created) == (["p"], ())
    assert broker.http("GET", f"policies/{broker.vhost}/p")[1]["definition"] == {"max-length": 6}


async def test_other_peoples_policies_block_until_they_are_accepted_and_rule_as_foretold(broker, admin):
    ours = Topology(queues=(queue("q"), queue("r")), policies=(Policy("ours", "^q$", {"max-length": 5}),))
    theirs = {"pattern": ".*", "definition": {"max-length": 1}, "apply-to": "queues", "priority": 200}
    broker.http("PUT", f"policies/{broker.vhost}/theirs", theirs)
    broker.http("PUT", f"operator-policies/{broker.vhost}/cap", {**theirs, "pattern": "^r$"})

    with pytest.raises(Conflicts) as caught:
        await apply(ours, admin)
    assert [each.object for each in caught.value.refusals] == ["policy theirs", "operator-policy cap"]
    assert (await admin.read()).queues == ()

    report = await apply(ours, admin, wishes=Wishes(accepted=frozenset({"theirs", "cap"})))

    assert report.warnings == ('policy "theirs" (priority 200) wins over "ours" (100): q',)
    if broker.release >= (4, 3):
        assert broker.http("GET", f"queues/{broker.vhost}?disable_stats=true")[1][0]["policy"] == "theirs"


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (queue("amq.mine"), "`amq.`"),
        (Exchange("amq.mine"), "`amq.`"),
        (queue("q", **{"x-max-priority": 5}), "x-max-priority is not possible on a queue of type quorum"),
        (queue("q", **{"x-message-ttl": "5"}), "x-message-ttl is invalid: expected integer, got longstr"),
        (queue("q" * 256), "less than 255 bytes"),
        (Exchange("x", type="nope"), "unknown exchange type 'nope'"),
        (Binding("nope", "nope"), "no (queue|exchange) 'nope' in vhost"),
        (Policy("p", "^q$", {"max-lenght": 5}), '"max-lenght" .* not recognised policy settings'),
        (Policy("p", "^q($", {"max-length": 5}), "pattern should be regular expression"),
        (Policy("p", "^q$", {}), "no policy provided"),
    ],
)
async def test_the_brokers_other_refusals_name_the_object(admin, wanted, reason):
    with pytest.raises(Refused, match=reason) as caught:
        await admin.create(wanted)

    assert caught.value.object


async def test_more_queues_than_a_page_holds_are_quick_and_all_are_read(admin):
    topology = Topology(queues=tuple(queue(f"q{number:03}", "classic") for number in range(510)))
    began = time.monotonic()

    first = await apply(topology, admin)
    second = await apply(topology, admin)

    assert (len(first.created), second.unchanged) == (510, 510)
    # Two seconds on an idle machine; the limit is for one that runs everybody's tests at once.
    assert time.monotonic() - began < 60


@pytest.fixture
def limited(broker):
    """A user with the tag management who may touch nothing but names that begin with `mine`."""
    name = f"{broker.vhost}-user"
    broker.http("PUT", f"users/{name}", {"password": "p/w@", "tags": "management"})
    broker.http("PUT", f"permissions/{broker.vhost}/{name}", {"configure": "^mine", "write": "^mine", "read": "^mine"})
    yield f"http://{name}:p%2Fw%40@{broker.api.rpartition('@')[2]}"
    broker.http("DELETE", f"users/{name}")


async def test_a_user_with_too_few_permissions_is_told_which(broker, limited):
    async with ManagementAdmin(limited, vhost=broker.vhost) as admin:
        await admin.create(queue("mine"))
        assert [each.name for each in (await admin.read()).queues] == ["mine"]

        for wanted, needed in (
            (queue("other"), 'configure permission on "other"'),
            (queue("mine.too", **{"x-dead-letter-exchange": "other"}), 'write permission on "other"'),
            (Exchange("other"), 'configure permission on "other"'),
            (Policy("p", "^q$", {"max-length": 1}), "the tag policymaker"),
            (queue(".."), "the tag administrator"),
        ):
            with pytest.raises(AccessRefused, match=needed):
                await admin.create(wanted)
        broker.http("PUT", f"exchanges/{broker.vhost}/other", {"type": "direct", "durable": True})
        with pytest.raises(AccessRefused, match='read permission on "other"'):
            await admin.create(Binding("other", "mine", "k"))


async def test_a_user_who_may_not_even_look_is_told_so(broker, limited):
    wrong = limited.replace("p%2Fw", "wrong")
    async with ManagementAdmin(wrong, vhost=broker.vhost) as admin:
        with pytest.raises(AccessRefused, match="the password is wrong"):
            await admin.identify()
    async with ManagementAdmin(limited, vhost="/") as admin:
        with pytest.raises(AccessRefused):
            await admin.read()
    async with ManagementAdmin(broker.api, vhost=f"{broker.vhost}-none") as admin:
        with pytest.raises(AccessRefused, match="does not exist"):
            await admin.read()


async def test_a_broker_that_dies_on_the_way_is_a_partial_apply_that_a_second_run_finishes(own_broker):
    topology = Topology(
        exchanges=(Exchange("x"),),
        queues=tuple(queue(f"q{number}") for number in range(60)),
        bindings=tuple(Binding("x", f"q{number}", "k") for number in range(60)),
    )
    done = []

    def die_at_twenty(step):
        done.append(step)
        if len(done) == 20:
            own_broker.kill()

    async with ManagementAdmin(own_broker.api, vhost=own_broker.vhost, timeout=10) as admin:
        with pytest.raises(ApplyFailed) as caught:
            await apply(topology, admin, on_step=die_at_twenty)

        error = caught.value
        assert len(error.report.created) == len(done)
        assert len(error.report.created) + len(error.failures) + len(error.missing) == 121
        assert all(isinstance(failure, ConnectionFailed) for _, failure in error.failures)

        await asyncio.to_thread(own_broker.start)
        again = await apply(topology, admin)
        assert len(again.created) + again.unchanged == 121
        assert (await apply(topology, admin)).unchanged == 121
