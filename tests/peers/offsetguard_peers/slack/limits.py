"""Slack's rate limits: a bucket per method, for posting per channel; bursts are welcome, steady haste is not.

Source: https://docs.slack.dev/apis/web-api/rate-limits (tier 3: 50 a minute; posting and webhooks: 1 a second).
How large a burst may be is not documented; ours is small, so that a sender that does not heed the answer is found.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Tier:
    """So many requests a second in the long run, so many at once."""

    per_second: float
    burst: int


POSTING = Tier(1.0, 5)
TIER_3 = Tier(50 / 60, 20)
TIERS = {
    "chat.postMessage": POSTING,  # in each channel
    "webhook": POSTING,
    "chat.update": TIER_3,
    "conversations.history": TIER_3,
    "conversations.replies": TIER_3,
    "users.conversations": TIER_3,
}


class RateLimitedError(Exception):
    """HTTP 429; the client may come again after `retry_after_s` whole seconds."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"ratelimited for {retry_after_s} s")
        self.retry_after_s = retry_after_s


@dataclass(slots=True)
class RateLimits:
    """Token buckets; `clock` gives seconds."""

    clock: Callable[[], float]
    _levels: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)

    def take(self, method: str, channel: str) -> None:
        """Let one request through, or raise RateLimitedError."""
        tier = TIERS.get(method)
        if tier is None:
            return
        key = (method, channel if tier is POSTING else "")
        level, at = self._levels.get(key, (float(tier.burst), self.clock()))
        now = self.clock()
        level = min(tier.burst, level + (now - at) * tier.per_second)
        if level < 1:
            self._levels[key] = (level, now)
            raise RateLimitedError(math.ceil((1 - level) / tier.per_second))
        self._levels[key] = (level - 1, now)
