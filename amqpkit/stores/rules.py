"""What all stores agree on: how a key is written down, how large a result may be, how long what is done is kept.

Knows no store, no clock and no database.
"""

import hashlib
from datetime import timedelta
from typing import Final

KEEP: Final = timedelta(days=7)
"""How long a finished key is remembered; a duplicate that comes later is handled again."""

RESULT_LIMIT: Final = 64 * 1024
"""In bytes. A larger result is not stored; its key is done all the same."""

PLAIN_LIMIT: Final = 512
"""In bytes of UTF-8. Indexes take no longer keys than some 2,700 bytes, and PostgreSQL no NUL at all."""

_DIGEST: Final = "sha256:"


def stored_key(key: str) -> str:
    """Write a key as every store can: itself, or its digest when it is too long or holds what a database refuses.

    A key that looks like a digest is digested too, so that two keys never share a place.
    """
    encoded = key.encode("utf-8", "surrogatepass")
    fits = len(encoded) <= PLAIN_LIMIT and key.isprintable() and not key.startswith(_DIGEST)
    return key if fits else _DIGEST + hashlib.sha256(encoded).hexdigest()


def stored_result(result: bytes | None) -> bytes | None:
    """Give what is stored of a result: all of it, or nothing."""
    return None if result is None or len(result) > RESULT_LIMIT else result


def keep_seconds(keep: timedelta) -> float:
    """Check how long finished keys are to be kept; raises ValueError for what would forget them at once."""
    if keep <= timedelta(0):
        raise ValueError(f"keep={keep!r}: finished keys must be kept for a while, or duplicates are handled again")
    return keep.total_seconds()
