"""A service whose user and generated password need escaping in a URL, and the ways to give them to a command."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.containers.brokers import Broker

SECRET = "p@ss/w#rd%1?x"
FILE = "version: 1\nwork_queues:\n  letter.send: {retry: {delays: [200ms]}}\n"
MODULE = """
from amqpkit import Consumer, Context, Payload


class Letter(Payload, type="letter.send"):
    to: str


class SendLetter(Consumer[Letter], queue="letter.send"):
    def handle(self, letter: Letter, context: Context) -> None:
        if letter.to == "nobody":
            raise LookupError("no such person")
"""


class Service:
    """A user with a generated password on a broker, and a folder with what they run."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.broker, self.folder = broker, folder
        self.user = f"us+er.{broker.vhost}"
        self.place = broker.url.rpartition("@")[2]
        self.host = self.place.partition("/")[0]
        self.file = folder / "secret"
        self.file.write_text(f"{SECRET}\n")

    @property
    def spellings(self) -> tuple[str, ...]:
        """How the password could come to be shown."""
        login = b64encode(f"{self.user}:{SECRET}".encode()).decode()
        return SECRET, quote(SECRET, safe=""), repr(SECRET)[1:-1], login, b64encode(SECRET.encode()).decode()

    def way(self, name: str) -> tuple[list[str], dict[str, str]]:
        """Options and environment that say who we are."""
        host, user = f"amqp://{self.place}", quote(self.user, safe="+")
        return {
            "file": (["--url", host, "--user", self.user, "--password-file", str(self.file)], {}),
            "environment": ([], {"AMQP_URL": host, "AMQP_USER": self.user, "AMQP_PASSWORD": SECRET}),
            "mounted": (["--url", f"amqp://{user}@{self.place}"], {"AMQP_PASSWORD_FILE": str(self.file)}),
            "url": (["--url", f"amqp://{user}:{quote(SECRET, safe='')}@{self.place}"], {}),
        }[name]


def set_all(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    """Set variables until the end of the test, or of the context."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
