"""Rules about how much a queue may hold and how long a handler may take. Pure."""

from collections.abc import Iterator
from typing import Final

from amqpkit.declare.effective import DEFAULT_CONSUMER_TIMEOUT
from amqpkit.declare.lint.findings import Finding, Rule, Severity
from amqpkit.declare.lint.subject import Subject, address
from amqpkit.model import Queue, WorkQueue
from amqpkit.units import format_duration

NO_LIMIT = Rule(
    "AK301",
    "no-limit",
    Severity.INFO,
    "A queue that may grow until the broker's disk is full",
    "When a consumer stops for a weekend, the queue takes the memory and disk of the whole broker, which then blocks "
    "every publisher. A depth makes publishers of this kit wait or fail; max-length is the broker's net below it.",
    bad="work_queues:\n  email.send: {}\n",
    good="work_queues:\n  email.send: {limits: {depth: 50000}}\n",
)
NO_DEPTH = Rule(
    "AK302",
    "max-length-without-depth",
    Severity.WARNING,
    "A work queue with a broker limit and no back-pressure below it",
    "A work queue at its max-length also shuts out its own retries: they wait in the delay queues and are tried again "
    "in steps of the broker's `dead_letter_worker_publisher_confirm_timeout`, 180 s. `limits.depth` at "
    "no more than half "
    "of it stops publishers before that. Measured.",
    bad="work_queues:\n  email.send: {max-length: 100000}\n",
    good="work_queues:\n  email.send: {max-length: 100000, limits: {depth: 50000}}\n",
)
TIMEOUT = Rule(
    "AK303",
    "timeout-above-consumer-timeout",
    Severity.WARNING,
    "A handler that may run longer than the broker waits for its ack",
    "The broker gives the message to another worker while the first still works on it (4.3: exactly then; 4.0: within "
    "a minute, closing the channel). Without `consumer-timeout` it is the node's, 30 minutes by default. "
    "Such a timeout "
    "counts as no delivery on 4.3: the message can go round for ever. Measured.",
    bad="work_queues:\n  report.build: {limits: {depth: 100}, consume: {timeout: 40m}}\n",
    good="work_queues:\n  report.build: {limits: {depth: 100}, consume: {timeout: 40m}, consumer-timeout: 1h}\n",
)
DROPS_HEAD = Rule(
    "AK304",
    "max-length-without-overflow",
    Severity.WARNING,
    "A length limit that silently drops the oldest messages",
    "The default overflow is drop-head: a message that the broker has confirmed is thrown away when the queue is full. "
    "Write reject-publish, so that publishers are told, or drop-head, if the oldest may go. Measured.",
    bad="queues:\n  jobs: {arguments: {x-max-length: 1000}}\n",
    good="queues:\n  jobs: {arguments: {x-max-length: 1000, x-overflow: reject-publish}}\n",
)
RULES: Final = (NO_LIMIT, NO_DEPTH, TIMEOUT, DROPS_HEAD)
_LENGTHS: Final = frozenset({"max-length", "max-length-bytes"})
_STREAM_LIMITS: Final = frozenset({"max-length-bytes", "max-age"})


def check(subject: Subject) -> Iterator[Finding]:
    """Judge every queue that a person wrote, with the policies of the file."""
    for name in subject.spec.queues:
        queue = subject.queues[name]
        yield from _plain(subject, queue)
        yield from _drops(subject, queue)
    for work_queue in subject.topology.work_queues.values():
        yield from _work(subject, work_queue)
        yield from _drops(subject, subject.queues[work_queue.name])
        yield from _drops(subject, subject.queues[work_queue.dead_queue])


def _plain(subject: Subject, queue: Queue) -> Iterator[Finding]:
    limits = _STREAM_LIMITS if queue.type == "stream" else _LENGTHS | {"message-ttl", "expires"}
    if not limits & subject.settings[queue.name].keys():
        remedy = "set x-max-age" if queue.type == "stream" else "set max-length and overflow, best by a policy"
        loc = ("queues", queue.name)
        yield Finding(NO_LIMIT, loc, address(queue), f"nothing limits {queue.name}", remedy, key=True)


def _work(subject: Subject, queue: WorkQueue) -> Iterator[Finding]:
    loc = ("work_queues", queue.name)
    where = f"queue {queue.name}"
    found = _LENGTHS & subject.settings[queue.name].keys()
    if queue.depth_limit is None and not found:
        remedy = "write limits: {depth: 50000}, and max-length at twice that"
        yield Finding(NO_LIMIT, loc, where, f"nothing limits {queue.name}", remedy, key=True)
    elif queue.depth_limit is None:
        key = min(found)
        message = f"{queue.name} has {key} and no limits.depth: once full, it shuts out its own retries"
        advice = (
            f"write limits: {{depth: {queue.max_length // 2}}}" if queue.max_length else "write limits: {depth: ...}"
        )
        yield Finding(NO_DEPTH, (*loc, key), where, message, advice)
    yield from _timeout(subject, queue)


def _timeout(subject: Subject, queue: WorkQueue) -> Iterator[Finding]:
    setting = subject.settings[queue.name].get("consumer-timeout")
    visible = setting.value if setting else DEFAULT_CONSUMER_TIMEOUT
    wanted = round(queue.consume.timeout * 1000) if queue.consume.timeout else 0
    if isinstance(visible, int) and wanted >= visible:
        by = f"from {setting.source}" if setting else "the broker's default"
        message = f"a handler may take {format_duration(wanted)}, the broker waits {format_duration(visible)} ({by})"
        loc = ("work_queues", queue.name, "consume", "timeout")
        yield Finding(TIMEOUT, loc, f"queue {queue.name}", message, "raise consumer-timeout above it")


def _drops(subject: Subject, queue: Queue) -> Iterator[Finding]:
    found = subject.settings[queue.name]
    limits = sorted(_LENGTHS & found.keys())
    if not limits or queue.type == "stream":
        return
    word = found.get("overflow")
    if word is None:
        message = f"{queue.name} drops its oldest messages when it is full ({limits[0]} without overflow)"
        loc = subject.setting_loc(queue.name, limits[0])
        yield Finding(DROPS_HEAD, loc, address(queue), message, "add overflow: reject-publish, or say drop-head")
