"""Feed decode with messages that nobody meant: `python -m tests.fuzz.decode --count 1000000 --processes 2`.

What must hold of each: decode returns one of its three answers and raises nothing, within a second, and what it says
can be written into a header. Ends with 1, and the seed of each escape, when it does not hold.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter

from amqpkit.deliver.headers import read_key, read_past
from amqpkit.deliver.payload import Decoded, Invalid, TooNew, decode, registry
from tests.fuzz.messages import ACCEPTS, PAYLOADS, Maker

BATCH = 1000
"""Messages made from one seed."""
SLOW = 1.0
"""Seconds of processor time; a message that takes longer holds up the loop."""


def run_batch(seed: int, count: int = BATCH) -> tuple[Counter[str], list[str]]:
    """Decode the messages of one seed; gives what they came to, and a line for each escape."""
    known, maker = registry(PAYLOADS), Maker(seed)
    tally: Counter[str] = Counter()
    escapes: list[str] = []
    for number in range(count):
        received = maker.message()
        begun = time.process_time()
        try:
            read_past(received)
            read_key(received)
            decoding = decode(received, known, ACCEPTS)
            assert isinstance(decoding, Decoded | Invalid | TooNew), type(decoding)
            if not isinstance(decoding, Decoded):
                decoding.reason.encode()
                assert 0 < len(decoding.reason) < 2000
            repr(decoding)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            escapes.append(f"seed {seed}, message {number}: {error!r:.300}")
            continue
        took = time.process_time() - begun
        if took > SLOW:
            escapes.append(f"seed {seed}, message {number}: took {took:.1f} s")
        tally[type(decoding).__name__] += 1
    return tally, escapes


def _nice() -> None:
    os.nice(19)


def main() -> int:
    """Run, and say how it went."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--count", type=int, default=1_000_000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--processes", type=int, default=2)
    given = options.parse_args()
    seeds = range(given.seed, given.seed + -(-given.count // BATCH))
    tally: Counter[str] = Counter()
    escapes: list[str] = []
    begun = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(given.processes, initializer=_nice) as pool:
        for found, told in pool.imap_unordered(run_batch, seeds, chunksize=4):
            tally += found
            escapes += told
    took = time.monotonic() - begun
    counts = ", ".join(f"{count:,} {name}" for name, count in sorted(tally.items()))
    print(
        f"{tally.total():,} messages, seeds {seeds[0]} to {seeds[-1]}, {took:.0f} s: {counts}; {len(escapes)} escapes"
    )
    for line in escapes:
        print(line, file=sys.stderr)
    return 1 if escapes else 0


if __name__ == "__main__":
    sys.exit(main())
