"""The servers of a test run: found or started once by the process that leads it, used by all of its workers."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.containers.engine import Say
from tests.servers import postgresql, redis, server
from tests.servers.packages import ADVICE, NoServerError
from tests.servers.server import Server

KINDS = ("postgresql", "redis")
NAMES = {"postgresql": "PostgreSQL", "redis": "Redis"}
VARIABLES = {"postgresql": "AMQPKIT_TEST_POSTGRES_URL", "redis": "AMQPKIT_TEST_REDIS_URL"}
_FACTS = {
    "postgresql": {"example": "postgresql://user:password@host/database", "package": "postgresql", "program": "initdb"},
    "redis": {"example": "redis://:password@host:6379/0", "package": "redis-server", "program": "redis-server"},
}
_NAMED = re.compile(rf"[\[-]({'|'.join(KINDS)})-server(?=[]-])")


def kinds(ids: Iterable[str]) -> set[str]:
    """Tell which servers tests need, by their ids: all that the leader of pytest-xdist knows of them."""
    return {kind for each in ids for kind in _NAMED.findall(each)}


class Servers:
    """The servers that the leading process has started, and the file through which its workers learn of them."""

    def __init__(self, path: Path, say: Say) -> None:
        self.path = path
        self.reasons: list[str] = []
        self._say = say
        self._known: dict[str, dict[str, Any]] = {}
        self._started: list[Server] = []

    def ensure(self, wanted: set[str]) -> None:
        """Find or start those of these kinds that are not there yet; what keeps one away is written down."""
        for kind in sorted(wanted - set(self._known)):
            server.sweep()
            try:
                self._known[kind] = self._find(kind)
            except (NoServerError, OSError) as error:
                self._known[kind] = {"reason": str(error)}
                variable = VARIABLES[kind]
                reason = str(error).rstrip(".")
                self.reasons.append(ADVICE.format(name=NAMES[kind], variable=variable, reason=reason, **_FACTS[kind]))
        self.path.write_text(json.dumps(self._known), encoding="utf-8")

    def _find(self, kind: str) -> dict[str, Any]:
        given = os.environ.get(VARIABLES[kind])
        answers = postgresql.answers if kind == "postgresql" else redis.answers
        if given:
            try:
                answers(given)
            except (OSError, ValueError) as error:
                message = f"the server of {VARIABLES[kind]} does not answer: {error}"
                raise NoServerError(message) from error
            return {"url": given, "template": None, "given": True}
        self._say(f"starting {NAMES[kind]}")
        template = postgresql.initialise(self._say) if kind == "postgresql" else None
        if template is not None:
            self._started.append(Server("", template, [], lambda: None))
        started = postgresql.launch(template, self._say) if template is not None else redis.launch(self._say)
        self._started.append(started)
        self._say(f"{NAMES[kind]} {answers(started.url).split()[0]} is ready")
        return {"url": started.url, "template": template and str(template), "given": False}

    def close(self) -> None:
        """Remove what this run has started."""
        for started in self._started:
            started.discard()
        self._started.clear()
        shutil.rmtree(self.path.parent, ignore_errors=True)


def read(path: Path, kind: str) -> dict[str, Any]:
    """Return what is known of a server of this run. Raises NoServerError when there is none."""
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if kind not in known:
        message = f"this run's {NAMES[kind]} was never started"
        raise NoServerError(message)
    if "reason" in known[kind]:
        raise NoServerError(known[kind]["reason"])
    return dict(known[kind])
