"""What a migration did, and how it ends when it does not end well."""

from dataclasses import dataclass, replace

from amqpkit.errors import BrokerError
from amqpkit.operate.migrate.mover import WINDOW


@dataclass(frozen=True, slots=True)
class Report:
    """What was moved by this run, what may be there twice by all runs together, what is left to be moved.

    `runs` counts this one: each that was killed may have left as many twice as are in our hands at a time.
    """

    queue: str
    moved_in: int = 0
    moved_back: int = 0
    doubled: int = 0
    left: int = 0
    runs: int = 1

    def with_moved(self, messages: int, *, forward: bool) -> "Report":
        """Add messages that were moved in, or back."""
        if forward:
            return replace(self, moved_in=self.moved_in + messages)
        return replace(self, moved_back=self.moved_back + messages)

    @property
    def duplicates(self) -> int:
        """How many messages may be there twice, at most."""
        return self.doubled + WINDOW * max(0, self.runs - 1)


class CannotMigrate(BrokerError):
    """The queue cannot be migrated, and nothing was changed; `reasons` are a sentence each."""

    def __init__(self, queue: str, reasons: tuple[str, ...]) -> None:
        """Put them into one text."""
        self.reasons = reasons
        super().__init__("\n".join(f"queue {queue}: {reason}" for reason in reasons))


class MigrationStopped(BrokerError):
    """It stopped half-way: no message is lost, what is left waits in one of the two queues, and a new run goes on."""

    def __init__(self, report: Report, reason: str) -> None:
        """Keep what was done."""
        self.report, self.reason = report, reason
        super().__init__(
            f"queue {report.queue}: stopped half-way: {reason}\n"
            f"{report.left:,} messages are left to be moved, none is lost; run the same command again to go on"
        )
