"""A wrong command line: exit code 64."""

from amqpkit.errors import AmqpkitError


class UsageError(AmqpkitError):
    """The command line asks for something that cannot be; says what to write instead."""
