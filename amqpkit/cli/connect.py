"""Which broker a command talks to: from the command line, else the environment, else this machine."""

import os
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated
from urllib.parse import parse_qs

from cyclopts import Parameter

from amqpkit.brokers.credentials import DEFAULT_URL, Given, complete, read_password
from amqpkit.brokers.identify import identify
from amqpkit.brokers.management import ManagementAdmin
from amqpkit.brokers.url import BrokerURL, ManagementURL, credentials_in
from amqpkit.errors import AmqpkitError, BrokerError
from amqpkit.ports import BrokerInfo


@dataclass(frozen=True, slots=True)
class Place:
    """A broker, a vhost in it, and where its management API is; credentials show in no repr."""

    url: BrokerURL
    api: str = field(repr=False)

    @property
    def vhost(self) -> str:
        """The vhost that everything happens in."""
        return self.url.vhost

    def __str__(self) -> str:
        return f'vhost "{self.vhost}" at {self.url.location}'


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOptions:
    """The options of every command that talks to a broker.

    Parameters
    ----------
    url
        The broker, as amqp://user:password@host:5672/vhost (amqps:// for TLS; percent-encode user, password and vhost).
        Without it: guest on this machine.
    user
        The user, when the URL names none.
    password_file
        A file that holds the password alone, when the URL has none. AMQP_PASSWORD in the environment may hold it too.
    vhost
        The virtual host, instead of the URL's.
    """

    url: Annotated[str | None, Parameter(env_var="AMQP_URL", show_default=False)] = field(default=None, repr=False)
    user: Annotated[str | None, Parameter(env_var="AMQP_USER", show_default=False)] = None
    # Text, since an empty variable is none, and a Path of it would be the current folder.
    password_file: Annotated[str | None, Parameter(env_var="AMQP_PASSWORD_FILE", show_default=False)] = None
    # No option: what stands in the arguments, `ps` shows to everybody on the machine.
    password: Annotated[str | None, Parameter(parse=False)] = field(
        default_factory=lambda: os.environ.get("AMQP_PASSWORD"), repr=False
    )
    vhost: Annotated[str | None, Parameter(show_default=False)] = None

    @property
    def named_vhost(self) -> str:
        """The vhost, whoever we are there; raises BrokerError when the URL cannot be read."""
        return self.vhost or BrokerURL.parse(self.url or DEFAULT_URL).vhost

    def broker(self, declared_vhost: str | None = None) -> BrokerURL:
        """Read the URL and what is given apart from it.

        Raises AmqpkitError when something cannot be read or differs, or the file declares another vhost.
        """
        url = complete(
            self.url or DEFAULT_URL,
            "the URL (--url, AMQP_URL)",
            Given("--user (AMQP_USER)", self.user or None),
            (
                Given("AMQP_PASSWORD", self.password or None),
                read_password(Given("--password-file (AMQP_PASSWORD_FILE)", self.password_file or None)),
            ),
        )
        if self.vhost is not None:
            url = url.at_vhost(self.vhost)
        if declared_vhost is not None and declared_vhost != url.vhost:
            msg = (
                f'the topology file is for vhost "{declared_vhost}", the connection for "{url.vhost}": '
                "give the same one in --vhost or at the end of the URL"
            )
            raise AmqpkitError(msg)
        return url


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class AdminOptions(BrokerOptions):
    """The options of every command that also talks to the management API.

    Parameters
    ----------
    api
        The management API, as http://user:password@host:15672. Without it: the broker's host, port 15672 (15671 with
        TLS). Without credentials: the broker's.
    """

    api: Annotated[str | None, Parameter(env_var="AMQP_API_URL", show_default=False)] = field(default=None, repr=False)

    def place(self, declared_vhost: str | None = None) -> Place:
        """Read both URLs; raises AmqpkitError."""
        url = self.broker(declared_vhost)
        if not self.api:
            return Place(url, url.api)
        given = ManagementURL.parse(self.api)
        user, password = credentials_in(self.api)
        if user is None or (user == url.location.user and password is None):
            scheme, _, rest = given.base.partition("://")
            return Place(url, f"{scheme}://{url.location.credentials}@{rest}")
        return Place(url, self.api)


@asynccontextmanager
async def administered(
    place: Place, say: Callable[[str], None] | None = None
) -> AsyncIterator[tuple[ManagementAdmin, BrokerInfo]]:
    """Open the management API of a broker, sure that it is that broker's.

    Both are asked who they are: behind a proxy or a port forward, port 15672 of the same host may be another cluster's.
    `say` is told which listing is being read.
    Raises BrokerError when they differ, AccessRefused, ConnectionFailed.
    """
    async with ManagementAdmin(place.api, vhost=place.vhost, tls=trust(place), say=say) as admin:
        broker = await identify(place.url)
        behind_api = await admin.identify()
        same_cluster(place, broker, behind_api)
        yield admin, behind_api


def trust(place: Place) -> ssl.SSLContext | None:
    """Say what the management API's certificate is checked against; None for plain HTTP."""
    return _tls(place.url.options) if place.api.lower().startswith("https:") else None


def same_cluster(place: Place, broker: BrokerInfo, behind_api: BrokerInfo) -> None:
    """Raise BrokerError when a management API is not of the broker's cluster."""
    if behind_api.cluster_name != broker.cluster_name:
        api = ManagementURL.parse(place.api).location
        msg = (
            f'the management API at {api} is of cluster "{behind_api.cluster_name}", the broker at '
            f'{place.url.location} of "{broker.cluster_name}": give the right one with --api (AMQP_API_URL)'
        )
        raise BrokerError(msg)


def redact(url: str) -> str:
    """Give a URL that may be shown: without its password, and with no more of a badly escaped one than its end."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "", url
    credentials, at, place = rest.rpartition("@")
    if not at:
        return url
    user = credentials.partition(":")[0]
    # A stray @, / or # means that the password is not where it should be: then nothing of the front is shown.
    shown = f"{user}:***" if not set("@/#?") & set(credentials) else "***"
    return f"{scheme}{separator}{shown}@{place}"


def _tls(options: str) -> ssl.SSLContext:
    """Trust for HTTPS what the AMQP URL's own options (cafile and the like, as aio-pika has them) say to trust."""
    given = {name: values[-1] for name, values in parse_qs(options).items()}
    try:
        context = ssl.create_default_context(cafile=given.get("cafile"), capath=given.get("capath"))
        if "certfile" in given:
            context.load_cert_chain(given["certfile"], given.get("keyfile"))
    except OSError as error:
        msg = f"the certificates that the AMQP URL names cannot be read: {error}"
        raise BrokerError(msg) from error
    if given.get("no_verify_ssl", "0") != "0":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
