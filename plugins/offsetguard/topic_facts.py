"""Facts of topics, of rows of one interval. As Spark: `offsetguard_spark/facts/topics.py`."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict
from functools import reduce
from typing import TYPE_CHECKING, Any

from offsetguard.facts import TopicFacts
from offsetguard.known_figures import any_of, sum_if_all_known, sum_of_known
from offsetguard.queue_sums import sums_over
from offsetguard.rate_facts import WRITTEN

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from offsetguard.queue_sums import QueueFigures

    Row = Mapping[str, Any]


def topic_facts(
    queues: Iterable[QueueFigures], topic_queues: Iterable[Row], settings: Iterable[Row], stats: Iterable[Row]
) -> Iterator[TopicFacts]:
    """Yield one record per topic that has a queue or that a group has a row for, in order of their names."""
    consumed: dict[str, list[QueueFigures]] = defaultdict(list)
    for queue in queues:
        consumed[queue.row["topic"]].append(queue)
    kept, of_topic, put = _by_topic(topic_queues), _by_topic(settings), _by_topic(_of_masters(stats))
    for topic in sorted(consumed.keys() | kept.keys()):
        columns = _settings_columns(of_topic.get(topic, ())) | _kept_columns(
            kept.get(topic, ()), of_topic.get(topic, ())
        )
        if topic in consumed:
            columns |= asdict(sums_over(consumed[topic]))
        yield TopicFacts(
            topic=topic,
            consumer_group_count=len({queue.row["consumer_group"] for queue in consumed.get(topic, ())}),
            put_tps=_put_tps(put.get(topic, ()), columns["broker_count"]),
            **columns,
        )


def _kept_columns(rows: Sequence[Row], settings: Sequence[Row]) -> dict[str, Any]:
    read_queues = {row["broker_name"]: row["read_queue_nums"] for row in settings}
    write_queues = {row["broker_name"]: row["write_queue_nums"] for row in settings}
    unwritten = [
        row
        for row in rows
        if write_queues.get(row["broker_name"], row["queue_id"] + 1)
        <= row["queue_id"]
        < read_queues.get(row["broker_name"], 0)
    ]
    unreadable = [row for row in rows if row["queue_id"] >= read_queues.get(row["broker_name"], row["queue_id"] + 1)]
    return {
        "queue_count": len(rows),
        "message_count": sum_of_known(_message_count(row) for row in rows),
        "max_offset_total": sum_if_all_known(row["max_offset"] for row in rows),
        "counted_at": min((row["read_at"] for row in rows if row["read_at"] is not None), default=None),
        "last_update_at": max((row["last_update_at"] for row in rows if row["last_update_at"]), default=None),
        "unreadable_queue_count": len(unreadable) if rows and settings else None,
        "unreadable_message_count": sum_of_known(_message_count(row) for row in unreadable),
        "unwritten_message_count": sum_of_known(_message_count(row) for row in unwritten),
        "unwritten_queues_used": any_of(_was_written(row) for row in unwritten) if unwritten else None,
    }


def _settings_columns(settings: Sequence[Row]) -> dict[str, Any]:
    if not settings:
        return {"topic_kind": None, "broker_count": None}
    return {
        "topic_kind": max(row["topic_kind"] for row in settings),
        "broker_count": len(settings),
        "read_queue_count": sum(row["read_queue_nums"] for row in settings),
        "write_queue_count": sum(row["write_queue_nums"] for row in settings),
        "unwritten_queue_count": sum(max(0, row["read_queue_nums"] - row["write_queue_nums"]) for row in settings),
        "read_write_differ": any(row["read_queue_nums"] != row["write_queue_nums"] for row in settings),
        "perm": reduce(lambda one, other: one & other, (row["perm"] for row in settings)),
    }


def _put_tps(rows: Collection[Row], broker_count: int | None) -> float | None:
    """Return the sum over the masters; None when one of the topic's was not asked."""
    return None if broker_count is None or len(rows) < broker_count else sum_of_known(row["tps"] for row in rows)


def _of_masters(stats: Iterable[Row]) -> Iterator[Row]:
    return (row for row in stats if row["stats_name"] == WRITTEN and row["broker_id"] == 0)


def _was_written(row: Row) -> bool | None:
    return None if row["max_offset"] is None else row["max_offset"] > 0


def _message_count(row: Row) -> int | None:
    low, high = row["min_offset"], row["max_offset"]
    return None if low is None or high is None else high - low


def _by_topic(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["topic"]].append(row)
    return found
