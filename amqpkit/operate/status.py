"""The state of every work queue as one document, for `amqpkit status --json`. Pure."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from amqpkit.model import Topology
from amqpkit.operate.alerts import Finding, findings
from amqpkit.operate.observe import Reading


def document(topology: Topology, readings: tuple[Reading, ...], p95: Mapping[str, float]) -> dict[str, Any]:
    """Give format_version, queues, alerts and warnings; seconds and rates are numbers, what is unknown is null."""
    alerts, warnings = findings(topology, readings, p95)
    return {
        "format_version": "1.0",
        "queues": [_queue(topology, reading, p95.get(reading.queue)) for reading in readings],
        "alerts": [_finding(each) for each in alerts],
        "warnings": [_finding(each) for each in warnings],
    }


def _queue(topology: Topology, reading: Reading, p95: float | None) -> dict[str, Any]:
    work = topology.work_queues[reading.queue]
    return {
        "queue": reading.queue,
        "depth": reading.depth,
        "oldest": reading.oldest,
        "oldest_unknown_because": reading.why_not or None,
        "in_flight": reading.in_flight,
        "consumers": reading.consumers,
        "rate": reading.rate,
        "failure_rate": reading.failure_rate,
        "p95": p95,
        "timeout": work.consume.timeout,
        "consumer_timeout": reading.consumer_timeout,
        "waiting": dict(reading.waiting),
        "dead_letters": {
            "queue": work.dead_queue,
            "depth": reading.dead,
            "oldest": reading.oldest_letter,
            "by_fate": dict(reading.letters),
        },
        "owner": work.owner,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return asdict(finding)
