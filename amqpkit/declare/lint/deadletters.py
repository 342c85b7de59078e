"""Rules about where dead letters and unroutable messages go. Pure."""

from collections.abc import Iterator
from typing import Final

from amqpkit.declare.lint.findings import Finding, Rule, Severity
from amqpkit.declare.lint.subject import Subject, address
from amqpkit.declare.reachability import ANY, Key
from amqpkit.declare.spec.checks import nearest
from amqpkit.declare.spec.tree import Path
from amqpkit.model import Exchange, Queue

UNDECLARED = Rule(
    "AK201",
    "dead-letter-exchange-undeclared",
    Severity.ERROR,
    "A dead-letter exchange that nobody declares",
    "RabbitMQ does not check that it exists: every rejected or expired message is dropped without an error. If it is "
    "declared elsewhere, say so in a suppression; `lint --live` then looks for it on the broker. Measured.",
    bad="queues:\n  mail: {arguments: {x-dead-letter-exchange: mail_dlx}}\n",
    good="exchanges: {mail_dlx: {type: fanout}}\nqueues:\n  mail: {arguments: {x-dead-letter-exchange: mail_dlx}}\n"
    "  mail.dead: {bindings: [{source: mail_dlx}], arguments: {x-delivery-limit: -1}}\n",
)
UNBOUND = Rule(
    "AK202",
    "dead-letters-lead-nowhere",
    Severity.ERROR,
    "A dead-letter exchange from which no queue gets the dead letters",
    "The exchange is there, and no binding takes the key with which the dead letters come: they are dropped in "
    "silence. Without `x-dead-letter-routing-key` they keep the key that they were published with. Measured.",
    bad="exchanges: {dlx: {}}\nqueues:\n  mail: {arguments: {x-dead-letter-exchange: dlx, "
    "x-dead-letter-routing-key: mail}}\n  mail.dead: {bindings: [{source: dlx, routing_key: mail.dead}]}\n",
    good="exchanges: {dlx: {}}\nqueues:\n  mail: {arguments: {x-dead-letter-exchange: dlx, "
    "x-dead-letter-routing-key: mail}}\n  mail.dead: {bindings: [{source: dlx, routing_key: mail}], "
    "arguments: {x-delivery-limit: -1}}\n",
)
ALTERNATE_UNDECLARED = Rule(
    "AK203",
    "alternate-exchange-undeclared",
    Severity.ERROR,
    "An alternate exchange that nobody declares",
    "RabbitMQ does not check that it exists; what the exchange cannot route is returned or lost as if there were none. "
    "Measured.",
    bad="exchanges: {ev: {type: topic, alternate-exchange: lost}}\nqueues: {all: {bindings: "
    '[{source: ev, routing_key: "#"}]}}\n',
    good="exchanges: {ev: {type: topic, alternate-exchange: lost}, lost: {type: fanout}}\nqueues:\n"
    '  all: {bindings: [{source: ev, routing_key: "#"}]}\n  lost: {bindings: [{source: lost}]}\n',
)
ALTERNATE_UNBOUND = Rule(
    "AK204",
    "alternate-exchange-leads-nowhere",
    Severity.ERROR,
    "An alternate exchange to which nothing is bound",
    "It is there to keep what nobody wants, and keeps nothing: the message is returned, or lost without `mandatory`. "
    "Measured.",
    bad="exchanges: {ev: {type: topic, alternate-exchange: lost}, lost: {type: fanout}}\n"
    'queues: {all: {bindings: [{source: ev, routing_key: "#"}]}}\n',
    good="exchanges: {ev: {type: topic, alternate-exchange: lost}, lost: {type: fanout}}\nqueues:\n"
    '  all: {bindings: [{source: ev, routing_key: "#"}]}\n  lost: {bindings: [{source: lost}]}\n',
)
STRATEGY = Rule(
    "AK205",
    "at-least-once-without-reject-publish",
    Severity.ERROR,
    "At-least-once dead-lettering that silently is at-most-once",
    "The strategy works only with `overflow: reject-publish`. Without it RabbitMQ takes the declaration, "
    "logs a warning "
    "and drops dead letters that find no queue. On quorum queues a policy's overflow wins over the argument. Measured.",
    bad="exchanges: {dlx: {type: fanout}}\nqueues:\n  mail: {arguments: {x-dead-letter-exchange: dlx, "
    "x-dead-letter-strategy: at-least-once}}\n  mail.dead: {bindings: [{source: dlx}]}\n",
    good="exchanges: {dlx: {type: fanout}}\nqueues:\n  mail: {arguments: {x-dead-letter-exchange: dlx, "
    "x-dead-letter-strategy: at-least-once, x-overflow: reject-publish}}\n"
    "  mail.dead: {bindings: [{source: dlx}], arguments: {x-delivery-limit: -1}}\n",
)
SHARED_TARGET = Rule(
    "AK206",
    "delay-returns-to-everybody",
    Severity.WARNING,
    "A delay queue whose messages return to several queues",
    "When one of several subscribers fails and its delay queue dead-letters to the shared exchange, the others get the "
    "message again with every retry. Return to the one queue: through the default exchange under its name, or through "
    "an exchange of its own. A work queue does that by itself.",
    bad="exchanges: {ev: {type: fanout}}\nqueues:\n  a: {bindings: [{source: ev}]}\n  b: {bindings: [{source: ev}]}\n"
    "  b.delay: {arguments: {x-message-ttl: 10s, x-dead-letter-exchange: ev}}\n",
    good="exchanges: {ev: {type: fanout}}\nqueues:\n  a: {bindings: [{source: ev}]}\n  b: {bindings: [{source: ev}]}\n"
    '  b.delay: {arguments: {x-message-ttl: 10s, x-dead-letter-exchange: "", x-dead-letter-routing-key: b}}\n',
)
DELIVERY_LIMIT = Rule(
    "AK207",
    "dead-letters-have-a-delivery-limit",
    Severity.WARNING,
    "A dead-letter queue that deletes its letters when a reader crashes",
    "From 4.3 on the delivery count travels with a dead letter, and a quorum queue's default limit is "
    "20: a letter that "
    "died of crashes is deleted by the first reader that crashes or rejects with requeue. A policy's limit wins over "
    "an unlimited argument. Measured.",
    bad="exchanges: {dlx: {type: fanout}}\nqueues:\n  mail: {type: classic, arguments: {x-dead-letter-exchange: dlx}}\n"
    "  mail.dead: {bindings: [{source: dlx}]}\n",
    good="exchanges: {dlx: {type: fanout}}\nqueues:\n"
    "  mail: {type: classic, arguments: {x-dead-letter-exchange: dlx}}\n"
    "  mail.dead: {bindings: [{source: dlx}], arguments: {x-delivery-limit: -1}}\n",
)
NOBODY = Rule(
    "AK208",
    "dead-letters-without-owner-or-alert",
    Severity.INFO,
    "A dead-letter queue of which nobody is told",
    "Dead letters that nobody owns and nobody is told of are lost messages that take up space. An owner says whom to "
    "ask, an alert says when `amqpkit status` should fail.",
    bad="work_queues:\n  email.send: {limits: {depth: 1000}}\n",
    good="work_queues:\n  email.send: {limits: {depth: 1000}, dead_letter: {owner: team-mail, alert: {messages: 1}}}\n",
)
RULES: Final = (
    UNDECLARED,
    UNBOUND,
    ALTERNATE_UNDECLARED,
    ALTERNATE_UNBOUND,
    STRATEGY,
    SHARED_TARGET,
    DELIVERY_LIMIT,
    NOBODY,
)


def check(subject: Subject) -> Iterator[Finding]:
    """Judge every dead-letter and alternate setting, generated ones too."""
    for queue in subject.topology.queues:
        yield from _dead_letters(subject, queue)
        yield from _strategy(subject, queue)
        yield from _shared_target(subject, queue)
        yield from _delivery_limit(subject, queue)
    yield from _alternates(subject)
    for name, work_queue in subject.topology.work_queues.items():
        lacks = [
            word
            for word, given in (
                ("no owner", work_queue.owner),
                ("no alert", work_queue.alert.messages or work_queue.alert.age),
            )
            if not given
        ]
        if lacks:
            message = f"the dead letters of {name} have {' and '.join(lacks)}"
            remedy = "write dead_letter: {owner: team, alert: {messages: 1}}"
            yield Finding(NOBODY, ("work_queues", name), f"queue {work_queue.dead_queue}", message, remedy, key=True)


def _dead_letters(subject: Subject, queue: Queue) -> Iterator[Finding]:
    exchange = subject.setting(queue.name, "dead-letter-exchange")
    if not isinstance(exchange, str) or queue.type == "stream":
        return
    loc, where = subject.setting_loc(queue.name, "dead-letter-exchange"), address(queue)
    if not subject.reach.is_known(exchange):
        remedy = f"declare it under `exchanges`{nearest(exchange, subject.reach.exchanges)}"
        message = f'dead letters of {queue.name} go to exchange "{exchange}", which is not declared here'
        yield Finding(UNDECLARED, loc, where, message, remedy)
        return
    lost = [key for key in subject.dead_keys(queue.name) if not subject.reach.reached(exchange, key)]
    if lost and (exchange or not lost[0].pattern):
        message = f"dead letters of {queue.name} would be dropped: {_nowhere(subject, exchange, lost[0])}"
        yield Finding(UNBOUND, loc, where, message, "bind a queue that takes them")


def _nowhere(subject: Subject, exchange: str, key: Key) -> str:
    if not exchange:
        return f'there is no queue "{key.text}" here'
    if not subject.reach.leaving(exchange):
        return f'no queue is bound to exchange "{exchange}"'
    return f'no binding of exchange "{exchange}" takes the key "{key.text}"'


def _strategy(subject: Subject, queue: Queue) -> Iterator[Finding]:
    if queue.type != "quorum" or subject.setting(queue.name, "dead-letter-strategy") != "at-least-once":
        return
    word = subject.setting(queue.name, "overflow", "drop-head")
    if word != "reject-publish":
        source = subject.settings[queue.name].get("overflow")
        by = f" (from {source.source})" if source else " (the default)"
        message = f"at-least-once needs overflow reject-publish; it is {word}{by}, so dead letters may be dropped"
        loc = subject.setting_loc(queue.name, "overflow" if source else "dead-letter-strategy")
        yield Finding(STRATEGY, loc, address(queue), message, "write x-overflow: reject-publish")


def _shared_target(subject: Subject, queue: Queue) -> Iterator[Finding]:
    if queue.name not in subject.spec.queues or subject.setting(queue.name, "message-ttl") is None:
        return
    targets = sorted(subject.dead_targets[queue.name])
    if len(targets) > 1:
        some = ", ".join(targets[:3]) + (f" and {len(targets) - 3} more" if len(targets) > 3 else "")  # noqa: PLR2004 - a sample
        exchange = subject.setting(queue.name, "dead-letter-exchange")
        message = f'what waited in {queue.name} goes through exchange "{exchange}" to {some}'
        remedy = 'return it to the one queue that failed: x-dead-letter-exchange "" and the queue\'s name as the key'
        loc = subject.setting_loc(queue.name, "dead-letter-exchange")
        yield Finding(SHARED_TARGET, loc, address(queue), message, remedy)


def _delivery_limit(subject: Subject, queue: Queue) -> Iterator[Finding]:
    terminal = subject.setting(queue.name, "dead-letter-exchange") is None
    if queue.type != "quorum" or not terminal or queue.name not in subject.takes_failures:
        return
    setting = subject.settings[queue.name].get("delivery-limit")
    limit = setting.value if setting else 20
    if isinstance(limit, int) and limit >= 0:
        by = f"from {setting.source}" if setting else "the default"
        message = f"a reader that crashes deletes the dead letters of {queue.name}: delivery limit {limit} ({by})"
        loc = subject.setting_loc(queue.name, "delivery-limit")
        yield Finding(
            DELIVERY_LIMIT, loc, address(queue), message, "write x-delivery-limit: -1, and let no policy lower it"
        )


def _alternates(subject: Subject) -> Iterator[Finding]:
    for exchange in subject.topology.exchanges:
        alternate = subject.reach.alternate(exchange.name)
        if alternate is None:
            continue
        loc = _alternate_loc(subject, exchange)
        if not subject.reach.is_known(alternate):
            message = f'what {exchange.name} cannot route goes to exchange "{alternate}", which is not declared here'
            remedy = f"declare it under `exchanges`{nearest(alternate, subject.reach.exchanges)}"
            yield Finding(ALTERNATE_UNDECLARED, loc, address(exchange), message, remedy)
        elif alternate and not subject.reach.reached(alternate, ANY):
            message = f'what {exchange.name} cannot route is lost: nothing is bound to "{alternate}"'
            yield Finding(ALTERNATE_UNBOUND, loc, address(exchange), message, "bind a queue to it")


def _alternate_loc(subject: Subject, exchange: Exchange) -> Path:
    ruling = subject.rulings["exchange", exchange.name].winner
    if "alternate-exchange" not in exchange.arguments and ruling:
        return ("policies", ruling.name, "definition", "alternate-exchange")
    in_arguments = "alternate-exchange" in subject.spec.exchanges[exchange.name].arguments
    return ("exchanges", exchange.name, *(("arguments",) if in_arguments else ()), "alternate-exchange")
