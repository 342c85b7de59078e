"""Where a broker is, read from an AMQP URL or a management URL, decoded once.

Client libraries read a badly escaped URL without complaint: from `amqp://svc:p@ss/w#rd@host` they take the host `ss`
(measured). So a URL is read strictly here, and no message of this module repeats any part of one.
"""

import re
from dataclasses import dataclass, field, replace
from typing import Final, Self
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlsplit

from amqpkit.errors import BrokerError

_STRAY_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_DIGITS: Final = re.compile(r"[0-9]{1,9}")
_HEARTBEAT_MAX: Final = 65_535
"""AMQP has 16 bits for it."""
_ADVICE: Final = (
    "write user and password percent-encoded (@ is %40, / is %2F, # is %23, % is %25), or give them apart from the URL"
)


@dataclass(frozen=True, slots=True)
class Location:
    """A host, a port and who we are there; the password never shows in a repr."""

    host: str
    port: int
    tls: bool
    user: str
    password: str = field(repr=False)

    def __str__(self) -> str:
        """Give `host:port`, the form that messages use."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def credentials(self) -> str:
        """User and password as a URL has them, encoded: never print them."""
        return f"{quote(self.user, safe='')}:{quote(self.password, safe='')}"

    @property
    def authority(self) -> str:
        """The part of a URL between `//` and the path, credentials included: never print it."""
        return f"{self.credentials}@{self}"


@dataclass(frozen=True, slots=True)
class BrokerURL:
    """An AMQP URL taken apart; `options` is its query as written (heartbeat, cafile and the like)."""

    location: Location
    vhost: str
    options: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `amqp://user:password@host:port/vhost`; raises BrokerError, which never shows the URL."""
        parts = _split(text, {"amqp": 5672, "amqps": 5671}, "an AMQP URL", "amqp://user:password@host:5672/vhost")
        vhost = parts.path.removeprefix("/")
        if "/" in vhost and vhost != "/":
            msg = 'the vhost in the AMQP URL holds "/": write it as %2F'
            raise BrokerError(msg)
        if not all(map(_is_heartbeat, parse_qs(parts.query, keep_blank_values=True).get("heartbeat", []))):
            # One client library would not heed it, the other end in a ValueError of its own.
            msg = f"the heartbeat in the AMQP URL must be whole seconds, 0 to {_HEARTBEAT_MAX}"
            raise BrokerError(msg)
        return cls(_location(parts, {"amqp": 5672, "amqps": 5671}), unquote(vhost) or "/", parts.query)

    def at_vhost(self, vhost: str) -> Self:
        """Give the same broker and user in another vhost."""
        return replace(self, vhost=vhost)

    @property
    def text(self) -> str:
        """The URL as client libraries take it, credentials included: never print it."""
        scheme = "amqps" if self.location.tls else "amqp"
        options = f"?{self.options}" if self.options else ""
        return f"{scheme}://{self.location.authority}/{quote(self.vhost, safe='')}{options}"

    @property
    def api(self) -> str:
        """The management URL that belongs to it by default: RabbitMQ's own port, same credentials."""
        management = replace(self.location, port=15671 if self.location.tls else 15672)
        return f"{'https' if self.location.tls else 'http'}://{management.authority}"


@dataclass(frozen=True, slots=True)
class ManagementURL:
    """A management URL taken apart; `base` ends in `/api` and holds no credentials."""

    location: Location
    base: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `http://user:password@host:15672`, with or without `/api`; raises BrokerError without the URL."""
        ports = {"http": 80, "https": 443}
        parts = _split(text, ports, "a management URL", "http://user:password@host:15672")
        location = _location(parts, ports)
        prefix = parts.path.rstrip("/").removesuffix("/api").rstrip("/")
        return cls(location, f"{parts.scheme.lower()}://{location}{prefix}/api")


def _is_heartbeat(written: str) -> bool:
    return bool(_DIGITS.fullmatch(written)) and int(written) <= _HEARTBEAT_MAX


def credentials_in(text: str) -> tuple[str | None, str | None]:
    """Give user and password as a URL that can be read has them, decoded once; None for what it leaves out."""
    parts = urlsplit(text.strip())
    user = unquote(parts.username) if parts.username else None
    return user, unquote(parts.password) if parts.password is not None else None


def _split(text: str, schemes: dict[str, int], kind: str, example: str) -> SplitResult:
    try:
        parts = urlsplit(text.strip())
        port_is_valid = parts.port is None or parts.port > 0
    except ValueError:
        # Not chained: the original names the text that it could not read, which may be half a password.
        msg = f"this is not {kind}; {_ADVICE}: {example}"
        raise BrokerError(msg) from None
    if parts.scheme.lower() not in schemes or not parts.hostname or not port_is_valid:
        msg = f"this is not {kind}: write {example}"
        raise BrokerError(msg)
    rest = parts.path + parts.query + parts.fragment
    if parts.netloc.count("@") > 1 or "@" in rest or "#" in text or _STRAY_PERCENT.search(text):
        msg = f"this is not {kind}, it holds characters that must be escaped; {_ADVICE}: {example}"
        raise BrokerError(msg)
    return parts


def _location(parts: SplitResult, ports: dict[str, int]) -> Location:
    scheme = parts.scheme.lower()
    return Location(
        host=parts.hostname or "",
        port=parts.port or ports[scheme],
        tls=scheme.endswith("s"),
        user=unquote(parts.username) if parts.username else "guest",
        password=unquote(parts.password) if parts.password is not None else "guest",
    )
