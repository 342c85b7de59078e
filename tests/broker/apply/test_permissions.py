"""Permissions on names: asked for without making anything, and missed before the first change."""

import asyncio
import json
import re

import pytest

from amqpkit.brokers.aio.declarer import AioDeclarer
from amqpkit.brokers.aio.sentry import AioSentry
from amqpkit.brokers.management import ManagementAdmin
from amqpkit.brokers.url import BrokerURL
from amqpkit.declare.load import load_topology
from amqpkit.declare.plan import changes as judged
from amqpkit.declare.plan.planning import Wishes
from amqpkit.errors import AccessRefused, ConnectionFailed
from amqpkit.model import Binding, Exchange, Queue, Topology
from amqpkit.operate.apply import apply
from amqpkit.operate.prune import Pruning
from amqpkit.operate.survey import survey
from amqpkit.ports import Denied
from tests.broker.apply.test_apply import FULL

PASSWORD = "pw"
BOTH = pytest.mark.parametrize("tags", ["policymaker", "administrator"])


def queue(name, kind="quorum", **arguments):
    return Queue(name, type=kind, arguments={"x-queue-type": kind, **arguments})


@pytest.fixture
async def as_user(broker):
    """Give declarers of a user with these patterns."""
    name, opened = f"{broker.vhost}-limited", []

    def allow(configure, write, read):
        path = f"permissions/{broker.vhost}/{name}"
        broker.http("PUT", path, {"configure": configure, "write": write, "read": read})

    async def open_as(tags, configure, write, read):
        broker.http("PUT", f"users/{name}", {"password": PASSWORD, "tags": tags})
        allow(configure, write, read)
        url, api = (re.sub(r"//.*@", f"//{name}:{PASSWORD}@", each) for each in (broker.url, broker.api))
        admin = ManagementAdmin(api, vhost=broker.vhost)
        opened.append(admin)
        opened.append(await AioDeclarer.open(admin, BrokerURL.parse(url), "test"))
        return opened[-1]

    open_as.allow = allow
    yield open_as
    for each in reversed(opened):
        await each.close()
    broker.http("DELETE", f"users/{name}")


def listed(broker):
    """List all that declarations can change in the vhost."""
    keys = ("name", "source", "destination", "routing_key", "type", "arguments", "durable", "auto_delete")
    return [
        sorted(
            json.dumps({key: item.get(key) for key in keys}) for item in broker.http("GET", f"{what}/{broker.vhost}")[1]
        )
        for what in ("queues", "exchanges", "bindings", "policies")
    ]


@BOTH
async def test_half_of_the_names_are_missing_and_nothing_is_made(broker, as_user, tags):
    topology = Topology(
        exchanges=(Exchange("mine.x"), Exchange("other.x")),
        queues=tuple(queue(f"{whose}.{number}") for whose in ("mine", "other") for number in range(20)),
        bindings=(Binding("mine.x", "mine.1", "k"),),
    )
    declarer = await as_user(tags, "^mine", ".*", ".*")
    before = listed(broker)

    with pytest.raises(AccessRefused) as caught:
        await apply(topology, declarer)

    told = str(caught.value)
    assert f'-limited" may not do this in vhost "{broker.vhost}"; it lacks permission to configure "other.' in told
    assert "; nothing was changed" in told
    assert "mine.1" not in told
    if tags == "administrator":
        assert 'configure "other.x", "other.0", "other.1" and 18 more (rabbitmqctl set_permissions -p ' in told
        assert "now '^mine' '.*' '.*')" in told
    assert listed(broker) == before

    as_user.allow(".*", ".*", ".*")
    assert len((await apply(topology, declarer)).created) == 43


@BOTH
async def test_who_may_do_exactly_what_a_plan_requires_may_apply_it(broker, as_user, tags):
    topology = load_topology(FULL)
    async with ManagementAdmin(broker.api, vhost=broker.vhost) as admin:
        plan, _ = await survey(topology, admin)
    needed = {"configure": set(), "write": set(), "read": set()}
    for permission, name in (need.split(" ") for step in plan.steps for need in judged.requires(step) if " " in need):
        needed[permission].add(name)
    exactly = {each: f"^({'|'.join(map(re.escape, sorted(names)))})$" for each, names in needed.items()}
    for permission, names in needed.items():
        first = min(names, key=lambda name: (name.startswith("amq."), name))
        less = f"^({'|'.join(re.escape(name) for name in sorted(names - {first}))})$"
        declarer = await as_user(tags, **{**exactly, permission: less})
        if tags == "administrator":
            with pytest.raises(AccessRefused, match=f'{permission} "{re.escape(first)}" '):
                await apply(topology, declarer)
            assert not any(each.name in needed["configure"] for each in (await declarer.read()).queues)

    report = await apply(topology, await as_user(tags, **exactly))

    assert len(report.created) == len(plan.steps)


@BOTH
async def test_to_delete_takes_what_is_required_too_and_no_more(broker, as_user, tags):
    kinds = ("classic", "quorum", "stream")
    there = Topology(
        exchanges=(Exchange("own.x", arguments={"alternate-exchange": "other"}),),
        queues=tuple(queue(f"own.{kind}", kind, **_dead(kind)) for kind in kinds),
        bindings=(Binding("own.x", "own.classic", "k"),),
        owns=("own",),
    )
    async with ManagementAdmin(broker.api, vhost=broker.vhost) as admin:
        await apply(there, admin)
    before, none = listed(broker), Topology(owns=("own",))
    for configure, write, read, lacks in (
        (r"^own\.[^q]", "^(amq.default|own.classic)$", "^own.x$", 'configure "own.quorum"'),
        (r"^own\.", "^own.classic$", "^own.x$", 'write "amq.default"'),
        (r"^own\.", "^amq.default$", "^own.x$", 'write "own.classic"'),
        (r"^own\.", "^(amq.default|own.classic)$", "", 'read "own.x"'),
    ):
        declarer = await as_user(tags, configure, write, read)
        with pytest.raises(AccessRefused, match=f"it lacks permission to {lacks}[ ,]"):
            await apply(none, declarer, wishes=Wishes(prune=True))
        assert listed(broker) == before

    declarer = await as_user(tags, r"^own\.", "^(amq.default|own.classic)$", "^own.x$")
    url = re.sub(r"//.*@", f"//{broker.vhost}-limited:{PASSWORD}@", broker.url)
    sentry = await AioSentry.open(BrokerURL.parse(url), "test")
    try:
        pruning = Pruning(sentry, settle=0.1, fenced=0.1)
        assert len((await apply(none, declarer, wishes=Wishes(prune=True), pruning=pruning)).deleted) == 5
    finally:
        await sentry.close()


def _dead(kind):
    return {} if kind == "stream" else {"x-dead-letter-exchange": "other"}


@pytest.mark.parametrize("there", [False, True], ids=["missing", "there"])
async def test_to_ask_makes_and_changes_nothing(broker, as_user, there):
    objects = [
        *(queue(f"{kind}.q", kind) for kind in ("quorum", "classic", "stream")),
        *(Exchange(f"{kind}.x", kind) for kind in ("direct", "fanout", "topic", "headers")),
        Exchange("lonely.x", "topic", auto_delete=True),
        Exchange("used.x", "topic", auto_delete=True),
        *(Binding("topic.x", f"{kind}.q", "k.#") for kind in ("quorum", "classic", "stream")),
        Binding("headers.x", "quorum.q", "", arguments={"x-match": "any", "a": 1}),
        Binding("used.x", "quorum.q", "k"),
        Binding("topic.x", "fanout.x", "k", "exchange"),
    ]
    declarer = await as_user("policymaker", ".*", ".*", ".*")
    if there:
        for each in objects:
            await declarer.create(each)
    before = listed(broker)

    for patterns, answers in (
        ((".*", ".*", ".*"), {None}),
        (("", "", ""), {Denied.CONFIGURE, Denied.WRITE}),
        (("", ".*", ""), {Denied.CONFIGURE, Denied.READ}),
    ):
        asking = await as_user("policymaker", *patterns)
        assert set(await asyncio.gather(*map(asking.denied, objects))) == answers
        assert await asking.denied(Exchange("")) is None  # not for permissions: nobody may
        await asyncio.wait_for(asking.read(), 10)

    assert listed(broker) == before


async def test_each_permission_is_told_apart(broker, as_user):
    broker.http("PUT", f"exchanges/{broker.vhost}/all.t", {"type": "topic", "durable": True})
    declarer = await as_user("policymaker", "^(c|cr|all)", "^(w|all)", "^(cr|all)")
    long = "n" * 255
    user = f"{broker.vhost}-limited"
    topics = {"exchange": "all.t", "write": "", "read": "^mine"}
    assert broker.http("PUT", f"topic-permissions/{broker.vhost}/{user}", topics)[0] in {201, 204}

    def dead(name, target):
        return queue(name, **{"x-dead-letter-exchange": target})

    for wanted, answer in (
        (queue("n"), Denied.CONFIGURE),
        (queue("c"), None),
        (queue(long), Denied.CONFIGURE),
        (dead("c", "all.x"), Denied.READ),
        (dead("cr", "n"), Denied.WRITE),
        (dead("cr", ""), Denied.WRITE),
        (dead("cr", "all.x"), None),
        (Exchange("n"), Denied.CONFIGURE),
        (Exchange("c", arguments={"alternate-exchange": "all.x"}), Denied.READ),
        (Exchange("cr", arguments={"alternate-exchange": "n"}), Denied.WRITE),
        (Exchange("cr", arguments={"alternate-exchange": "all.x"}), None),
        (Binding("all.x", "n", "k"), Denied.WRITE),
        (Binding("n", "all.q", "k"), Denied.READ),
        (Binding("all.x", "all.q", "k"), None),
        (Binding("all.x", "n", "k", "exchange"), Denied.WRITE),
        (Binding("all.t", "all.q", "yours"), Denied.TOPIC),
        (Binding("all.t", "all.q", "mine"), None),
    ):
        assert (wanted, await declarer.denied(wanted)) == (wanted, answer)


async def test_a_name_that_takes_all_255_bytes_is_told(as_user):
    declarer = await as_user("policymaker", "^c", "", "")

    with pytest.raises(AccessRefused, match='configure "' + "n" * 255 + '"'):
        await apply(Topology(queues=(queue("n" * 255),)), declarer)


async def test_a_connection_that_is_lost_while_asking_is_told_so(broker, as_user):
    declarer = await as_user("policymaker", ".*", ".*", ".*")
    before = listed(broker)
    await declarer.close()

    with pytest.raises(ConnectionFailed, match=r"while asking for permissions .*; nothing was changed"):
        await apply(Topology(queues=(queue("q"),)), declarer)
    assert listed(broker) == before


async def test_who_has_another_user_for_the_management_api_is_not_asked(broker, as_user):
    await as_user("policymaker", "^mine", "^mine", "^mine")
    limited = re.sub(r"//.*@", f"//{broker.vhost}-limited:{PASSWORD}@", broker.url)
    async with (
        ManagementAdmin(broker.api, vhost=broker.vhost) as admin,
        await AioDeclarer.open(admin, BrokerURL.parse(limited), "test") as declarer,
    ):
        assert await declarer.asker() is None
        assert len((await apply(Topology(queues=(queue("other"),)), declarer)).created) == 1
