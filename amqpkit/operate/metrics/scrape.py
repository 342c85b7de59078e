"""Reading the handling times of workers from their /metrics; needs the extra `prometheus`."""

import asyncio
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from http.client import HTTPException
from typing import Final
from urllib.parse import urlsplit
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from amqpkit.errors import ConnectionFailed

TIMEOUT: Final = 5.0
MOST: Final = 16 * 1024 * 1024
"""Bytes that are read of an answer."""
Buckets = dict[float, float]


async def handling_times(urls: Iterable[str]) -> tuple[dict[str, Buckets], tuple[str, ...]]:
    """Scrape workers and add up their `amqpkit_handling_seconds` by queue: bound in seconds to count at or below it.

    Also gives why workers could not be asked: one that is down must not hide what the others say. Raises
    ConnectionFailed for what is no address.
    """
    addresses = [_address(url) for url in urls]
    total: dict[str, Buckets] = defaultdict(lambda: defaultdict(float))
    silent = []
    for answer in await asyncio.gather(*(asyncio.to_thread(_get, each) for each in addresses), return_exceptions=True):
        if isinstance(answer, ConnectionFailed):
            silent.append(str(answer))
        elif isinstance(answer, BaseException):
            raise answer
        else:
            for queue, bound, count in answer:
                total[queue][bound] += count
    return total, tuple(silent)


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


def _get(address: str) -> list[tuple[str, float, float]]:
    try:
        with urlopen(address, timeout=TIMEOUT) as answer:  # noqa: S310 - the scheme is checked
            text: str = answer.read(MOST).decode()
        found = list(_buckets(text))
    except (OSError, HTTPException, ValueError, KeyError) as error:
        msg = f"no worker's metrics at {address}: {getattr(error, 'reason', error)}"
        raise ConnectionFailed(msg) from error
    if "amqpkit_" not in text:
        msg = f"what answers at {address} is no worker of amqpkit"
        raise ConnectionFailed(msg)
    return found


def _buckets(text: str) -> Iterable[tuple[str, float, float]]:
    for family in text_string_to_metric_families(text):
        if family.name == "amqpkit_handling_seconds":
            for sample in family.samples:
                if sample.name.endswith("_bucket"):
                    yield sample.labels["queue"], float(sample.labels["le"]), sample.value


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
