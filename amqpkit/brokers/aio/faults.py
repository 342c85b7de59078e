"""What a client library's exception means to us: no use trying again, or gone for now. Pure."""

import asyncio

import aiormq.exceptions as amqp
from aio_pika.exceptions import CONNECTION_EXCEPTIONS

from amqpkit.brokers.blame import Loss
from amqpkit.errors import AccessRefused, BrokerError, ConnectionFailed, QueueMissing

TROUBLE = (*CONNECTION_EXCEPTIONS, TimeoutError, ValueError)
"""Whatever the client libraries raise when the broker or the way to it fails."""

_FOR_NOW = ("is down", "limit")
"""A vhost that starts, a connection limit: refusals that pass by themselves."""


CODES: dict[type[amqp.AMQPError], int] = {
    amqp.ChannelAccessRefused: 403,
    amqp.ChannelNotFoundEntity: 404,
    amqp.ChannelLockedResource: 405,
    amqp.ChannelPreconditionFailed: 406,
}


def loss(error: BaseException | None) -> Loss:
    """Read what a close callback was given."""
    match error:
        case None:
            return Loss(0, "closed")
        case asyncio.CancelledError():
            # aiormq cancels its reader when no frame came for three heartbeats.
            return Loss(0, "the broker has been silent for too long")
        case amqp.ChannelClosed() | amqp.ConnectionClosed() if len(error.args) == 2:  # noqa: PLR2004 - code and text
            return Loss(int(error.args[0] or 0), str(error.args[1] or "closed"))
        case amqp.AMQPError() if error.args:
            return Loss(CODES.get(type(error), 0), str(error.args[-1]))
        case _:
            return Loss(0, str(error) or type(error).__name__)


def connecting(error: BaseException, where: str, vhost: str, user: str) -> BrokerError:
    """Name what kept a connection from standing."""
    reason = loss(error).reason
    if isinstance(error, amqp.ProbableAuthenticationError | amqp.AuthenticationError):
        return AccessRefused(f'the broker at {where} refuses user "{user}": {reason}')
    # aiormq reports the broker's refusal of a vhost as a frame that it did not expect, without its text (measured).
    refused = isinstance(error, amqp.InvalidFrameError) and "Connection.Close" in reason
    if refused or isinstance(error, amqp.ConnectionNotAllowed):
        if not refused and any(words in reason for words in _FOR_NOW):
            return ConnectionFailed(f"the broker at {where} takes no connection now: {reason}")
        what = f'the broker at {where} refuses vhost "{vhost}" to user "{user}"'
        return AccessRefused(f"{what}: it does not exist, or permission is missing")
    if isinstance(error, TimeoutError):
        return ConnectionFailed(f"the broker at {where} does not answer")
    return ConnectionFailed(f"no connection to the broker at {where}: {reason}")


def at_queue(cause: Loss, queue: str, attempt: str) -> BrokerError:
    """Name what was attempted at a queue (`consume from`, `look at`, `delete`), and what kept it from being done."""
    match cause.code:
        case 404:
            return QueueMissing(queue)
        case 403 | 405:
            return AccessRefused(f'the broker does not let us {attempt} queue "{queue}": {cause.reason}')
        case _:
            return ConnectionFailed(f'cannot {attempt} queue "{queue}": {cause.reason}')
