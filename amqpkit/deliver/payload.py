"""Payload classes, and the way from bytes to one of them.

Pure: knows no broker, no clock and no queue beyond what it is handed. `decode` never raises.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import to_json

from amqpkit.deliver.bodies import BODY_MAX, BodyError, celery_task, marks, plain_text
from amqpkit.deliver.credentials import Hidden, credentials_of, is_telling, reveal
from amqpkit.deliver.evolution import UpgradeError, check_key, check_previous, known_versions, upgraded, version_of
from amqpkit.deliver.headers import UNREADABLE, VERSION, read_version, sendable, shown, text_of
from amqpkit.deliver.numbers import rounded_in
from amqpkit.errors import ConsumerError, PublishError
from amqpkit.model import NOTHING, Received

MAX_ERRORS: Final = 10  # validation errors told on a dead letter: enough to act on, too few to fill a header


class Payload(BaseModel):
    """A message's content; subclass it with its type and schema version.

    `class EmailSend(Payload, type="email.send", version=2, previous=EmailSendV1)`, where EmailSendV1 has a method
    `upgrade()` that returns an EmailSend; `gap=True` says that versions between the two never were. `key` is the
    business key, made of fields (`"{template_id}:{user_id}"`; default: that of `previous`): messages with the same
    key are one to a consumer with an idempotency store. `track=True` makes each message a job, whose state and progress
    can be looked up by its id. Fields that hold credentials, by their names or types, need
    `secrets_allowed="why"`.

    Instances are frozen; unknown fields of a newer producer are ignored, NaN and infinity are refused. `repr` hides
    credentials. Raises ConsumerError at class definition when any of this does not fit.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False, hide_input_in_errors=True)

    payload_type: ClassVar[str] = ""
    payload_version: ClassVar[int] = 1
    payload_versions: ClassVar[Mapping[int, type["Payload"]]] = NOTHING  # type: ignore[assignment] # the empty mapping
    payload_key: ClassVar[str | None] = None
    payload_hidden: ClassVar[frozenset[str]] = frozenset()
    payload_secrets: ClassVar[bool] = False
    payload_secrets_allowed: ClassVar[str] = ""
    payload_track: ClassVar[bool] = False

    def __init_subclass__(  # noqa: PLR0913 - what a message's contract says, each with its default
        cls,
        *,
        type: str = "",  # noqa: A002 - AMQP's word
        version: int | None = None,
        previous: "type[Payload] | None" = None,
        gap: bool = False,
        key: str | None = None,
        secrets_allowed: str | None = None,
        track: bool | None = None,
        **kwargs: Any,
    ) -> None:
        """Keep what the class says of itself; what needs its fields is checked when they are there."""
        super().__init_subclass__(**kwargs)
        if not isinstance(type, str) or not type:
            msg = f'{cls.__name__} needs a type: class {cls.__name__}(Payload, type="…")'
            raise ConsumerError(msg)
        if len(type.encode()) > 255:  # noqa: PLR2004 - an AMQP short string
            msg = f"the type of {cls.__name__} is over AMQP's 255 bytes"
            raise ConsumerError(msg)
        if secrets_allowed is not None and not (isinstance(secrets_allowed, str) and secrets_allowed.strip()):
            msg = f'{cls.__name__}: secrets_allowed needs a reason: secrets_allowed="why they may be in a message"'
            raise ConsumerError(msg)
        cls.payload_type, cls.payload_version = type, version_of(cls.__name__, version, previous)
        cls.payload_secrets_allowed = secrets_allowed or ""
        cls.payload_key = key if key is not None or previous is None else previous.payload_key
        cls.payload_track = bool(previous and previous.payload_track) if track is None else track
        cls.payload_versions = {cls.payload_version: cls}
        if previous is not None:
            check_previous(cls, previous, gap=gap)
            cls.payload_versions = {**previous.payload_versions, cls.payload_version: cls}

    @classmethod
    def __pydantic_on_complete__(cls) -> None:
        """Check what the class says of its fields, now that they are known."""
        super().__pydantic_on_complete__()
        finds = credentials_of(cls)
        if finds and not cls.payload_secrets_allowed:
            paths = ", ".join(f"{cls.__name__}.{find.path}" for find in finds)
            msg = (
                f"{paths}: a credential would lie in queues, dead letters and dashboards; send a reference to it, or "
                'say why not: secrets_allowed="…"'
            )
            raise ConsumerError(msg)
        cls.payload_hidden = frozenset(find.path.partition(".")[0] for find in finds)
        cls.payload_secrets = any(find.kept for find in finds)
        check_key(cls)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """Show the fields, and hide those that are or hold credentials."""
        for name, value in super().__repr_args__():
            hidden = name in self.payload_hidden or (name is not None and is_telling(name))
            yield name, Hidden() if hidden else value


def encode(payload: Payload) -> bytes:
    """Write a payload as JSON, with the real values of secrets that its class allows; raises PublishError."""
    if not payload.payload_secrets:
        return payload.model_dump_json(by_alias=True).encode()
    masked, kept = payload.model_dump(mode="json", by_alias=True), payload.model_dump(by_alias=True)
    try:
        return to_json(reveal(masked, kept))
    except ValueError as error:  # bytes that are no text, too; the cause would show them
        said = str(error) if type(error) is ValueError else "a secret is not text"
        msg = f"{type(payload).__name__} cannot be written: {said}"
        raise PublishError(msg) from None


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
        if not cls.__pydantic_complete__:
            cls.model_rebuild(raise_errors=False)  # what was not defined yet may be now, and is checked then
        other = known.setdefault(cls.payload_type, cls)
        if other is not cls:
            newest = max(other, cls, key=lambda each: each.payload_version)
            linked = {other, cls} <= set(newest.payload_versions.values())
            told = f"; name {newest.__name__} only: older versions come with it" if linked else ""
            msg = f'{other.__name__} and {cls.__name__} both have type "{cls.payload_type}"{told}'
            raise ConsumerError(msg)
    return known


def decode(
    received: Received, known: Mapping[str, type[Payload]], accepts: tuple[str, ...], *, limit: int = BODY_MAX
) -> Decoding:
    """Find the class by type and version, validate the bytes once against it and upgrade; never raises.

    A message without a type is taken for the first that the queue accepts, one without a version for version 1.
    Duplicate keys: the last one counts (RFC 8259 leaves it open; this is what pydantic does). A packed body (gzip,
    deflate, zstd) may unpack to `limit` bytes.
    """
    properties = received.properties
    if UNREADABLE in properties.headers:
        return Invalid(f"its headers cannot be read: {sendable(str(properties.headers[UNREADABLE])[:200])}")
    if "task" in properties.headers and (stranger := celery_task(received)):
        return Invalid(f'{stranger}; queue "{received.queue}" takes payloads of amqpkit{marks(received)}')
    name = properties.type or accepts[0]
    if name not in accepts:
        told = f'type "{sendable(name)}" is not accepted by queue "{received.queue}" (it accepts {", ".join(accepts)})'
        return Invalid(told)
    newest = known.get(name)
    if newest is None:
        return TooNew(f'no class for type "{name}" in this worker')
    found = _version(received, newest)
    if not isinstance(found, int):
        return found
    decoding = _validate(received, newest.payload_versions[found], newest, limit)
    if isinstance(decoding, Invalid) and not properties.type:
        told = f"{decoding.reason}; it names no type and was taken for {name}{marks(received)}"
        return Invalid(told, decoding.errors)
    return decoding


def _version(received: Received, newest: type[Payload]) -> int | Invalid | TooNew:
    """The message's version if the class can read it."""
    name, headers = newest.payload_type, received.properties.headers
    version = read_version(headers)
    if version is None:
        return Invalid(f"header {VERSION} is {shown(headers.get(VERSION))}, not a whole number from 1")
    if version in newest.payload_versions:
        return version
    told = f'"{name}" has version {version}, this worker knows {known_versions(newest)}'
    return TooNew(told) if version > newest.payload_version else Invalid(told)


def _validate(received: Received, cls: type[Payload], newest: type[Payload], limit: int) -> Decoding:
    try:
        text = plain_text(received, limit)
        payload: Payload = cls.model_validate_json(text)
        if rounded_in(text, payload):
            return Invalid(f"not a valid {cls.__name__}: a number beyond 2**53 would be rounded; send it as text")
        return Decoded(payload if cls is newest else upgraded(payload, newest))
    except (BodyError, UpgradeError) as error:
        return Invalid(str(error))
    except ValidationError as error:
        return _rejected(cls, error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - pydantic does not wrap whatever a user's own validator raises
        return Invalid(f"{cls.__name__} could not be validated: {type(error).__name__}: {text_of(error)}"[:500])


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
