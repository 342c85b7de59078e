"""What an exception repeats of its configuration is not shown to whoever looks at the letter."""

import json
import time
from typing import Any

import pytest

from amqpkit.cli import main
from amqpkit.cli.dlq.credentials import hushed, hushed_letter, names_credentials
from amqpkit.deliver.credentials import HIDDEN
from tests.cli.dlq_desk import Desk
from tests.unit.operate.dead_letters.letters import letter

SECRET = "hunter2"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJodW50ZXIyIn0.c2lnbmF0dXJl"
PEM = f"-----BEGIN RSA PRIVATE KEY-----\nMII{SECRET}\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    "text",
    [
        # of URLs
        f"cannot reach amqp://user:{SECRET}@host:5672/shop",
        f'connection to "postgresql+psycopg://u:{SECRET}@h/db?sslmode=require" failed',
        f"redis://:{SECRET}@cache/0",
        f"amqp://u:p@ss/{SECRET}@h",
        f"http://h:80/x, amqp://u:{SECRET}@h",
        f"http://h:80,amqp://u:{SECRET}@h",
        f"jdbc:postgresql://h:5432/db?user=u&password={SECRET}&ssl=true",
        f"amqp://u:{SECRET}",  # the text was cut here
        f"a piece: amqp://u:{SECRET}…\n  next",
        # after a name
        f"password={SECRET}",
        f"password = '{SECRET} and more'",
        f"host=h password={SECRET}, port=1",
        f"password=a,{SECRET}",
        f'{{"user": "u", "apiKey": "x \\" {SECRET}"}}',
        f"{{'smtp_password': '{SECRET}', 'n': 1}}",
        f"Config{{user=u, clientSecret={SECRET}, n=1}}",
        f'{{\\"secret\\": \\"a b {SECRET}\\"}}',
        f"KeyError: environ['DB_PASSWORD'] = {SECRET!r}",
        f"PGPASSWORD={SECRET} psql",
        f"java -Dspring.datasource.password={SECRET} -jar x",
        f"-DPASSWORD={SECRET}",
        f"UID=u;PWD={SECRET};",
        f"password: {SECRET}",
        f"token => {SECRET}",
        f"Authorization: Bearer {SECRET}",
        f"Authorization: Digest username=u, response={SECRET}",
        f"set-cookie: a=b; session={SECRET}",
        f"auth=('u', '{SECRET}')",
        f"password=SecretStr('a {SECRET}')",
        f"message='it said password={SECRET}'",
        f"Command '['mysql', '--password', '{SECRET}']' returned 1",
        f"mysql --password {SECRET} -h x",
        f"password='{SECRET}",  # cut before the quote ends
        # alone
        f"Bearer {SECRET}{SECRET}{SECRET}",
        f"it got {JWT}",
        PEM,
        PEM[:50],
    ],
)
def test_a_credential_is_hidden_in_whatever_an_error_says(text: str) -> None:
    said = hushed(text)

    assert SECRET not in said
    assert JWT not in said
    assert HIDDEN in said
    assert hushed(said) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("amqp://user:x@host:5672/shop is down", f"amqp://user:{HIDDEN}@host:5672/shop is down"),
        ("login(user='u', password='x', n=1)", f"login(user='u', password='{HIDDEN}', n=1)"),
        ("?user=u&password=x&ssl=true", f"?user=u&password={HIDDEN}&ssl=true"),
        ("Authorization: Basic eDp5\nHost: h", f"Authorization: {HIDDEN}\nHost: h"),
        ("Bearer 0123456789abcdef0123 was refused", f"Bearer {HIDDEN} was refused"),
    ],
)
def test_the_rest_of_the_text_stays(text: str, said: str) -> None:
    assert hushed(text) == said


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no answer in 8 s",
        "cannot reach http://host:8080/path?mail=ann@example.com",
        "cannot reach amqp://host:5672, amqp://guest@other and http://[::1]:80/",
        "ann@example.com: unknown",
        "password: Field required; api_key: Input should be a valid string",
        "$.password: is missing",
        "app.PasswordError: it was refused",
        "the password is wrong",
        "passwordless=1, monkey: 2, max_tokens=4096, key=7",
        'File "/srv/app/token.py", line 5, in handle',
        "Basic authentication failed",
    ],
)
def test_what_is_no_credential_is_left_alone(text: str) -> None:
    assert hushed(text) == text


@pytest.mark.parametrize("name", ["x-auth-token", "session_cookie", "Authorization", "PGPASSWORD", "pwd", "apiKey"])
def test_more_names_tell_than_in_a_payload(name: str) -> None:
    assert names_credentials(name)


@pytest.mark.parametrize(
    "piece", ["a://b:", "a='", "password='", "token=", "-a", "://", "eyJaaaaaaaa.", "password:[", "a,"]
)
def test_a_hostile_text_is_read_in_no_time(piece: str) -> None:
    text = piece * (64 * 1024 // len(piece))
    began = time.process_time()
    hushed(text)
    assert time.process_time() - began < 1.0


def test_every_part_of_a_letters_story_is_hushed() -> None:
    line = letter().history[0]
    told = f"amqp://u:{SECRET}@h"
    hidden = hushed_letter(letter(error=(told, told, told), history=(line.__class__(None, 1, told, told),)))

    assert SECRET not in repr(hidden)


# --- on a broker -------------------------------------------------------------------------------------


def bury(here: Desk) -> None:
    """Two letters that differ in nothing but the password that their errors repeat."""
    for name in ("one", "two"):
        told = f"no answer from amqp://shop:{SECRET}-{name}@mq with password={SECRET}-{name}"
        line = {"attempt": 1, "at": "2026-03-01T11:59:00.000Z", "type": "NoAnswer", "message": told, "delay": None}
        error = {"type": "NoAnswer", "message": told, "traceback": f"Traceback\n  {told}", "at": line["at"]}
        error["errors"] = [{"path": "$.to", "reason": told}]
        headers: dict[str, Any] = {"amqpkit-fate": "exhausted", "amqpkit-error": error, "amqpkit-history": [line]}
        body = json.dumps({"to": "ann", "note": told}).encode()
        here.send("orders.dlx", "orders", body, message_id=name, headers=headers)


def test_no_verb_shows_the_credentials_in_an_error_and_an_export_keeps_them(
    here: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    bury(here)

    for words in (("show", "orders", "one"), ("list", "--letters", "orders"), ("groups", "orders")):
        for more in ((), ("--json",)):
            out, err = here.dlq(*words, *more)
            assert SECRET not in out + err, words
            assert "NoAnswer" in out
            assert HIDDEN in out
    (group,) = here.told("groups", "orders")["groups"]
    assert (group["count"], group["error"]["message"]) == (2, f"no answer from «url» with password={HIDDEN}")
    assert here.told("list", "--letters", "orders", "--error", f"{SECRET}-two")["letters"][0]["id"] == "two"

    (shown,) = here.told("show", "orders", "one", "--body")["letters"]
    assert f"password={SECRET}-one" in shown["error"]["message"]
    assert f"password={SECRET}-one" in shown["headers"]["amqpkit-error"]["traceback"]
    assert f"password={SECRET}-one" in here.dlq("show", "orders", "one", "--body")[0]
    assert here.dlq("export", "orders")[0].count(f"password={SECRET}-one") == 5
    for verb in ("show", "list", "groups"):
        assert main(["dlq", verb, "--help"]) == 0
        assert "credentials are hidden" in " ".join(capsys.readouterr().out.lower().replace("│", " ").split())
