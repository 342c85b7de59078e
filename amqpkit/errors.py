"""Every error that amqpkit raises.

AmqpkitError
├── TopologyError            the file is wrong; carries every Problem, each with its place
├── StalePlan                the broker or the file is not any more what a saved plan was made for
├── ConsumerError            a Consumer, a Payload or their fit to the topology is wrong
├── BrokerError              the broker or the way to it
│   ├── ConnectionFailed     nobody answers there (worth another try)
│   ├── AccessRefused        wrong password, missing vhost, missing permission (trying again will not help)
│   ├── QueueMissing         the queue to consume from is not there
│   ├── Locked               somebody else is changing this vhost (worth another try)
│   └── Refused              the broker refused a declaration
├── StoreUnavailable         the idempotency store cannot be asked (worth another try)
├── StepsUnavailable         what steps of a job are done cannot be asked or written down; a failure of the handler
├── LeaseLost                another worker has taken the message over; what was done here is rolled back
└── PublishError             a message's fate; never raised for a confirmed and routed message
    ├── Unroutable           no queue would get it (or its exchange is missing): nothing was stored
    ├── Nacked               the broker refused it, as a full queue does; other queues of a fan-out may have it
    ├── Overloaded           its queue is above `limits.depth`: nothing was sent
    ├── PublishTimeout       not sent within the deadline: nothing was stored
    │   └── BrokerBlocked    because the broker is in an alarm and takes nothing
    ├── PublishUncertain     sent, and its fate is unknown: it may be stored now or later
    └── Unsendable           no broker could ever take it
        └── MessageTooLarge  body or headers over the limit
"""

from collections.abc import Iterable
from dataclasses import dataclass


class AmqpkitError(Exception):
    """Whatever amqpkit raises on purpose."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of a topology file: where, what, and what to do."""

    place: str
    """`file:line:column`, or the file alone."""
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


class TopologyError(AmqpkitError):
    """The topology file is wrong; all its problems at once."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        """Keep the problems in the order in which the file has them."""
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class StalePlan(AmqpkitError):
    """A saved plan does not fit any more, or is none: it must be made again."""


class ConsumerError(AmqpkitError):
    """A consumer, a payload class or their fit to the topology is wrong."""


class BrokerError(AmqpkitError):
    """The broker, or the way to it, failed."""


class ConnectionFailed(BrokerError):
    """Nobody answers at the broker's address; another try may work."""


class AccessRefused(BrokerError):
    """The broker knows us and says no: password, vhost or permission. Trying again will not help."""


class Locked(BrokerError):
    """Somebody else holds the lock of the vhost; another try may work when they are done."""


class QueueMissing(BrokerError):
    """The queue to consume from does not exist."""

    def __init__(self, queue: str, remedy: str = "run `amqpkit apply` first") -> None:
        """Name the queue and the remedy; the usual one is for a queue that a topology file declares."""
        self.queue = queue
        super().__init__(f'queue "{queue}" does not exist on the broker; {remedy}')


class Refused(BrokerError):
    """The broker refused to declare an object.

    `object` is its address (`queue email.send`), `argument` what differs when the broker names it,
    `wanted` and `actual` both values, `remedy` what to do.
    """

    def __init__(  # noqa: PLR0913 - an error's five facts
        self,
        *,
        object: str,  # noqa: A002 - the word that the field's people use
        reason: str,
        argument: str = "",
        wanted: str = "",
        actual: str = "",
        remedy: str = "",
    ) -> None:
        """Put the facts into one sentence."""
        self.object, self.reason, self.argument = object, reason, argument
        self.wanted, self.actual, self.remedy = wanted, actual, remedy
        differs = argument and (wanted or actual)
        what = f"{argument} is {actual} on the broker, the file wants {wanted}" if differs else reason
        super().__init__(f"{object}: {what}" + (f"; {remedy}" if remedy else ""))


class StoreUnavailable(AmqpkitError):
    """The idempotency store cannot be asked; another try may work."""


class StepsUnavailable(AmqpkitError):
    """What steps of a job are done cannot be asked, or written down: the handling fails, and is tried again."""


class LeaseLost(AmqpkitError):
    """Our claim on a message ran out and another worker took it over; the transaction here is rolled back."""


class PublishError(AmqpkitError):
    """A message was not confirmed; the class says what is known of it."""

    verb = "was not published"

    def __init__(self, reason: str = "", *, exchange: str = "", routing_key: str = "", message_id: str = "") -> None:
        """Name the message and where it was going."""
        self.exchange, self.routing_key, self.message_id, self.reason = exchange, routing_key, message_id, reason
        if not (exchange or routing_key or message_id):
            super().__init__(reason or self.verb)  # it never got so far as to have an address
            return
        where = f'exchange "{exchange[:255]}"' if exchange else "the default exchange"
        key = routing_key[:255]  # a longer one is the very fault, and need not be repeated whole
        text = f'message {message_id[:255] or "without id"} to {where} with key "{key}" {self.verb}'
        super().__init__(f"{text}: {reason}" if reason else text)


class Unroutable(PublishError):
    """No queue would get the message, or its exchange does not exist: nothing was stored."""

    verb = "reaches no queue"


class Nacked(PublishError):
    """The broker refused the message, as a full queue does; other queues of a fan-out may have it."""

    verb = "was refused by the broker"


class PublishTimeout(PublishError):
    """The message was not sent within the deadline; nothing was stored."""

    verb = "could not be sent in time"


class BrokerBlocked(PublishTimeout):
    """The broker is in a memory or disk alarm and has blocked publishers; the message was not sent, nothing was stored.

    What was sent before we heard of it is PublishUncertain: the broker processes it after the alarm (measured).
    """

    verb = "could not be sent: the broker blocks publishers"


class Overloaded(PublishError):
    """A queue that the message would reach is above its `limits.depth`; nothing was sent.

    `queue` and `depth` say which and how full, `retry_after` in seconds when to ask again.
    """

    verb = "was held back"

    def __init__(  # noqa: PLR0913 - an error's facts
        self,
        reason: str = "",
        *,
        queue: str = "",
        depth: int = 0,
        retry_after: float = 1.0,
        exchange: str = "",
        routing_key: str = "",
        message_id: str = "",
    ) -> None:
        """Keep the facts."""
        self.queue, self.depth, self.retry_after = queue, depth, retry_after
        super().__init__(reason, exchange=exchange, routing_key=routing_key, message_id=message_id)


class PublishUncertain(PublishError):
    """The message was sent and its fate is unknown: it may be stored now or later."""

    verb = "was sent, but no confirm came"


class Unsendable(PublishError):
    """No broker could ever take this message as it is."""

    verb = "cannot be sent"


class MessageTooLarge(Unsendable):
    """Body over the broker's limit, or headers over one frame (broker-measured: 131,064 bytes)."""

    verb = "is too large"
