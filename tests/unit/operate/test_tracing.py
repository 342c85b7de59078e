"""Spans: the conventions' names, one trace through retries and replays, and nothing at all without a tracer."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from amqpkit import Context, RetryAfter
from amqpkit.brokers.memory.admin import MemoryAdmin
from amqpkit.brokers.memory.blocking import MemoryBlockingTransport
from amqpkit.brokers.memory.broker import MemoryBroker
from amqpkit.brokers.memory.clock import VirtualClock
from amqpkit.deliver.blocking import BlockingPublisher
from amqpkit.deliver.publisher import Publisher
from amqpkit.events import Settled
from amqpkit.model import Message, Properties, Route, Topology
from amqpkit.operate.apply import apply
from amqpkit.operate.tracing import Tracing
from amqpkit.testing.simulator import Simulator
from tests.worker.parts import Does, DoesInThread, Task, topology


@pytest.fixture
def provider() -> TracerProvider:
    return TracerProvider()


@pytest.fixture
def spans(provider: TracerProvider) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return exporter


@pytest.fixture
def tracing(provider: TracerProvider) -> Tracing:
    return Tracing(provider.get_tracer("test"))


def by_name(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if span.name == name]


async def send(sim: Simulator, tracing: Tracing) -> None:
    publisher = Publisher(sim.topology, sim.transport, clock=sim.clock, tracing=tracing)
    await publisher.publish(Task(), correlation_id="c")
    await sim.settle()


async def test_every_attempt_and_a_replay_are_spans_in_the_trace_of_the_publish_and_linked_to_it(tracing, spans):
    def does(_task: Task, context: Context) -> None:
        if context.attempt < 3 or "amqpkit-replays" not in context.headers:
            raise LookupError

    async with Simulator(topology(), [Does(does)], worker={"tracing": tracing}) as sim:
        await send(sim, tracing)
        await sim.advance("71s")
        (letter,) = sim.broker.messages("task.dlq")
        headers = {**letter.properties.headers, "amqpkit-replays": 1, "amqpkit-attempt": 2}
        await sim.publish_raw(Message(letter.body, replace(letter.properties, headers=headers)), routing_key="task")

    (producer,) = by_name(spans, "send amq.default")
    consumers = by_name(spans, "process task")
    assert [span.attributes["amqpkit.attempt"] for span in consumers] == [1, 2, 3, 3]
    assert consumers[3].attributes["amqpkit.replays"] == 1
    for span in consumers:
        assert span.context.trace_id == producer.context.trace_id
        assert span.parent.span_id == producer.context.span_id
        assert [link.context.span_id for link in span.links] == [producer.context.span_id]
    assert [span.status.status_code.name for span in consumers] == ["ERROR", "ERROR", "ERROR", "UNSET"]
    assert [span.attributes.get("error.type") for span in consumers] == [*["LookupError"] * 3, None]
    told = [event.trace for event in sim.events if isinstance(event, Settled)]
    assert told == [f"{producer.context.trace_id:032x}"] * 4


async def test_attributes_are_those_of_the_conventions_and_none_is_of_the_payload(tracing, spans):
    async with Simulator(topology(), [Does()], worker={"tracing": tracing}) as sim:
        await send(sim, tracing)
    (producer,), (consumer,) = by_name(spans, "send amq.default"), by_name(spans, "process task")
    message_id = producer.attributes["messaging.message.id"]

    assert (producer.kind, consumer.kind) == (trace.SpanKind.PRODUCER, trace.SpanKind.CONSUMER)
    both = {
        "messaging.system": "rabbitmq",
        "messaging.message.id": message_id,
        "messaging.message.conversation_id": "c",
        "messaging.rabbitmq.destination.routing_key": "task",
        "messaging.destination.name": "task",
    }
    assert dict(producer.attributes) == {
        **both,
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
    }
    assert dict(consumer.attributes) == {
        **both,
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "amqpkit.attempt": 1,
    }


async def test_a_stranger_s_message_is_one_trace_from_its_first_attempt_on(tracing, spans):
    def does(_task: Task, context: Context) -> None:
        if context.attempt < 3:
            raise LookupError

    async with Simulator(topology(), [Does(does)], worker={"tracing": tracing}) as sim:
        await sim.publish_raw(Message(b"{}", Properties(headers={"traceparent": "nonsense"})), routing_key="task")
        await sim.advance("71s")
    first, *later = by_name(spans, "process task")

    assert (first.parent, len(later)) == (None, 2)
    assert {span.context.trace_id for span in later} == {first.context.trace_id}
    assert {span.links[0].context.span_id for span in later} == {first.context.span_id}


@pytest.mark.parametrize("consumer", [Does, DoesInThread])
async def test_what_a_handler_traces_is_inside_its_span(tracing, spans, provider, consumer):
    def does(_task: Task, _context: Context) -> None:
        with provider.get_tracer("mine").start_as_current_span("mine"):
            pass

    async with Simulator(topology(), [consumer(does)], worker={"tracing": tracing}) as sim:
        await send(sim, tracing)
        await sim.advance("1s")
    (mine,), (process,) = by_name(spans, "mine"), by_name(spans, "process task")

    assert mine.parent.span_id == process.context.span_id


async def test_a_verdict_is_no_error(tracing, spans):
    def does(_task: Task, context: Context) -> None:
        if "amqpkit-snoozes" not in context.headers:
            raise RetryAfter(5)

    async with Simulator(topology(), [Does(does)], worker={"tracing": tracing}) as sim:
        await send(sim, tracing)
        await sim.advance("10s")

    assert [span.status.status_code.name for span in by_name(spans, "process task")] == ["UNSET", "UNSET"]


async def test_a_tracer_that_fails_costs_no_message(provider, caplog):
    class Broken(SpanProcessor):
        def on_start(self, span: Any, parent_context: Any = None) -> None:
            raise RuntimeError("out of order")

    provider.add_span_processor(Broken())
    tracing = Tracing(provider.get_tracer("test"))
    consumer = Does()
    async with Simulator(topology(), [consumer], worker={"tracing": tracing}) as sim:
        await send(sim, tracing)

    assert len(consumer.seen) == 1
    assert "no span could be made for process task" in caplog.text


async def test_without_a_tracer_no_span_is_made_and_no_header_written(monkeypatch):
    def fails(*_: Any, **__: Any) -> None:
        raise AssertionError("a span was made")

    monkeypatch.setattr(trace.ProxyTracer, "start_span", fails)
    monkeypatch.setattr(trace.NoOpTracer, "start_span", fails)
    consumer = Does()
    async with Simulator(topology(), [consumer]) as sim:
        await sim.publish(Task())

    (context,) = consumer.seen
    assert "traceparent" not in context.headers


async def test_each_of_many_has_its_own_trace_and_an_unroutable_one_is_an_error(tracing, spans):
    file = Topology(work_queues=topology().work_queues, routes={"task": Route("", "nowhere")})
    async with Simulator(topology()) as sim:
        publisher = Publisher(file, sim.transport, clock=sim.clock, tracing=tracing)
        await publisher.publish_many(Task(name=str(number)) for number in range(3))
    sent = by_name(spans, "send amq.default")

    assert len({span.context.trace_id for span in sent}) == 3
    assert [span.attributes["error.type"] for span in sent] == ["Unroutable"] * 3


def test_a_blocking_publisher_makes_the_same_spans(tracing, spans):
    broker = MemoryBroker(VirtualClock())
    asyncio.run(apply(topology(), MemoryAdmin(broker)))
    with BlockingPublisher(topology(), MemoryBlockingTransport(broker), tracing=tracing) as publisher:
        publisher._transport.open()
        publisher.publish(Task())
        publisher.publish_many([Task(), Task()])
    sent = by_name(spans, "send amq.default")
    carried = [message.properties.headers["traceparent"] for message in broker.messages("task")]

    assert [header.split("-")[1] for header in carried] == [f"{span.context.trace_id:032x}" for span in sent]
    assert len(set(carried)) == 3
