"""Looking at the letters of a queue without changing it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from amqpkit.model import Received
from amqpkit.operate.dead_letters.holding import looking
from amqpkit.ports import Clock, Transport


@dataclass(frozen=True, slots=True)
class Browsed:
    """What a look came to: `total` letters were there, `seen` of them were seen; `trouble` says why not all."""

    total: int
    seen: int
    trouble: str = ""


async def browse(  # noqa: PLR0913 - keyword-only settings
    transport: Transport,
    queue: str,
    visit: Callable[[Received], bool | None],
    *,
    clock: Clock,
    limit: int | None = None,
    stop: asyncio.Event | None = None,
) -> Browsed:
    """Show each letter to `visit`, in order, until it returns False; all are given back in order.

    Where looking costs a delivery is for `costs.cost_of_looking` to say before. `visit` is a plain call within the
    loop's turn and must not wait (a blocked pipe would cost the connection). Raises QueueMissing, AccessRefused.
    """
    async with looking(transport, queue, clock=clock, stop=stop, limit=limit) as look:
        while (taken := await look.take()) is not None:
            go_on = visit(taken.delivery)
            taken.keep()
            if go_on is False:
                break
    return Browsed(look.total, look.seen, look.trouble)
