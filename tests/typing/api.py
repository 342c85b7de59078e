"""The public API as its users write it; mypy --strict must accept all of it, and refuse what is marked."""

from datetime import UTC, datetime, timedelta
from typing import assert_type

from amqpkit import (
    BlockingPublisher,
    Consumer,
    Context,
    DeadLetter,
    Discard,
    Payload,
    Publisher,
    RetryAfter,
    broker_url,
    connect,
    connect_blocking,
)


class EmailSendV1(Payload, type="email.send", version=1):
    """A payload as it was."""

    to: str

    def upgrade(self) -> "EmailSend":
        """Make the next version."""
        return EmailSend(to=self.to)


class EmailSend(Payload, type="email.send", version=2, previous=EmailSendV1, key="{to}:{copies}"):
    """A payload of a later version, with a business key."""

    to: str
    copies: int = 1


class Login(Payload, type="login", secrets_allowed="a one-time code, dead in a minute"):
    """A payload that may hold a credential."""

    password: str


class EmailCancel(Payload, type="email.cancel"):
    """A payload of the first version."""

    id: str


class InvalidAddress(ValueError):
    """Never to be tried again."""


class SendEmail(Consumer[EmailSend], queue="email.send"):
    """Awaits, and returns nothing."""

    never_retry = (InvalidAddress,)
    prefetch = 20
    concurrency = 4
    timeout = 30.0

    async def handle(self, email: EmailSend, context: Context) -> None:
        """Read payload and context."""
        assert_type(email.to, str)
        assert_type(context.attempt, int)
        assert_type(context.last_attempt, bool)
        assert_type(context.message_id, str | None)
        assert_type(context.published_at, datetime | None)
        if "@" not in email.to:
            raise InvalidAddress(email.to)


class SendInThread(Consumer[EmailSend], queue="email.send"):
    """Blocks, on a plain queue."""

    retry = None

    def handle(self, email: EmailSend, context: Context) -> str:
        """Return a result."""
        return f"{email.to} from {context.exchange}"


class Mail(Consumer[EmailSend | EmailCancel], queue="email"):
    """Several types, all verdicts."""

    async def handle(self, mail: EmailSend | EmailCancel, context: Context) -> DeadLetter | RetryAfter | Discard | None:
        """Say every verdict in every way."""
        match mail:
            case EmailSend(copies=0):
                return Discard("nothing to send")
            case EmailSend():
                return RetryAfter(30, "busy") if context.attempt == 1 else RetryAfter(timedelta(minutes=1))
            case EmailCancel(id=""):
                raise DeadLetter("no id")
            case EmailCancel():
                raise RetryAfter(datetime(2030, 1, 1, tzinfo=UTC))


class Import(Payload, type="csv.import", track=True):
    """A job."""

    file: str


class Imports(Consumer[Import], queue="imports"):
    """Steps and progress."""

    errors = {  # noqa: RUF012 - the base class says that it is a class variable
        TimeoutError: "busy",
        ValueError: ("bad-input", "The file has a mistake: {error}."),
    }

    async def handle(self, payload: Import, context: Context) -> None:
        """Await a step that is async, and one that is not."""
        assert_type(await context.step("write", self.write, payload, compensate=self.delete), int)
        assert_type(await context.step("index", self.index, compensate=self.drop, inside=object()), str)
        context.progress(0.6, "1,200 of 2,000 rows")
        context.raise_if_cancelled()
        assert_type(context.cancelled, bool)

    async def write(self, payload: Import) -> int:
        """Write rows."""
        return len(payload.file)

    def index(self) -> str:
        """Blocks."""
        return "index"

    async def delete(self, rows: int, context: Context) -> None:
        """Undo."""

    def drop(self, name: str, context: Context) -> None:
        """Undo."""


class ImportsInThread(Consumer[Import], queue="imports"):
    """Steps in a thread."""

    def handle(self, payload: Import, context: Context) -> None:
        """Do a step."""
        assert_type(context.step_blocking("count", len, payload.file), int)


async def publish(publisher: Publisher) -> None:
    """Publish in full."""
    assert_type(await publisher.publish(EmailSend(to="a@example.com")), str)
    await publisher.publish(EmailCancel(id="1"), key="1", correlation_id="c", priority=3, headers={"tenant": "t"})


async def publish_from_here(password: str | None) -> None:
    """Connect as the environment says, and as a program knows it."""
    async with connect(broker_url({"AMQP_USER": "u", "AMQP_PASSWORD": "p"})) as transport:
        assert_type(transport.blocked, bool)
    async with connect("amqp://host/v", user="u", password=password, name="mailer"):
        pass
    connect_blocking("amqp://u@host/v", password=password).close()
    connect_blocking(broker_url({})).close()


def publish_blocking(publisher: BlockingPublisher) -> None:
    """Publish in full, from a thread."""
    assert_type(publisher.publish(EmailSend(to="a@example.com")), str)
    publisher.publish(EmailCancel(id="1"), key="1", correlation_id="c", priority=3, headers={"tenant": "t"})
    for outcome in publisher.publish_many([EmailCancel(id="1")], timeout=3.0, overload="fail"):
        assert_type(outcome.message_id, str)


email = EmailSend(to="a@example.com")
assert_type(SendEmail.payloads, tuple[type[Payload], ...])

# --- what a type checker must refuse: an unneeded ignore is an error too -------------------------------------

email.to = "b@example.com"  # type: ignore[misc]
EmailSend()  # type: ignore[call-arg]
RetryAfter("30s")  # type: ignore[arg-type]


class NoPayload(Consumer[int], queue="q"):  # type: ignore[type-var]
    """Handles what is no payload."""

    def handle(self, payload: int, context: Context) -> None:
        """Never."""


class OtherPayload(Consumer[EmailSend], queue="q"):
    """Handles another payload than it says."""

    def handle(self, email: EmailCancel, context: Context) -> None:  # type: ignore[override]
        """Never."""


class NoContext(Consumer[EmailSend], queue="q"):
    """Takes too little."""

    def handle(self, email: EmailSend) -> None:  # type: ignore[override]
        """Never."""
