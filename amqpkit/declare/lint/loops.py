"""Rules about waiting: delay queues, expiry, and circles of dead letters. Pure.

RabbitMQ drops a message that has come back to a queue by dead-lettering without a rejection on the way (measured on
4.0 and 4.3, for both types of queue).
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from amqpkit.declare.circles import circles
from amqpkit.declare.effective import delivery_limit, overflow
from amqpkit.declare.lint.findings import Finding, Rule, Severity
from amqpkit.declare.lint.subject import Subject, address
from amqpkit.model import Queue
from amqpkit.units import format_duration

DROPS = Rule(
    "AK210",
    "dead-letter-circle-drops",
    Severity.ERROR,
    "A circle of dead letters in which nobody has to reject: the broker drops the message",
    "When a message comes back to a queue and every step of the way was by expiry or by length, RabbitMQ "
    "takes it for a "
    "loop and drops it, with one line in its log. With at-least-once dead-lettering it is kept, stuck, in the last "
    "queue. Measured on 4.0 and 4.3.",
    bad='queues:\n  a: {arguments: {x-message-ttl: 1s, x-dead-letter-exchange: "", x-dead-letter-routing-key: b}}\n'
    '  b: {arguments: {x-message-ttl: 1s, x-dead-letter-exchange: "", x-dead-letter-routing-key: a}}\n',
    good="work_queues:\n  jobs: {retry: {delays: [1s, 10s]}}\n",
)
ENDLESS = Rule(
    "AK211",
    "retry-circle-by-hand",
    Severity.WARNING,
    "A retry circle made of dead letters: nothing bounds the attempts, and crashes lose the message",
    "Rejecting into a delay queue that leads back works for ever, as nothing counts. And when a message "
    "leaves the work "
    "queue not by rejection but by its delivery limit (a quorum queue's default is 20), it is dropped on its way back. "
    "A work queue copies its retries instead: attempts are counted, its dead letters end in one queue. Measured.",
    bad='queues:\n  work: {arguments: {x-dead-letter-exchange: "", x-dead-letter-routing-key: delay}}\n'
    '  delay: {arguments: {x-message-ttl: 1s, x-dead-letter-exchange: "", x-dead-letter-routing-key: work}}\n',
    good="work_queues:\n  work: {retry: {delays: [1s]}}\n",
)
NO_TTL = Rule(
    "AK212",
    "delay-queue-without-ttl",
    Severity.WARNING,
    "A delay queue without a TTL of its own: each message brings its own, and long ones hold up short ones",
    "Messages expire only at the head of a queue: behind one that waits an hour, one that should wait a "
    "second waits an "
    "hour too; and a message without `expiration` waits for ever. Use one queue per delay, with `x-message-ttl`. "
    "Measured on both types of queue.",
    bad="queues:\n  jobs: {}\n  jobs.delay:\n    arguments: "
    '{x-dead-letter-exchange: "", x-dead-letter-routing-key: jobs}\n',
    good="queues:\n  jobs: {}\n  jobs.delay.10s:\n    arguments: "
    '{x-message-ttl: 10s, x-dead-letter-exchange: "", x-dead-letter-routing-key: jobs}\n',
)
EXPIRES_FIRST = Rule(
    "AK213",
    "queue-expires-before-its-messages",
    Severity.ERROR,
    "A queue that is deleted before its messages are due",
    "Nobody reads a delay queue, so for RabbitMQ it is unused: when `x-expires` has passed, the queue "
    "goes with all that "
    "waits in it. Deleting never dead-letters. Measured.",
    bad="queues:\n  jobs: {}\n  jobs.delay.2m:\n    arguments: {x-message-ttl: 2m, x-expires: 1m, "
    'x-dead-letter-exchange: "", x-dead-letter-routing-key: jobs}\n',
    good="queues:\n  jobs: {}\n  jobs.delay.2m:\n    arguments: {x-message-ttl: 2m, "
    'x-dead-letter-exchange: "", x-dead-letter-routing-key: jobs}\n',
)
EXPIRES = Rule(
    "AK214",
    "queue-expires-with-its-messages",
    Severity.WARNING,
    "A queue that is deleted, with what it holds, when nobody has read it for a while",
    "A weekend without its consumer and the queue is gone, messages and bindings too; nothing is dead-lettered. For "
    "replies and caches that may be meant: say so in a suppression. Measured.",
    bad="queues:\n  jobs: {arguments: {x-expires: 1h}}\n",
    good="queues:\n  jobs: {}\n",
)
GONE = Rule(
    "AK215",
    "expired-messages-vanish",
    Severity.INFO,
    "A TTL without a dead-letter exchange: what expires is gone",
    "For replies and caches that is meant; for work it is loss without a trace.",
    bad="queues:\n  jobs: {arguments: {x-message-ttl: 1h}}\n",
    good="exchanges: {late: {type: fanout}}\nqueues:\n  jobs: {arguments: {x-message-ttl: 1h, "
    "x-dead-letter-exchange: late}}\n  late: {bindings: [{source: late}]}\n",
)
RULES: Final = (DROPS, ENDLESS, NO_TTL, EXPIRES_FIRST, EXPIRES, GONE)
_DELAY_WORDS: Final = frozenset({"delay", "delayed", "delays", "retry", "wait", "waiting", "later", "backoff", "sleep"})


def check(subject: Subject) -> Iterator[Finding]:
    """Judge circles of dead letters, and queues whose content ends by time."""
    yield from _circles(subject)
    for queue in subject.topology.queues:
        if queue.type != "stream":
            yield from _expiry(subject, queue)
            yield from _named_delay(subject, queue)


def _circles(subject: Subject) -> Iterator[Finding]:
    falling = {queue.name for queue in subject.topology.queues if _falls_by_itself(subject, queue)}
    dropping = {name: targets for name, targets in subject.dead_targets.items() if name in falling}
    dropped: set[str] = set()
    for circle in circles(dropping):
        dropped.update(circle)
        message = f"messages that go {_way(circle)} without a rejection are dropped by the broker"
        remedy = "end the circle: let dead letters go to a queue that somebody reads"
        yield _at_first(subject, DROPS, circle, message, remedy)
    for circle in circles(subject.dead_targets):
        if not dropped.intersection(circle):
            yield from _endless(subject, circle)


def _endless(subject: Subject, circle: tuple[str, ...]) -> Iterator[Finding]:
    timed = [name for name in circle if subject.setting(name, "message-ttl") is not None]
    if not timed and len(circle) > 1:
        message = f"messages that go {_way(circle)} wait for an expiration of their own: a long one holds up the rest"
        remedy = "give each delay a queue with x-message-ttl"
        yield _at_first(subject, NO_TTL, circle, message, remedy)
        return
    limits = ((name, delivery_limit(subject.queues[name], subject.settings[name])) for name in circle)
    limited = next(((name, limit) for name, limit in limits if limit is not None and name not in timed), None)
    message = f"nothing bounds how often a message goes {_way(circle)}"
    if limited:
        message += f"; one that leaves {limited[0]} by its delivery limit of {limited[1]} is dropped"
    yield _at_first(subject, ENDLESS, circle, message, "make it a work queue")


def _falls_by_itself(subject: Subject, queue: Queue) -> bool:
    """Tell whether messages can leave without being rejected: by expiry, or pushed out at the length limit."""
    found = subject.settings[queue.name]
    if "message-ttl" in found:
        return True
    return bool({"max-length", "max-length-bytes"} & found.keys()) and overflow(queue, found) == "drop-head"


def _way(circle: tuple[str, ...]) -> str:
    return " -> ".join((*circle, circle[0]))


def _at_first(subject: Subject, rule: Rule, circle: tuple[str, ...], message: str, remedy: str) -> Finding:
    first = circle[0]
    loc = subject.setting_loc(first, "dead-letter-exchange")
    return Finding(rule, loc, address(subject.queues[first]), message, remedy)


def _expiry(subject: Subject, queue: Queue) -> Iterator[Finding]:
    expires, ttl = subject.setting(queue.name, "expires"), subject.setting(queue.name, "message-ttl")
    loc = subject.setting_loc(queue.name, "expires")
    if _is_number(expires):
        spoken = format_duration(expires)
        if _is_number(ttl) and expires <= ttl:
            message = (
                f"{queue.name} is deleted after {spoken} without a reader, its messages wait {format_duration(ttl)}"
            )
            yield Finding(EXPIRES_FIRST, loc, address(queue), message, "drop x-expires")
        else:
            message = f"{queue.name} is deleted, with what it holds, after {spoken} without a reader"
            yield Finding(EXPIRES, loc, address(queue), message, "drop it, or say in a suppression why it may go")
    if ttl is not None and subject.setting(queue.name, "dead-letter-exchange") is None:
        message = f"what expires in {queue.name} is gone"
        loc = subject.setting_loc(queue.name, "message-ttl")
        yield Finding(GONE, loc, address(queue), message, "name a dead-letter exchange if it matters")


def _named_delay(subject: Subject, queue: Queue) -> Iterator[Finding]:
    """Take a plain queue by its word: one called delay that dead-letters on and has no TTL."""
    if queue.name not in subject.spec.queues or subject.setting(queue.name, "message-ttl") is not None:
        return
    named = _DELAY_WORDS & set(_words(queue.name))
    if named and _leads_on(subject.dead_targets, queue.name):
        message = f"{queue.name} looks like a delay queue and has no TTL: each message would have to bring its own"
        loc = ("queues", queue.name)
        yield Finding(NO_TTL, loc, address(queue), message, "give each delay a queue with x-message-ttl", key=True)


def _leads_on(targets: Mapping[str, Collection[str]], name: str) -> bool:
    return bool(targets[name]) and not any(name in targets[target] for target in targets[name])


def _words(name: str) -> list[str]:
    return name.lower().replace("-", ".").replace("_", ".").replace(":", ".").split(".")


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
