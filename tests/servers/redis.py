"""A Redis that writes down what it is given, so that it knows it after a kill."""

from __future__ import annotations

import secrets

import redis

from tests.containers.brokers import free_port
from tests.containers.engine import Say
from tests.servers import packages, server
from tests.servers.server import Server


def launch(say: Say) -> Server:
    """Start a server. Raises NoServerError."""
    program = packages.program("redis-server", "redis-server", say)
    made = server.directory()
    port, password = free_port(), secrets.token_hex(8)
    url = f"redis://:{password}@127.0.0.1:{port}/0"
    settings = {
        "port": str(port),
        "bind": "127.0.0.1",
        "dir": str(made),
        "requirepass": password,
        "save": "",
        "appendonly": "yes",
        "appendfsync": "no",
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
    }
    command = [str(program), *(part for name, value in settings.items() for part in (f"--{name}", value))]
    started = Server(url, made, command, lambda: answers(url))
    started.start()
    return started


def answers(url: str) -> str:
    """Give the version of the server at a URL. Raises OSError when there is none."""
    try:
        with redis.Redis.from_url(url, socket_timeout=5, socket_connect_timeout=5) as client:
            return str(client.info("server")["redis_version"])
    except redis.RedisError as error:
        raise OSError(str(error)) from error
