"""Whether a worker does its work, as the broker sees it."""

from collections.abc import Mapping

from amqpkit.errors import BrokerError
from amqpkit.ports import Statistics, Subscription


async def trouble_of(
    subscriptions: Mapping[str, Subscription | None], statistics: Statistics, *, ready: bool
) -> str | None:
    """Name what keeps the worker from its messages; None when it consumes every queue and the broker lists it there."""
    if silent := [queue for queue, mine in subscriptions.items() if mine is None or not mine.ready]:
        return f"not consuming {', '.join(silent)}"
    try:
        listed = {(consumer.queue, consumer.tag) for consumer in await statistics.consumers()}
    except BrokerError as error:
        return f"whether the broker lists our consumers is not known: {error}"
    unlisted = [queue for queue, mine in subscriptions.items() if mine is not None and (queue, mine.tag) not in listed]
    if unlisted:
        return f"the broker does not list our consumer of {', '.join(unlisted)} (it may take 5 s after a start)"
    return None if ready else "messages are held: a copy cannot be placed, or the store does not answer"
