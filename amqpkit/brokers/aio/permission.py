"""Questions for permission: requests that can do nothing, of which RabbitMQ says first who may not make them.

A queue and an exchange that it refuses after that, and the end of a binding that nobody has.

Measured on 4.0 and 4.3, of objects that are there and of some that are not: nothing is made, changed or deleted, and no
connection ends. An answer other than 403 costs at most the channel, and a line in the broker's log.
"""

import re
import secrets
from collections.abc import Iterator
from typing import Any, Final

from pamqp.base import Frame
from pamqp.commands import Exchange as ExchangeClass
from pamqp.commands import Queue as QueueClass

from amqpkit.brokers.aio import faults
from amqpkit.brokers.aio.session import Link
from amqpkit.brokers.aio.wire import Channel, ExchangeDeclareFrame, QueueDeclareFrame, Unchecked
from amqpkit.errors import ConnectionFailed
from amqpkit.model import Binding, DeclaredObject, Exchange, Policy, Queue
from amqpkit.ports import Denied

_NO_TYPE: Final = "amqpkit-asks-for-permission"
_AE, _DLX = "alternate-exchange", "x-dead-letter-exchange"
_REFUSALS: Final = frozenset(faults.CODES.values())
_REFUSED: Final = 403
_ACCESS: Final = re.compile(r"\w+ - (configure|write|read) access to (queue|exchange|topic) '")
"""No further: the broker cuts its text after 255 bytes."""


class QueueUnbindFrame(Unchecked, QueueClass.Unbind):
    """`queue.unbind`."""


class ExchangeUnbindFrame(Unchecked, ExchangeClass.Unbind):
    """`exchange.unbind`."""


async def denied(link: Link, wanted: DeclaredObject) -> Denied | None:
    """Say which permission the broker misses for an object, the first that it does; raises ConnectionFailed."""
    for frame in _questions(wanted):
        if found := await _answer(link, frame):
            return found
    return None


async def _answer(link: Link, frame: Frame) -> Denied | None:
    try:
        async with Channel.aside(link) as channel:
            await channel.ask(frame)
    except faults.TROUBLE as error:
        loss = faults.loss(error)
        if loss.code not in _REFUSALS:
            msg = f"the connection was lost while asking for permissions ({loss.reason}); nothing was changed"
            raise ConnectionFailed(msg) from error
        said = _ACCESS.match(loss.reason) if loss.code == _REFUSED else None
        return said and (Denied.TOPIC if said[2] == "topic" else Denied(said[1]))
    return None


def _questions(wanted: DeclaredObject) -> Iterator[Frame]:
    match wanted:
        case Queue():
            # Two faults, each of which is enough; both are found only after the permissions.
            faulty: dict[str, Any] = {"x-queue-type": _NO_TYPE, "x-expires": "never"}
            dead = {_DLX: wanted.arguments[_DLX]} if isinstance(wanted.arguments.get(_DLX), str) else {}
            yield QueueDeclareFrame(queue=wanted.name, durable=True, arguments={**faulty, **dead})
        case Exchange():
            # An unknown type would be found before the permissions.
            yield ExchangeDeclareFrame(exchange=wanted.name, exchange_type="direct", durable=True, arguments={_AE: 1})
            if isinstance(target := wanted.arguments.get(_AE), str):
                yield _unbind(Binding(wanted.name, target, "", "exchange"))
        case Binding():
            yield _unbind(wanted)
        case Policy():
            pass  # it takes a tag


def _unbind(binding: Binding) -> Frame:
    """Undo a binding that nobody has: its argument is drawn by lot. It takes what binding takes."""
    nobodys: dict[str, Any] = {_NO_TYPE: secrets.token_hex(16)}
    if binding.destination_type == "exchange":
        return ExchangeUnbindFrame(
            destination=binding.destination,
            source=binding.source,
            routing_key=binding.routing_key,
            arguments=nobodys,
        )
    return QueueUnbindFrame(
        queue=binding.destination, exchange=binding.source, routing_key=binding.routing_key, arguments=nobodys
    )
