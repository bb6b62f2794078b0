"""Random queues of many clusters at once, minute by minute: what the window and the figures of queues are made of.

A cluster is a history of its own, for it is part of every key. Offsets often meet or pass each other; queues are
rewound, recreated, lost from sight, and missing for a while; a few offsets are far out.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from offsetguard.model.intervals import Interval

Row = dict[str, Any]

LAST = Interval(datetime(2026, 11, 21, 10, 39, tzinfo=UTC))
SPAN = timedelta(minutes=110)
_GROUPS = ("billing", "o'brien \U0001f980", "%RETRY%x")
_TOPICS = ("orders", "日本", "a|b.*")
_BROKERS = ("broker-a", "broker\u00a0b")


def queue_history(random: Random, cluster: str) -> Iterator[Row]:
    """Yield `queue_snapshots` rows of intervals up to LAST, one per queue and interval."""
    for group in random.sample(_GROUPS, 2):
        for topic in random.sample(_TOPICS, random.randrange(1, 3)):
            for broker_name in random.sample(_BROKERS, random.randrange(1, 3)):
                for queue_id in range(random.randrange(3)):
                    key = {"consumer_group": group, "topic": topic, "broker_name": broker_name, "queue_id": queue_id}
                    for row in _samples(random):
                        yield {"cluster": cluster, **key, **row}


def _samples(random: Random) -> Iterator[Row]:
    """Yield one queue's samples, oldest first."""
    minutes = sorted(random.sample(range(int(SPAN / timedelta(minutes=1))), random.randrange(1, 25)))
    if random.random() < 0.9:
        minutes.append(110)
    low, committed, high = 0, 0, 20
    if random.random() < 0.1:
        committed = high = 2**62  # set by hand
    restless = random.random() < 0.4
    for minute in minutes:
        start = LAST.start - SPAN + timedelta(minutes=minute)
        high = random.choice([0, max(high - 3, 0), *[high + random.randint(0, 40)] * 20])
        low = random.choice([low, low, low, low + random.randint(-3, 40)]) if restless else min(low, high)
        low = max(low, 0)
        moved = random.choice([committed, high, committed + random.randint(-30, 50)])
        committed = max(0, moved) if restless else max(committed, min(high, moved))
        yield {"interval_start": start, "origin": "broker", **_seen(random, start, low, committed, high)}


def _seen(random: Random, start: datetime, low: int, committed: int, high: int) -> Row:
    """Return what a round saw of it; offsets and times of reading that were not seen are None."""
    read_at = start + timedelta(microseconds=random.choice([0, random.randrange(59_000_000)]))
    unknown = random.randrange(24)
    told = start - timedelta(microseconds=random.randrange(-60_000_000, 3_000_000_000))
    return {
        "min_offset": None if unknown in (2, 3) else low,
        "max_offset": None if unknown == 2 else high,
        "consumer_offset": None if unknown in (4, 5) else committed,
        "pull_offset": committed + random.randint(0, 20) if unknown > 14 else None,
        "last_timestamp": told if unknown % 3 else None,
        "oldest_unconsumed_at": told if random.random() < 0.2 else None,
        "consumer_offset_read_at": None if unknown == 5 else read_at,
        "pull_offset_read_at": read_at if unknown > 14 else None,
        "max_offset_read_at": None if unknown == 2 else read_at,
    }
