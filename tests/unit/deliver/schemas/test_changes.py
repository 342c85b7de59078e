"""What is told of a change: where, what, and why it breaks whom."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, create_model
from typing_extensions import TypeAliasType

from amqpkit import Payload
from amqpkit.deliver.schemas.changes import Change, changes
from amqpkit.deliver.schemas.document import schema_document
from amqpkit.deliver.schemas.fit import misfits


def payload(extra: str = "ignore", **fields: Any) -> dict[str, Any]:
    config = type("Config", (Payload,), {"model_config": ConfigDict(extra=extra)}, type="t")  # type: ignore[typeddict-item]
    filled = {name: value if isinstance(value, tuple) else (value, ...) for name, value in fields.items()}
    return schema_document(create_model("Order", __base__=config, __cls_kwargs__={"type": "t"}, **filled))


class Address(BaseModel):
    city: str
    zip: str = ""


class Address2(BaseModel):
    model_config = ConfigDict(title="Address")
    city: Annotated[str, Field(max_length=5)]
    zip: str = ""


class Empty(BaseModel):
    pass


class Cat(BaseModel):
    kind: Literal["cat"]
    n: int


class Cat2(BaseModel):
    model_config = ConfigDict(title="Cat")
    kind: Literal["cat"]
    n: str


class Dog(BaseModel):
    kind: Literal["dog"]


LACKING = "is required, and is not always written"
UNDECLARED = "fields that are not declared may be written, and are refused"
OTHER_CAT = "Cat may be written, Cat or Dog is read"


@pytest.mark.parametrize(
    ("locked", "code", "expected"),
    [
        (payload(n=int), payload(n=int), []),
        (payload(n=int), payload(n=(int, Field(description="other"))), []),
        (
            payload(n=int),
            payload(n=int, m=int),
            [Change("$.m", "field added (required, integer)", LACKING)],
        ),
        (payload(n=int), payload(n=int, m=(int, 0)), [Change("$.m", "field added (optional, integer)")]),
        (
            payload(n=int, m=str),
            payload(n=int),
            [Change("$.m", "field removed (required, string)", "", LACKING)],
        ),
        (payload(n=int, m=(str, "")), payload(n=int), [Change("$.m", "field removed (optional, string)")]),
        (
            payload(n=int, name=str),
            payload(n=int, title=str),
            [
                Change("$.name", "field removed (required, string)", "", f"{LACKING} (was title renamed?)"),
                Change("$.title", "field added (required, string)", f"{LACKING} (was name renamed?)"),
            ],
        ),
        (
            payload(n=int),
            payload(n=(int, 0)),
            [Change("$.n", "now optional; default none → 0", "", "may be left out, and is required")],
        ),
        (
            payload(n=(int, 0)),
            payload(n=int),
            [Change("$.n", "now required; default 0 → none", "may be left out, and is required")],
        ),
        (payload(n=(int, 0)), payload(n=(int, 1)), [Change("$.n", "default 0 → 1")]),
        (
            payload(n=int),
            payload(n=int | None),
            [Change("$.n", "now also null", "", "null may be written, integer is read")],
        ),
        (
            payload(n=int | str),
            payload(n=int),
            [Change("$.n", "no longer string", "string may be written, integer is read")],
        ),
        (
            payload(c=Literal["a", "b"]),
            payload(c=Literal["b", "c"]),
            [
                Change(
                    "$.c",
                    'no longer "a"; now also "c"',
                    '"a" may be written, "b" or "c" is read',
                    '"c" may be written, "a" or "b" is read',
                )
            ],
        ),
        (
            payload(c=Literal["a"]),
            payload(c=str),
            [Change("$.c", 'const "a" → none', "", 'string may be written, only "a" is read')],
        ),
        (
            payload(s=Annotated[str, Field(max_length=9, pattern="^a")]),
            payload(s=Annotated[str, Field(max_length=5, min_length=1)]),
            [
                Change(
                    "$.s",
                    'pattern "^a" → none; minLength none → 1; maxLength 9 → 5',
                    "minLength 0 is written, 1 is asked for; maxLength 9 is written, 5 is allowed",
                    "pattern ^a is asked for, and not known to be kept",
                )
            ],
        ),
        (
            payload(s=str),
            payload(s=Annotated[str, Field(max_length=5)]),
            [Change("$.s", "maxLength none → 5", "no maxLength is written, 5 is allowed")],
        ),
        (
            payload(s=str),
            payload(s=dt.date),
            [Change("$.s", 'format none → "date"', "any text may be written, date is read")],
        ),
        (
            payload(s=dt.date),
            payload(s=dt.datetime),
            [
                Change(
                    "$.s",
                    'format "date" → "date-time"',
                    "format date may be written, date-time is read",
                    "format date-time may be written, date is read",
                )
            ],
        ),
        (
            payload(n=Annotated[int, Field(ge=0, le=9)]),
            payload(n=Annotated[int, Field(gt=0, lt=9)]),
            [
                Change(
                    "$.n",
                    "minimum 0 → none; exclusiveMinimum none → 0; maximum 9 → none; exclusiveMaximum none → 9",
                    "0 may be written, 1 is the least that is read; 9 may be written, 8 is the most that is read",
                )
            ],
        ),
        (
            payload(n=float),
            payload(n=Annotated[float, Field(gt=0, lt=9, multiple_of=0.5)]),
            [
                Change(
                    "$.n",
                    "exclusiveMinimum none → 0; exclusiveMaximum none → 9; multipleOf none → 0.5",
                    "any number may be written, more than 0 is the least that is read; any number may be written, "
                    "less than 9 is the most that is read; only multiples of 0.5 are read",
                )
            ],
        ),
        (
            payload(n=int),
            payload(n=float),
            [
                Change(
                    "$.n",
                    "integer → number",
                    "whole numbers beyond 2**53 may be written, and are rounded when read as number",
                    "number may be written, integer is read",
                )
            ],
        ),
        (
            payload(x=list[int]),
            payload(x=set[int]),
            [Change("$.x", "uniqueItems none → true", "items may repeat, and repeated ones are lost when read")],
        ),
        (
            payload(x=list[int]),
            payload(x=list[str]),
            [
                Change(
                    "$.x[*]",
                    "integer → string",
                    "integer may be written, string is read",
                    "string may be written, integer is read",
                )
            ],
        ),
        (
            payload(x=tuple[int, str]),
            payload(x=tuple[int, int]),
            [
                Change(
                    "$.x[1]",
                    "string → integer",
                    "string may be written, integer is read",
                    "integer may be written, string is read",
                )
            ],
        ),
        (
            payload(a=Address),
            payload(a=Address2),
            [Change("$.a.city", "maxLength none → 5", "no maxLength is written, 5 is allowed")],
        ),
        (
            payload(a=list[Address] | None),
            payload(a=list[Address2] | None),
            [Change("$.a[*].city", "maxLength none → 5", "no maxLength is written, 5 is allowed")],
        ),
        (
            payload(a=dict[str, int]),
            payload(a=dict[str, bool]),
            [
                Change(
                    "$.a.*",
                    "integer → boolean",
                    "integer may be written, boolean is read",
                    "boolean may be written, integer is read",
                )
            ],
        ),
        (
            payload(pet=Annotated[Cat | Dog, Field(discriminator="kind")]),
            payload(pet=Annotated[Cat2 | Dog, Field(discriminator="kind")]),
            [
                Change(
                    "$.pet",
                    "changed",
                    "Cat may be written, Cat or Dog is read",
                    "Cat may be written, Cat or Dog is read",
                ),
                Change("$.pet.n", "integer → string"),
            ],
        ),
        (
            payload("ignore", n=int),
            payload("forbid", n=int),
            [Change("$", "unknown fields ignored → refused")],
        ),
        (
            payload("forbid", n=int),
            payload("forbid", n=int, m=(int, 0)),
            [Change("$.m", "field added (optional, integer)", "", "may be written, and unknown fields are refused")],
        ),
        (
            payload("allow", n=int),
            payload("forbid", n=int),
            [
                Change(
                    "$", "unknown fields kept → refused", "fields that are not declared may be written, and are refused"
                )
            ],
        ),
        (
            payload("allow", n=int),
            payload("allow", n=int, m=(int, 0)),
            [Change("$.m", "field added (optional, integer)", "anything may be written, integer is read")],
        ),
    ],
)
def test_each_change_is_told_with_whom_it_breaks(locked: Any, code: Any, expected: list[Change]) -> None:
    assert list(changes(locked, code)) == expected


def test_a_version_that_is_no_longer_written_is_asked_only_whether_it_can_be_read() -> None:
    (change,) = changes(payload(n=int), payload(n=int | None), produced=False)

    assert not change.breaks


def test_models_inside_themselves_come_to_an_end() -> None:
    old = schema_document(Old)

    assert changes(old, schema_document(Same)) == (Change("$.note", "field added (optional, string)"),)
    (change,) = changes(old, schema_document(Other))
    assert (change.path, change.consumers) == ("$.child.n", "integer may be written, string is read")


class Node(BaseModel):
    n: int = 0
    next: Node | None = None


class Node2(BaseModel):
    model_config = ConfigDict(title="Node")
    n: str = ""
    next: Node2 | None = None


class Old(Payload, type="t"):
    child: Node


class Same(Payload, type="t"):
    child: Node
    note: str = ""


class Other(Payload, type="t"):
    child: Node2


def chosen(value: Any) -> str:
    return "a"


def test_what_a_function_chooses_cannot_be_compared() -> None:
    pick = Annotated[Annotated[int, Tag("a")] | Annotated[str, Tag("b")], Discriminator(chosen)]
    locked, code = payload(x=pick), payload(x=pick, y=(int, 0))

    assert misfits(locked, payload(x=pick)) == ()
    assert [(m.path, "by a function" in m.reason) for m in misfits(locked, code)] == [("$.x", True)]


def test_a_word_that_is_not_known_is_never_called_compatible() -> None:
    def odd(schema: object) -> dict[str, Any]:
        return {"type": "object", "properties": {"x": schema}}

    whole = {"type": "integer"}
    for read in (
        {"if": {"type": "integer"}, "then": {"minimum": 1}},
        {"minimum": 1},
        {"not": {}},
        False,
        {"$ref": "#/$defs/Gone"},
        {"type": "string", "pattern": "("},
    ):
        assert misfits(odd(whole), odd(read))
        assert misfits(odd({"const": "a"}), odd(read))
        assert misfits(odd({"const": None}), odd(read))
    for written in (True, {}, {"$ref": "#/$defs/Gone"}, False):
        assert misfits(odd(written), odd(whole))
    assert misfits(odd(whole), odd(True)) == ()
    assert misfits(odd({"minimum": 1}), odd({"minimum": 1})) == ()
    assert misfits(odd({"const": [1]}), odd(whole))
    assert misfits(odd({"const": True}), odd(whole))
    assert misfits(odd({"type": ["integer", "null"]}), odd({"type": ["null", "integer", "string"]})) == ()
    assert misfits(odd({"type": ["integer", "null"]}), odd(whole))
    assert misfits(odd(whole), {"type": "object", "properties": 5}) == ()
    assert misfits(odd(whole), {"type": "object", "required": ["y"]})


def test_names_of_a_dictionary_count() -> None:
    word, short = Annotated[str, Field(pattern="^[a-z]+$")], Annotated[str, Field(max_length=2)]
    locked = payload(x=dict[word, int])
    told = changes(locked, payload(x=dict[Annotated[str, Field(pattern="^[A-Z]+$")], int]))

    assert [(c.path, c.what) for c in told] == [("$.x", "names like ^[a-z]+$ → ^[A-Z]+$")]
    assert all(c.consumers and c.producers for c in told)
    (change,) = changes(locked, payload(x=dict[word, bool]))
    assert (change.path, change.what) == ("$.x./^[a-z]+$/", "integer → boolean")
    for written, read, fits in [
        (dict[word, int], dict[str, int], True),
        (dict[word, int], dict[str, bool], False),
        (dict[word, int], dict[str, Any], True),
        (dict[word, int], Empty, True),
        (dict[word, int], Address, False),
        (dict[str, int], dict[word, int], False),
        (dict[word, int], dict[short, int], False),
        (Address, dict[word, str], False),
        (Address, dict[short, str], False),
        (dict[short, int], dict[Annotated[str, Field(max_length=3)], int], True),
        (Address, dict[str, str], True),
        (Address, dict[str, int], False),
        (Address, Annotated[dict[str, str], Field(min_length=1, max_length=2)], True),
        (Address, Annotated[dict[str, str], Field(min_length=2)], False),
        (Address, Annotated[dict[str, str], Field(max_length=1)], False),
        (dict[Literal["city"], str], Address, False),
    ]:
        assert (misfits(payload(x=written), payload(x=read)) == ()) is fits, (written, read)


Rows = TypeAliasType("Rows", "list[Rows] | int")  # type: ignore[misc]


def test_lengths_of_lists_count() -> None:
    for written, read, fits in [
        (tuple[int, str], Annotated[list[Any], Field(max_length=2)], True),
        (tuple[int, str], Annotated[list[Any], Field(min_length=3)], False),
        (Annotated[list[int], Field(min_length=2, max_length=2)], tuple[int, int], True),
        (Annotated[list[int], Field(min_length=2, max_length=2)], tuple[int, str], False),
        (list[int], tuple[int, int], False),
        (Annotated[list[int], Field(max_length=0)], list[str], True),
        (Rows, Rows | None, True),
        (Rows | None, Rows, False),
        (list[Rows], Rows, True),
    ]:
        assert (misfits(payload(x=written), payload(x=read)) == ()) is fits, (written, read)


def test_a_document_is_the_same_whenever_it_is_asked_for() -> None:
    assert schema_document(Old) == schema_document(Old)
    assert payload(b=int, a=int)["required"] == ["a", "b"]
