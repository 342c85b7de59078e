"""The shop's topology and consumers for tests, in memory and on a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from amqpkit import Consumer, Topology, load_topology
from examples.shop.consumers import ChargeCard, EnrichLead, ReportLead, ResizeImage, SendEmail

ROOT = Path(__file__).parents[2]
FILE = ROOT / "topology" / "shop.yaml"
SHORT_DELAYS = ROOT / "examples" / "shop" / "short-delays.yaml"


def topology(*, short_delays: bool = False) -> Topology:
    """Load it."""
    return load_topology(FILE, SHORT_DELAYS) if short_delays else load_topology(FILE)


class Shop:
    """The shop's consumers, with what a test wants to look at."""

    def __init__(
        self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep, crash: Callable[[], None] | None = None
    ) -> None:
        self.at_once = self.most_at_once = 0
        self._sleep = sleep
        self.email, self.bill, self.enrich, self.report = SendEmail(), ChargeCard(), EnrichLead(), ReportLead()
        self.resize = ResizeImage(sleep=self._counted_sleep, crash=crash or _no_crash)

    @property
    def consumers(self) -> tuple[Consumer, ...]:
        return (self.email, self.resize, self.bill, self.enrich, self.report)

    async def _counted_sleep(self, seconds: float) -> None:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await self._sleep(seconds)
        self.at_once -= 1


def _no_crash() -> None:
    msg = "this test has no picture that crashes its reader"
    raise AssertionError(msg)
