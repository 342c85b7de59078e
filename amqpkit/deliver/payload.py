"""Payload classes, and the way from bytes to one of them.

Pure: knows no broker, no clock and no queue beyond what it is handed. `decode` never raises.
"""

import codecs
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, ValidationError

from amqpkit.deliver.headers import VERSION, read_version, sendable, shown, text_of
from amqpkit.errors import ConsumerError
from amqpkit.model import Received

MAX_ERRORS: Final = 10  # validation errors told on a dead letter: enough to act on, too few to fill a header
_CHARSET: Final = re.compile(r""";\s*charset\s*=\s*["']?([^\s"';]+)""", re.IGNORECASE)


class Payload(BaseModel):
    """A message's content; subclass it with its type and schema version.

    `class EmailSend(Payload, type="email.send", version=2)`. Instances are frozen; unknown fields of a
    newer producer are ignored, NaN and infinity are refused. Raises ConsumerError at class definition when
    the type is missing or empty, or the version is not a positive integer.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    payload_type: ClassVar[str] = ""
    payload_version: ClassVar[int] = 1

    def __init_subclass__(cls, *, type: str = "", version: int = 1, **kwargs: Any) -> None:  # noqa: A002 - AMQP's word
        """Keep the type and version of the class."""
        super().__init_subclass__(**kwargs)
        if not isinstance(type, str) or not type:
            msg = f'{cls.__name__} needs a type: class {cls.__name__}(Payload, type="…")'
            raise ConsumerError(msg)
        if len(type.encode()) > 255:  # noqa: PLR2004 - an AMQP short string
            msg = f"the type of {cls.__name__} is over AMQP's 255 bytes"
            raise ConsumerError(msg)
        if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version < 2**63:
            msg = f"the version of {cls.__name__} is {version!r}; write a whole number from 1"
            raise ConsumerError(msg)
        cls.payload_type, cls.payload_version = type, version


@dataclass(frozen=True, slots=True)
class Decoded:
    """The bytes are a payload of a class that this consumer knows."""

    payload: Payload


@dataclass(frozen=True, slots=True)
class Invalid:
    """The bytes can never be handled; `errors` say where and why."""

    reason: str
    errors: tuple[dict[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class TooNew:
    """The queue accepts it, this worker does not know it yet: another one may."""

    reason: str


Decoding = Decoded | Invalid | TooNew


def registry(classes: Iterable[type[Payload]]) -> dict[str, type[Payload]]:
    """Index payload classes by type; raises ConsumerError when two claim one type."""
    known: dict[str, type[Payload]] = {}
    for cls in classes:
        other = known.setdefault(cls.payload_type, cls)
        if other is not cls:
            msg = f'{other.__name__} and {cls.__name__} both have type "{cls.payload_type}"'
            raise ConsumerError(msg)
    return known


def decode(received: Received, known: Mapping[str, type[Payload]], accepts: tuple[str, ...]) -> Decoding:
    """Find the class by type and version, and validate the bytes once against it; never raises.

    A message without a type is taken for the first that the queue accepts. Duplicate keys: the last one counts
    (RFC 8259 leaves it open; this is what pydantic does).
    """
    name = received.properties.type or accepts[0]
    if name not in accepts:
        return Invalid(f'type "{name}" is not accepted by queue "{received.queue}" (it accepts {", ".join(accepts)})')
    cls = known.get(name)
    if cls is None:
        return TooNew(f'no class for type "{name}" in this worker')
    version = read_version(received.properties.headers)
    if version is None:
        value = received.properties.headers.get(VERSION)
        return Invalid(f"header {VERSION} is {shown(value)}, not a whole number from 1")
    if version > cls.payload_version:
        return TooNew(f'"{name}" has version {version}, this worker knows {cls.payload_version}')
    if version < cls.payload_version:
        return Invalid(f'"{name}" has version {version}, this worker knows only {cls.payload_version}')
    return _validate(received, cls)


def _validate(received: Received, cls: type[Payload]) -> Decoding:
    text = _plain(received)
    if isinstance(text, Invalid):
        return text
    if not text.strip():
        return Invalid("the body is empty")
    try:
        return Decoded(cls.model_validate_json(text))
    except ValidationError as error:
        return _rejected(cls, error)
    except Exception as error:  # noqa: BLE001 - pydantic does not wrap whatever a user's own validator raises
        return Invalid(f"{cls.__name__} could not be validated: {type(error).__name__}: {text_of(error)}"[:500])


def _plain(received: Received) -> bytes | Invalid:
    """The body as UTF-8 JSON text without a byte order mark."""
    encoding = (received.properties.content_encoding or "").strip().lower()
    if encoding not in ("", "identity", "utf-8", "utf8", "binary", "us-ascii"):
        return Invalid(f'content encoding "{encoding[:40]}" is not supported')
    body = received.body
    charset = _charset(received.properties.content_type)
    if charset is None:
        return body.removeprefix(codecs.BOM_UTF8)
    try:
        return body.decode(charset).removeprefix("\ufeff").encode()
    except (LookupError, ValueError) as error:
        return Invalid(f'the body is not in its charset "{charset[:40]}": {error}'[:500])


def _charset(content_type: str | None) -> str | None:
    """The declared charset when it is another than UTF-8; None when absent."""
    found = _CHARSET.search(content_type or "")
    if found is None or found[1].lower() in ("utf-8", "utf8"):
        return None
    return found[1]


def _rejected(cls: type[Payload], error: ValidationError) -> Invalid:
    """Where and why, without the input: a dead letter's headers must not repeat what may be secret."""
    found = error.errors(include_url=False, include_context=False, include_input=False)[:MAX_ERRORS]
    details = tuple(
        {
            "place": sendable(".".join(map(str, e["loc"]))[:200]),
            "kind": sendable(e["type"][:100]),
            "message": sendable(e["msg"][:500]),
        }
        for e in found
    )
    place, message = details[0]["place"], details[0]["message"]
    more = f" and {error.error_count() - 1} more" if error.error_count() > 1 else ""
    return Invalid(f"not a valid {cls.__name__}: {f'{place}: ' if place else ''}{message}{more}", details)
