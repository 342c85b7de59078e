"""The real clock: the system's time and the running loop's timers."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime


class SystemClock:
    """A ports.Clock by asyncio."""

    def now(self) -> datetime:
        """Now, aware, in UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float, /) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], object], /) -> Callable[[], None]:
        """Call back after a while unless the returned function is called before."""
        return asyncio.get_running_loop().call_later(seconds, callback).cancel
