"""What the tests of commands share."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.cli import dlq_desk
from tests.cli import office as shop
from tests.cli.service import FILE, MODULE, SECRET, Service
from tests.containers.brokers import Broker


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    """Let nothing that names a broker come from outside."""
    for name in ("AMQP_URL", "AMQP_API_URL", "AMQP_USER", "AMQP_PASSWORD", "AMQP_PASSWORD_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def user(broker):
    """Make users with the password `se/cret` on this vhost; each is given as the front of a URL."""
    made = []

    def make(tags, permission=".*", configure=None):
        name = f"{broker.vhost}-{len(made)}"
        made.append(name)
        broker.http("PUT", f"users/{name}", {"password": "se/cret", "tags": tags})
        rights = {"configure": configure or permission, "write": permission, "read": permission}
        broker.http("PUT", f"permissions/{broker.vhost}/{name}", rights)
        return f"{name}:se%2Fcret"

    yield make
    for name in made:
        broker.http("DELETE", f"users/{name}")


@pytest.fixture
def urls(broker):
    """Give the options that name the broker, as a user or as the tests' own administrator."""

    def of(credentials=None):
        if credentials is None:
            return ["--url", broker.url, "--api", broker.api]
        url, api = (
            f"{each.partition('://')[0]}://{credentials}@{each.rpartition('@')[2]}" for each in (broker.url, broker.api)
        )
        return ["--url", url, "--api", api]

    return of


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where somebody stands who has a topology, a module and a file of letters."""
    (tmp_path / "topology.yaml").write_text(FILE)
    (tmp_path / "post.py").write_text(MODULE)
    (tmp_path / "letters.jsonl").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("post", None)


@pytest.fixture
def service(broker: Broker, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """Make the service's user, who may do everything on this vhost, and say where the management API is."""
    mine = Service(broker, folder)
    path = quote(mine.user, safe="")
    monkeypatch.setenv("AMQP_API_URL", re.sub("//.*@", "//", broker.api))
    assert broker.http("PUT", f"users/{path}", {"password": SECRET, "tags": "policymaker"})[0] in {201, 204}
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    assert broker.http("PUT", f"permissions/{broker.vhost}/{path}", everything)[0] in {201, 204}
    yield mine
    broker.http("DELETE", f"users/{path}")


@pytest.fixture
def here(broker, tmp_path, monkeypatch, capsys):
    """Give the topology of `dlq_desk` on this vhost, and the command line pointed at it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    file = tmp_path / "dlq-topology.yaml"
    file.write_text(dlq_desk.FILE)
    return dlq_desk.Desk(broker, file, capsys)


@pytest.fixture
def office(tmp_path, monkeypatch):
    """Give a folder as a user has it who publishes letters."""
    (tmp_path / "topology.yaml").write_text(shop.FILE)
    (tmp_path / "office.py").write_text(shop.MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("office", None)
