"""Which queue declarations the broker takes, refuses, or takes and we cannot imitate. Pure."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from amqpkit.brokers.memory.profile import NotModelled, Profile
from amqpkit.errors import Refused
from amqpkit.model import Exchange, Queue

_TTL_MAX: Final = 315_360_000_000
_BOTH: Final = frozenset({"classic", "quorum"})
_CLASSIC: Final = frozenset({"classic"})
_QUORUM: Final = frozenset({"quorum"})
_LOCATORS: Final = ("client-local", "balanced")
Check = Callable[[Any], str | None]


def _integer(low: int | None = None, high: int | None = None, *, too_large: str = "value_too_large") -> Check:
    def check(value: Any) -> str | None:
        if isinstance(value, bool) or not isinstance(value, int):
            return f'"expected integer, got {kind_of(value)}"'
        if low is not None and value < low:
            return f"{{{'value_negative' if value < 0 else 'value_zero'},{value}}}"
        if high is not None and value > high:
            return f"{{{too_large},{value}}}"
        return None

    return check


def _text(fault: str = "", *allowed: str) -> Check:
    def check(value: Any) -> str | None:
        if not isinstance(value, str):
            return f"{{unacceptable_type,{kind_of(value)}}}"
        return fault.format(value) if fault and value not in allowed else None

    return check


def _flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else f"{{unacceptable_type,{kind_of(value)}}}"


def _anything(_value: Any) -> str | None:
    return None


# Arguments that the broker knows, in the order in which it compares them: who may have them, and which values, with
# its words for a wrong one (probed on both). What it does not know it keeps and ignores, even in comparison; so do we.
_KNOWN: Final[Mapping[str, tuple[frozenset[str], Check]]] = {
    "x-queue-type": (_BOTH, _text("\"unsupported queue type '{}'\"", "classic", "quorum")),
    "x-dead-letter-exchange": (_BOTH, _anything),
    "x-dead-letter-routing-key": (_BOTH, _text()),
    "x-dead-letter-strategy": (_QUORUM, _text("invalid_dlx_strategy", "at-most-once", "at-least-once")),
    "x-expires": (_BOTH, _integer(1, _TTL_MAX)),
    "x-max-length": (_BOTH, _integer(0)),
    "x-max-length-bytes": (_BOTH, _integer(0)),
    "x-overflow": (_BOTH, _text("invalid_overflow", "drop-head", "reject-publish", "reject-publish-dlx")),
    "x-single-active-consumer": (_BOTH, _flag),
    "x-quorum-initial-group-size": (_QUORUM, _integer(1)),
    "x-delivery-limit": (_QUORUM, _anything),
    "x-message-ttl": (_BOTH, _integer(0, _TTL_MAX)),
    "x-queue-leader-locator": (_BOTH, _text("invalid_queue_locator_arg", *_LOCATORS)),
    "x-max-priority": (_CLASSIC, _integer(0, 255, too_large="max_value_exceeded")),
    "x-queue-mode": (_CLASSIC, _anything),
    "x-queue-version": (_CLASSIC, _integer()),
}
# Known from 4.3 on; 4.0 keeps and ignores these, but for the timeout, which it obeys.
_SINCE_4_3: Final[Mapping[str, tuple[frozenset[str], Check]]] = {
    "x-consumer-timeout": (_QUORUM, _integer(0)),
    "x-consumer-disconnected-timeout": (_QUORUM, _integer(0)),
    "x-delayed-retry-type": (_QUORUM, _anything),
    "x-delayed-retry-min": (_QUORUM, _anything),
    "x-delayed-retry-max": (_QUORUM, _anything),
}
_UNMODELLED: Final = frozenset({"x-expires", "x-delayed-retry-type", "x-consumer-disconnected-timeout"})


def checked(queue: Queue, profile: Profile, vhost: str) -> Queue:
    """Give the declaration with its type settled; raises Refused as the broker would, NotModelled where we must."""
    kind = queue.arguments.get("x-queue-type", queue.type)
    if kind == "stream":
        raise NotModelled("streams")
    where = f"for queue '{queue.name}' in vhost '{vhost}'"
    settled = Queue(
        name=queue.name,
        type=str(kind),
        durable=queue.durable,
        auto_delete=queue.auto_delete,
        exclusive=queue.exclusive,
        arguments={**queue.arguments, "x-queue-type": kind},
    )
    fault = _name_fault(queue.name) or _property_fault(settled, where) or _argument_fault(settled, profile, where)
    if fault:
        raise Refused(object=f"queue {queue.name}", reason=fault)
    _admit_only_the_modelled(settled, profile)
    return settled


def _name_fault(name: str) -> str | None:
    if name.startswith("amq."):
        return f"ACCESS_REFUSED - queue name '{name}' contains reserved prefix 'amq.*'"
    if len(name.encode()) > 255:  # noqa: PLR2004 - an AMQP short string
        return f"queue name is longer than 255 bytes: '{name}'"
    return None


def _property_fault(queue: Queue, where: str) -> str | None:
    if queue.type != "quorum":
        return None
    wrong = {
        "non-durable": not queue.durable,
        "exclusive-owner": queue.exclusive,
        "auto-delete": queue.auto_delete,
        "server-named": not queue.name,
    }
    return next(
        (f"PRECONDITION_FAILED - invalid property '{name}' {where}" for name, bad in wrong.items() if bad),
        None,
    )


def _known(profile: Profile) -> Mapping[str, tuple[frozenset[str], Check]]:
    return {**_KNOWN, **_SINCE_4_3} if profile.since_4_3 else _KNOWN


def _argument_fault(queue: Queue, profile: Profile, where: str) -> str | None:
    arguments = queue.arguments
    exchange = arguments.get("x-dead-letter-exchange", "")
    if not isinstance(exchange, str):
        place = where.replace("for queue", "in queue", 1)
        return f"PRECONDITION_FAILED - invalid type '{kind_of(exchange)}' for arg 'x-dead-letter-exchange' {place}"
    known = _known(profile)
    for name, value in arguments.items():
        kinds, check = known.get(name, (_BOTH, _anything))
        if detail := check(value):
            return f"PRECONDITION_FAILED - invalid arg '{name}' {where}: {detail}"
        if queue.type not in kinds:
            return f"PRECONDITION_FAILED - invalid arg '{name}' {where} of queue type rabbit_{queue.type}_queue"
    if "x-dead-letter-routing-key" in arguments and "x-dead-letter-exchange" not in arguments:
        return f"PRECONDITION_FAILED - invalid arg 'x-dead-letter-routing-key' {where}: routing_key_but_no_dlx_defined"
    return _classic_fault(arguments, profile, where)


def _classic_fault(arguments: Mapping[str, Any], profile: Profile, where: str) -> str | None:
    """Judge what each version forgot differently: 4.3 has no first queue version, and looks at no queue mode."""
    version, mode = arguments.get("x-queue-version", 2), arguments.get("x-queue-mode", "default")
    if version not in ((2,) if profile.since_4_3 else (1, 2)):
        return f"PRECONDITION_FAILED - invalid arg 'x-queue-version' {where}: \"unsupported queue version '{version}'\""
    if not profile.since_4_3 and mode not in ("default", "lazy"):
        return f"PRECONDITION_FAILED - invalid arg 'x-queue-mode' {where}: \"unsupported queue mode '{mode}'\""
    return None


def _admit_only_the_modelled(queue: Queue, profile: Profile) -> None:
    arguments = queue.arguments
    known = _known(profile)
    for name in arguments:
        if name in _UNMODELLED and name in known:
            raise NotModelled(f'queue argument "{name}"')
    limit = arguments.get("x-delivery-limit", 0)
    if isinstance(limit, bool) or not isinstance(limit, int):
        # The broker takes anything here; what it makes of it was never probed.
        raise NotModelled("an x-delivery-limit that is no integer")
    if arguments.get("x-single-active-consumer"):
        raise NotModelled("single active consumers")
    if queue.exclusive or queue.auto_delete or not queue.name:
        raise NotModelled("exclusive, auto-delete and server-named queues")
    if queue.type == "quorum" and profile.since_4_3 and "x-max-length-bytes" in arguments:
        raise NotModelled("x-max-length-bytes on a 4.3 quorum queue, which counts metadata too")


def refuse_other(wanted: Queue, actual: Queue, profile: Profile, vhost: str) -> None:
    """Raise Refused for the first difference of a redeclaration, in the broker's words."""
    where = f"for queue '{wanted.name}' in vhost '{vhost}'"
    address = f"queue {wanted.name}"
    plain = (
        ("x-queue-type", wanted.type, actual.type),
        ("durable", _word(wanted.durable), _word(actual.durable)),
        ("auto_delete", _word(wanted.auto_delete), _word(actual.auto_delete)),
    )
    _refuse_plain(plain, where, address)
    for name in _known(profile):
        new, old = (queue.arguments.get(name) for queue in (wanted, actual))
        if new != old and name != "x-queue-type":
            raise _inequivalent(address, where, name, *_described(new, old))


def exchange_fault(exchange: Exchange, vhost: str) -> str | None:
    """Say why the broker would refuse to make an exchange, or None."""
    if not exchange.name:
        return "ACCESS_REFUSED - operation not permitted on the default exchange"
    if exchange.name.startswith("amq."):
        return f"ACCESS_REFUSED - exchange name '{exchange.name}' contains reserved prefix 'amq.*'"
    alternate = exchange.arguments.get("alternate-exchange", "")
    if not isinstance(alternate, str):
        place = f"in exchange '{exchange.name}' in vhost '{vhost}'"
        return f"PRECONDITION_FAILED - invalid type '{kind_of(alternate)}' for arg 'alternate-exchange' {place}"
    return None


def refuse_other_exchange(wanted: Exchange, actual: Exchange, vhost: str) -> None:
    """Raise Refused for the first difference of an exchange's redeclaration, in the broker's words."""
    where = f"for exchange '{wanted.name}' in vhost '{vhost}'"
    address = f"exchange {wanted.name}"
    plain = (
        ("type", wanted.type, actual.type),
        ("durable", _word(wanted.durable), _word(actual.durable)),
        ("auto_delete", _word(wanted.auto_delete), _word(actual.auto_delete)),
        ("internal", _word(wanted.internal), _word(actual.internal)),
    )
    _refuse_plain(plain, where, address)
    new, old = (exchange.arguments.get("alternate-exchange") for exchange in (wanted, actual))
    if new != old:
        raise _inequivalent(address, where, "alternate-exchange", *_described(new, old))


def _refuse_plain(pairs: tuple[tuple[str, str, str], ...], where: str, address: str) -> None:
    for name, new, old in pairs:
        if new != old:
            raise _inequivalent(address, where, name, f"'{new}'", f"'{old}'")


def _inequivalent(address: str, where: str, name: str, wanted: str, actual: str) -> Refused:
    reason = f"PRECONDITION_FAILED - inequivalent arg '{name}' {where}: received {wanted} but current is {actual}"
    return Refused(
        object=address,
        reason=reason,
        argument=name,
        wanted=_value(wanted),
        actual=_value(actual),
        remedy="it cannot be changed in place: declare it under a new name, or delete it first",
    )


def _value(described: str) -> str:
    return described.split("'")[1] if "'" in described else described


def _word(flag: bool) -> str:  # noqa: FBT001 - a value to spell, not a switch
    return str(flag).lower()


def _described(new: Any, old: Any) -> tuple[str, str]:
    """Spell two values; the broker names types only when one of the two is missing."""
    if new is not None and old is not None:
        return f"'{_plain(new)}'", f"'{_plain(old)}'"
    return _typed(new), _typed(old)


def _typed(value: Any) -> str:
    return "none" if value is None else f"the value '{_plain(value)}' of type '{kind_of(value)}'"


def _plain(value: Any) -> str:
    return _word(value) if isinstance(value, bool) else str(value)


def kind_of(value: Any) -> str:
    """Name a value's AMQP type as the broker does in its messages."""
    match value:
        case bool():
            return "bool"
        case int():
            return "signedint"
        case str():
            return "longstr"
        case float():
            return "float"
        case None:
            return "void"
        case _:
            return "table" if isinstance(value, Mapping) else "array"
