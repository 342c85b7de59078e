"""OpenTelemetry spans around publishes and handlers; needs the extra `otel` (its API, no SDK).

Names follow the semantic conventions for messaging (https://opentelemetry.io/docs/specs/semconv/messaging/rabbitmq/).
A message carries its creation context in the W3C header `traceparent`, which every copy keeps: so each attempt, and a
replay after weeks, is a span in the trace of the publish, linked to it. Without a tracer nothing of this is made.
"""

import logging
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from amqpkit.deliver import headers as h
from amqpkit.deliver.context import Context
from amqpkit.model import DeadLetter, Message, Verdict

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

log = logging.getLogger("amqpkit.tracing")
SYSTEM: Final = "rabbitmq"
Sent = Callable[[BaseException | None], None]


class Tracing:
    """Makes the spans with one tracer; give it to publishers and a Worker as `tracing`."""

    def __init__(self, tracer: "Tracer | None" = None) -> None:
        """Take a tracer, or the global provider's own for `amqpkit`; raises ImportError naming the extra."""
        try:
            from opentelemetry import trace  # noqa: PLC0415 - an extra
            from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
                TraceContextTextMapPropagator,
            )
        except ImportError as error:
            msg = f"tracing needs the extra otel: pip install 'amqpkit[otel]' ({error})"
            raise ImportError(msg) from error
        self._trace = trace
        self._tracer = tracer or trace.get_tracer("amqpkit")
        # always W3C, whatever propagator the application prefers elsewhere: it is what our header says
        self._propagator = TraceContextTextMapPropagator()

    def sending(self, message: Message, *, exchange: str, routing_key: str) -> tuple[Message, Sent]:
        """Begin a producer span: publish the message that it gives, which carries the `traceparent`, then tell the end.

        Not a context manager: of many messages at once each ends in its own time.
        """
        properties = message.properties
        attributes = {
            **_message(properties.message_id, properties.correlation_id, routing_key),
            "messaging.operation.name": "send",
            "messaging.operation.type": "send",
            "messaging.destination.name": _named(exchange, routing_key),
        }
        name = f"send {exchange or 'amq.default'}"  # without the key: it may hold what is different each time
        span = self._start(name, self._trace.SpanKind.PRODUCER, attributes)
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, self._trace.set_span_in_context(span))
        if carrier:
            headers = {**properties.headers, h.TRACEPARENT: carrier[h.TRACEPARENT]}
            message = replace(message, properties=replace(properties, headers=headers))
        return message, lambda error: _end(self._trace, span, error)

    @contextmanager
    def handling(self, context: Context) -> Generator[str | None]:
        """Wrap one call of a handler in a consumer span; gives the span's own `traceparent`."""
        created = self._created(context.headers)
        attributes = {
            **_message(context.message_id, context.correlation_id, context.routing_key),
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.destination.name": _named(context.exchange, context.routing_key, context.queue),
            "amqpkit.attempt": context.attempt,
            "amqpkit.replays": _count(context.headers.get(h.REPLAYS)),
        }
        span = self._start(f"process {context.queue}", self._trace.SpanKind.CONSUMER, attributes, created)
        with self._current(span):
            carrier: dict[str, str] = {}
            self._propagator.inject(carrier)
            yield carrier.get(h.TRACEPARENT)

    def _created(self, headers: Mapping[str, Any]) -> Any:
        """Read the creation context; None when the message brings none that is one."""
        if h.read_trace(headers) is None:
            return None
        return self._propagator.extract({h.TRACEPARENT: headers[h.TRACEPARENT]})

    def _start(self, name: str, kind: Any, attributes: Mapping[str, Any], created: Any = None) -> "Span":
        links = []
        if created is not None:
            links = [self._trace.Link(self._trace.get_current_span(created).get_span_context())]
        given = {key: value for key, value in attributes.items() if value is not None}
        try:
            return self._tracer.start_span(name, context=created, kind=kind, attributes=given, links=links)
        except Exception:  # a sampler or processor of the application's: it must not cost a message
            log.exception("no span could be made for %s", name)
            return self._trace.INVALID_SPAN

    def _current(self, span: "Span") -> "AbstractContextManager[None]":
        return _ended(self._trace, span)


@contextmanager
def _ended(trace: Any, span: "Span") -> Generator[None]:
    """Make a span the current one, and end it with the error that passed, if it is one."""
    try:
        with trace.use_span(span, end_on_exit=False, record_exception=False, set_status_on_exception=False):
            yield
    except BaseException as error:
        _end(trace, span, None if isinstance(error, Verdict) and not isinstance(error, DeadLetter) else error)
        raise
    _end(trace, span, None)


def _end(trace: Any, span: "Span", error: BaseException | None) -> None:
    """End a span, with the kind of error that it met."""
    try:
        if error is not None:
            span.set_attribute("error.type", type(error).__qualname__)
            # not the error's text: it may quote the payload, and spans travel further than logs
            span.set_status(trace.Status(trace.StatusCode.ERROR))
        span.end()
    except Exception:
        log.exception("a span could not be ended")


def _message(message_id: str | None, correlation_id: str | None, routing_key: str) -> dict[str, Any]:
    return {
        "messaging.system": SYSTEM,
        "messaging.message.id": message_id,
        "messaging.message.conversation_id": correlation_id,
        "messaging.rabbitmq.destination.routing_key": routing_key or None,
    }


def _named(*parts: str) -> str:
    """Name a destination as the conventions say: exchange, key and queue, empty ones and repetitions left out."""
    kept = dict.fromkeys(part for part in parts if part)
    return ":".join(kept) or "amq.default"


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
