"""Which alerts of the topology file hold, and what else should be looked at. Pure.

The file says: `dead_letter.alert.messages` and `.age`, each an alert of its own, and `limits.depth`. What it does not
say is no alert, only a warning.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from amqpkit.model import Topology, WorkQueue
from amqpkit.operate.dead_letters.alerts import reached
from amqpkit.operate.observe import Reading
from amqpkit.units import format_duration

CLOSE: Final = 0.8
"""From which part of a timeout on the 95th percentile of handling times is too close to it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One alert that holds, or one warning: on which queue, its name, and the fact with its threshold."""

    queue: str
    name: str
    text: str
    owner: str | None = None
    runbook: str | None = None

    def __str__(self) -> str:
        owner = f" (owner: {self.owner})" if self.owner else ""
        return f"{self.queue}: {self.text}{owner}" + (f", see {self.runbook}" if self.runbook else "")


def alerts_of(work: WorkQueue, reading: Reading) -> tuple[Finding, ...]:
    """Name the alerts that hold; what could not be read holds nothing."""
    found = []
    alert, dead = work.alert, reading.dead or 0
    many, old = reached(alert, depth=dead, age=reading.oldest_letter)
    if many:
        found.append(
            (
                "dead-letters",
                f"{dead} dead letter{'' if dead == 1 else 's'} in {work.dead_queue} (alert from {alert.messages})",
            )
        )
    if old and alert.age is not None and reading.oldest_letter is not None:
        age = f"the oldest dead letter has waited {spoken(reading.oldest_letter)} (alert from {spoken(alert.age)})"
        found.append(("dead-letter-age", age))
    if work.depth_limit is not None and (reading.depth or 0) >= work.depth_limit:
        found.append(("depth", f"{reading.depth} messages wait: publishers are held back from {work.depth_limit} on"))
    return tuple(Finding(work.name, name, text, work.owner, work.runbook) for name, text in found)


def warnings_of(work: WorkQueue, reading: Reading, p95: float | None = None) -> tuple[Finding, ...]:
    """Name what no alert is set on, and nobody wants."""
    found = [("missing", f"{name} is not on the broker; run `amqpkit apply`") for name in reading.missing]
    if reading.consumers == 0 and work.name not in reading.missing:
        found.append(("no-consumer", "nobody consumes it"))
    timeouts = {"timeout": work.consume.timeout, "consumer-timeout": reading.consumer_timeout or work.consumer_timeout}
    for name, timeout in timeouts.items():
        if p95 is not None and timeout and p95 >= CLOSE * timeout:
            text = f"p95 of handling time is {spoken(p95)}: {p95 / timeout:.0%} of its {name} ({spoken(timeout)})"
            found.append((f"near-{name}", text))
    ours, brokers = timeouts.values()
    if ours and brokers and ours >= brokers:
        text = f"its timeout ({spoken(ours)}) is not below the broker's consumer timeout ({spoken(brokers)})"
        found.append(("timeout-order", f"{text}: the broker takes the message back first"))
    return tuple(Finding(work.name, name, text, work.owner, work.runbook) for name, text in found)


def findings(
    topology: Topology, readings: tuple[Reading, ...], p95: Mapping[str, float]
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Give all alerts that hold, and all warnings."""
    works = [(topology.work_queues[reading.queue], reading) for reading in readings]
    alerts = [finding for work, reading in works for finding in alerts_of(work, reading)]
    warnings = [finding for work, reading in works for finding in warnings_of(work, reading, p95.get(work.name))]
    return tuple(alerts), tuple(warnings)


def spoken(seconds: float) -> str:
    """Say a duration in at most two units: `350ms`, `1.4s`, `2m 5s`, `3h`, `8d 1h`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 10 and seconds != int(seconds):  # noqa: PLR2004 - below ten, tenths matter
        return f"{seconds:.1f}s"
    rest, parts = int(seconds), []
    for size in (86_400, 3600, 60, 1):
        count, rest = divmod(rest, size)
        if count:
            parts.append(format_duration(count * size * 1000))
    return " ".join(parts[:2])
