"""The seams: what the kit needs of a broker, a clock and a store, as Protocols of at most five verbs."""

import asyncio
import concurrent.futures
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, StrEnum, auto
from typing import Any, Protocol, runtime_checkable

from amqpkit.jobs import Change, Job, JobQuery
from amqpkit.model import DeclaredObject, Holding, Message, Queue, Received, Rights, Surroundings, Topology


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """Who answered: its product version (`4.3.6`) and the cluster's name."""

    version: str
    cluster_name: str


class Delivery(Received, Protocol):
    """A received message and its end: exactly one of `ack`, `requeue` and `refuse`, once.

    A verb on a delivery whose channel is gone does nothing: the broker redelivers by itself.
    `alive` says so beforehand. Verbs return at once; acks are merged and sent within the loop turn.
    """

    @property
    def alive(self) -> bool:
        """Whether the channel that it came on still stands."""

    def forget(self) -> None:
        """Let go of body and properties, which are read no more: whoever holds many needs only their ends."""

    def ack(self) -> None:
        """Settle: the broker forgets the message."""

    def requeue(self) -> None:
        """`basic.nack(requeue=True)`: back to the queue at once (on 4.3 it does not count as a crash)."""

    def refuse(self) -> None:
        """`basic.nack(requeue=False)`: to the queue's own dead-letter exchange, untouched."""


class Subscription(Protocol):
    """One consumer on one queue, kept alive by its transport."""

    @property
    def ready(self) -> bool:
        """Whether the broker delivers to us now."""

    @property
    def tag(self) -> str:
        """The consumer tag under which the broker lists us; another one after every loss, empty before the first."""

    @property
    def ended(self) -> asyncio.Future[None]:
        """Done when the transport has given up for good: it carries the BrokerError."""

    async def pause(self) -> None:
        """Stop deliveries (`basic.cancel`); what was delivered can still be settled. Final: it does not resume."""

    async def close(self) -> None:
        """End the consumer's channel after every ack so far has safely reached the broker.

        Quorum queues lose acks that are followed at once by a close (measured): the transport sees to it.
        """


class Transport(Protocol):
    """The way to a broker for messages; keeps its connections alive by itself."""

    @property
    def broker(self) -> BrokerInfo:
        """Who answered; only after `open`."""

    @property
    def blocked(self) -> bool:
        """Whether the broker is in an alarm and has told us that it takes no publishes (`connection.blocked`)."""

    async def open(self) -> None:
        """Connect; raises AccessRefused at once, ConnectionFailed when nobody answers within the timeout."""

    def publish(
        self, exchange: str, routing_key: str, message: Message, *, mandatory: bool = True, timeout: float = 30.0
    ) -> asyncio.Future[None]:
        """Send now or as soon as a connection stands; a plain call.

        The future is done when the broker has confirmed (and routed, if mandatory), or carries a PublishError.
        While the broker blocks us nothing is sent: what waits becomes BrokerBlocked at its deadline, what was sent
        before we knew PublishUncertain.
        Unsendable is carried too, never raised. `timeout` in seconds covers everything. Cancelling the future
        abandons the wait, not the message.
        """

    async def consume(self, queue: str, *, prefetch: int, deliver: Callable[[Delivery], None]) -> Subscription:
        """Start a consumer; `deliver` is a plain call made for each delivery, and must only enqueue.

        Raises QueueMissing or AccessRefused when that is so from the start; later losses are the transport's
        own to mend.
        """

    async def depth(self, queue: str) -> int:
        """How many messages are ready there (passive declare), in an alarm too; raises QueueMissing."""

    async def close(self) -> None:
        """Close the connections; unconfirmed publishes become PublishUncertain."""


class BlockingTransport(Protocol):
    """The way to a broker for publishers that block; safe from any thread, and after a fork."""

    @property
    def broker(self) -> BrokerInfo:
        """Who answered; only after `open`."""

    @property
    def blocked(self) -> bool:
        """Whether the broker is in an alarm and has told us that it takes no publishes (`connection.blocked`)."""

    def open(self) -> None:
        """Connect; raises AccessRefused at once, ConnectionFailed when nobody answers within the timeout."""

    def publish(
        self, exchange: str, routing_key: str, message: Message, *, mandatory: bool = True, timeout: float = 30.0
    ) -> concurrent.futures.Future[None]:
        """Send now or as soon as a connection stands; returns at once.

        What the future tells is what a Transport's tells. It cannot be cancelled: who no longer wants to wait stops
        waiting. Its callbacks may run in a thread of the transport's own.
        """

    def depth(self, queue: str, *, timeout: float = 30.0) -> int:
        """How many messages are ready there, in an alarm too; raises QueueMissing, ConnectionFailed at the timeout."""

    def close(self) -> None:
        """Give what is under way a moment, then close; unconfirmed publishes become PublishUncertain."""


class Admin(Protocol):
    """The way to a broker for declarations, in one vhost."""

    async def identify(self) -> BrokerInfo:
        """Say who answers; raises AccessRefused, ConnectionFailed."""

    async def read(self) -> Topology:
        """Read what is there as a Topology (exchanges, queues, bindings, policies; not the broker's own)."""

    async def create(self, wanted: DeclaredObject) -> None:
        """Declare an object (a policy is overwritten); raises Refused."""

    async def delete(self, unwanted: DeclaredObject) -> None:
        """Delete an object; one that is missing is fine."""

    async def close(self) -> None:
        """Give back the connections."""


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """What a broker counts of one queue, up to some seconds late; None is what it does not say.

    `acked` is a total, rates are messages a second over the last minute, `head` is the timestamp of the next message.
    `unlimited` says that no delivery limit is in force, whatever was declared.
    """

    ready: int = 0
    unacked: int = 0
    acked: int | None = None
    ack_rate: float | None = None
    publish_rate: float | None = None
    head: datetime | None = None
    unlimited: bool | None = None
    ready_bytes: int | None = None
    """Of the bodies of those that are ready."""


@dataclass(frozen=True, slots=True)
class ListedConsumer:
    """A consumer as the broker lists it; `timeout` is the broker's own for its deliveries, in seconds."""

    queue: str
    tag: str
    timeout: float | None = None


class Statistics(Protocol):
    """The way to what a broker counts, in one vhost."""

    async def figures(self) -> Mapping[str, QueueFigures]:
        """Read every queue's figures, by name; raises BrokerError."""

    async def consumers(self) -> Sequence[ListedConsumer]:
        """List who consumes; raises BrokerError."""


@runtime_checkable
class Surveyor(Protocol):
    """An Admin that also sees what stands around declarations; the tag `management` is enough."""

    async def surroundings(self) -> Surroundings:
        """Read operator policies, limits, denied features and who we are; raises AccessRefused, ConnectionFailed."""

    async def holdings(self, queues: Collection[str]) -> Mapping[str, Holding]:
        """Count messages and consumers, up to 10 s late on RabbitMQ; a queue that is missing is left out."""


@dataclass(frozen=True, slots=True)
class Asker:
    """Who changes a vhost; `rights` is None when the broker does not tell this user, or has none of its own."""

    user: str
    vhost: str
    rights: Rights | None = None


class Denied(StrEnum):
    """Which permission is missing for an object."""

    CONFIGURE = "configure"
    WRITE = "write"
    READ = "read"
    TOPIC = "topic"
    """To bind by this routing key; given by topic permissions."""


@runtime_checkable
class Gatekeeper(Protocol):
    """An Admin that knows beforehand what it will be refused."""

    async def asker(self) -> Asker | None:
        """Say who asks; None when somebody else does what is denied to that user."""

    async def denied(self, wanted: DeclaredObject) -> Denied | None:
        """Ask whether an object may be made or bound, and make nothing; None: the broker does not deny it.

        Raises ConnectionFailed.
        """


class Sentry(Protocol):
    """What pruning needs of AMQP: counts that do not lag, and a deletion that takes no message along."""

    async def look(self, queue: str) -> Holding | None:
        """Count what is ready and who consumes, now (what is unacknowledged is not counted); None: it is missing."""

    async def delete_empty(self, queue: Queue, *, in_use: bool = False) -> bool:
        """Delete a queue unless it holds a message or, if not `in_use`, has a consumer; say whether it is gone.

        Of a quorum queue that is only safe behind a fence, and, in use, while nobody publishes to it: RabbitMQ knows no
        `if-empty` for it.
        """


class Clock(Protocol):
    """Time for those who perform; judgement gets it as an argument."""

    def now(self) -> datetime:
        """Now, aware, in UTC."""

    async def sleep(self, seconds: float, /) -> Any:
        """Wait."""

    def call_later(self, seconds: float, callback: Callable[[], object], /) -> Callable[[], None]:
        """Call back after a while unless the returned function is called before."""


class Hold(Enum):
    """What a store says to a claim."""

    CLAIMED = auto()
    DONE = auto()
    HELD = auto()


@dataclass(frozen=True, slots=True)
class Claimed:
    """The answer to a claim; `seconds` is how long a held lease may last."""

    hold: Hold
    seconds: float = 0.0


class IdempotencyStore(Protocol):
    """Who works on what, and what is done; `key` is queue + message key, `owner` one delivery in one worker.

    Every verb raises StoreUnavailable when the store cannot be asked: the caller holds the message and asks again.
    Times are the store's own clock's, so that workers whose clocks differ agree.
    """

    async def claim(self, key: str, *, owner: str, lease: float) -> Claimed:
        """Take the key for `lease` seconds, unless it is done or another owner holds it; ours already is ours still."""

    async def renew(self, key: str, *, owner: str, lease: float) -> bool:
        """Let our claim last `lease` seconds from now; False when it is no longer ours (what we have completed is)."""

    async def complete(self, key: str, *, owner: str, result: bytes | None) -> bool:
        """Mark it done with the handler's result; False when it was no longer ours (done by us before is True).

        A claim that ran out and that nobody else has taken is completed all the same.
        """

    async def release(self, key: str, *, owner: str) -> None:
        """Give the key back; nothing happens unless we hold it and it is not done."""

    async def close(self) -> None:
        """Give back connections."""


class Transaction(Protocol):
    """A caller's own database transaction that also completes a claim: `with` or `async with`, as the target is."""

    def __enter__(self) -> Any:
        """Begin, or join what the caller has begun; gives the connection or session to work with."""

    def __exit__(self, *error: object) -> bool | None:
        """Complete the claim and commit, or roll back; raises LeaseLost (rolled back) when the claim was lost."""

    async def __aenter__(self) -> Any:
        """Begin, awaited."""

    async def __aexit__(self, *error: object) -> bool | None:
        """End, awaited."""


@runtime_checkable
class TransactionalStore(Protocol):
    """A store that can complete a claim inside the caller's transaction, in the same database."""

    def transaction(self, key: str, *, owner: str, target: Any, result: bytes | None = None) -> Transaction:
        """Wrap a SQLAlchemy engine, connection or session, sync or async; raises TypeError for anything else."""


class JobLog(Protocol):
    """What is known of jobs, which may be late; every verb raises StoreUnavailable when it cannot be asked.

    No delivery waits for it: what it has missed, the next news of the same job puts right.
    """

    async def record(self, changes: Sequence[Change]) -> int:
        """Take news in, all or none; the same news again changes nothing. Tells how many came too late to count."""

    async def get(self, job: str) -> Job | None:
        """Look one up."""

    async def find(self, query: JobQuery) -> Sequence[Job]:
        """Look several up, the newest first."""

    async def cancel(self, job: str) -> Job | None:
        """Ask that a job be given up, unless it has ended; None when nothing is known of it."""

    async def close(self) -> None:
        """Give back connections."""


class StepState(StrEnum):
    """What is known of a step."""

    DONE = "done"
    UNDONE = "undone"
    GIVEN_UP = "given-up"
    """No step but the mark that undoing has begun; its name is empty."""


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step of a job: its result as JSON, and the method that undoes it; `position` counts as they are begun."""

    name: str
    state: StepState
    position: int = 0
    result: str = "null"
    undo: str = ""


class Steps(Protocol):
    """Which steps of a job are finished; `job` is queue + message key. Verbs raise StoreUnavailable."""

    async def load(self, job: str) -> Sequence[StepRecord]:
        """Give all that is known of a job, in the order of positions."""

    async def save(self, job: str, record: StepRecord) -> StepRecord:
        """Write a record down, and give the one that stands: a step that is done is not done again by another."""

    async def close(self) -> None:
        """Give back connections."""


@runtime_checkable
class TransactionalSteps(Protocol):
    """Steps that can be written down inside the caller's transaction, in the same database."""

    def recording(self, job: str, *, target: Any, record: Callable[[], StepRecord]) -> Transaction:
        """Wrap a SQLAlchemy engine, connection or session; `record` is asked at the end of the block.

        At the end raises LeaseLost, rolled back, when the step was done by another meanwhile.
        """
