"""When to try a message again."""

from __future__ import annotations

import hashlib
from datetime import timedelta

FIRST_WAIT_S = 30.0
LONGEST_WAIT_S = 1_800.0  # a mended connection is noticed within half an hour at the latest
WISHES_HEEDED = 5  # a receiver that wishes for one short pause after the other gets a long one


def wait_before_retry(attempts: int, key: str, retry_after_s: float | None = None) -> timedelta:
    """Return 30 s, 1 min, 2 min ... 30 min, plus up to a quarter; or what the receiver wished, and never less.

    `attempts`: those already made. A wish is heeded as it is the first few times. The jitter comes from `key` and
    attempts, so that the same input gives the same wait and messages that failed together do not come back together.
    """
    if retry_after_s is not None and attempts <= WISHES_HEEDED:
        return timedelta(seconds=max(retry_after_s, 1.0))
    doubled = FIRST_WAIT_S * 2.0 ** min(max(attempts - 1, 0), 16)
    digest = hashlib.sha256(f"{key} {attempts}".encode()).digest()
    jittered = min(doubled, LONGEST_WAIT_S) * (1 + digest[0] / 255 / 4)
    return timedelta(seconds=max(jittered, retry_after_s or 0.0))
