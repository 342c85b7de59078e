"""Lint is linear: 10,000 queues with 20,000 bindings are no matter."""

import time

import pytest

from amqpkit.declare.compiler import compile_topology
from amqpkit.declare.lint.catalogue import CHECKS
from amqpkit.declare.lint.subject import Subject
from amqpkit.declare.spec.format import (
    BindingSpec,
    ExchangeSpec,
    MessageSpec,
    PolicySpec,
    QueueSpec,
    Spec,
    WorkQueueSpec,
)

SERVICES = 97


def plain(size: int) -> Spec:
    queues = {}
    for number in range(size // 2):
        service = f"svc{number % SERVICES}"
        queues[f"{service}.job.{number}"] = QueueSpec(
            arguments={"x-dead-letter-exchange": "dlx", "x-dead-letter-routing-key": f"k{number}"},
            bindings=[
                BindingSpec(source="ev", routing_key=f"{service}.*.{number}"),
                BindingSpec(source="ev", routing_key=f"{service}.x.#"),
            ],
        )
        queues[f"dead.{number}"] = QueueSpec(
            arguments={"x-delivery-limit": -1},
            bindings=[
                BindingSpec(source="dlx", routing_key=f"k{number}"),
                BindingSpec(source="ev", routing_key=f"svc1.dead.{number}"),
            ],
        )
    return Spec(
        version=1,
        exchanges={"ev": ExchangeSpec(type="topic"), "dlx": ExchangeSpec(type="direct")},
        queues=queues,
        messages={f"m{n}": MessageSpec(exchange="ev", routing_key=f"svc{n}.x.{{id}}") for n in range(SERVICES)},
        policies={f"p{n}": PolicySpec(pattern=f"^svc{n}\\.", definition={"max-length": 50}) for n in range(SERVICES)},
    )


def work(size: int) -> Spec:
    names = [f"team{number % 50}.job{number}" for number in range(size // 5)]
    queues = {name: WorkQueueSpec(bindings=[BindingSpec(source="ev", routing_key=f"{name}.#")]) for name in names}
    return Spec(version=1, exchanges={"ev": ExchangeSpec(type="topic")}, work_queues=queues)


def seconds(spec: Spec) -> float:
    topology = compile_topology(spec)
    began = time.process_time()
    subject = Subject(spec, topology)
    for check in CHECKS:
        for _ in check(subject):
            pass
    return time.process_time() - began


@pytest.mark.parametrize("kind", [plain, work], ids=["plain", "work"])
def test_ten_thousand_queues_take_about_a_second_and_time_grows_as_they_do(kind):
    small, large = min(seconds(kind(1_000)) for _ in range(3)), seconds(kind(10_000))

    assert large < 2.5, "0.7 s when measured; more on a busy machine"
    assert large < 30 * small
