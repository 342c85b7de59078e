"""Where spans are made, if at all: around a publish, and around each call of a handler."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol

from amqpkit.deliver.context import Context
from amqpkit.deliver.outgoing import Order
from amqpkit.model import Message


class Tracing(Protocol):
    """Whoever makes the spans; it must raise nothing of its own."""

    def sending(
        self, message: Message, *, exchange: str, routing_key: str
    ) -> tuple[Message, Callable[[BaseException | None], None]]:
        """Open a span around one publish: the message to send instead, and what to call with its error at the end."""

    def handling(self, context: Context) -> AbstractContextManager[str | None]:
        """Open a span around one call of a handler; it gives its own `traceparent`."""


def traced(order: Order, tracing: Tracing | None) -> Order:
    """Let a publish have its span, which ends when the order's `sent` is called."""
    if tracing is None:
        return order
    message, sent = tracing.sending(order.message, exchange=order.exchange, routing_key=order.routing_key)
    return replace(order, message=message, sent=sent)
