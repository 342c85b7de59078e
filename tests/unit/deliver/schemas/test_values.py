"""A value against a locked schema says the same as the class that wrote it, wherever pydantic does not convert."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel, Field

from amqpkit import Payload
from amqpkit.deliver.schemas.document import schema_document
from amqpkit.deliver.schemas.values import faults


class Part(BaseModel):
    name: str = Field(min_length=1, max_length=3)


class Tree(BaseModel):
    branches: "list[Tree]" = []


class Rich(Payload, type="rich"):
    n: int = Field(1, gt=0, le=10)
    share: float = Field(0.5, ge=0, lt=1)
    word: str | None = None
    code: str = Field("ab", pattern="^[a-z]{2}$")
    parts: list[Part] = Field([], max_length=2)
    pair: tuple[int, str] = (1, "x")
    kind: Literal["a", "b"] = "a"
    table: dict[str, int] = Field(default_factory=dict)
    when: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    day: date = date(2026, 1, 1)
    price: Decimal = Decimal("1.5")
    either: Annotated[int | bool, Field()] = 1
    tree: Tree = Tree()
    steps: int = Field(0, multiple_of=5)
    ident: UUID = UUID(int=1)


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({}, []),
        ({"n": 10, "share": 0, "word": None, "code": "xy", "parts": [{"name": "a"}], "pair": [2, "y"]}, []),
        ({"table": {"a": 1}, "when": "2026-01-01T00:00:00Z", "day": "2026-02-03", "price": "12.50"}, []),
        ({"tree": {"branches": [{"branches": []}]}, "steps": 15, "unknown": 1, "either": True}, []),
        ({"n": 0}, ["$.n"]),
        ({"n": 11}, ["$.n"]),
        ({"n": True}, ["$.n"]),
        ({"n": "x"}, ["$.n"]),
        ({"n": None}, ["$.n"]),
        ({"share": 1}, ["$.share"]),
        ({"word": 1}, ["$.word"]),
        ({"code": "ABC"}, ["$.code"]),
        ({"parts": [{"name": "a"}, {}, {"name": ""}]}, ["$.parts", "$.parts[1].name", "$.parts[2].name"]),
        ({"parts": {}}, ["$.parts"]),
        ({"pair": [1]}, ["$.pair"]),
        ({"pair": ["x", "y"]}, ["$.pair[0]"]),
        ({"kind": "c"}, ["$.kind"]),
        ({"table": {"a": "b"}}, ["$.table.a"]),
        ({"when": "yesterday"}, ["$.when"]),
        ({"day": "2026-02-30"}, ["$.day"]),
        ({"price": "much"}, ["$.price"]),
        ({"either": "x"}, ["$.either"]),
        ({"tree": {"branches": [{"branches": 1}]}}, ["$.tree.branches[0].branches"]),
        ({"steps": 7}, ["$.steps"]),
        ({"ident": "01a2293b-5da5-709e-95a8-1665fb900ee0"}, []),
        ({"ident": "01a2293b"}, ["$.ident"]),
    ],
)
def test_a_value_fits_where_the_class_takes_it(fields: dict[str, Any], where: list[str]) -> None:
    document = json.loads(json.dumps(schema_document(Rich)))
    found = faults(fields, document)
    assert [each.path for each in found] == where
    try:
        Rich.model_validate_json(json.dumps(fields))
    except ValueError:
        assert where
    else:
        # the one thing that pydantic takes by converting it
        assert not where or fields == {"n": True}


@pytest.mark.parametrize("value", [None, 1, "x", [], True])
def test_what_is_no_object_is_no_payload(value: object) -> None:
    (found,) = faults(value, schema_document(Rich))
    assert found.path == "$"


def test_a_missing_field_is_named() -> None:
    class Strict(Payload, type="strict"):
        needed: int

    assert [(each.path, each.reason) for each in faults({}, schema_document(Strict))] == [("$.needed", "is missing")]
