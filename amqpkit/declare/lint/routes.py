"""Rules about whether messages and bindings meet. Pure."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from amqpkit.declare.lint.findings import Finding, Rule, Severity
from amqpkit.declare.lint.subject import Subject
from amqpkit.declare.reachability import Key
from amqpkit.declare.spec.checks import nearest
from amqpkit.model import Route

NO_QUEUE = Rule(
    "AK601",
    "message-reaches-no-queue",
    Severity.WARNING,
    "A message that no queue of this file would get",
    "Publishing it raises Unroutable, unless somebody else's queue is bound there. A placeholder in the routing key is "
    "taken for any text. `amqpkit route --type` shows the way that it would take.",
    bad="exchanges: {ev: {type: topic}}\nwork_queues:\n"
    "  jobs: {limits: {depth: 9}, bindings: [{source: ev, routing_key: order.placed}]}\n"
    "messages:\n  order.placed: {exchange: ev, routing_key: orders.placed}\n",
    good="exchanges: {ev: {type: topic}}\nwork_queues:\n"
    "  jobs: {limits: {depth: 9}, accepts: [order.placed], bindings: [{source: ev, routing_key: order.placed}]}\n"
    "messages:\n  order.placed: {exchange: ev, routing_key: order.placed}\n",
)
NO_MESSAGE = Rule(
    "AK602",
    "binding-that-nothing-matches",
    Severity.WARNING,
    "A binding that no message of this file can follow",
    "The file says which messages go to this exchange, and none of their keys can match. If another application "
    "publishes there, say so in a suppression.",
    bad="exchanges: {ev: {type: topic}}\nwork_queues:\n"
    "  jobs: {limits: {depth: 9}, accepts: [order.placed], bindings: [{source: ev, routing_key: order.placed},\n"
    "    {source: ev, routing_key: orders.changed}]}\n"
    "messages:\n  order.placed: {exchange: ev, routing_key: order.placed}\n",
    good="exchanges: {ev: {type: topic}}\nwork_queues:\n"
    "  jobs: {limits: {depth: 9}, accepts: [order.placed], bindings: [{source: ev, routing_key: order.*}]}\n"
    "messages:\n  order.placed: {exchange: ev, routing_key: order.placed}\n",
)
WILDCARD = Rule(
    "AK603",
    "wildcard-without-topic",
    Severity.WARNING,
    "A wildcard in the key of a binding to an exchange that is no topic exchange",
    "Only topic exchanges read `*` and `#`; a direct exchange compares them as text, so the binding matches nothing "
    "else. A fanout exchange looks at no key.",
    bad="exchanges: {ev: {type: direct}}\nqueues: {jobs: {bindings: [{source: ev, routing_key: order.*}]}}\n",
    good="exchanges: {ev: {type: topic}}\nqueues: {jobs: {bindings: [{source: ev, routing_key: order.*}]}}\n",
)
NOT_ACCEPTED = Rule(
    "AK604",
    "message-not-accepted",
    Severity.WARNING,
    "A message that reaches a work queue which does not accept its type",
    "The worker would put every such message among the dead letters, as `invalid`. Narrow the binding, or list the "
    "type under `accepts`.",
    bad="exchanges: {ev: {type: topic}}\nwork_queues:\n"
    '  jobs: {limits: {depth: 9}, bindings: [{source: ev, routing_key: "#"}]}\n'
    "messages:\n  order.placed: {exchange: ev, routing_key: order.placed}\n",
    good="exchanges: {ev: {type: topic}}\nwork_queues:\n"
    '  jobs: {limits: {depth: 9}, accepts: [order.placed], bindings: [{source: ev, routing_key: "#"}]}\n'
    "messages:\n  order.placed: {exchange: ev, routing_key: order.placed}\n",
)
LEADS_NOWHERE = Rule(
    "AK605",
    "exchange-leads-nowhere",
    Severity.INFO,
    "An exchange to which this file binds nothing",
    "What is published there is returned, or lost without `mandatory`, until somebody binds a queue.",
    bad="exchanges: {ev: {type: topic}}\n",
    good="exchanges: {ev: {type: topic}}\nqueues: {jobs: {bindings: [{source: ev, routing_key: order.*}]}}\n",
)
RULES: Final = (NO_QUEUE, NO_MESSAGE, WILDCARD, NOT_ACCEPTED, LEADS_NOWHERE)
_ADVISED: Final = 20
"""Guessing what was meant is slow; after so many the fault is another."""
_PLACEHOLDER: Final = re.compile(r"\{[^{}]*\}")


def check(subject: Subject) -> Iterator[Finding]:
    """Judge messages against bindings, and bindings against messages."""
    keys: dict[str, list[Key]] = defaultdict(list)
    for name, route in subject.topology.routes.items():
        if name in subject.spec.messages:
            keys[route.exchange].append(key_of(route))
            yield from _message(subject, name, route)
    yield from _bindings(subject, keys)
    for name in subject.spec.exchanges:
        if not subject.reach.leaving(name) and subject.reach.alternate(name) is None:
            message = f"nothing is bound to exchange {name}"
            loc = ("exchanges", name)
            yield Finding(LEADS_NOWHERE, loc, f"exchange {name}", message, "bind a queue, or drop it", key=True)


def key_of(route: Route) -> Key:
    """Take a word with a placeholder for any text, dots too: what fills it is the publisher's affair."""
    words = route.routing_key.split(".") if route.routing_key else []
    if not any(_PLACEHOLDER.search(word) for word in words):
        return Key(route.routing_key)
    return Key(".".join("#" if _PLACEHOLDER.search(word) else word for word in words), pattern=True)


def _message(subject: Subject, name: str, route: Route) -> Iterator[Finding]:
    key, where = key_of(route), f"message {name}"
    loc = ("messages", name)
    if not route.exchange and key.pattern:
        return  # a queue's name with a placeholder
    if not subject.reach.is_known(route.exchange):
        return  # the file is refused
    reached = subject.reach.reached(route.exchange, key)
    if not reached:
        known = [each.routing_key for each in subject.reach.leaving(route.exchange)]
        advice = nearest(route.routing_key, known if route.exchange else subject.queues)
        place = f'exchange "{route.exchange}"' if route.exchange else "the default exchange"
        message = f'{name} reaches no queue: nothing at {place} takes the key "{route.routing_key}"{advice}'
        yield Finding(NO_QUEUE, (*loc, "routing_key"), where, message, "bind a queue that takes it")
    if key.pattern:
        return  # what it certainly reaches is not known
    for queue in sorted(reached & subject.topology.work_queues.keys()):
        accepts = subject.topology.work_queues[queue].accepts
        if name not in accepts:
            message = f"{name} reaches work queue {queue}, which accepts {', '.join(accepts)}"
            remedy = "narrow the binding, or list the type under accepts"
            yield Finding(NOT_ACCEPTED, loc, where, message, remedy, key=True)


def _bindings(subject: Subject, keys: Mapping[str, list[Key]]) -> Iterator[Finding]:
    advised = _ADVISED
    incoming = _fed_by_others(subject)
    met: dict[str, set[tuple[str, str, str]]] = {}
    for exchange in keys.keys() - incoming:
        met[exchange] = {
            (hit.destination_type, hit.destination, hit.routing_key)
            for key in keys[exchange]
            for hit in subject.reach.following(exchange, key)
        }
    for section, kind in (("exchanges", "exchange"), ("queues", "queue"), ("work_queues", "queue")):
        for name, entry in getattr(subject.spec, section).items():
            for position, binding in enumerate(entry.bindings):
                loc = (section, name, "bindings", position, "routing_key")
                where = f"binding {binding.source} -{binding.routing_key}-> {name}"
                source = subject.reach.type_of(binding.source)
                if source == "direct" and {"*", "#"} & set(binding.routing_key.split(".")):
                    message = f'{binding.source} is a direct exchange and takes "{binding.routing_key}" as plain text'
                    yield Finding(WILDCARD, loc, where, message, "make the exchange a topic exchange")
                elif binding.source in met and (kind, name, binding.routing_key) not in met[binding.source]:
                    advice = nearest(binding.routing_key, (key.text for key in keys[binding.source])) if advised else ""
                    advised -= 1 if advised else 0
                    message = (
                        f'no message of this file goes to {binding.source} with a key like "{binding.routing_key}"'
                    )
                    yield Finding(NO_MESSAGE, loc, where, message + advice, "correct the key, or drop the binding")


def _fed_by_others(subject: Subject) -> set[str]:
    """Name the exchanges that get more than the messages of the file: from other exchanges or as dead letters."""
    fed = {binding.destination for binding in subject.topology.bindings if binding.destination_type == "exchange"}
    for queue in subject.queues:
        fed.add(str(subject.setting(queue, "dead-letter-exchange", "")))
    fed.update(filter(None, map(subject.reach.alternate, subject.reach.exchanges)))
    return fed
