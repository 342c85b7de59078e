"""What the broker says when it refuses a declaration, turned into object, argument, both values and a remedy. Pure.

The broker names only the first difference it meets; its sentences are those of RabbitMQ 4.0 and 4.3 (measured).
"""

import re
from typing import Final

from amqpkit.declare.identity import address, way_out
from amqpkit.errors import Refused
from amqpkit.model import Binding, DeclaredObject, Exchange, Policy, Queue

_DIFFERS: Final = re.compile(
    r"inequivalent arg '(?P<argument>[^']+)' for (?P<kind>queue|exchange) '.*' in vhost '.*': "
    r"received (?P<wanted>.+) but current is (?P<actual>.+)",
    re.DOTALL,
)
_INVALID: Final = re.compile(r"invalid (?:arg|property) '(?P<argument>[^']+)' for queue '.*' in vhost '.*?'(?P<why>.*)")
_ON_TYPE: Final = re.compile(r" of queue type rabbit_(?P<type>\w+?)(?:_queue)?")
_VALUE: Final = re.compile(r"the value '(?P<typed>.*)' of type '\w+'|'(?P<plain>.*)'", re.DOTALL)
_ERLANG: Final = (
    (re.compile(r"\[?\{<<\"([^\"]*)\">>,([^{}]*)\}\]?"), r'"\1" (with value \2)'),
    (re.compile(r"<<\"([^\"]*)\">>"), r'"\1"'),
)


def refused(declared: DeclaredObject, reason: str) -> Refused:
    """Make the error for a declaration that the broker answered with `reason`."""
    if differs := _DIFFERS.search(reason):
        return Refused(
            object=address(declared),
            reason=reason,
            argument=differs["argument"],
            wanted=_value(differs["wanted"]),
            actual=_value(differs["actual"]),
            remedy=way_out(declared),
        )
    if invalid := _INVALID.search(reason):
        error = Refused(object=address(declared), reason=_invalid(invalid), remedy="change it in the file")
        error.argument = invalid["argument"]
        return error
    readable = reason.removeprefix("Validation failed").strip()
    for erlang, plain in _ERLANG:
        readable = erlang.sub(plain, readable)
    return Refused(object=address(declared), reason=readable or "the broker gave no reason", remedy=_remedy(declared))


def reserved(declared: DeclaredObject) -> Refused:
    """Make the error for a name that only RabbitMQ may give; the API itself says no more than "Access refused"."""
    reason = "names that begin with `amq.` are RabbitMQ's own"
    return Refused(object=address(declared), reason=reason, remedy="choose another name")


def unlistable(declared: Binding) -> Refused | None:
    """Refuse bindings that would break the management API, or that it cannot carry.

    One with arguments and a `~` before the end of its routing key makes RabbitMQ 4.0 and 4.3 answer 500 to its own
    creation and from then on to every listing of the vhost's bindings (measured); a null argument crashes the request.
    """
    if declared.arguments and "~" in declared.routing_key[:-1]:
        reason = "with arguments and `~` in its key, it would stop the management API from listing the vhost's bindings"
        return Refused(object=address(declared), reason=reason, remedy="use a routing key without `~`")
    for name, value in declared.arguments.items():
        if value is None:
            reason = f"the management API cannot carry the empty value of argument {name}"
            return Refused(object=address(declared), reason=reason, remedy="give it a value")
    return None


def needs(declared: DeclaredObject, user: str, vhost: str) -> str:
    """Say which permission a user lacks who was refused access to an object."""
    who = f'{address(declared)}: user "{user}" may not do this in vhost "{vhost}"; it needs '
    match declared:
        case Policy():
            return f"{who}the tag policymaker (rabbitmqctl set_user_tags {user} policymaker)"
        case Binding():
            end = declared.destination
            return f'{who}write permission on "{end}" and read permission on "{declared.source}"'
        case Queue():
            target = declared.arguments.get("x-dead-letter-exchange")
        case Exchange():
            target = declared.arguments.get("alternate-exchange")
    if target is None:
        return f'{who}configure permission on "{declared.name}"'
    end = target or "amq.default"  # what the exchange without a name is called here (measured)
    return f'{who}configure permission on "{declared.name}", read permission on it and write permission on "{end}"'


def _value(text: str) -> str:
    if text.strip() == "none":
        return "not set"
    quoted = _VALUE.fullmatch(text.strip())
    if not quoted:
        return text.strip()
    return quoted["plain"] if quoted["typed"] is None else quoted["typed"]


def _invalid(match: re.Match[str]) -> str:
    argument, why = match["argument"], match["why"].strip()
    if on_type := _ON_TYPE.fullmatch(match["why"]):
        return f"{argument} is not possible on a queue of type {on_type['type']}"
    detail = why.removeprefix(":").strip().strip('"')
    return f"{argument} is invalid" + (f": {detail}" if detail else " for this type of queue")


def _remedy(declared: DeclaredObject) -> str:
    return "change the policy in the file" if isinstance(declared, Policy) else ""
