"""What the table of a witness holds, and what is the same for all of them."""

from __future__ import annotations

import time
from datetime import timedelta
from hashlib import blake2b

from holdfast.errors import NonRetryable
from holdfast.model.deeds import Deed

TABLE = "holdfast_witness"
LONGEST = 255
"""Characters of a text in the key: every database has an index for so many."""


PAGE = 500
"""Runs that are looked at together when deeds are forgotten."""


def now() -> int:
    """Return the time by this machine's clock, in microseconds: for pruning only."""
    return time.time_ns() // 1_000


def before(older_than: timedelta) -> int:
    """Return what was done at this time or earlier may be forgotten."""
    if older_than < timedelta(0):
        raise ValueError("A witness forgets what is older than a positive time.")
    return now() - older_than // timedelta(microseconds=1)


def short(key: str) -> str:
    """Return the key, or a shorter text for a very long one that no other key has."""
    if len(key) <= LONGEST:
        return key
    digest = blake2b(key.encode(), digest_size=16).hexdigest()
    return f"{key[: LONGEST - len(digest) - 1]}~{digest}"


def outcome_of(deed: Deed, outcome: bytes | memoryview | None) -> bytes:
    """Return what is known of a deed that was done."""
    if outcome is None:
        raise NonRetryable(
            f"The step {deed.key} of run {deed.run} ended its transaction itself, so that its "
            f"result is not known. Leave commits to the witness."
        )
    return bytes(outcome)
