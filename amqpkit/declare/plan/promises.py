"""What each work queue promises once a plan is applied: its guarantee, its limits, its retries. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from amqpkit.declare.plan.actual import Actual
from amqpkit.declare.plan.rule import Rule
from amqpkit.declare.plan.settings import Setting, value_of
from amqpkit.model import Queue, Topology, WorkQueue
from amqpkit.units import format_duration


@dataclass(frozen=True, slots=True)
class Promise:
    """What one work queue promises, in the words that a plan prints."""

    queue: str
    guarantee: str
    limit: str
    retries: str
    quorum_queues: int


def promises(wanted: Topology, actual: Actual) -> tuple[Promise, ...]:
    """Read every work queue's promise off its effective settings, foreign and operator policies included."""
    rule = Rule(wanted, actual)
    queues = {queue.name: queue for queue in wanted.queues}
    return tuple(_promise(work, queues, rule) for work in wanted.work_queues.values())


def _promise(work: WorkQueue, queues: dict[str, Queue], rule: Rule) -> Promise:
    parts = [work.name, work.dead_queue, *dict.fromkeys(each.queue for level in work.snoozes for each in level.queues)]
    there = [queues[name] for name in parts if name in queues]
    leaks = dict.fromkeys(
        leak
        for queue in there
        for settings in rule.possible_settings(queue)
        for leak in _leaks(queue, queue.name == work.name, settings)
    )
    guarantee = "at least once, nothing dropped" if not leaks else f"not guaranteed: {'; '.join(leaks)}"
    effective = rule.settings_after(queues[work.name]) if work.name in queues else {}
    quorum = sum(queue.type == "quorum" for queue in there)
    return Promise(work.name, guarantee, _limit(work, effective), _retries(work), quorum)


def _leaks(queue: Queue, main: bool, settings: Mapping[str, Setting]) -> Iterator[str]:  # noqa: FBT001 - which of the two it is
    overflow = settings.get("overflow")
    if value_of(settings, "overflow") != "reject-publish":
        by = overflow.source if overflow else "nobody"
        yield f"{queue.name} drops messages when full ({by} says so)"
    for key in ("message-ttl", "expires"):
        setting = settings.get(key)
        if setting and setting.source != "argument":
            yield f"{queue.name} has {key} {setting.value} ({setting.source})"
    limit = settings.get("delivery-limit")
    if not main and limit and isinstance(limit.value, int) and limit.value >= 0:
        yield f"{queue.name} has delivery-limit {limit.value} ({limit.source})"


def _limit(work: WorkQueue, settings: Mapping[str, Setting]) -> str:
    texts = []
    if work.depth_limit is not None:
        texts.append(f"publishers wait above {work.depth_limit:,} messages")
    for key, unit in (("max-length", "messages"), ("max-length-bytes", "bytes")):
        if setting := settings.get(key):
            texts.append(f"the broker refuses them above {setting.value:,} {unit} ({setting.source})")
    return "; ".join(texts) or "none: the broker's memory and disk are the limit"


def _retries(work: WorkQueue) -> str:
    if not work.delays:
        return f"none → {work.dead_queue}"
    delays = [level.milliseconds for level in work.delays]
    ladder = " → ".join(format_duration(delay) for delay in delays)
    return f"{ladder} → {work.dead_queue} after {_sum(sum(delays))}"


def _sum(milliseconds: int) -> str:
    """Spell a sum with all its units: 11m10s."""
    parts, rest = [], milliseconds
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
