"""The changes that there are: a closed set, each with its address, both sides, risk, reason and what it takes. Pure."""

from dataclasses import dataclass
from typing import Final, assert_never

from amqpkit.declare import identity
from amqpkit.declare.plan.differences import Difference
from amqpkit.model import Binding, DeclaredObject, Exchange, Holding, Policy, Queue

POLICYMAKER: Final = "policymaker"
"""The tag that policies take; everything else takes permissions on names."""
DEFAULT_EXCHANGE: Final = "amq.default"
"""What the exchange without a name is called where permissions are concerned (measured)."""


@dataclass(frozen=True, slots=True)
class Create:
    """It is not there."""

    wanted: DeclaredObject


@dataclass(frozen=True, slots=True)
class Update:
    """It changes in place, and nothing that is queued feels it; of all objects only policies can."""

    wanted: Policy
    found: Policy
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class UpdateLossy:
    """A policy that is made or changed in place, and may drop messages that are queued now.

    `first` is set before `wanted` where that keeps them: RabbitMQ applies a classic queue's new length before its new
    overflow (measured: 7 of 10 messages gone at once). `losses` say what is lost how, a sentence each.
    """

    wanted: Policy
    found: Policy | None
    differences: tuple[Difference, ...]
    losses: tuple[str, ...]
    first: Policy | None = None


@dataclass(frozen=True, slots=True)
class Replace:
    """A queue or exchange that differs in what RabbitMQ never changes on a live object; never done here.

    `bindings` would have to be made again, `holding` is what a queue holds, None when nobody has asked.
    """

    wanted: Queue | Exchange
    found: Queue | Exchange
    differences: tuple[Difference, ...]
    bindings: tuple[Binding, ...] = ()
    holding: Holding | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """It is in no file, within `owns`, and was asked to go."""

    unwanted: DeclaredObject
    why: str = "it is in no file"


Change = Create | Update | UpdateLossy | Replace | Delete
ACTIONS: Final = {Create: "create", Update: "update", UpdateLossy: "update", Replace: "replace", Delete: "delete"}


def subject(change: Change) -> DeclaredObject:
    """Give the object that a change is about, as it is wanted, or as it is before it goes."""
    return change.unwanted if isinstance(change, Delete) else change.wanted


def address(change: Change) -> str:
    """Name the object of a change: `queue email.send`."""
    return identity.address(subject(change))


def before(change: Change) -> DeclaredObject | None:
    """Give what is there now."""
    match change:
        case Create():
            return None
        case Delete():
            return change.unwanted
        case Update() | UpdateLossy() | Replace():
            return change.found
        case _:
            assert_never(change)


def after(change: Change) -> DeclaredObject | None:
    """Give what will be there."""
    return None if isinstance(change, Delete) else change.wanted


def differences_of(change: Change) -> tuple[Difference, ...]:
    """Name the properties that change; none of what comes or goes whole."""
    return () if isinstance(change, Create | Delete) else change.differences


def symbol(change: Change) -> str:
    """Mark a change as plans do."""
    match change:
        case Create():
            return "+"
        case Update():
            return "~"
        case UpdateLossy():
            return "!"
        case Replace():
            return "-/+"
        case Delete():
            return "-"
        case _:
            assert_never(change)


def risk(change: Change) -> str:
    """Say in one word what a change can cost: `none`, `may_drop`, `replace`, `delete`."""
    match change:
        case Create() | Update():
            return "none"
        case UpdateLossy():
            return "may_drop"
        case Replace():
            return "replace"
        case Delete():
            return "delete"
        case _:
            assert_never(change)


def reason(change: Change) -> str:
    """Say why this change, and what to know before it."""
    match change:
        case Create():
            return "it is not there"
        case Update():
            return "it differs, and changes in place"
        case UpdateLossy():
            return "; ".join((*change.losses, *((_TWO_STEPS,) if change.first else ())))
        case Replace():
            return _replacement(change)
        case Delete():
            return change.why
        case _:
            assert_never(change)


_TWO_STEPS: Final = "done in two steps: overflow first, then the length, so that what is queued stays"


def requires(change: Change) -> tuple[str, ...]:
    """List what the user needs: the tag `policymaker`, or permissions such as `configure email.send`."""
    declared = subject(change)
    match declared:
        case Policy():
            return (POLICYMAKER,)
        case Binding():
            return (f"write {declared.destination}", f"read {declared.source}")
        case Queue():
            return _with_target(declared, "x-dead-letter-exchange", change)
        case Exchange():
            return _with_target(declared, "alternate-exchange", change)
        case _:
            assert_never(declared)


def _with_target(declared: Queue | Exchange, argument: str, change: Change) -> tuple[str, ...]:
    configure = f"configure {declared.name}"
    if isinstance(change, Delete) and isinstance(declared, Queue):
        # A policy is the fence, and a message of ours keeps others out of a quorum queue.
        plug = (f"write {DEFAULT_EXCHANGE}",) if declared.type == "quorum" else ()
        return (configure, *plug, POLICYMAKER)
    target = declared.arguments.get(argument)
    if isinstance(change, Delete) or target is None:
        return (configure,)
    return (configure, f"read {declared.name}", f"write {target or DEFAULT_EXCHANGE}")


def _replacement(change: Replace) -> str:
    text = identity.way_out(change.wanted)
    if (holding := change.holding) is not None:
        text = f"it holds {_count(holding.messages, 'message')} and has {_count(holding.consumers, 'consumer')}; {text}"
    if change.bindings:
        text += f"; replaced by hand, it would lose its {_count(len(change.bindings), 'binding')}"
    keys = [each.name for each in change.differences if each.before == "not set" and each.name in _POLICY_CAN]
    if keys and isinstance(change.wanted, Queue):
        text += f"; or set {', '.join(key.removeprefix('x-') for key in keys)} by a policy, which changes in place"
    return text


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


_POLICY_CAN: Final = frozenset(
    {
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-dead-letter-strategy",
        "x-message-ttl",
        "x-expires",
        "x-max-length",
        "x-max-length-bytes",
        "x-overflow",
        "x-delivery-limit",
        "x-consumer-timeout",
        "x-max-age",
    }
)
