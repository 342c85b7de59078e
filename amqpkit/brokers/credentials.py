"""Who we are at a broker, when that is said apart from its URL: in arguments, in the environment, in a file.

What the URL leaves out is filled in. Two places that differ are refused: either may be the one that is out of date. No
message of this module holds a user, a password or a word of a file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from amqpkit.brokers.url import BrokerURL, credentials_in
from amqpkit.errors import BrokerError

DEFAULT_URL: Final = "amqp://localhost:5672/"
"""This machine's broker, as guest unless something else is given."""
_FILE_MAX: Final = 64 * 1024
"""Bytes: far more than a broker takes in a login; a device would never end."""
_WHY: Final = {
    FileNotFoundError: "does not exist",
    IsADirectoryError: "is a folder",
    PermissionError: "may not be read",
}


@dataclass(frozen=True, slots=True)
class Given:
    """A user or a password and the place where it was looked for; None when it is not there. Its repr has no value."""

    place: str
    value: str | None = field(repr=False)


def broker_url(environ: Mapping[str, str]) -> BrokerURL:
    """Read which broker an environment names, for `connect(broker_url(os.environ))`; its repr shows no password.

    AMQP_URL, AMQP_USER, and AMQP_PASSWORD or AMQP_PASSWORD_FILE, as the commands read them; an empty variable is none.
    The file is read now. Raises BrokerError when something cannot be read or two places differ.
    """
    url, user, password, file = (
        Given(name, environ.get(name) or None)
        for name in ("AMQP_URL", "AMQP_USER", "AMQP_PASSWORD", "AMQP_PASSWORD_FILE")
    )
    return complete(url.value or DEFAULT_URL, url.place, user, (password, read_password(file)))


def apart(url: str | BrokerURL, user: str | None, password: str | None) -> BrokerURL:
    """Fill what a program gives apart into its URL; raises BrokerError when they differ."""
    text = url if isinstance(url, str) else url.text
    return complete(text, "the URL", Given("the argument `user`", user), (Given("the argument `password`", password),))


def complete(text: str, place: str, user: Given, passwords: Sequence[Given]) -> BrokerURL:
    """Read a URL and fill in what it leaves out; raises BrokerError when it cannot be read or something differs.

    A user without a password is refused too: that of guest, which a URL alone stands for, is nobody else's.
    """
    url = BrokerURL.parse(text)
    inside, secret = credentials_in(text)
    who = _agreed("users", Given(place, inside), user)
    proof = _agreed("passwords", Given(place, secret), *passwords)
    if proof.value is None and who.value not in {None, "guest"} and "auth=" not in url.options:
        ways = ", ".join(each.place for each in passwords)
        msg = f"{who.place} gives a user and nothing a password: give it in {ways} or in the URL"
        raise BrokerError(msg)
    there = url.location
    name = there.user if who.value is None else who.value
    password = there.password if proof.value is None else proof.value
    return replace(url, location=replace(there, user=name, password=password))


def read_password(file: Given) -> Given:
    """Read the password from a file, without one newline at its end; raises BrokerError that never quotes the file."""
    if file.value is None:
        return file
    try:
        with Path(file.value).open("rb") as opened:
            content = opened.read(_FILE_MAX + 1)
    except OSError as error:
        raise _useless(file, _WHY.get(type(error), f"cannot be read ({error.strerror})")) from error
    if len(content) > _FILE_MAX:
        raise _useless(file, f"is longer than {_FILE_MAX // 1024} KiB")
    text = _decoded(content)
    if text is None:
        raise _useless(file, "is not UTF-8")
    password = text.removesuffix("\n")
    password = password if password == text else password.removesuffix("\r")
    if not password:
        raise _useless(file, "is empty")
    return Given(file.place, password)


def _agreed(what: str, *places: Given) -> Given:
    given = [each for each in places if each.value is not None]
    for each in given[1:]:
        if each.value != given[0].value:
            msg = (
                f"{given[0].place} and {each.place} give different {what}: leave one out, or make them the same "
                "(only in a URL they are percent-encoded)"
            )
            raise BrokerError(msg)
    return given[0] if given else places[0]


def _decoded(content: bytes) -> str | None:
    """Read UTF-8; without the decoder's error, which holds all that it could not read."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _useless(file: Given, why: str) -> BrokerError:
    msg = (
        f'{file.place}: the file "{file.value}" {why}; name a file that this process may read and that holds the '
        "password alone"
    )
    return BrokerError(msg)
