"""ManagementAdmin on an API made of a function."""

import json
from base64 import b64decode
from collections.abc import Callable

import httpx2
import pytest

from amqpkit.brokers.management import ManagementAdmin
from amqpkit.errors import AccessRefused, BrokerError, ConnectionFailed, Refused
from amqpkit.model import Binding, Exchange, Policy, Queue, Rights
from amqpkit.ports import Asker

URL = "http://us%40er:se%2Fcret@rabbit.example:15672"


def admin(answer: Callable[[httpx2.Request], httpx2.Response], vhost: str = "v") -> ManagementAdmin:
    return ManagementAdmin(URL, vhost=vhost, transport=httpx2.MockTransport(answer))


def says(status: int, reason: str) -> Callable[[httpx2.Request], httpx2.Response]:
    return lambda _: httpx2.Response(status, json={"error": "e", "reason": reason})


def queue(name: str, **more: object) -> dict[str, object]:
    plain = {"durable": True, "auto_delete": False, "exclusive": False, "type": "quorum"}
    return {"name": name, "arguments": {"x-queue-type": "quorum"}, **plain, **more}


def vhost_of(queues: list[dict[str, object]], **lists: list[dict[str, object]]) -> Callable[..., httpx2.Response]:
    def answer(request: httpx2.Request) -> httpx2.Response:
        what = request.url.path.split("/")[2]
        if what == "queues":
            size = len(queues)
            return httpx2.Response(200, json={"items": queues, "page_count": 1, "filtered_count": size})
        return httpx2.Response(200, json=lists.get(what, []))

    return answer


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("a/b", b"a%2Fb"),
        ("a%2Fb", b"a%252Fb"),
        ("50%", b"50%25"),
        ("x?y#z", b"x%3Fy%23z"),
        ("a b", b"a%20b"),
        ("a;b", b"a%3Bb"),
        ("a+b", b"a%2Bb"),
        ("~", b"~"),
        ("...", b"..."),
        ("очередь", b"%D0%BE%D1%87%D0%B5%D1%80%D0%B5%D0%B4%D1%8C"),
    ],
)
async def test_any_name_in_any_vhost_is_one_part_of_the_path(name, escaped):
    seen = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append((request.method, request.url.raw_path, json.loads(request.content)))
        return httpx2.Response(201)

    async with admin(answer, vhost="team/a b") as here:
        await here.create(Queue(name))

    body = {"durable": True, "auto_delete": False, "arguments": {"x-queue-type": "quorum"}}
    assert seen == [("PUT", b"/api/queues/team%2Fa%20b/" + escaped, body)]


async def test_credentials_are_decoded_and_sent_in_the_header_only():
    seen = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200, json={"product_version": "4.3.6", "cluster_name": "c"})

    async with admin(answer) as here:
        info = await here.identify()

    assert (info.version, info.cluster_name) == ("4.3.6", "c")
    assert b64decode(seen[0].headers["authorization"].removeprefix("Basic ")) == b"us@er:se/cret"
    assert "cret" not in str(seen[0].url)


@pytest.mark.parametrize("name", [".", ".."])
async def test_a_name_without_an_address_goes_through_definitions(name):
    seen = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append((request.url.path, json.loads(request.content)))
        return httpx2.Response(204)

    objects = (Queue(name), Exchange(name), Policy(name, "^$", {"max-length": 1}), Binding("x", name, "k"))
    async with admin(answer) as here:
        for declared in objects:
            await here.create(declared)
        with pytest.raises(Refused, match="cannot address"):
            await here.delete(Queue(name))

    assert {path for path, _ in seen} == {"/api/definitions/v"}
    assert [next(iter(body)) for _, body in seen] == ["queues", "exchanges", "policies", "bindings"]
    assert seen[3][1]["bindings"][0]["destination"] == name


def test_a_vhost_without_an_address_is_refused():
    with pytest.raises(BrokerError, match=r"vhost called \"\.\.\""):
        ManagementAdmin(URL, vhost="..")


async def test_reading_leaves_out_what_is_the_brokers_or_a_connections_own():
    exchange = {"type": "topic", "durable": True, "auto_delete": False, "internal": False, "arguments": {}}
    ends = {"destination_type": "queue", "arguments": {}, "properties_key": "k", "routing_key": "k"}
    answer = vhost_of(
        [
            queue("b"),
            queue("a", arguments={}, type="classic"),
            queue("amq.gen-1"),
            queue("mine", exclusive=True),
            queue("i", internal=True),
        ],
        exchanges=[{"name": name, **exchange} for name in ("", "amq.topic", "mail")],
        bindings=[
            {"source": "", "destination": "a", **ends},
            {"source": "amq.topic", "destination": "a", **ends},
            {"source": "mail", "destination": "mine", **ends},
            {"source": "mail", "destination": "amq.gen-1", **ends},
        ],
        policies=[{"name": "p", "pattern": ".*", "definition": {"max-length": 1}, "apply-to": "all", "priority": 0}],
    )
    async with admin(answer) as here:
        found = await here.read()

    classic = Queue("a", type="classic", arguments={"x-queue-type": "classic"})
    assert found.queues == (classic, Queue("b", arguments={"x-queue-type": "quorum"}))
    assert found.exchanges == (Exchange("mail", type="topic"),)
    assert found.bindings == (Binding("amq.topic", "a", "k"),)
    assert found.policies == (Policy("p", ".*", {"max-length": 1}, apply_to="all", priority=0),)


def paged(listings: list[list[str]], seen: list[int]) -> Callable[[httpx2.Request], httpx2.Response]:
    """An API whose queue listing is another one each time that page 1 is asked for."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        if "queues" not in request.url.path:
            return httpx2.Response(200, json=[])
        assert (request.url.params["page_size"], request.url.params["disable_stats"]) == ("500", "true")
        page = int(request.url.params["page"])
        seen.append(page)
        pages = listings[min(seen.count(1), len(listings)) - 1]
        if page > len(pages):
            return httpx2.Response(400, json={"error": "page_out_of_range", "reason": ""})
        items = [queue(name) for name in pages[page - 1].split()]
        total = sum(len(each.split()) for each in pages)
        return httpx2.Response(200, json={"items": items, "page_count": 3, "filtered_count": total})

    return answer


async def test_all_pages_are_read():
    seen: list[int] = []
    async with admin(paged([["a b", "c", "d"]], seen)) as here:
        found = await here.read()

    assert [each.name for each in found.queues] == ["a", "b", "c", "d"]
    assert seen == [1, 2, 3]


async def test_a_listing_that_shifted_while_it_was_read_is_read_again():
    seen: list[int] = []
    shifted = ["a b", "b", "d"]  # as if something before `c` had gone: `b` comes twice
    async with admin(paged([shifted, ["a b", "c", "d"]], seen)) as here:
        found = await here.read()

    assert [each.name for each in found.queues] == ["a", "b", "c", "d"]
    assert seen == [1, 2, 3, 1, 2, 3]


async def test_a_page_that_vanished_is_the_end():
    async with admin(paged([["a b", "c"]], [])) as here:
        found = await here.read()

    assert [each.name for each in found.queues] == ["a", "b", "c"]


async def test_a_lost_connection_is_tried_again():
    calls = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        calls.append(request.method)
        if len(calls) < 3:
            raise httpx2.RemoteProtocolError("Server disconnected without sending a response.")
        return httpx2.Response(201)

    async with admin(answer) as here:
        await here.create(Binding("x", "q", "k"))

    assert calls == ["POST"] * 3


@pytest.mark.parametrize(
    ("error", "tries", "text"),
    [
        (httpx2.ConnectError("refused"), 4, "cannot be reached"),
        (httpx2.ReadTimeout("late"), 1, "did not answer within 30 s"),
    ],
)
async def test_who_does_not_answer_is_named_without_secrets(error, tries, text):
    calls = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        calls.append(request)
        raise error

    async with admin(answer) as here:
        with pytest.raises(ConnectionFailed) as caught:
            await here.identify()

    assert len(calls) == tries
    assert f"rabbit.example:15672 {text}" in str(caught.value)
    assert "management plugin" in str(caught.value)
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("wanted", "reason", "needed"),
    [
        (Queue("q"), "Access refused.", 'configure permission on "q"'),
        (
            Queue("q", arguments={"x-dead-letter-exchange": "d"}),
            "Access refused.",
            'configure permission on "q", read permission on it and write permission on "d"',
        ),
        (Exchange("x"), "Access refused.", 'configure permission on "x"'),
        (
            Queue("q", arguments={"x-dead-letter-exchange": ""}),
            "Access refused.",
            'read permission on it and write permission on "amq.default"',
        ),
        (Binding("x", "q"), "Access refused.", 'write permission on "q" and read permission on "x"'),
        (Policy("p", "^q$", {}), "User not authorised to access object", "the tag policymaker"),
        (Queue("q"), "Not_Authorized", "the password is wrong"),
        (Queue("q"), "Not management user", "lacks the tag management"),
        (Queue(".."), "Access refused.", "the tag administrator"),
    ],
)
async def test_a_refused_user_is_told_what_is_needed(wanted, reason, needed):
    async with admin(says(401, reason)) as here:
        with pytest.raises(AccessRefused) as caught:
            await here.create(wanted)

    assert needed in str(caught.value)
    assert 'user "us@er"' in str(caught.value)


async def test_a_reserved_name_is_no_matter_of_permissions():
    async with admin(says(401, "Access refused.")) as here:
        with pytest.raises(Refused, match=r"`amq\.`"):
            await here.create(Queue("amq.mine"))


async def test_a_vhost_that_is_missing_is_named():
    async with admin(says(404, "Not Found")) as here:
        with pytest.raises(AccessRefused, match=r'vhost "v" does not exist, or user "us@er" may not see it'):
            await here.read()
    async with admin(says(404, "vhost_not_found")) as here:
        with pytest.raises(AccessRefused, match='vhost "v" does not exist'):
            await here.create(Queue("q"))


async def test_html_of_4_0_is_read():
    async with admin(says(400, 'Validation failed\n\n&lt;&lt;"nope"&gt;&gt; is not valid\n')) as here:
        with pytest.raises(Refused, match='policy p: "nope" is not valid'):
            await here.create(Policy("p", "^q$", {"overflow": "nope"}))


@pytest.mark.parametrize("answer", [httpx2.Response(200, text="<html>"), httpx2.Response(404), httpx2.Response(200)])
async def test_somebody_elses_web_server_is_recognised(answer):
    async with admin(lambda _: answer) as here:
        with pytest.raises(BrokerError, match=r"not RabbitMQ's management API"):
            await here.identify()


async def test_a_crash_of_the_api_is_no_refusal():
    async with admin(lambda _: httpx2.Response(500)) as here:
        with pytest.raises(BrokerError, match="failed with HTTP 500") as caught:
            await here.create(Queue("q"))

    assert not isinstance(caught.value, Refused)


@pytest.mark.parametrize("answer", [httpx2.Response(200, text="<html>"), httpx2.Response(500), httpx2.Response(502)])
async def test_a_listing_that_is_none_is_never_read_as_empty(answer):
    async with admin(lambda _: answer) as here:
        with pytest.raises(BrokerError, match="failed with HTTP"):
            await here.read()


async def test_a_broken_listing_of_bindings_names_the_known_cause():
    def broken(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(500) if "bindings" in request.url.path else vhost_of([])(request)

    async with admin(broken) as here:
        with pytest.raises(BrokerError, match="`~` in its routing key"):
            await here.read()


async def test_a_user_without_permissions_in_the_vhost_is_told_so():
    async with admin(says(401, "User not authorised to access virtual host")) as here:
        with pytest.raises(AccessRefused, match='no permission in vhost "v"'):
            await here.read()


@pytest.mark.parametrize(
    "binding", [Binding("x", "q", "a~b", arguments={"n": 1}), Binding("x", "q", arguments={"n": None})]
)
async def test_a_binding_that_would_break_the_api_is_never_sent(binding):
    async with admin(lambda _: pytest.fail("sent")) as here:
        with pytest.raises(Refused):
            await here.create(binding)


async def test_a_binding_is_deleted_by_the_brokers_key():
    ends = {"source": "x", "destination": "q", "destination_type": "queue", "routing_key": "a/b"}
    listed = [
        {**ends, "arguments": {"n": "1"}, "properties_key": "a%2Fb~other"},
        {**ends, "arguments": {"n": 1}, "properties_key": "a%2Fb~ours"},
    ]
    deleted = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET":
            return httpx2.Response(200, json=listed)
        deleted.append(request.url.raw_path)
        return httpx2.Response(204)

    async with admin(answer) as here:
        await here.delete(Binding("x", "q", "a/b", arguments={"n": 1}))
        await here.delete(Binding("x", "q", "a/b", arguments={"n": True}))

    assert deleted == [b"/api/bindings/v/e/x/q/q/a%252Fb~ours"]


@pytest.mark.parametrize("missing", [Queue("q"), Exchange("x"), Policy("p", "", {}), Binding("x", "q")])
async def test_what_is_not_there_is_deleted(missing):
    async with admin(says(404, "Not Found")) as here:
        await here.delete(missing)


@pytest.mark.parametrize(("status", "rights"), [(200, Rights("^a", "", ".*")), (401, None), (403, None), (404, None)])
async def test_only_an_administrator_is_told_what_the_user_may(status, rights):
    seen = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.url.raw_path)
        return httpx2.Response(status, json={"configure": "^a", "write": "", "read": ".*"})

    async with admin(answer, vhost="team/a") as here:
        assert await here.asker() == Asker("us@er", "team/a", rights)
    assert seen == [b"/api/permissions/team%2Fa/us%40er"]


async def test_a_broker_that_cannot_say_what_the_user_may_is_no_user_without_permissions():
    async with admin(says(500, "out of order")) as here:
        with pytest.raises(BrokerError, match="out of order"):
            await here.asker()
