"""A user who may not do a plan is told before its first change."""

import asyncio

import pytest

from amqpkit.brokers.memory.admin import MemoryAdmin
from amqpkit.brokers.memory.broker import MemoryBroker
from amqpkit.brokers.memory.clock import VirtualClock
from amqpkit.errors import AccessRefused, ConnectionFailed
from amqpkit.model import Binding, Exchange, Queue, Rights, Topology
from amqpkit.operate.apply import apply
from amqpkit.ports import Asker, Denied

TOPOLOGY = Topology(
    exchanges=(Exchange("x", type="topic"),),
    queues=tuple(Queue(name, arguments={"x-queue-type": "quorum"}) for name in "abcde"),
    bindings=(Binding("x", "a", "a.#"),),
)
EVERYTHING = Rights(".*", ".*", ".*")


class Kept(MemoryAdmin):
    """A broker in memory that denies some of what it is asked about."""

    def __init__(self, asker, denied=()):
        super().__init__(MemoryBroker(VirtualClock()))
        self.who, self.denials, self.asked = asker, dict(denied), []

    async def asker(self):
        return self.who

    async def denied(self, wanted):
        self.asked.append(wanted.destination if isinstance(wanted, Binding) else wanted.name)
        await asyncio.sleep(0)
        answer = self.denials.get(type(wanted).__name__ if isinstance(wanted, Binding) else wanted.name)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def refusal(self):
        """Apply, see that nothing was made, and give what was said."""
        with pytest.raises(AccessRefused) as caught:
            await apply(TOPOLOGY, self)
        there = await self.read()
        assert (there.queues, there.exchanges, there.bindings) == ((), (), ())
        return str(caught.value)


async def test_an_administrator_is_told_every_name_that_the_patterns_leave_out():
    told = await Kept(
        Asker("ann", "team a", Rights("^[xa]$", "^a", "")),
        dict.fromkeys("bcde", Denied.CONFIGURE) | {"Binding": Denied.READ},
    ).refusal()

    assert told == (
        'user "ann" may not do this in vhost "team a"; it lacks permission to configure "b", "c", "d" and 1 more; '
        "read \"x\" (rabbitmqctl set_permissions -p 'team a' ann CONFIGURE WRITE READ, a pattern each, "
        "now '^[xa]$' '^a' ''); nothing was changed"
    )


async def test_what_the_patterns_give_is_not_asked_about():
    admin = Kept(Asker("ann", "v", EVERYTHING))

    assert len((await apply(TOPOLOGY, admin)).created) == 7
    assert admin.asked == []


async def test_the_broker_has_the_last_word_on_its_patterns():
    """RabbitMQ may read a pattern in its own way, or take permissions from elsewhere."""
    admin = Kept(Asker("ann", "v", Rights("", "", "")))

    assert len((await apply(TOPOLOGY, admin)).created) == 7
    assert sorted(admin.asked) == ["a", "a", "b", "c", "d", "e", "x"]

    told = await Kept(Asker("ann", "v", Rights("", "", "")), {"b": Denied.CONFIGURE}).refusal()
    assert 'configure "b", and perhaps more: the plan lists what it takes under Requires (rabbitmqctl' in told


async def test_any_other_user_is_told_what_the_broker_denies():
    told = await Kept(Asker("ann", "v"), {"c": Denied.CONFIGURE, "Binding": Denied.WRITE}).refusal()

    assert 'user "ann" may not do this in vhost "v"; it lacks permission to write "a"; configure "c", and perh' in told
    assert "(rabbitmqctl set_permissions -p v ann CONFIGURE WRITE READ, a pattern each); nothing was changed" in told


async def test_of_many_names_it_is_said_how_many_were_asked_about():
    many = Topology(queues=tuple(Queue(f"q{number}", arguments={"x-queue-type": "quorum"}) for number in range(1200)))
    admin = Kept(Asker("ann", "v"), {"q0": Denied.CONFIGURE})

    with pytest.raises(AccessRefused, match="more: 25 of 1,200 changes were asked about, and the plan lists what it"):
        await apply(many, admin)


async def test_a_routing_key_is_given_by_topic_permissions():
    told = await Kept(Asker("ann", "v"), {"Binding": Denied.TOPIC}).refusal()

    assert 'bind by topic "a.# of x"' in told
    assert "(rabbitmqctl set_topic_permissions -p v ann EXCHANGE WRITE READ); nothing" in told


async def test_where_another_user_stands_in_nobody_is_asked():
    admin = Kept(None, {"a": Denied.CONFIGURE})

    assert len((await apply(TOPOLOGY, admin)).created) == 7
    assert admin.asked == []


async def test_a_lost_connection_is_told_as_such_and_nothing_is_changed():
    admin = Kept(Asker("ann", "v"), {"c": ConnectionFailed("lost"), "d": Denied.CONFIGURE})

    with pytest.raises(ConnectionFailed, match="lost"):
        await apply(TOPOLOGY, admin)
    assert (await admin.read()).queues == ()
