"""What every command does that changes a vhost: ask, and hold the lock meanwhile."""

import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from amqpkit.brokers.aio.sentry import LOCK, AioSentry
from amqpkit.brokers.management import ManagementAdmin
from amqpkit.cli.connect import Place
from amqpkit.errors import Locked


def declined(question: str, no_terminal: str) -> str:
    """Ask; return why not to go on, or nothing."""
    if not sys.stdin.isatty():
        return no_terminal
    sys.stderr.write(f"{question} Only yes is accepted: ")
    sys.stderr.flush()
    return "" if sys.stdin.readline().strip() == "yes" else "nothing was changed"


@asynccontextmanager
async def locked(place: Place, admin: ManagementAdmin, command: str) -> AsyncIterator[AioSentry]:
    """Hold the vhost's lock; raises Locked, which names who holds it, as far as the API tells."""
    sentry = await AioSentry.open(place.url, f"amqpkit {command} on {socket.gethostname()} (process {os.getpid()})")
    try:
        try:
            await sentry.lock()
        except Locked as error:
            owner = await admin.owner_of(LOCK)
            raise Locked(f"{error} (it is held by {owner})" if owner else str(error)) from error
        yield sentry
    finally:
        await sentry.close()
