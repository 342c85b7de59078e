"""Whoever calls a change compatible must be right: what one side writes, the other validates.

Every pair of field types is compared in both directions. Where the comparison finds no misfit, samples of what one
schema allows are validated by the model of the other; the reverse (a misfit where all would fit) is allowed.
"""

from __future__ import annotations

import datetime as dt
import enum
import json
import uuid
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import AnyUrl, BaseModel, ConfigDict, Field, HttpUrl, SecretStr, create_model
from typing_extensions import TypedDict

from amqpkit import Payload
from amqpkit.deliver.payload import Decoded, decode, registry
from amqpkit.deliver.schemas.document import schema_document
from amqpkit.deliver.schemas.fit import misfits
from amqpkit.model import Properties
from tests.unit.deliver.schemas.samples import samples
from tests.walk.world import Got


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog", "wolf"]
    name: str


class Bird(BaseModel):
    kind: Literal["bird"]


class Tree(BaseModel):
    value: int = 0
    children: list[Tree] = []


class Bush(BaseModel):
    value: int = 0
    children: list[Bush] | None = None
    note: str | None = None


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    n: int


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    n: int


class Plain(BaseModel):
    n: int
    a: str = ""


class Renamed(BaseModel):
    m: int
    a: str = ""


class Typed(TypedDict):
    n: int


FIELDS: dict[str, Any] = {
    "int": int,
    "int from 0": Annotated[int, Field(ge=0)],
    "int above 0": Annotated[int, Field(gt=0)],
    "int to 10": Annotated[int, Field(ge=0, le=10)],
    "int below 11": Annotated[int, Field(ge=0, lt=11)],
    "even": Annotated[int, Field(multiple_of=2)],
    "fourth": Annotated[int, Field(multiple_of=4)],
    "float": float,
    "float above 0": Annotated[float, Field(gt=0)],
    "float to 10": Annotated[float, Field(ge=0, le=10)],
    "decimal": Decimal,
    "price": Annotated[Decimal, Field(max_digits=5, decimal_places=2)],
    "bool": bool,
    "str": str,
    "str to 3": Annotated[str, Field(max_length=3)],
    "str from 2": Annotated[str, Field(min_length=2)],
    "word": Annotated[str, Field(pattern="^[a-z]+$")],
    "secret": SecretStr,
    "bytes": bytes,
    "date": dt.date,
    "datetime": dt.datetime,
    "time": dt.time,
    "timedelta": dt.timedelta,
    "date from 2020": Annotated[dt.date, Field(ge=dt.date(2020, 1, 1))],
    "uuid": uuid.UUID,
    "url": AnyUrl,
    "http url": HttpUrl,
    "any": Any,
    "a": Literal["a"],
    "a b": Literal["a", "b"],
    "a 1 None": Literal["a", 1] | None,
    "1 2": Literal[1, 2],
    "true": Literal[True],
    "colour": Colour,
    "None": None,
    "int or None": int | None,
    "int or str": int | str,
    "str or None": str | None,
    "list": list[int],
    "list of any": list[Any],
    "list to 2": Annotated[list[int], Field(max_length=2)],
    "list from 1": Annotated[list[int], Field(min_length=1)],
    "set": set[int],
    "tuple": tuple[int, str],
    "triple": tuple[int, str, int],
    "ints": tuple[int, ...],
    "dict": dict[str, int],
    "dict by int": dict[int, int],
    "dict of any": dict[str, Any],
    "dict by word": dict[Annotated[str, Field(pattern="^[a-z]+$")], int],
    "dict by short": dict[Annotated[str, Field(max_length=2)], int],
    "dict from 1": Annotated[dict[str, int], Field(min_length=1)],
    "dict to 1": Annotated[dict[str, int], Field(max_length=1)],
    "dict by a": dict[Literal["a"], int],
    "plain": Plain,
    "renamed": Renamed,
    "strict": Strict,
    "open": Open,
    "typed": Typed,
    "cat": Cat,
    "dog": Dog,
    "pet": Annotated[Cat | Dog, Field(discriminator="kind")],
    "animal": Annotated[Cat | Dog | Bird, Field(discriminator="kind")],
    "pet undiscriminated": Cat | Dog,
    "tree": Tree,
    "bush": Bush,
    "trees": list[Tree] | None,
}


def model(annotation: Any, *, required: bool = True) -> type[Payload]:
    """A payload with one field."""
    default = ... if required else None
    kwargs: Any = {"type": "t", "secrets_allowed": "tests"}
    return create_model("Model", __base__=Payload, __cls_kwargs__=kwargs, x=(annotation, default))


MODELS = {name: model(annotation) for name, annotation in FIELDS.items()}
DOCUMENTS = {name: schema_document(cls) for name, cls in MODELS.items()}
FITTING = [(a, b) for a in FIELDS for b in FIELDS if not misfits(DOCUMENTS[a], DOCUMENTS[b])]


def reads(cls: type[Payload], value: object) -> bool:
    received = Got(body=json.dumps(value).encode(), properties=Properties(type="t"))
    decoding = decode(received, registry([cls]), ("t",))
    return isinstance(decoding, Decoded)


@settings(deadline=None, max_examples=600, suppress_health_check=list(HealthCheck))
@given(data=st.data(), pair=st.sampled_from([pair for pair in FITTING if pair[0] != pair[1]]))
def test_what_is_called_compatible_can_be_read(data: st.DataObject, pair: tuple[str, str]) -> None:
    written, read = pair
    value = data.draw(samples(DOCUMENTS[written]))

    if reads(MODELS[written], value):  # a sample of the schema that its own model refuses proves nothing
        assert reads(MODELS[read], value), f"{written} → {read}: {value!r}"


@settings(deadline=None, max_examples=300, suppress_health_check=list(HealthCheck))
@given(data=st.data(), name=st.sampled_from(sorted(FIELDS)))
def test_the_samples_are_what_a_model_takes(data: st.DataObject, name: str) -> None:
    value = data.draw(samples(DOCUMENTS[name]))

    # 10**400 is a whole number for which no float has room, a calendar day may be before a limit: all else is taken
    if name not in ("any", "list of any", "dict of any", "open", "date from 2020", "price", "http url", "url"):
        assert reads(MODELS[name], value), f"{name}: {value!r}"


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_everything_fits_itself(name: str) -> None:
    assert misfits(DOCUMENTS[name], schema_document(model(FIELDS[name]))) == ()


def test_much_is_called_compatible_that_is() -> None:
    for pair in [
        ("int from 0", "int"),
        ("int above 0", "int from 0"),
        ("int to 10", "int below 11"),
        ("int below 11", "int to 10"),
        ("int to 10", "float"),
        ("int to 10", "float to 10"),
        ("int", "decimal"),
        ("fourth", "even"),
        ("str to 3", "str"),
        ("date", "str"),
        ("a", "a b"),
        ("a b", "str to 3"),
        ("a b", "word"),
        ("1 2", "int to 10"),
        ("true", "bool"),
        ("int", "int or None"),
        ("int or None", "any"),
        ("set", "list"),
        ("tuple", "list of any"),
        ("list to 2", "list"),
        ("plain", "typed"),
        ("strict", "open"),
        ("dict by a", "dict"),
        ("dict by word", "dict"),
        ("plain", "dict of any"),
        ("pet", "animal"),
        ("cat", "pet undiscriminated"),
        ("dog", "pet"),
        ("tree", "bush"),
        ("pet", "pet undiscriminated"),
    ]:
        assert pair in FITTING, misfits(DOCUMENTS[pair[0]], DOCUMENTS[pair[1]])


def test_much_is_called_breaking_that_is() -> None:
    for pair in [
        ("int", "float"),
        ("str", "decimal"),
        ("float", "price"),
        ("dict", "dict by int"),
        ("url", "http url"),
        ("date", "date from 2020"),
        ("list", "set"),
        ("cat", "pet"),
        ("bush", "tree"),
        ("open", "plain"),
        ("animal", "pet"),
        ("true", "1 2"),
        ("triple", "tuple"),
        ("any", "int"),
    ]:
        assert pair not in FITTING
