"""A short run of the fuzzer; the long one is `python -m tests.fuzz.decode` (docs/fuzzing.md)."""

from collections import Counter

import pytest

from amqpkit.deliver.payload import Decoded, decode, registry
from tests.fuzz.decode import run_batch
from tests.fuzz.messages import ACCEPTS, PAYLOADS, Maker


@pytest.mark.parametrize("seed", range(5))
def test_no_message_escapes(seed):
    tally, escapes = run_batch(seed)

    assert escapes == []
    assert tally.total() == 1000
    assert min(tally["Decoded"], tally["Invalid"], tally["TooNew"]) > 20, tally  # it reaches every answer


def test_a_seed_always_makes_the_same_messages():
    def made():
        maker = Maker(7)
        return [repr(maker.message()) for _ in range(200)]

    assert made() == made()


def test_what_is_made_reaches_every_payload_and_every_version():
    maker, known = Maker(1), registry(PAYLOADS)
    reached = Counter()
    for _ in range(5000):
        message = maker.message()
        decoding = decode(message, known, ACCEPTS)
        if isinstance(decoding, Decoded):
            reached[type(decoding.payload).__name__, message.properties.headers.get("amqpkit-version", 1)] += 1

    for expected in [("Order", 1), ("Order", 2), ("Order", 3), ("Checked", 1), ("Anything", 1)]:
        assert reached[expected] > 3, reached
