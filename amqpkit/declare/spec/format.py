"""The shape of a topology file, as pydantic models: which keys there are and what each may hold.

Pure. What concerns more than one key is in `checks`, what the file becomes is in `compiler`.
Aliases are the canonical spelling: RabbitMQ's own words as RabbitMQ spells them, ours with underscores.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, WithJsonSchema

from amqpkit.units import parse_duration, parse_percent, parse_rate, parse_size

_DURATION: Final = r"^\s*\d+(\.\d+)?\s*(ms|s|m|h|d)\s*$"
_SIZE: Final = r"^\s*\d+(\.\d+)?\s*(B|[KMGT]iB|[kKMGT]B)\s*$"
_RATE: Final = r"^\s*\d+(\.\d+)?\s*/\s*(s|m|h|d)\s*$"
_PERCENT: Final = r"^\s*\d+(\.\d+)?\s*%\s*$"
NONE_TAG, LEVELS_TAG = "<none>", "<levels>"


def _read(parse: Callable[[str], Any], *, bare: bool = False) -> BeforeValidator:
    """Read text with `parse`; a bare integer goes through only where RabbitMQ's own key takes one."""

    def read(value: Any) -> Any:
        whole = isinstance(value, int) and not isinstance(value, bool)
        if bare and whole:
            return value
        if isinstance(value, str) or whole:
            return parse(str(value))
        msg = f"expected text, not {spoken(value)}"
        raise ValueError(msg)

    return BeforeValidator(read)


def spoken(value: Any) -> str:
    """Name a value in a message: what it is and, for a scalar, how it is written."""
    match value:
        case None:
            return "nothing"
        case bool():
            return f"the truth value {str(value).lower()}"
        case int() | float():
            return f"the number {value}"
        case str():
            return f'the text "{value}"'
        case list() | tuple():
            return "a list"
        case _:
            return "a mapping"


def _text(pattern: str, example: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern, "examples": [example]})


def _text_or_integer(pattern: str, unit: str) -> WithJsonSchema:
    text = {"type": "string", "pattern": pattern}
    return WithJsonSchema({"anyOf": [text, {"type": "integer", "minimum": 1, "description": unit}]})


Text = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=1)]
Milliseconds = Annotated[int, Field(ge=1), _read(parse_duration), _text(_DURATION, "30s")]
BrokerMilliseconds = Annotated[
    int, Field(ge=1), _read(parse_duration, bare=True), _text_or_integer(_DURATION, "milliseconds")
]
BrokerBytes = Annotated[int, Field(ge=1), _read(parse_size, bare=True), _text_or_integer(_SIZE, "bytes")]
Rate = Annotated[float, _read(parse_rate), _text(_RATE, "50/s")]
Percent = Annotated[float, Field(lt=100), _read(parse_percent), _text(_PERCENT, "10%")]


def _nothing_is_empty(value: Any) -> Any:
    return {} if value is None else value


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


Raw = Annotated[dict[str, Any], BeforeValidator(_nothing_is_empty)]


class BindingSpec(_Part):
    """One binding, written at its destination."""

    source: Text
    routing_key: str = ""
    arguments: Raw = {}


Bindings = tuple[BindingSpec, ...]


class ExchangeSpec(_Part):
    """An exchange as RabbitMQ has it; `bindings` bind it to other exchanges."""

    type: Text = "direct"
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    alternate_exchange: Text | None = Field(None, alias="alternate-exchange")
    arguments: Raw = {}
    bindings: Annotated[Bindings, Field(strict=False)] = ()


class QueueSpec(_Part):
    """A plain queue: what RabbitMQ has, nothing added."""

    type: Literal["quorum", "classic", "stream"] = "quorum"
    durable: bool = True
    auto_delete: bool = False
    arguments: Raw = {}
    bindings: Annotated[Bindings, Field(strict=False)] = ()


class ConsumeSpec(_Part):
    """How a worker reads the queue."""

    prefetch: Annotated[int, Field(ge=1, le=65535)] | None = None
    concurrency: Count | None = None
    timeout: Milliseconds | None = None
    rate: Rate | None = None


class LimitsSpec(_Part):
    """The kit's own back-pressure: above it publishers wait or fail."""

    depth: Count | None = None


class RetrySpec(_Part):
    """The delays between attempts: listed, or computed from `attempts`, `first`, `factor` and `max`."""

    delays: Annotated[tuple[Milliseconds, ...], Field(strict=False, min_length=1)] | None = None
    attempts: Annotated[int, Field(ge=2, le=100)] | None = None
    first: Milliseconds | None = None
    factor: Annotated[float, Field(ge=1)] | None = None
    max: Milliseconds | None = None
    jitter: Percent = 0.0


class AlertSpec(_Part):
    """When a dead-letter queue wants a person."""

    messages: Count | None = None
    age: Milliseconds | None = None


class ReplaySpec(_Part):
    """Defaults for replaying dead letters."""

    rate: Rate | None = None
    max_replays: Count | None = None


class DeadLetterSpec(_Part):
    """Who owns the dead letters, and what to do with them."""

    owner: Text | None = None
    runbook: Text | None = None
    alert: Annotated[AlertSpec, BeforeValidator(_nothing_is_empty)] = AlertSpec()
    replay: Annotated[ReplaySpec, BeforeValidator(_nothing_is_empty)] = ReplaySpec()


def _retry_tag(value: Any) -> str:
    return NONE_TAG if isinstance(value, str) else LEVELS_TAG


Retry = Annotated[
    Annotated[Literal["none"], Tag(NONE_TAG)] | Annotated[RetrySpec, Tag(LEVELS_TAG)], Discriminator(_retry_tag)
]


class WorkQueueSpec(_Part):
    """A queue with its delay queues, its dead-letter exchange and its dead-letter queue."""

    accepts: Annotated[tuple[Text, ...], Field(strict=False, min_length=1)] | None = None
    bindings: Annotated[Bindings, Field(strict=False)] = ()
    consume: Annotated[ConsumeSpec, BeforeValidator(_nothing_is_empty)] = ConsumeSpec()
    limits: Annotated[LimitsSpec, BeforeValidator(_nothing_is_empty)] = LimitsSpec()
    max_length: Count | None = Field(None, alias="max-length")
    max_length_bytes: BrokerBytes | None = Field(None, alias="max-length-bytes")
    delivery_limit: Count = Field(20, alias="delivery-limit")
    consumer_timeout: BrokerMilliseconds | None = Field(None, alias="consumer-timeout")
    retry: Retry = RetrySpec()
    dead_letter: Annotated[DeadLetterSpec, BeforeValidator(_nothing_is_empty)] = DeadLetterSpec()


class MessageSpec(_Part):
    """Where a payload type goes; `routing_key` may hold `{field}` placeholders."""

    exchange: str
    routing_key: str = ""


class PolicySpec(_Part):
    """A raw policy, with RabbitMQ's own defaults."""

    pattern: Text
    definition: Annotated[dict[str, Any], Field(min_length=1)]
    apply_to: Literal["all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges"] = Field(
        "all", alias="apply-to"
    )
    priority: int = 0


class Spec(_Part):
    """A whole topology file, merged from all its parts and checked."""

    version: Literal[1]
    vhost: Text | None = None
    owns: Annotated[tuple[Text, ...], Field(strict=False)] | None = None
    # Not a key of each object: when it counts, the object's lines are gone.
    on_remove: Annotated[dict[Text, Literal["retain"]], BeforeValidator(_nothing_is_empty)] = Field(
        {}, alias="on-remove"
    )
    exchanges: Annotated[
        dict[str, Annotated[ExchangeSpec, BeforeValidator(_nothing_is_empty)]], BeforeValidator(_nothing_is_empty)
    ] = {}
    queues: Annotated[
        dict[str, Annotated[QueueSpec, BeforeValidator(_nothing_is_empty)]], BeforeValidator(_nothing_is_empty)
    ] = {}
    work_queues: Annotated[
        dict[str, Annotated[WorkQueueSpec, BeforeValidator(_nothing_is_empty)]], BeforeValidator(_nothing_is_empty)
    ] = {}
    messages: Annotated[dict[str, MessageSpec], BeforeValidator(_nothing_is_empty)] = {}
    policies: Annotated[dict[str, PolicySpec], BeforeValidator(_nothing_is_empty)] = {}


def keys_of(model: type[BaseModel]) -> tuple[str, ...]:
    """List a model's keys in their canonical spelling."""
    return tuple(info.alias or name for name, info in model.model_fields.items())


PARTS: Final[tuple[type[BaseModel], ...]] = (
    Spec,
    ExchangeSpec,
    QueueSpec,
    WorkQueueSpec,
    BindingSpec,
    ConsumeSpec,
    LimitsSpec,
    RetrySpec,
    DeadLetterSpec,
    AlertSpec,
    ReplaySpec,
    MessageSpec,
    PolicySpec,
)
WORDS: Final[Mapping[str, str]] = {key.replace("-", "_"): key for part in PARTS for key in keys_of(part)}
SECTIONS: Final = ("exchanges", "queues", "work_queues", "messages", "policies", "on-remove", "on_remove")
