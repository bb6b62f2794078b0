"""When to try a message again."""

from __future__ import annotations

import hashlib
from datetime import timedelta

FIRST_WAIT_S = 30.0
LONGEST_WAIT_S = 1_800.0  # a mended connection is noticed within half an hour at the latest


def wait_before_retry(attempts: int, key: str, retry_after_s: float | None = None) -> timedelta:
    """Return 30 s, 1 min, 2 min ... 30 min, plus up to a quarter; never less than the receiver wished.

    `attempts`: those already made. The jitter comes from `key` and attempts, so that the same input gives the same
    wait and messages that failed together do not come back together.
    """
    doubled = FIRST_WAIT_S * 2.0 ** min(max(attempts - 1, 0), 16)
    digest = hashlib.sha256(f"{key} {attempts}".encode()).digest()
    jittered = min(doubled, LONGEST_WAIT_S) * (1 + digest[0] / 255 / 4)
    return timedelta(seconds=max(jittered, retry_after_s or 0.0))
