"""The lock against the code: every version of every type, and those that came or went."""

from __future__ import annotations

from typing import Any

import pytest

from amqpkit import Payload
from amqpkit.deliver.schemas.changes import Change
from amqpkit.deliver.schemas.document import file_name, schema_document, text_of
from amqpkit.deliver.schemas.lock import Finding, check, read_key, versions
from amqpkit.errors import ConsumerError


class OrderV1(Payload, type="order"):
    n: int

    def upgrade(self) -> Order:
        return Order(n=self.n)


class Order(Payload, type="order", previous=OrderV1):
    n: int
    note: str = ""


class Mail(Payload, type="mail/out"):
    to: str


CODE = versions([Order, Mail])
LOCKED = {key: schema_document(cls) for key, cls in CODE.items()}


def test_the_versions_of_a_module_are_those_of_its_newest_classes() -> None:
    assert {("order", 1): OrderV1, ("order", 2): Order, ("mail/out", 1): Mail} == CODE
    assert versions([OrderV1, Order, Order]) == {("order", 1): OrderV1, ("order", 2): Order}


def test_two_classes_of_one_type_that_do_not_belong_together_are_refused() -> None:
    class Stray(Payload, type="order"):
        n: int

    with pytest.raises(ConsumerError, match='Stray and Order both have type "order", and Order does not lead back'):
        versions([Stray, Order])


def test_what_is_as_locked_has_no_finding() -> None:
    assert check(LOCKED, CODE) == ()


def test_what_came_and_what_went_is_found() -> None:
    locked = {("order", 1): LOCKED["order", 1], ("order", 0): {}, ("gone", 4): {}}

    assert check(locked, CODE) == (
        Finding("gone", 4, Change("$", "version removed", "messages of this version can no longer be read")),
        Finding("mail/out", 1, Change("$", "new version, not locked yet")),
        Finding("order", 0, Change("$", "version removed", "messages of this version can no longer be read")),
        Finding("order", 2, Change("$", "new version, not locked yet")),
    )


def test_only_the_newest_version_is_still_written() -> None:
    narrow: dict[str, Any] = {
        key: {**document, "properties": {**document["properties"], "n": {"type": "integer", "minimum": 0}}}
        for key, document in LOCKED.items()
        if key[0] == "order"
    }

    found = check(narrow, versions([Order]))

    assert [(each.version, each.change.consumers, bool(each.change.producers)) for each in found] == [
        (1, "", False),
        (2, "", True),
    ]


def test_words_alone_are_a_finding_that_breaks_nobody() -> None:
    locked = {**LOCKED, ("mail/out", 1): {**LOCKED["mail/out", 1], "description": "An e-mail."}}

    (finding,) = check(locked, CODE)

    assert finding.as_json() == {
        "type": "mail/out",
        "version": 1,
        "path": "$",
        "what": "only names, descriptions or order differ",
        "consumers": {"verdict": "compatible", "reason": ""},
        "producers": {"verdict": "compatible", "reason": ""},
    }


def test_a_file_is_named_for_its_version_and_says_it() -> None:
    assert file_name("mail/out", 1) == "mail%2Fout.v1.json"
    assert read_key(LOCKED["order", 2]) == ("order", 2)
    for odd in ({}, {"x-amqpkit": 5}, {"x-amqpkit": {"type": 5}}, {"x-amqpkit": {"type": "a", "version": True}}):
        assert read_key(odd) is None
    assert text_of({"b": 1, "a": "ü"}) == '{\n  "a": "ü",\n  "b": 1\n}\n'
