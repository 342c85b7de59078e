"""The Admin port on RabbitMQ's management API."""

import ssl
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from operator import attrgetter, itemgetter
from types import TracebackType
from typing import Any, Final, NoReturn, Self

import httpx2

from amqpkit.brokers.management import refusal, wire
from amqpkit.brokers.management.client import Answer, Client
from amqpkit.declare.identity import address, identity
from amqpkit.declare.importing.live import Beyond
from amqpkit.errors import AccessRefused, BrokerError, Refused
from amqpkit.model import Binding, DeclaredObject, Holding, Policy, Queue, Surroundings, Topology
from amqpkit.ports import Asker, BrokerInfo, ListedConsumer, QueueFigures

# The most that RabbitMQ allows; 501 is answered 400.
_PAGE: Final = 500
_LISTINGS: Final = 3
_ONE_BY_ONE: Final = 32
"""Above so many queues their counts come from the listing."""
_NO: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


class ManagementAdmin:
    """Declarations in one vhost over the management API, on at most `pool` connections.

    `api_url` is `http://user:password@host:15672`, credentials percent-encoded, `https` for TLS (`tls` for a private
    CA); raises BrokerError when it cannot be read. `timeout` in seconds is for each request; one whose connection is
    lost is repeated a few times. `say` is told, in words, what is being read. The tag `management` is enough to read;
    to create takes `policymaker` and permissions on the names.
    """

    def __init__(  # noqa: PLR0913 - an address and how to use it
        self,
        api_url: str,
        *,
        vhost: str,
        pool: int = 8,
        timeout: float = 30.0,
        tls: ssl.SSLContext | None = None,
        say: Callable[[str], None] | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """Remember where; nothing is sent yet. `transport` is for tests."""
        if vhost in wire.DOTS:
            # RabbitMQ's web server takes `%2E%2E` for a step up, as it does `..` (measured: 405 or a redirect).
            msg = f'the management API cannot address a vhost called "{vhost}"'
            raise BrokerError(msg)
        self.vhost: Final = vhost
        self._client = Client(api_url, pool=pool, timeout=timeout, tls=tls, transport=transport)
        self._user = self._client.location.user
        self._say = say or _nobody_listens

    async def __aenter__(self) -> Self:
        """Use it as a context that closes it."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()

    async def identify(self) -> BrokerInfo:
        """Say who answers; raises AccessRefused, ConnectionFailed."""
        answer = await self._client.ask("GET", "overview")
        if answer.status == HTTPStatus.NOT_FOUND or (answer.fine and not _is_overview(answer.body)):
            msg = f"what answers at {self._client.location} is not RabbitMQ's management API"
            raise BrokerError(msg)
        if not answer.fine:
            self._fail(answer)
        version = answer.body.get("product_version") or answer.body["rabbitmq_version"]
        return BrokerInfo(version=version, cluster_name=answer.body["cluster_name"])

    async def read(self) -> Topology:
        """Read the vhost: neither what RabbitMQ itself put there nor queues that belong to a connection."""
        queues = await self._queues()
        exchanges = [wire.exchange(item) for item in await self._list("exchanges")]
        bindings = [wire.binding(item) for item in await self._list("bindings")]
        policies = [wire.policy(item) for item in await self._list("policies")]
        shared = {queue.name for queue in queues}
        by_name = attrgetter("name")
        return Topology(
            queues=tuple(sorted(queues, key=by_name)),
            exchanges=tuple(sorted((x for x in exchanges if not wire.is_the_brokers_own(x.name)), key=by_name)),
            bindings=tuple(sorted((b for b in bindings if b.source and _is_ours(b, shared)), key=_by_ends)),
            policies=tuple(sorted(policies, key=by_name)),
            vhost=self.vhost,
        )

    async def surroundings(self) -> Surroundings:
        """Read operator policies, limits, denied features and who we are; the tag `management` is enough."""
        operators = await self._list("operator-policies")
        limits = await self._list("vhost-limits")
        vhosts = await self._ask("vhosts")
        features = await self._ask("deprecated-features")
        me = await self._ask("whoami")
        mine: Mapping[str, Any] = next((item for item in vhosts or () if item["name"] == self.vhost), {})
        found = wire.surroundings(operators, limits, mine, features or (), me or {})
        return replace(found, exchange_types=wire.exchange_types(await self._ask("overview") or {}))

    async def asker(self) -> Asker:
        """Say who we are and, to an administrator, what we may do.

        Whom RabbitMQ's own database does not know (404) gets permissions from another backend, which tells nobody.
        """
        path = ("permissions", self.vhost, self._user)
        answer = None if wire.DOTS.intersection(path) else await self._client.ask("GET", *path)
        if answer is None or answer.status in {*_NO, HTTPStatus.NOT_FOUND}:
            return Asker(self._user, self.vhost)
        if not answer.fine:
            self._fail(answer)
        return Asker(self._user, self.vhost, wire.rights(answer.body))

    async def beyond(self) -> Beyond:
        """Read what no topology holds, as far as the user may see it: names only, the values may be secret."""
        parameters = await self._seen("parameters", self.vhost)
        permissions = await self._seen("vhosts", self.vhost, "permissions")
        bindings = [wire.binding(item) for item in await self._list("bindings")]
        odd = (b for b in bindings if b.destination_type == "exchange" and wire.is_the_brokers_own(b.destination))
        return Beyond(
            None if parameters is None else tuple((item["component"], item["name"]) for item in parameters),
            None if permissions is None else tuple(item["user"] for item in permissions),
            tuple(sorted(odd, key=_by_ends)),
        )

    async def holdings(self, queues: Collection[str]) -> Mapping[str, Holding]:
        """Count messages, unacknowledged ones too, and consumers; up to 10 s old. A missing queue is left out."""
        if len(queues) > _ONE_BY_ONE:
            wanted = set(queues)
            items, _ = await self._pages(columns="name,messages,consumers")
            return {item["name"]: wire.holding(item) for item in items if item["name"] in wanted}
        found = {}
        for name in queues:
            if name in wire.DOTS:  # it has no address; AMQP can still count it
                continue
            answer = await self._client.ask("GET", "queues", self.vhost, name)
            if answer.fine:
                found[name] = wire.holding(answer.body)
            elif answer.status != HTTPStatus.NOT_FOUND:
                self._fail(answer)
        return found

    async def owner_of(self, queue: str) -> str:
        """Name the connection that has an exclusive queue, as far as the user may know; empty when nobody says."""
        answer = await self._client.ask("GET", "queues", self.vhost, queue)
        connection = str((answer.body.get("owner_pid_details") or {}).get("name", "")) if answer.fine else ""
        if not connection:
            return ""
        answer = await self._client.ask("GET", "connections", connection)
        named = (answer.body.get("client_properties") or {}).get("connection_name") if answer.fine else None
        return f"{named} ({connection})" if named else connection

    async def figures(self) -> Mapping[str, QueueFigures]:
        """Read what the broker counts of each queue; see `ports.Statistics`."""
        columns = "name,messages_ready,messages_unacknowledged,message_stats,head_message_timestamp,delivery_limit"
        items, _ = await self._pages(columns=f"{columns},message_bytes_ready", msg_rates_age=60, msg_rates_incr=5)
        return {item["name"]: wire.figures(item) for item in items}

    async def consumers(self) -> Sequence[ListedConsumer]:
        """List who consumes; see `ports.Statistics`."""
        return [wire.consumer(item) for item in await self._list("consumers")]

    async def create(self, wanted: DeclaredObject) -> None:
        """Declare an object; an equal one is left alone, a policy is overwritten.

        Raises Refused, AccessRefused, ConnectionFailed.
        """
        if wire.DOTS.intersection(wire.names_of(wanted)):
            await self._import(wanted)
            return
        if isinstance(wanted, Binding) and (no := refusal.unlistable(wanted)):
            raise no
        # A binding that exists is answered 201 like a new one (measured), so there is nothing to ask before.
        method = "POST" if isinstance(wanted, Binding) else "PUT"
        answer = await self._client.ask(method, *wire.path_of(self.vhost, wanted), body=wire.body_of(wanted))
        if not answer.fine:
            self._fail(answer, wanted)

    async def delete(self, unwanted: DeclaredObject) -> None:
        """Delete an object; one that is missing is fine. Raises AccessRefused, Refused, ConnectionFailed."""
        path: tuple[str, ...] | None = wire.path_of(self.vhost, unwanted)
        if isinstance(unwanted, Binding):
            path = await self._place(unwanted)
        if path is None:
            return
        if wire.DOTS.intersection(path):
            reason = 'the management API cannot address a name that is "." or ".."'
            raise Refused(object=address(unwanted), reason=reason, remedy="delete it with an AMQP client")
        answer = await self._client.ask("DELETE", *path)
        if not answer.fine and answer.status != HTTPStatus.NOT_FOUND:
            self._fail(answer, unwanted)

    async def close(self) -> None:
        """Give back the connections."""
        await self._client.close()

    async def _import(self, wanted: DeclaredObject) -> None:
        """Create an object that has no address.

        RabbitMQ's web server takes a name of `.` or `..` for a step in the path however it is escaped. Definitions
        carry names in the body; they need an administrator, and skip what exists.
        """
        answer = await self._client.ask("POST", "definitions", self.vhost, body=wire.definition_of(wanted))
        if answer.status in _NO:
            needed = 'the tag administrator to create a name that is "." or ".."'
            msg = f'{address(wanted)}: user "{self._user}" needs {needed}'
            raise AccessRefused(msg)
        if not answer.fine:
            self._fail(answer, wanted)

    async def _place(self, binding: Binding) -> tuple[str, ...] | None:
        """Find a binding's address by its fields: the broker alone knows the hash of its arguments."""
        between = wire.path_of(self.vhost, binding)
        if wire.DOTS.intersection(between):
            return between
        answer = await self._client.ask("GET", *between)
        if answer.status == HTTPStatus.NOT_FOUND:
            return None
        if not answer.fine:
            self._fail(answer, binding)
        same = (item for item in answer.body if identity(wire.binding(item)) == identity(binding))
        return next(((*between, item["properties_key"]) for item in same), None)

    async def _queues(self) -> tuple[Queue, ...]:
        """Read the queues, page by page.

        A queue that goes while we read shifts the next page, which then misses one: so a listing whose count does not
        add up is read again, and what any of them saw counts.
        """
        found: dict[str, Queue] = {}
        for _ in range(_LISTINGS):
            # Statistics would make the listing slow, and seconds old.
            items, total = await self._pages(disable_stats="true")
            found |= {item["name"]: wire.queue(item) for item in items if not item.get("internal")}
            if len({item["name"] for item in items}) == total:
                break
        return tuple(each for each in found.values() if not each.exclusive and not wire.is_the_brokers_own(each.name))

    async def _seen(self, *path: str) -> list[Mapping[str, Any]] | None:
        """Read a listing that is not for every user; None when it is not for this one."""
        answer = await self._client.ask("GET", *path)
        if answer.status in _NO:
            return None
        if not answer.fine or answer.body is None:
            self._fail(answer)
        listing: list[Mapping[str, Any]] = answer.body
        return listing

    async def _ask(self, what: str) -> Any:
        """Read something of the whole broker."""
        answer = await self._client.ask("GET", what)
        if not answer.fine:
            self._fail(answer, what=what)
        return answer.body

    async def _pages(self, **query: str | int) -> tuple[list[Mapping[str, Any]], int]:
        """Read every page; without a query what does not lag, else from the statistics."""
        # Statistics would make the listing slow, and seconds old.
        asked: dict[str, str | int] = query or {"disable_stats": "true"}
        items: list[Mapping[str, Any]] = []
        page, pages, total = 1, 1, 0
        while page <= pages:
            self._say(f"reading the broker's queues, page {page:,} of {pages:,}")
            answer = await self._client.ask("GET", "queues", self.vhost, page=page, page_size=_PAGE, **asked)
            if answer.status == HTTPStatus.BAD_REQUEST and page > 1:
                break  # page_out_of_range: queues went while we read
            if not answer.fine or answer.body is None:
                self._fail(answer)
            items += answer.body["items"]
            pages, total = answer.body["page_count"], answer.body["filtered_count"]
            page += 1
        return items, total

    async def _list(self, what: str) -> list[Mapping[str, Any]]:
        self._say(f"reading the broker's {what.replace('-', ' ')}")
        answer = await self._client.ask("GET", what, self.vhost)
        if not answer.fine or answer.body is None:
            self._fail(answer, what=what)
        listing: list[Mapping[str, Any]] = answer.body
        return listing

    def _fail(self, answer: Answer, declared: DeclaredObject | None = None, *, what: str = "") -> NoReturn:
        """Raise the error that an answer means."""
        if answer.status in _NO:
            raise self._access(answer, declared)
        if answer.status == HTTPStatus.NOT_FOUND and (declared is None or answer.reason == "vhost_not_found"):
            # 4.3 says this too of a vhost that is there and closed to us.
            msg = f'vhost "{self.vhost}" does not exist, or user "{self._user}" may not see it'
            raise AccessRefused(msg)
        if declared is not None and answer.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            raise refusal.refused(declared, answer.reason or f"HTTP {answer.status}")
        msg = f"the management API at {self._client.location} failed with HTTP {answer.status}"
        if what == "bindings":
            # Measured on 4.0 and 4.3, and true of the whole listing.
            msg += "; a binding that has arguments and `~` in its routing key does that: delete it with an AMQP client"
        raise BrokerError(f"{msg} {answer.reason}".strip())

    def _access(self, answer: Answer, declared: DeclaredObject | None) -> BrokerError:
        where = f"the management API at {self._client.location}"
        if answer.reason in {"Not_Authorized", "Login failed", "Not management user"}:
            tags = "the tag management (policymaker to apply)"
            return AccessRefused(
                f'{where} refuses user "{self._user}": the password is wrong, or the user lacks {tags}'
            )
        if declared is None:
            return AccessRefused(f'user "{self._user}" has no permission in vhost "{self.vhost}" ({answer.reason})')
        if not isinstance(declared, Binding | Policy) and wire.is_the_brokers_own(declared.name):
            return refusal.reserved(declared)
        return AccessRefused(refusal.needs(declared, self._user, self.vhost))


def _nobody_listens(_text: str) -> None:
    pass


def _is_overview(body: object) -> bool:
    return isinstance(body, Mapping) and "cluster_name" in body


def _is_ours(binding: Binding, shared: set[str]) -> bool:
    """Whether its destination is one that we list: neither a connection's own queue nor one that RabbitMQ named."""
    if binding.destination_type == "queue":
        return binding.destination in shared
    return not wire.is_the_brokers_own(binding.destination)


def _by_ends(binding: Binding) -> tuple[str, ...]:
    ends = (binding.source, binding.destination_type, binding.destination, binding.routing_key)
    return (*ends, repr(sorted(binding.arguments.items(), key=itemgetter(0))))
