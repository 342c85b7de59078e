"""Fields that hold credentials are refused, or stated, and never printed."""

from __future__ import annotations

import collections
import dataclasses
from datetime import date
from typing import Annotated, Any, NamedTuple

import pytest
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    Field,
    RootModel,
    Secret,
    SecretBytes,
    SecretStr,
    computed_field,
    field_serializer,
)
from typing_extensions import TypeAliasType, TypedDict

from amqpkit import Payload, PublishError
from amqpkit.deliver.credentials import is_telling, redacted
from amqpkit.deliver.payload import Decoded, decode, encode, registry
from amqpkit.errors import ConsumerError
from amqpkit.model import Properties
from tests.walk.world import Got


@pytest.mark.parametrize(
    "name",
    [
        *("password", "Password", "smtp_password", "smtpPassword", "PASSWORD", "password1", "user_passwords"),
        *("secret", "client_secret", "clientSecret", "secrets", "api_key", "apiKey", "APIKey", "apikey", "api-key"),
        *("access_token", "accessToken", "refresh_token", "refreshTokens", "private_key", "privateKeyPem"),
        *("card_number", "cardNumber", "cvv", "CVV2", "card_cvv", "x_api_keys"),
    ],
)
def test_a_name_tells_by_its_words(name: str) -> None:
    assert is_telling(name)


@pytest.mark.parametrize(
    "name",
    [
        *("passwordless", "secretary", "compass", "api", "key", "keys", "token", "tokens", "access", "card", "number"),
        *("template_id", "key_api", "public_key", "monkey", "", "_", "данные", "private", "number_card", "apikeyring"),
    ],
)
def test_a_name_that_only_contains_such_letters_does_not(name: str) -> None:
    assert not is_telling(name)


# --- classes -----------------------------------------------------------------------------------------


class Login(BaseModel):
    user: str
    password: str


class Node(BaseModel):
    children: list[Node] = []
    token: SecretStr | None = None


@dataclasses.dataclass
class Card:
    card_number: str


class Keys(TypedDict):
    api_key: str


class Pair(NamedTuple):
    name: str
    secret: str


class Unresolved(TypedDict):
    cvv: NoSuchName  # type: ignore[name-defined] # noqa: F821


class Words(RootModel[list[Login]]):
    pass


Alias = TypeAliasType("Alias", list[Login])


class Derived(BaseModel):
    @computed_field  # type: ignore[prop-decorator]
    @property
    def access_token(self) -> str:
        return ""


@pytest.mark.parametrize(
    ("annotation", "path"),
    [
        (Login, "x.password"),
        (list[Login] | None, "x.password"),
        (dict[str, tuple[int, Login]], "x.password"),
        (Annotated[Login, Field(description="who")], "x.password"),
        (Node, "x.token"),
        (Card, "x.card_number"),
        (Keys, "x.api_key"),
        (Pair, "x.secret"),
        (Words, "x.root.password"),
        (Alias, "x.password"),
        (Derived, "x.access_token"),
        (dict[Pair, list[Pair]], "x.secret"),
        (SecretStr, "x"),
        (SecretBytes | None, "x"),
        (list[SecretStr], "x"),
        (Secret[date], "x"),
        (Annotated[str, Field(alias="password")], "x"),
        (Annotated[str, Field(serialization_alias="apiKey")], "x"),
        (Annotated[str, Field(validation_alias=AliasChoices("y", "secret"))], "x"),
        (Annotated[str, Field(validation_alias=AliasPath("login", 0, "password"))], "x"),
    ],
    ids=str,
)
def test_a_credential_is_found_however_deep_it_lies(annotation: Any, path: str) -> None:
    with pytest.raises(ConsumerError, match=rf'Holder\.{path}: a credential would lie in queues.*secrets_allowed="…"'):

        class Holder(Payload, type="holder"):
            x: annotation  # type: ignore[valid-type]


def test_a_field_without_credentials_may_be_of_any_type() -> None:
    class Fine(Payload, type="fine"):
        token: str
        when: date
        rows: list[dict[str, tuple[int, ...]]] = Field(default_factory=list)
        anything: Any = None
        choice: Alias2 | None = None

    assert Fine.payload_hidden == frozenset()


Alias2 = TypeAliasType("Alias2", "list[Alias2] | int")  # type: ignore[misc]


def test_a_class_whose_parts_come_later_is_checked_when_they_have_come() -> None:
    class Unfinished(Payload, type="early"):
        login: LateLogin  # type: ignore[name-defined] # noqa: F821

    with pytest.raises(ConsumerError, match=r"Unfinished\.login\.password"):
        Unfinished.model_rebuild(_types_namespace={"LateLogin": Login})
    registry([Unfinished])  # not yet


def test_an_annotation_that_cannot_be_resolved_is_still_a_name() -> None:
    from amqpkit.deliver.credentials import _fields

    assert [name for name, *_ in _fields(Unresolved)] == ["cvv"]


@pytest.mark.parametrize("reason", ["", "  ", True, 5])
def test_the_way_out_states_a_reason(reason: Any) -> None:
    with pytest.raises(ConsumerError, match="secrets_allowed needs a reason"):

        class Holder(Payload, type="holder", secrets_allowed=reason):
            password: str


# --- print and wire ------------------------------------------------------------------------------------


class Allowed(Payload, type="allowed", secrets_allowed="a one-time password, dead in a minute"):
    user: str
    password: str
    login: Login
    token: SecretStr
    blob: SecretBytes = SecretBytes(b"bl\xc3\xb6b")
    day: Secret[date] = Secret(date(2026, 1, 1))
    many: list[SecretStr] = Field(default_factory=list)
    named: dict[int, SecretStr] = Field(default_factory=dict)
    queue: collections.deque[SecretStr] = Field(default_factory=collections.deque)
    data: bytes = b"plain"
    title: str = Field(default="", alias="headline")


def allowed(**more: Any) -> Allowed:
    login = Login(user="ann", password="hunter2")
    return Allowed(user="ann", password="hunter2", login=login, token=SecretStr("hunter2"), **more)


def test_a_payload_never_prints_its_credentials() -> None:
    payload = allowed(many=[SecretStr("hunter2")])

    for text in (repr(payload), str(payload), f"{payload}", repr(Decoded(payload))):
        assert "hunter2" not in text
        assert "bl" not in text.replace("blob", "")
    assert "user='ann'" in repr(payload)
    assert "password=**********, login=**********, token=**********" in repr(payload)


def test_a_payload_that_takes_more_than_its_fields_hides_those_too() -> None:
    class Open(Payload, type="open", extra="allow"):
        n: int

    assert repr(Open.model_validate({"n": 1, "api_key": "hunter2"})) == "Open(n=1, api_key=**********)"


def test_what_could_not_be_validated_is_not_shown() -> None:
    with pytest.raises(ValueError, match="1 validation error") as caught:
        Login2(password={"x": "hunter2"})
    assert "hunter2" not in str(caught.value)


class Early(Payload, type="early"):
    part: LaterPart


class LaterPart(BaseModel):
    n: int


def test_a_class_that_is_not_finished_when_it_is_defined_is_finished_for_its_consumer() -> None:
    assert not Early.__pydantic_complete__
    assert registry([Early]) == {"early": Early}
    assert Early.__pydantic_complete__


class Login2(Payload, type="login", secrets_allowed="tests"):
    password: Any
    n: int


def test_an_allowed_secret_arrives_as_it_is() -> None:
    payload = allowed(
        many=[SecretStr("a"), SecretStr("")],
        named={1: SecretStr("b")},
        queue=collections.deque([SecretStr("c")]),
        headline="news",
    )

    body = encode(payload)

    assert b'"headline":"news"' in body
    received = Got(body=body, properties=Properties(type="allowed"))
    assert decode(received, registry([Allowed]), ("allowed",)) == Decoded(payload)


def test_a_mask_is_never_sent_for_a_value() -> None:
    class Joined(Payload, type="joined", secrets_allowed="tests"):
        many: list[SecretStr]
        named: dict[str, SecretStr] = Field(default_factory=dict)

        @field_serializer("many", "named", when_used="json")
        def join(self, values: Any) -> str:
            return ",".join(map(str, values))

    for payload in (Joined(many=[SecretStr("hunter2")]), Joined(many=[], named={"a": SecretStr("hunter2")})):
        with pytest.raises(PublishError, match="a serializer changes the shape of what holds a secret"):
            encode(payload)
    with pytest.raises(PublishError, match="Allowed cannot be written: a secret is not text") as caught:
        encode(allowed(blob=SecretBytes(b"\xff")))
    assert caught.value.__cause__ is None


def test_a_serializer_of_the_users_own_may_keep_what_is_no_secret() -> None:
    class Told(Payload, type="told", secrets_allowed="tests"):
        token: SecretStr
        tags: set[str] = Field(default_factory=set)
        size: Any = None

        @field_serializer("tags", "size", when_used="json")
        def count(self, values: Any) -> int:
            return len(values)

    payload = Told(token=SecretStr("t"), tags={"a", "b"}, size={"a": 1})
    assert encode(payload) == b'{"token":"t","tags":2,"size":1}'


def test_an_alias_is_written_as_it_is_read() -> None:
    class Aliased(Payload, type="aliased"):
        template_id: str = Field(alias="templateId")

    received = Got(body=encode(Aliased(templateId="t")), properties=Properties(type="aliased"))

    assert decode(received, registry([Aliased]), ("aliased",)) == Decoded(Aliased(templateId="t"))


# --- documents ------------------------------------------------------------------------------------------


def test_a_document_is_shown_without_its_credentials() -> None:
    shown = redacted({"user": "ann", "login": [{"apiKey": "hunter2", "n": 1}], "secret": {"a": 1}, 5: (1, 2)})

    assert shown == {"user": "ann", "login": [{"apiKey": "**********", "n": 1}], "secret": "**********", 5: [1, 2]}


def test_a_document_that_is_nested_too_deeply_is_cut() -> None:
    document: Any = "hunter2"
    for _ in range(10_000):
        document = [document]

    assert "hunter2" not in repr(redacted(document))
