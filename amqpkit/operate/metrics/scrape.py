"""Reading the handling times of workers from their /metrics; needs the extra `prometheus`."""

import asyncio
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import urlsplit
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from amqpkit.errors import ConnectionFailed

TIMEOUT: Final = 5.0
MOST: Final = 16 * 1024 * 1024
"""Bytes that are read of an answer."""
Buckets = dict[float, float]


async def handling_times(urls: Iterable[str]) -> dict[str, Buckets]:
    """Scrape workers and add up their `amqpkit_handling_seconds` by queue: bound in seconds to count at or below it.

    Raises ConnectionFailed for a worker that does not answer or answers something else.
    """
    total: dict[str, Buckets] = defaultdict(lambda: defaultdict(float))
    for text in await asyncio.gather(*(asyncio.to_thread(_get, url) for url in urls)):
        for queue, bound, count in _buckets(text):
            total[queue][bound] += count
    return total


def quantile(buckets: Mapping[float, float], q: float) -> float | None:
    """Estimate a quantile as Prometheus does: linear within its bucket; None when nothing was observed."""
    bounds = sorted(buckets)
    if not bounds or not buckets[bounds[-1]]:
        return None
    rank, below, lower = q * buckets[bounds[-1]], 0.0, 0.0
    for bound in bounds:
        if buckets[bound] >= rank:
            if math.isinf(bound):
                return lower  # all that is known: it is more than the last bound
            return lower + (bound - lower) * (rank - below) / (buckets[bound] - below)
        below, lower = buckets[bound], bound
    return None


def _buckets(text: str) -> Iterable[tuple[str, float, float]]:
    for family in text_string_to_metric_families(text):
        if family.name == "amqpkit_handling_seconds":
            for sample in family.samples:
                if sample.name.endswith("_bucket"):
                    yield sample.labels["queue"], float(sample.labels["le"]), sample.value


def _get(url: str) -> str:
    whole = _address(url)
    try:
        with urlopen(whole, timeout=TIMEOUT) as answer:  # noqa: S310 - the scheme is checked
            text: str = answer.read(MOST).decode()
    except (OSError, ValueError) as error:
        msg = f"no worker's metrics at {whole}: {getattr(error, 'reason', error)}"
        raise ConnectionFailed(msg) from error
    if "amqpkit_" not in text:
        msg = f"what answers at {whole} is no worker of amqpkit"
        raise ConnectionFailed(msg)
    return text


def _address(url: str) -> str:
    address = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(address)
        if parts.scheme in ("http", "https") and parts.hostname:
            return address if parts.path.strip("/") else f"{address.rstrip('/')}/metrics"
    except ValueError:
        pass  # no address either
    msg = f'"{url}" is no address of a worker\'s metrics; write http://HOST:9108'
    raise ConnectionFailed(msg)
