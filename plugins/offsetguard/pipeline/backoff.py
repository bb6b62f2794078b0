"""When to try a message again."""

from __future__ import annotations

import hashlib
from datetime import timedelta

FIRST_WAIT_S = 30.0
LONGEST_WAIT_S = 1_800.0  # a mended connection is noticed within half an hour at the latest
WISHES_HEEDED = 20  # a receiver that wishes for one short pause after the other gets a long one
LONGEST_HASTE_S = 10.0  # heeded within the sweep


def wait_before_retry(attempts: int, key: str, retry_after_s: float | None = None) -> timedelta:
    """Return 30 s, 1 min, 2 min ... 30 min, plus up to a quarter; or what the receiver wished, and never less.

    `attempts`: those already made. A short wish is heeded at first, and a second later each time, so that many
    messages to a receiver that allows few a minute do not all ask again and again. The jitter comes from `key` and
    attempts, so that the same input gives the same wait and messages that failed together do not come back together.
    """
    if retry_after_s is not None and attempts <= WISHES_HEEDED:
        return timedelta(seconds=max(retry_after_s, min(float(attempts), LONGEST_HASTE_S)))
    doubled = FIRST_WAIT_S * 2.0 ** min(max(attempts - 1, 0), 16)
    digest = hashlib.sha256(f"{key} {attempts}".encode()).digest()
    jittered = min(doubled, LONGEST_WAIT_S) * (1 + digest[0] / 255 / 4)
    return timedelta(seconds=max(jittered, retry_after_s or 0.0))
