"""User and password given apart from the URL: what is filled in, what is refused, and that no value is ever shown."""

import os
import traceback
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from amqpkit import broker_url, connect, connect_blocking
from amqpkit.brokers import connect as connecting
from amqpkit.brokers import connect_blocking as connecting_blocking
from amqpkit.brokers.aio.transport import AioTransport
from amqpkit.brokers.blocking.transport import PikaTransport
from amqpkit.errors import BrokerError

SECRET = "p@ss/w#rd%1?x"
ENCODED = "p%40ss%2Fw%23rd%251%3Fx"


def who(url):
    return url.location.user, url.location.password


def refusal(function, *arguments, **named):
    """What is said, with everything that a traceback would show."""
    with pytest.raises(BrokerError) as caught:
        function(*arguments, **named)
    whole = "".join(traceback.format_exception(caught.value))
    for text in (SECRET, ENCODED, "other", "us+er"):
        assert text not in whole
    return str(caught.value)


@pytest.mark.parametrize(
    ("environ", "user", "password"),
    [
        ({}, "guest", "guest"),
        ({"AMQP_USER": "us+er", "AMQP_PASSWORD": SECRET}, "us+er", SECRET),
        ({"AMQP_PASSWORD": "changed"}, "guest", "changed"),
        ({"AMQP_URL": "amqp://host/v"}, "guest", "guest"),
        ({"AMQP_URL": "amqp://host/v", "AMQP_USER": "us+er", "AMQP_PASSWORD": SECRET}, "us+er", SECRET),
        ({"AMQP_URL": "amqp://us+er@host/v", "AMQP_PASSWORD": SECRET}, "us+er", SECRET),
        ({"AMQP_URL": f"amqp://:{ENCODED}@host/v", "AMQP_USER": "us+er", "AMQP_PASSWORD": SECRET}, "us+er", SECRET),
        ({"AMQP_URL": f"amqp://us+er:{ENCODED}@host/v"}, "us+er", SECRET),
        ({"AMQP_URL": f"amqp://us+er:{ENCODED}@host/v", "AMQP_USER": "us+er"}, "us+er", SECRET),
        ({"AMQP_URL": f"amqp://us+er:{ENCODED}@host/v", "AMQP_USER": "", "AMQP_PASSWORD": ""}, "us+er", SECRET),
        # apart from a URL nothing is decoded
        ({"AMQP_USER": "a%2Bb", "AMQP_PASSWORD": ENCODED}, "a%2Bb", ENCODED),
        ({"AMQP_URL": "", "AMQP_USER": "u", "AMQP_PASSWORD": " \n", "AMQP_PASSWORD_FILE": ""}, "u", " \n"),
        # what a URL says without words counts too
        ({"AMQP_URL": "amqp://u:@host/v"}, "u", ""),
        ({"AMQP_URL": "amqps://u@host/v?auth=external"}, "u", "guest"),
    ],
)
def test_what_the_url_leaves_out_the_environment_fills_in(environ, user, password):
    url = broker_url(environ)

    assert who(url) == (user, password)
    assert url.vhost == ("v" if environ.get("AMQP_URL") else "/")


@pytest.mark.parametrize(
    ("content", "password"),
    [
        (SECRET, SECRET),
        (f"{SECRET}\n", SECRET),
        (f"{SECRET}\r\n", SECRET),
        (f"{SECRET}\n\n", f"{SECRET}\n"),
        (f" {SECRET} \n", f" {SECRET} "),
        (f"{SECRET}\r", f"{SECRET}\r"),
        ("pässword\n", "pässword"),
        ("x" * 65536, "x" * 65536),
    ],
)
def test_a_file_is_the_password_but_for_one_newline_at_its_end(tmp_path, content, password):
    file = tmp_path / "secret"
    file.write_bytes(content.encode())

    url = broker_url({"AMQP_URL": "amqp://u@host", "AMQP_PASSWORD_FILE": str(file)})

    assert who(url) == ("u", password)


def test_a_pipe_is_read_as_a_file_is(tmp_path):
    """As `--password-file <(pass show rabbit)` gives it."""
    reading, writing = os.pipe()
    os.write(writing, b"piped\n")
    os.close(writing)
    try:
        url = broker_url({"AMQP_USER": "u", "AMQP_PASSWORD_FILE": f"/dev/fd/{reading}"})
    finally:
        os.close(reading)

    assert who(url) == ("u", "piped")


def test_a_password_and_a_file_may_both_be_given_when_they_agree(tmp_path):
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n")
    environ = {"AMQP_USER": "us+er", "AMQP_PASSWORD": SECRET, "AMQP_PASSWORD_FILE": str(file)}

    assert who(broker_url(environ)) == ("us+er", SECRET)
    said = refusal(broker_url, environ | {"AMQP_PASSWORD": "other"})
    assert said.startswith("AMQP_PASSWORD and AMQP_PASSWORD_FILE give different passwords: leave one out")


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({"AMQP_USER": "other"}, "AMQP_URL and AMQP_USER give different users: leave one out"),
        ({"AMQP_PASSWORD": "other"}, "AMQP_URL and AMQP_PASSWORD give different passwords: leave one out"),
        ({"AMQP_PASSWORD": ENCODED}, "only in a URL they are percent-encoded"),
    ],
)
def test_two_places_that_differ_are_named_without_a_value(environ, says):
    assert says in refusal(broker_url, {"AMQP_URL": f"amqp://us+er:{ENCODED}@host/v"} | environ)


@pytest.mark.parametrize("environ", [{"AMQP_USER": "us+er"}, {"AMQP_URL": "amqp://us+er@host/v"}])
def test_a_user_without_any_password_is_refused_instead_of_trying_that_of_guest(environ):
    said = refusal(broker_url, environ)

    way = "give it in AMQP_PASSWORD, AMQP_PASSWORD_FILE or in the URL"
    assert said == f"{next(iter(environ))} gives a user and nothing a password: {way}"
    assert "give it in the argument `password` or in the URL" in refusal(connect_blocking, "amqp://svc@host")
    assert who(broker_url({"AMQP_URL": "amqp://guest@host"})) == ("guest", "guest")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda file: None, "does not exist"),
        (lambda file: file.mkdir(), "is a folder"),
        (lambda file: file.touch(), "is empty"),
        (lambda file: file.write_text("\r\n"), "is empty; "),
        (lambda file: file.write_bytes(b"us+er\xff" + SECRET.encode()), "is not UTF-8"),
        (lambda file: file.write_text(SECRET * 6000), "is longer than 64 KiB"),
        (lambda file: file.symlink_to(file), "cannot be read"),
    ],
)
def test_a_file_that_gives_no_password_is_named_with_the_remedy_and_not_quoted(tmp_path, make, says):
    file = tmp_path / "secret"
    make(file)

    said = refusal(broker_url, {"AMQP_USER": "u", "AMQP_PASSWORD_FILE": str(file)})

    assert said.startswith(f'AMQP_PASSWORD_FILE: the file "{file}" {says}')
    assert said.endswith("name a file that this process may read and that holds the password alone")


def test_a_file_that_may_not_be_read_says_so(tmp_path, monkeypatch):
    def denied(self, mode):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", denied)  # root, whom a container's tests run as, may read everything

    said = refusal(broker_url, {"AMQP_USER": "u", "AMQP_PASSWORD_FILE": str(tmp_path / "secret")})

    assert f'the file "{tmp_path / "secret"}" may not be read; ' in said


# The rows of a URL with a generated password, `p@ss/w#rd%1?x`, as it was put there and as it must be.


def test_a_password_put_into_the_url_as_it_is_is_refused_with_both_remedies():
    said = refusal(broker_url, {"AMQP_URL": "amqp://svc:p@ss/w#rd%1@127.0.0.1:5673/cases"})

    assert "percent-encoded (@ is %40" in said
    assert "or give them apart from the URL" in said
    assert "w#rd" not in said
    assert "svc" not in said


@pytest.mark.parametrize(
    ("text", "user", "password"),
    [
        (f"amqp://svc:{ENCODED}@127.0.0.1:5673/cases", "svc", SECRET),
        ("amqp://us+er:a+b@127.0.0.1:5673/cases", "us+er", "a+b"),
    ],
)
def test_what_is_encoded_is_decoded_once_and_a_plus_stays_one(text, user, password):
    url = broker_url({"AMQP_URL": text})

    assert (*who(url), url.vhost) == (user, password, "cases")
    aio = AioTransport(url)._address.target
    pika = PikaTransport(url)._address.parameters("test").credentials
    assert (aio.user, aio.password) == (pika.username, pika.password) == (user, password)


# --- in a program ----------------------------------------------------------------------------------


@pytest.fixture
def told(monkeypatch):
    """The locations that transports were made for; nobody connects."""
    found = []

    def spy(base):
        class Unconnected(base):
            def __init__(self, url, **settings):
                super().__init__(url, **settings)
                found.append(who(self._address.url))

        return Unconnected

    async def nothing(self):
        pass

    aio, pika = spy(AioTransport), spy(PikaTransport)
    aio.open = aio.close = nothing
    pika.open = pika.close = lambda self: None
    monkeypatch.setattr(connecting, "AioTransport", aio)
    monkeypatch.setattr(connecting_blocking, "PikaTransport", pika)
    return found


@pytest.mark.parametrize(
    ("url", "apart"),
    [
        ("amqp://host/v", {"user": "us+er", "password": SECRET}),
        ("amqp://us+er@host/v", {"password": SECRET}),
        (f"amqp://us+er:{ENCODED}@host/v", {"user": "us+er", "password": SECRET}),
        (broker_url({"AMQP_USER": "us+er", "AMQP_PASSWORD": SECRET}), {}),
    ],
)
async def test_a_program_gives_user_and_password_apart(told, url, apart):
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(connect(url, **apart))
    connect_blocking(url, **apart)

    assert told == [("us+er", SECRET)] * 2


async def test_a_program_that_gives_two_is_told_so():
    url, another = f"amqp://us+er:{ENCODED}@host/v", "other"

    said = refusal(connect_blocking, url, password=another)
    assert "the URL and the argument `password` give different passwords" in said
    with pytest.raises(BrokerError, match="the URL and the argument `user` give different users"):
        await connect(url, user=another).__aenter__()


def test_what_an_environment_says_shows_no_password():
    url = broker_url({"AMQP_USER": "us+er", "AMQP_PASSWORD": SECRET})

    for each in (url, AioTransport(url)._address, PikaTransport(url)._address, AioTransport(url), PikaTransport(url)):
        for text in (repr(each), str(each)):
            assert SECRET not in text
            assert ENCODED not in text
