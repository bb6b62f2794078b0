"""Random intervals of many clusters at once: what facts are made of, unknown, repeated and contradicting in parts.

A cluster is an interval, and a history of queues, of its own, for it is part of every key: so a few queries try
hundreds of intervals. Names are hostile: quotes, spaces beside tags, no-break spaces, characters beyond 16 bits, what a
regular expression means. Offsets often meet or pass each other; queues are rewound, recreated, lost from sight, and
missing for a while; a few offsets are far out.
"""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, TypeVar

from offsetguard import tables
from offsetguard.facts.parameters import HOUR, earlier_rows, hour_containing, hour_of_week
from offsetguard.model.intervals import Interval

Row = dict[str, Any]
Value = TypeVar("Value")

INTERVAL = Interval(datetime(2026, 11, 21, 10, 39, tzinfo=UTC))
GROUPS = ("billing", "o'brien \U0001f980", "%RETRY%x")
TOPICS = ("orders", "日本", "a|b.*", "%RETRY%billing")
BROKERS = ("broker-a", "broker\u00a0b")
CLIENTS = ("10.0.0.1@1", "10.0.0.1@2#ü", "\U0001f980")
EXPRESSIONS = ("*", "", "a", "a || b", "b||a", " b|| a ||a", "\u00a0a", "||", "a > 3 AND b = 'x'")
_KINDS = (
    *("lock_refused", "lock_refused", "lock_refused", "lock_expired", "lock_taken"),
    *("client_lock_result", "client_lock_renewal"),
    *("pull_refused", "client_not_in_members", "offset_file_not_written", "consumer_connected", "group_offline"),
    *("subscription_changed", "subscription_changed", "subscription_refreshed", "subscription_added"),
    *("subscription_removed", "something_else"),
)
SPAN = timedelta(minutes=110)


def queue_history(random: Random) -> Iterator[Row]:
    """Yield `queue_snapshots` rows of intervals up to INTERVAL, one per queue and interval."""
    for group in random.sample(GROUPS, 2):
        for topic in random.sample(TOPICS[:3], random.randrange(1, 3)):
            for broker_name in random.sample(BROKERS, random.randrange(1, 3)):
                for queue_id in range(random.randrange(3)):
                    key = {"consumer_group": group, "topic": topic, "broker_name": broker_name, "queue_id": queue_id}
                    for row in _samples(random):
                        yield key | row


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
        start = INTERVAL.start - SPAN + timedelta(minutes=minute)
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


def rows_by_relation(random: Random, cluster_count: int) -> dict[str, list[Row]]:
    """Return the rows of every relation that a file of `facts/` reads, by its name."""
    clusters = [f"cluster '{number}' \u00a0" for number in range(cluster_count)]
    made: dict[str, Callable[[Random], Iterator[Row]]] = {
        "intervals": lambda _: iter([{"now": INTERVAL.end}]),
        f"{tables.LOG_EVENTS.name}_history": _log_events,
        f"{tables.OFFSET_MOVES.name}_history": _offset_moves,
        tables.CLIENT_SNAPSHOTS.name: _clients,
        tables.GROUP_SNAPSHOTS.name: _groups,
        tables.TOPIC_QUEUE_SNAPSHOTS.name: _topic_queues,
        tables.TOPIC_SETTINGS.name: _topic_settings,
        tables.BROKER_SNAPSHOTS.name: _replicas,
        tables.BROKER_STATS.name: _stats,
        f"{tables.TOPIC_FACTS.name}_history": _earlier_topics,
        f"{tables.GROUP_FACTS.name}_history": _earlier_groups,
        f"{tables.BROKER_FACTS.name}_history": _earlier_replicas,
        f"{tables.TRAFFIC_BASELINES.name}_history": _baselines,
        tables.CLIENT_QUEUE_SNAPSHOTS.name: _held_queues,
        f"{tables.QUEUE_SNAPSHOTS.name}_history": queue_history,
    }
    return {
        name: [
            {"cluster": cluster, "interval_start": INTERVAL.start, **row}
            for cluster in clusters
            for row in make(random)
        ]
        for name, make in made.items()
    }


def _log_events(random: Random) -> Iterator[Row]:
    span_s = random.choice([60, 400, 2400])  # dense lines: one wait; sparse ones: silences, and beyond the window
    for _ in range(random.randrange(40)):
        kind = random.choice(_KINDS)
        at = INTERVAL.end - timedelta(microseconds=random.randrange(span_s * 1_000_000))
        if random.random() < 0.5:
            at = at.replace(microsecond=0)  # several lines of a moment
        of_client = kind.startswith("client_lock") or random.random() < 0.2
        row = {
            "interval_start": random.choice([INTERVAL.start, Interval.containing(at).start, INTERVAL.end]),
            "source": random.choice(["broker-a-0", "app-1", "app-2"]),
            "file": random.choice(["x.log", "x.log.1"]),
            "position": random.randrange(4),
            "kind": kind,
            "at": maybe(random, at, 0.95),
            "broker_name": None if of_client else maybe(random, random.choice(BROKERS), 0.95),
            "broker_id": None if of_client else random.choice([0, 1]),
            "consumer_group": maybe(random, random.choice(GROUPS[:2]), 0.85),
            "topic": maybe(random, random.choice(TOPICS)),
            "queue_id": maybe(random, random.randrange(2)),
            "client_id": maybe(random, random.choice([*CLIENTS, ""])),
            "fields_json": _fields_json(random, kind),
        }
        yield row
        if random.random() < 0.1:
            yield row | {"file": "read again", "interval_start": INTERVAL.start}


def _fields_json(random: Random, kind: str) -> str:
    fields: dict[str, Any] = {"broker_name": maybe(random, BROKERS[0], 0.9)}
    if kind.startswith("lock"):
        fields["holder_client_id"] = maybe(random, random.choice([*CLIENTS, ""]))
    elif kind.startswith("client_lock"):
        fields["outcome"] = maybe(random, random.choice(["OK", "Failed", "Failed", "?"]))
    elif kind == "pull_refused":
        fields["response_code"] = maybe(random, random.choice([25, 25, 1]))
    elif kind == "offset_file_not_written":
        fields["path"] = maybe(random, random.choice(["/a/ü/billing/offsets.json", "/billing/offsets.json", "a\nb"]))
    elif kind == "subscription_changed":
        for side in ("old", "new"):
            fields[f"{side}_sub_string"] = maybe(random, random.choice(EXPRESSIONS))
            fields[f"{side}_expression_type"] = maybe(random, random.choice(["TAG", "TAG", "SQL92"]))
    return json.dumps(fields)


def _offset_moves(random: Random) -> Iterator[Row]:
    for _ in range(random.randrange(16)):
        origin = random.choice(["event", "log", "snapshot"])
        moved_at = INTERVAL.end - timedelta(microseconds=random.randrange(1_900_000_000))
        row = {
            "interval_start": random.choice([INTERVAL.start, Interval.containing(moved_at).start, INTERVAL.end]),
            "origin": origin,
            "source": random.choice(BROKERS),
            "position": random.randrange(4),
            "moved_at": moved_at,
            "consumer_group": random.choice(GROUPS[:2]),
            "client_id": maybe(random, random.choice(CLIENTS)),
            "topic": random.choice(TOPICS[:2]),
            "broker_name": BROKERS[0],
            "queue_id": random.randrange(2) if origin == "snapshot" else maybe(random, random.randrange(2)),
            "requested_offset": random.choice([2**63 - 1, *range(12)]),
            "corrected_offset": random.choice([2**63 - 1, *range(12)]),
        }
        yield row
        if random.random() < 0.2:
            yield row | {"source": "read again", "interval_start": INTERVAL.start}


def _clients(random: Random) -> Iterator[Row]:
    for group in GROUPS:
        for client_id in random.sample(CLIENTS, random.randrange(4)):
            for broker_name in random.sample(BROKERS, random.randrange(1, 3)):
                yield {
                    "consumer_group": group,
                    "client_id": client_id,
                    "broker_name": broker_name,
                    "broker_id": random.choice([0, 1]),
                    "subscriptions": _subscriptions(random),
                    "own_subscriptions": _subscriptions(random),
                    "language": maybe(random, "JAVA"),
                    "version": maybe(random, random.choice([435, 453])),
                    "connection_count": maybe(random, random.randrange(1, 3)),
                    "thread_count": maybe(random, random.randrange(1, 64)),
                    "orderly": maybe(random, random.random() < 0.5),
                    "max_reconsume_times": maybe(random, random.choice([-1, 16])),
                    "consume_ok_tps": maybe(random, random.random() * 100),
                    "consume_failed_tps": maybe(random, random.random()),
                    "consume_rt_ms": maybe(random, random.random() * 100),
                    "pull_threshold_for_queue": maybe(random, random.choice([0, 1_000])),
                    "pull_threshold_size_for_queue_mib": maybe(random, random.choice([0, 100])),
                    "running_info_read_at": maybe(random, random.choice([INTERVAL.start, INTERVAL.end])),
                    "consumer_start_at": maybe(random, random.choice([INTERVAL.start, INTERVAL.end])),
                }


def _subscriptions(random: Random) -> list[str] | None:
    some = [f"{random.choice(TOPICS)} {random.choice(EXPRESSIONS)}".strip(" ") for _ in range(random.randrange(4))]
    return maybe(random, some)


def _groups(random: Random) -> Iterator[Row]:
    for group in random.sample(GROUPS, random.randrange(4)):
        yield {
            "consumer_group": group,
            "system_group": False,
            "in_detail": False,
            "online_client_count": maybe(random, random.randrange(3)),
            "consumption": maybe(random, random.choice(["classic", "pop"])),
            "message_model": maybe(random, random.choice(["CLUSTERING", "BROADCASTING"])),
            "retry_max_times": maybe(random, random.choice([3, 16])),
            "consume_enabled": maybe(random, random.random() < 0.9),
            "which_broker_when_consume_slowly": maybe(random, 1),
            "declared_orderly": maybe(random, random.random() < 0.7),
            "lock_interval_ms": maybe(random, 20_000),
            "lock_max_live_time_ms": maybe(random, random.choice([59_999, 60_000])),
            "missing_members": maybe(random, ["c0 broker-b"]),
            "members_differ_since": _moment(random),
            "retry_growth": maybe(random, _amount(random)),
            "dead_letter_growth": maybe(random, _amount(random)),
        }


def _held_queues(random: Random) -> Iterator[Row]:
    for group in GROUPS:
        for topic in random.sample(TOPICS, 2):
            for client_id in random.sample(CLIENTS, random.randrange(3)):
                for queue_id in random.sample(range(3), random.randrange(3)):
                    yield {
                        "consumer_group": group,
                        "client_id": client_id,
                        "topic": topic,
                        "broker_name": random.choice(BROKERS),
                        "queue_id": queue_id,
                        "dropped": maybe(random, random.random() < 0.2),
                        "locked": maybe(random, random.random() < 0.5),
                        "cached_message_count": maybe(random, random.randrange(1_200)),
                        "cached_message_mib": maybe(random, random.randrange(120)),
                        **{name: _moment(random) for name in _LAST},
                    }


_LAST = ("last_lock_at", "last_pull_at", "last_consume_at")


def _topic_queues(random: Random) -> Iterator[Row]:
    for topic in random.sample(TOPICS, random.randrange(4)):
        for broker_name in random.sample(BROKERS, random.randrange(1, 3)):
            for queue_id in range(random.randrange(5)):
                high = random.choice([0, 0, _amount(random)])
                seen = random.random() < 0.85
                yield {
                    "topic": topic,
                    "broker_name": broker_name,
                    "queue_id": queue_id,
                    "min_offset": random.choice([0, high, high // 2]) if seen else None,
                    "max_offset": high if seen else None,
                    "last_update_at": _moment(random),
                    "read_at": _moment(random) if seen else None,
                }


def _topic_settings(random: Random) -> Iterator[Row]:
    for topic in random.sample(TOPICS, random.randrange(4)):
        for broker_name in random.sample(BROKERS, random.randrange(1, 3)):
            yield {
                "topic": topic,
                "broker_name": broker_name,
                "topic_kind": "normal",
                "read_queue_nums": random.randrange(5),
                "write_queue_nums": random.randrange(5),
                "perm": random.choice([2, 4, 6, 7]),
                "orderly": False,
            }


def _replicas(random: Random) -> Iterator[Row]:
    for broker_name in random.sample(BROKERS, random.randrange(3)):
        for broker_id in random.sample([0, 1, 2], random.randrange(1, 4)):
            yield {
                "broker_name": broker_name,
                "broker_id": broker_id,
                "address": "127.0.0.1:1",
                "answered": random.random() < 0.7,
                "failure": maybe(random, "o'clock \u00a0"),
                "commit_log_max_offset": maybe(random, _amount(random)),
                "commit_log_disk_ratio": maybe(random, random.random()),
                "slave_behind_bytes": maybe(random, _amount(random)),
                "put_tps": maybe(random, random.randrange(1000) / 16),
                "get_transferred_tps": maybe(random, random.randrange(1000) / 16),
                "read_at": _moment(random),
            }


def _stats(random: Random) -> Iterator[Row]:
    for topic in random.sample(TOPICS, random.randrange(4)):
        for broker_name in BROKERS:
            for broker_id in random.sample([0, 1, 2], random.randrange(4)):
                for stats_name, group in [("TOPIC_PUT_NUMS", None), *_of_groups(random, broker_id)]:
                    yield {
                        "broker_name": broker_name,
                        "broker_id": broker_id,
                        "stats_name": stats_name,
                        "stats_key": topic,
                        "topic": topic,
                        "consumer_group": group,
                        "tps": random.choice([0.0, random.randrange(10_000) / 16, random.random()]),
                        "counting_since": _moment(random),
                    }


def _of_groups(random: Random, broker_id: int) -> Iterator[tuple[str, str]]:
    for group in random.sample(GROUPS, random.randrange(3)):
        yield "GROUP_GET_NUMS", group
        if not broker_id:
            yield "SNDBCK_PUT_NUMS", group


def _earlier_topics(random: Random) -> Iterator[Row]:
    for topic in TOPICS:
        for minutes in (*random.sample(range(13), 2), *random.sample(range(55, 62), 4)):
            start = INTERVAL.start - timedelta(minutes=minutes)
            yield {
                "interval_start": start,
                "topic": topic,
                "queue_count": random.randrange(1, 4),
                "max_offset_total": maybe(random, random.choice([0, 0, 1, _amount(random)])),
                "counted_at": _moment(random, Interval(start)),
            }


def _earlier_groups(random: Random) -> Iterator[Row]:
    for group in GROUPS:
        for topic in random.sample(TOPICS, 3):
            for minutes in random.sample(range(55, 62), 4):
                start = INTERVAL.start - timedelta(minutes=minutes)
                yield {
                    "interval_start": start,
                    "consumer_group": group,
                    "topic": topic,
                    "consumer_offset_total": maybe(random, random.choice([0, 0, 1, _amount(random)])),
                    "counted_at": _moment(random, Interval(start)),
                }


def _earlier_replicas(random: Random) -> Iterator[Row]:
    for broker_name in BROKERS:
        for minutes in random.sample(range(13), 2):
            yield {
                "interval_start": INTERVAL.start - timedelta(minutes=minutes),
                "broker_name": broker_name,
                "broker_id": random.choice([0, 0, 1]) if minutes % 2 else 0,
                "commit_log_max_offset": maybe(random, random.choice([0, _amount(random)])),
                "read_at": _moment(random),
            }


def _baselines(random: Random) -> Iterator[Row]:
    hour = random.choice([hour_containing(INTERVAL.start), INTERVAL.start - HOUR])  # this one, the one that has passed
    for topic in TOPICS:
        for start in random.sample(earlier_rows(hour), 2):
            yield {
                "interval_start": start,
                "topic": topic,
                "consumer_group": maybe(random, random.choice(GROUPS)),
                "hour_of_week": random.choice([hour_of_week(hour)] * 3 + [0]),
                "mean_tps": random.random(),
                "spread_tps": random.random(),
                "week_count": random.randrange(9),
            }


def _moment(random: Random, interval: Interval = INTERVAL) -> datetime | None:
    """Return when something was, in that interval or half a minute before it."""
    return maybe(random, interval.end - timedelta(microseconds=random.randrange(90_000_000)))


def _amount(random: Random) -> int:
    """Return a whole number; some are so great that two of them are beyond 64 bits."""
    return random.choice([random.randrange(3), random.randrange(10**6), random.randrange(2**62, 2**63)])


def maybe(random: Random, value: Value, chance: float = 0.8) -> Value | None:
    """Return the value, or None: not known."""
    return value if random.random() < chance else None
