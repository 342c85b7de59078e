"""What pika's exceptions mean to us: no use trying again, or gone for now. Pure."""

import re
from typing import Final

# No types in its wheel: whatever comes from pika is Any, and stays in this folder.
import pika.exceptions as amqp  # type: ignore[import-untyped]

from amqpkit.brokers.blame import Loss
from amqpkit.errors import AccessRefused, BrokerError, ConnectionFailed

_CLOSED: Final = re.compile(
    r"ConnectionClosedByBroker: \((?P<code>\d+)\) (?P<quote>['\"])(?P<text>.*)(?P=quote)", re.DOTALL
)
"""How pika words the broker's refusal inside what it makes of it."""
_LAST: Final = re.compile(r"last exception - (?P<text>.*?)(; first exception|$)", re.DOTALL)
_FOR_NOW: Final = ("is down", "limit")
"""A vhost that starts, a connection limit: refusals that pass by themselves."""
_ACCESS_REFUSED, _NOT_ALLOWED = 403, 530


def loss(error: BaseException | None) -> Loss:
    """Read what a close callback was given."""
    match error:
        case None:
            return Loss(0, "closed")
        case amqp.ConnectionClosed() | amqp.ChannelClosed():
            return Loss(int(error.reply_code or 0), str(error.reply_text or "closed"))
        case amqp.AMQPHeartbeatTimeout():
            return Loss(0, "the broker has been silent for too long")
        case _:
            return Loss(0, _words(error))


def connecting(error: BaseException, where: str, vhost: str, user: str) -> BrokerError:
    """Name what kept a connection from standing."""
    text = _words(error)
    closed = _CLOSED.search(text)
    code, reason = (int(closed["code"]), closed["text"]) if closed else (0, text)
    if code == _ACCESS_REFUSED:
        return AccessRefused(f'the broker at {where} refuses user "{user}": {reason}')
    if code == _NOT_ALLOWED:
        if any(words in reason for words in _FOR_NOW):
            return ConnectionFailed(f"the broker at {where} takes no connection now: {reason}")
        what = f'the broker at {where} refuses vhost "{vhost}" to user "{user}"'
        return AccessRefused(f"{what}: it does not exist, or permission is missing")
    if "Timeout" in text or "timed out" in text.lower():
        return ConnectionFailed(f"the broker at {where} does not answer")
    return ConnectionFailed(f"no connection to the broker at {where}: {reason}")


def _words(error: BaseException) -> str:
    # A workflow's failure keeps its words in its repr alone.
    text = ", ".join(map(str, error.args)) or repr(error)
    if isinstance(error, amqp.AMQPConnectionError) and error.args:
        text = ", ".join(each if isinstance(each, str) else repr(each) for each in error.args)
    last = _LAST.search(text)
    return last["text"] if last else text
