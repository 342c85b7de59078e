"""The names that amqpkit derives from a work queue's name.

Pure: knows nothing of files or brokers. Names carry the immutable facts: a changed delay is a new queue.
"""

import re
from typing import Final

RETURN_KEY: Final = "return"
"""Routing key under which a delay queue gives its messages back."""

SNOOZE_MILLISECONDS: Final = 30_000
"""The one delay of a work queue with `retry: none`."""

_SPECIAL: Final = re.compile(r"[.^$*+?()\[\]{}|\\]")


def retry_exchange(queue: str) -> str:
    """Name the exchange that takes retry copies, under the delay, and their returns."""
    return f"{queue}.retry"


def delay_queue(queue: str, delay: str) -> str:
    """Name the delay queue of one canonical delay such as `30s`."""
    return f"{queue}.retry.{delay}"


def dead_exchange(queue: str) -> str:
    """Name the exchange that takes dead letters."""
    return f"{queue}.dlx"


def dead_queue(queue: str) -> str:
    """Name the queue that keeps dead letters."""
    return f"{queue}.dlq"


def policy(queue: str) -> str:
    """Name the policy with the work queue's tunables."""
    return f"amqpkit.{queue}"


def parts_policy(queue: str) -> str:
    """Name the policy that keeps other people's policies off the delay and dead-letter queues."""
    return f"amqpkit.{queue}.parts"


def pattern(queue: str) -> str:
    """Match this queue and no other, as RabbitMQ (PCRE) and Python read it."""
    return f"^{escape(queue)}$"


def parts_pattern(queue: str) -> str:
    """Match the queue's delay and dead-letter queues, old delays too."""
    return rf"^{escape(queue)}\.(retry\..+|dlq)$"


def escape(name: str) -> str:
    """Escape what a regular expression would read; less than `re.escape`, so that policies stay readable."""
    return _SPECIAL.sub(r"\\\g<0>", name)
