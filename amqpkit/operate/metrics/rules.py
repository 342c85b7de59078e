"""Alert rules for Prometheus, from the topology file. Pure.

Each alert of the file becomes a rule with its owner and runbook; every work queue also gets rules for what is always
wrong: nobody consumes it, the broker cannot be asked about it, its messages grow old, too many deliveries fail, its
handler comes close to its timeout.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from amqpkit.model import Topology, WorkQueue
from amqpkit.operate.alerts import CLOSE, spoken
from amqpkit.units import format_duration

FAILED: Final = "retried|dead|refused"
ENDED: Final = f"handled|discarded|{FAILED}"
# what Prometheus fills in when the alert fires
_VALUE: Final = "{{ $value }}"
_DURATION: Final = "{{ $value | humanizeDuration }}"
_PERCENTAGE: Final = "{{ $value | humanizePercentage }}"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What the file does not say: `oldest` in seconds, `failure_rate` a part of 1, `patience` in seconds.

    `patience` is for how long something must hold that may come by itself and go again.
    """

    oldest: float = 600.0
    failure_rate: float = 0.2
    patience: float = 120.0


@dataclass(frozen=True, slots=True)
class Rule:
    """One alert: `hold` in seconds is how long the expression must be true."""

    name: str
    expression: str
    hold: float
    severity: str
    summary: str


def rules_document(topology: Topology, thresholds: Thresholds | None = None) -> dict[str, Any]:
    """Give a Prometheus rule file as a mapping: one group for each work queue."""
    thresholds = thresholds or Thresholds()
    works = [work for _, work in sorted(topology.work_queues.items())]
    return {"groups": [{"name": f"amqpkit {work.name}", "rules": _rules(work, thresholds)} for work in works]}


def _rules(work: WorkQueue, thresholds: Thresholds) -> list[dict[str, Any]]:
    rules = [*_from_file(work), *_always(work, thresholds)]
    return [_rendered(rule, work) for rule in rules]


def _from_file(work: WorkQueue) -> Iterable[Rule]:
    alert, name, dead = work.alert, _literal(work.name), _literal(work.dead_queue)
    if alert.messages is not None:
        yield Rule(
            "AmqpkitDeadLetters",
            f"{_most('amqpkit_dead_letter_depth', work)} >= {alert.messages}",
            0,
            "critical",
            f"{_VALUE} dead letters in {dead} (alert from {alert.messages})",
        )
    if alert.age is not None:
        yield Rule(
            "AmqpkitDeadLetterAge",
            f"{_most('amqpkit_oldest_dead_letter_seconds', work)} >= {alert.age:g}",
            0,
            "critical",
            f"the oldest letter in {dead} has waited {_DURATION} (alert from {spoken(alert.age)})",
        )
    if work.depth_limit is not None:
        yield Rule(
            "AmqpkitDepth",
            f"{_most('amqpkit_queue_depth', work)} >= {work.depth_limit}",
            0,
            "critical",
            f"{_VALUE} messages wait in {name}: publishers are held back from {work.depth_limit} on",
        )


def _always(work: WorkQueue, thresholds: Thresholds) -> Iterable[Rule]:
    name, hold = _literal(work.name), thresholds.patience
    # workers are there and list no consumers: at best the depths are known then, and no other alert need fire
    workers, listed = _count("amqpkit_in_flight", work), _count("amqpkit_consumers", work)
    yield Rule(
        "AmqpkitBrokerUnreachable",
        f"{workers} unless {listed}",
        hold,
        "critical",
        f"what is in {name} is not known, or only its depths: its workers cannot ask the broker, or its management API",
    )
    yield Rule(
        "AmqpkitNoConsumer",
        # a worker that is gone shows no number at all
        f"({_most('amqpkit_consumers', work)} or (vector(0) unless {workers})) < 1",
        hold,
        "critical",
        f"nobody consumes {name}",
    )
    yield Rule(
        "AmqpkitOldestMessage",
        f"{_most('amqpkit_oldest_message_seconds', work)} >= {thresholds.oldest:g}",
        hold,
        "warning",
        f"the next message of {name} is {_DURATION} old (alert from {spoken(thresholds.oldest)})",
    )
    failed, ended = _rate(work, FAILED), _rate(work, ENDED)
    yield Rule(
        "AmqpkitFailureRate",
        f"{failed} / {ended} >= {thresholds.failure_rate:g}",
        hold,
        "warning",
        f"{_PERCENTAGE} of the deliveries of {name} fail (alert from {thresholds.failure_rate:.0%})",
    )
    limit = min((each for each in (work.consume.timeout, work.consumer_timeout) if each), default=None)
    if limit is not None:
        buckets = f'sum by (le) (rate(amqpkit_handling_seconds_bucket{{queue="{_quoted(work.name)}"}}[10m]))'
        yield Rule(
            "AmqpkitHandlingNearTimeout",
            f"histogram_quantile(0.95, {buckets}) >= {CLOSE * limit:g}",
            hold,
            "warning",
            f"p95 of handling {name} is {_DURATION}, its timeout {spoken(limit)}",
        )


def _most(metric: str, work: WorkQueue) -> str:
    # every worker of a queue reads the same queue: their numbers are not to be added
    return f'max({metric}{{queue="{_quoted(work.name)}"}})'


def _count(metric: str, work: WorkQueue) -> str:
    return f'count({metric}{{queue="{_quoted(work.name)}"}})'


def _rate(work: WorkQueue, outcomes: str) -> str:
    return f'sum(rate(amqpkit_deliveries_total{{queue="{_quoted(work.name)}",outcome=~"{outcomes}"}}[5m]))'


def _rendered(rule: Rule, work: WorkQueue) -> dict[str, Any]:
    labels = {"queue": work.name, "severity": rule.severity, "owner": work.owner}
    annotations = {"summary": rule.summary, "runbook_url": work.runbook}
    return {
        "alert": rule.name,
        "expr": rule.expression,
        **({"for": format_duration(round(rule.hold * 1000))} if rule.hold else {}),
        "labels": {name: _literal(value) for name, value in labels.items() if value is not None},
        "annotations": {
            name: value if name == "summary" else _literal(value)
            for name, value in annotations.items()
            if value is not None
        },
    }


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _literal(text: str) -> str:
    """Keep a name that looks like a template from being run as one."""
    return text.replace("{{", '{{ "{{" }}')
