"""Facts of one snapshot in pure Python, for `offsetguard check`: no Spark, no tables, nothing kept.

The Spark job makes the same facts of landed files; both follow the column meanings in `tables/`. What both must agree
on stands here once, in the docstrings of `lag_ms`, `is_suspect`, `is_unknown_queue` and `sum_of_known`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from offsetguard.facts import GroupFacts, IntervalFacts, QueueFacts
from offsetguard.move_facts import offset_move_facts
from offsetguard.offsets import MessageQueue, QueueOffsets
from offsetguard.tables import GROUP_SNAPSHOTS, OFFSET_MOVES, QUEUE_SNAPSHOTS, TOPIC_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    import pyarrow as pa

    from offsetguard.collect.landing import Row
    from offsetguard.collect.manifest import Manifest
    from offsetguard.config import Config
    from offsetguard.intervals import Interval

LOCK_OUTLIVES_RENEWALS = "OG-L01"  # defined in expectations/offsetguard_expectations/group_snapshots.py
RENEWALS_PER_LOCK_LIFE = 3
_TABLES_READ = (QUEUE_SNAPSHOTS.name, GROUP_SNAPSHOTS.name, TOPIC_SETTINGS.name, OFFSET_MOVES.name)


def facts_from_snapshot(
    manifest: Manifest,
    tables: Mapping[str, pa.Table | Sequence[Row]],
    config: Config,
    interval: Interval,
    *,
    now: datetime | None = None,
) -> IntervalFacts:
    """Return what the rules read, made of one snapshot's tables (pyarrow, or the dictionaries of `collect.landing`).

    `now`: by default the interval's end, as for published facts; ages count up to it. Offset moves are counted within
    `judgement.offset_move_window_ms` before it, of the rows given.
    """
    now = now or interval.end
    rows = {name: rows_of(tables.get(name, ())) for name in _TABLES_READ}
    queue_rows = [row for row in rows.get(QUEUE_SNAPSHOTS.name, ()) if not is_unknown_queue(row)]
    window = timedelta(milliseconds=config.judgement.offset_move_window_ms)
    return IntervalFacts(
        cluster=manifest.cluster,
        interval=interval,
        now=now,
        queues=tuple(_queue_facts(row, now) for row in queue_rows if is_suspect(row)),
        groups=tuple(_group_facts(queue_rows, rows, now)),
        offset_moves=tuple(offset_move_facts(rows.get(OFFSET_MOVES.name, ()), now - window)),
        gaps=tuple(gap.as_fact() for gap in manifest.gaps),
        unseen_broker_names=frozenset(manifest.unseen_broker_names),
        cluster_unseen=manifest.cluster_unseen,
    )


def rows_of(table: pa.Table | Sequence[Row]) -> Sequence[Row]:
    """Return a table as dictionaries, if it is not that already."""
    if isinstance(table, Sequence):
        return table
    rows: list[Row] = table.to_pylist()
    return rows


def offsets_of(row: Row) -> QueueOffsets:
    """Return the four offsets of a `queue_snapshots` row."""
    return QueueOffsets(row["min_offset"], row["max_offset"], row["consumer_offset"], row["pull_offset"])


def is_unknown_queue(row: Row) -> bool:
    """Tell whether the row is a committed offset of a queue that its broker does not have: asked, and no max offset.

    The corrupt invariant "unknown queue" quarantines such rows, so no fact contains them. A queue whose broker was not
    asked or did not answer has neither, and stays as an unknown one.
    """
    return row["max_offset"] is None and row["max_offset_read_at"] is not None


def is_never_committed(row: Row) -> bool:
    """Tell whether the broker's table of committed offsets was seen (read_at set) and has no entry for the queue."""
    return row["consumer_offset"] is None and row["consumer_offset_read_at"] is not None


def is_suspect(row: Row) -> bool:
    """Whether a `queue_snapshots` row becomes a `queue_facts` row: every queue that is not provably healthy.

    Healthy = the order min <= consumer <= pull <= max is not broken anywhere (pairs with a NULL side do not break it)
    and nothing waits, which is known in one of two ways:

    - max_offset and consumer_offset are known, and effective_lag = max_offset - max(consumer_offset, min_offset) is 0;
    - never committed (`is_never_committed`) on an empty queue: min_offset and max_offset are known and equal.

    Everything else is suspect: effective lag above 0, an unknown offset, never committed on a queue with messages.
    `is_unknown_queue` rows are neither: they are quarantined before.
    """
    offsets = offsets_of(row)
    if offsets.order_violations():
        return True
    if offsets.consumer_offset is not None:
        return offsets.effective_lag != 0
    empty = offsets.max_offset is not None and offsets.max_offset == offsets.min_offset
    return not (is_never_committed(row) and empty)


def lag_ms(row: Row, now: datetime) -> int | None:
    """Age of the oldest unconsumed message, ms, as seen at `now` = the interval's end.

    None when effective_lag is None. 0 when effective_lag <= 0: nothing waits. Else now - oldest_unconsumed_at, at least
    0 (the round may run after the interval's end), None when oldest_unconsumed_at is None.
    """
    effective_lag = offsets_of(row).effective_lag
    if effective_lag is None:
        return None
    if effective_lag <= 0:
        return 0
    oldest: datetime | None = row["oldest_unconsumed_at"]
    return None if oldest is None else max(0, (now - oldest) // timedelta(milliseconds=1))


def sum_of_known(values: Iterable[int | None]) -> int | None:
    """Sum over the values that are known; None when none is (as SQL's SUM)."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _queue_facts(row: Row, now: datetime) -> QueueFacts:
    offsets = offsets_of(row)
    return QueueFacts(
        consumer_group=row["consumer_group"],
        message_queue=MessageQueue(row["topic"], row["broker_name"], row["queue_id"]),
        offsets=offsets,
        last_timestamp=row["last_timestamp"],
        lag_ms=lag_ms(row, now),
        violated_invariants=tuple(violation.value for violation in offsets.order_violations()),
    )


def _group_facts(queue_rows: Sequence[Row], rows: Mapping[str, Sequence[Row]], now: datetime) -> Iterable[GroupFacts]:
    topic_kinds = {row["topic"]: row["topic_kind"] for row in rows.get(TOPIC_SETTINGS.name, ())}
    settings = {row["consumer_group"]: row for row in rows.get(GROUP_SNAPSHOTS.name, ())}
    by_group_and_topic: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in queue_rows:
        by_group_and_topic[row["consumer_group"], row["topic"]].append(row)
    for (group, topic), queues in sorted(by_group_and_topic.items()):
        yield _one_group(group, topic, topic_kinds.get(topic), queues, settings=settings.get(group, {}), now=now)


def _one_group(
    group: str, topic: str, kind: str | None, queues: Sequence[Row], *, settings: Mapping[str, Any], now: datetime
) -> GroupFacts:
    offsets = [offsets_of(row) for row in queues]
    ages = [age for row in queues if (age := lag_ms(row, now)) is not None]
    return GroupFacts(
        consumer_group=group,
        topic=topic,
        topic_kind=kind,
        queue_count=len(queues),
        unknown_queue_count=sum(one.max_offset is None for one in offsets),
        never_committed_queue_count=sum(is_never_committed(row) for row in queues),
        lag=sum_of_known(one.lag for one in offsets),
        effective_lag=sum_of_known(one.effective_lag for one in offsets),
        inflight=sum_of_known(one.inflight for one in offsets),
        available=sum_of_known(one.available for one in offsets),
        lost=sum_of_known(one.lost for one in offsets),
        lag_ms=max(ages, default=None),
        online_client_count=settings.get("online_client_count"),
        message_model=settings.get("message_model"),
        declared_orderly=settings.get("declared_orderly"),
        lock_interval_ms=settings.get("lock_interval_ms"),
        lock_max_live_time_ms=settings.get("lock_max_live_time_ms"),
        violated_invariants=_violated_group_invariants(settings),
    )


def _violated_group_invariants(settings: Mapping[str, Any]) -> tuple[str, ...]:
    interval_ms, live_ms = settings.get("lock_interval_ms"), settings.get("lock_max_live_time_ms")
    if not settings.get("declared_orderly") or interval_ms is None or live_ms is None:
        return ()
    return () if live_ms >= RENEWALS_PER_LOCK_LIFE * interval_ms else (LOCK_OUTLIVES_RENEWALS,)
