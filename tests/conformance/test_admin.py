"""Every Admin does the same: the management API of real brokers, and the broker in memory."""

import pytest

from amqpkit.brokers.management import ManagementAdmin
from amqpkit.brokers.memory.admin import MemoryAdmin
from amqpkit.brokers.memory.broker import MemoryBroker
from amqpkit.brokers.memory.clock import VirtualClock
from amqpkit.errors import Refused
from amqpkit.model import Binding, Exchange, Policy, Queue, Topology


def queue(name, kind="quorum", **arguments):
    return Queue(name, type=kind, arguments={"x-queue-type": kind, **arguments})


class Admins:
    """The same promises for each; a subclass says which."""

    async def test_it_says_who_answers(self, admin):
        info = await admin.identify()

        assert info.version.split(".")[0] == "4"
        assert info.cluster_name

    async def test_a_new_vhost_holds_nothing_of_its_own(self, admin):
        found = await admin.read()

        assert (found.exchanges, found.queues, found.bindings, found.policies) == ((), (), (), ())

    async def test_what_was_created_is_read_back(self, admin):
        exchanges = (Exchange("x", type="topic"), Exchange("y", type="fanout", arguments={"alternate-exchange": "x"}))
        queues = (
            queue("a", **{"x-message-ttl": 1000, "x-dead-letter-exchange": "x"}),
            queue("b", "classic"),
        )
        bindings = (
            Binding("x", "a", "a.#"),
            Binding("x", "b", "b"),
            Binding("y", "a", ""),
            Binding("y", "x", "", destination_type="exchange"),
        )
        policies = (Policy("p", "^a$", {"max-length": 5, "overflow": "reject-publish"}),)

        for wanted in (*exchanges, *queues, *policies, *bindings):
            await admin.create(wanted)

        found = await admin.read()
        assert (found.exchanges, found.queues, found.policies) == (exchanges, queues, policies)
        assert sorted(found.bindings, key=key) == sorted(bindings, key=key)

    async def test_a_queue_without_a_written_type_has_one(self, admin):
        await admin.create(Queue("q", type="classic"))

        (found,) = (await admin.read()).queues

        assert (found.type, dict(found.arguments)) == ("classic", {"x-queue-type": "classic"})

    async def test_creating_again_changes_nothing(self, admin):
        objects = (Exchange("x"), queue("q"), Policy("p", "^q$", {"max-length": 5}), Binding("x", "q", "k"))
        for wanted in objects:
            await admin.create(wanted)
        before = await admin.read()

        for wanted in objects:
            await admin.create(wanted)

        assert await admin.read() == before

    async def test_a_policy_is_overwritten(self, admin):
        await admin.create(Policy("p", "^q$", {"max-length": 5}))
        await admin.create(Policy("p", "^r$", {"max-length": 6}, priority=7))

        assert (await admin.read()).policies == (Policy("p", "^r$", {"max-length": 6}, priority=7),)

    @pytest.mark.parametrize(
        ("there", "wanted", "argument", "wish", "fact"),
        [
            (queue("o", **{"x-message-ttl": 1}), queue("o", **{"x-message-ttl": 2}), "x-message-ttl", "2", "1"),
            (queue("o", "classic"), queue("o"), "x-queue-type", "quorum", "classic"),
            (Exchange("o"), Exchange("o", type="topic"), "type", "topic", "direct"),
            (Exchange("o"), Exchange("o", internal=True), "internal", "true", "false"),
        ],
    )
    async def test_what_cannot_be_changed_is_refused(self, admin, there, wanted, argument, wish, fact):
        await admin.create(there)
        before = await admin.read()

        with pytest.raises(Refused) as caught:
            await admin.create(wanted)

        error = caught.value
        kind = "queue o" if isinstance(wanted, Queue) else "exchange o"
        assert (error.object, error.argument, error.wanted, error.actual) == (kind, argument, wish, fact)
        assert error.remedy
        assert await admin.read() == before

    async def test_a_binding_needs_both_ends(self, admin):
        await admin.create(Exchange("x"))

        for wanted in (Binding("x", "missing", "k"), Binding("missing", "x", "k", destination_type="exchange")):
            with pytest.raises(Refused, match="missing"):
                await admin.create(wanted)

    async def test_bindings_are_told_apart_by_the_types_of_their_arguments(self, admin):
        bound = [Binding("x", "q", "k", arguments={"n": value}) for value in (1, "1", True)]
        for wanted in (Exchange("x", type="headers"), queue("q"), *bound):
            await admin.create(wanted)
        await admin.delete(bound[2])

        left = [each.arguments["n"] for each in (await admin.read()).bindings]
        assert sorted(map(repr, left)) == ["'1'", "1"]

    async def test_deleting_takes_away_and_a_second_time_is_fine(self, admin):
        objects = (Exchange("x"), queue("q"), Policy("p", "^q$", {"max-length": 5}), Binding("x", "q", "k"))
        for wanted in objects:
            await admin.create(wanted)

        for unwanted in reversed((*objects, *objects)):
            await admin.delete(unwanted)

        found = await admin.read()
        assert found == Topology(vhost=found.vhost)

    async def test_a_queue_takes_its_bindings_with_it(self, admin):
        for wanted in (Exchange("x"), queue("q"), queue("r"), Binding("x", "q", "k"), Binding("x", "r", "k")):
            await admin.create(wanted)

        await admin.delete(queue("q"))

        assert [each.destination for each in (await admin.read()).bindings] == ["r"]


def key(binding):
    return (binding.source, binding.destination_type, binding.destination, binding.routing_key)


class TestManagement(Admins):
    @pytest.fixture
    async def admin(self, broker):
        async with ManagementAdmin(broker.api, vhost=broker.vhost) as here:
            yield here


class TestMemory(Admins):
    @pytest.fixture(params=["4.3", "4.0"])
    def admin(self, request):
        return MemoryAdmin(MemoryBroker(VirtualClock(), version=request.param))
