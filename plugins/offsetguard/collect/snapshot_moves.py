"""Offset moves that only the difference of two rounds shows: what neither an event nor a log line told us.

Two kinds, each a row of `offset_moves` with origin `snapshot`:

overtaken    the group had messages waiting, the oldest kept message passed its committed offset (and what was handed
             out to it, where the broker tells), and it has committed beyond that since: requested = the further of the
             two, corrected = the oldest message kept now. The difference is the most that it can have lost: what it
             consumed between the two readings is in it; whether that was all, the pace of its window tells
             (judge/evidence/move_causes.py).
moved back   the committed offset is smaller now: requested = before, or the end if it lay beyond that, corrected = now;
             these are consumed again.

What healthy groups do as well, and what is therefore no move:

- A group that had read everything is not overtaken: what is deleted now was written and consumed in between.
- Where rounds were missed between the readings the same holds for a group with a backlog.
- The commit that a pull carries and the timed commit of a client (every 5 s) overtake each other on their way; the
  broker takes both and says "[NOTIFYME]update consumer offset less than store", store - request = 1 where we saw it
  (facts: RocketMQ 4.9.8, 5.3.3 ConsumerOffsetManager.commitOffset). It is as much as a client consumes within the
  few ms between the two, hence MOVED_BACK_FLOOR.
- POP groups commit what was handed out; a message that comes back does not move the offset as others do.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter

import pyarrow as pa
import pyarrow.compute as pc

from offsetguard.collect.earlier_round import EarlierRound
from offsetguard.collect.landing import Row, with_plain_texts
from offsetguard.model.intervals import Interval
from offsetguard.tables import BROKER_SNAPSHOTS, CLIENT_SNAPSHOTS, QUEUE_SNAPSHOTS
from offsetguard.tables.queue_state import MISSED_AFTER

MOVED_BACK_FLOOR = 10  # messages: a smaller step back is a race of two commits

_QUEUE = ("consumer_group", "topic", "broker_name", "queue_id")
EARLIER_COLUMNS = (*_QUEUE, "consumer_offset", "pull_offset", "max_offset", "consumer_offset_read_at")
NOW_COLUMNS = (*_QUEUE, "consumer_offset", "min_offset", "consumer_offset_read_at")
_MOVED = (*_QUEUE, "consumer_offset_read_at", "requested_offset", "corrected_offset")

GroupQueue = tuple[str, str, str, int]
"""(consumer group, topic, broker name, queue id)."""


def move_row(
    cluster: str,
    interval: Interval,
    queue: GroupQueue,
    *,
    origin: str,
    source: str,
    position: int,
    moved_at: datetime,
    requested: int,
    corrected: int,
) -> Row:
    """Return a row of `offset_moves`; `source` and `position`: where the move was seen, unique with the origin."""
    group, topic, broker_name, queue_id = queue
    return {
        "cluster": cluster,
        "interval_start": interval.start,
        "origin": origin,
        "source": source,
        "position": position,
        "moved_at": moved_at,
        "consumer_group": group,
        "client_id": None,
        "topic": topic,
        "broker_name": broker_name,
        "queue_id": queue_id,
        "requested_offset": requested,
        "corrected_offset": corrected,
        "nearest_start_at": None,
    }


def snapshot_moves(
    earlier: pa.Table, now: pa.Table, cluster: str, interval: Interval, *, pop_groups: Collection[str] = ()
) -> list[Row]:
    """Return rows of `offset_moves`, one at most per queue of a group, in no particular order.

    `earlier`, `now`: `queue_snapshots` of the last landed round and of this one, or only EARLIER_COLUMNS and
    NOW_COLUMNS of them. `pop_groups`: left out. A queue with an offset or time unknown on either side gives no row.
    """
    both = _both_sides(earlier, now, pop_groups)
    before, after, low = (both[name] for name in ("earlier_consumer_offset", "consumer_offset", "min_offset"))
    had_waiting = pc.less(before, both["earlier_max_offset"])
    read_soon_after = pc.less_equal(
        pc.subtract(both["consumer_offset_read_at"], both["earlier_consumer_offset_read_at"]).cast("int64"),
        MISSED_AFTER // timedelta(microseconds=1),
    )
    handed_out = pc.max_element_wise(before, both["earlier_pull_offset"])
    overtaken = _all(had_waiting, read_soon_after, pc.less(handed_out, low), pc.greater_equal(after, low))
    moved_back = pc.less(after, pc.subtract(before, MOVED_BACK_FLOOR))
    corrected = pc.if_else(overtaken, low, after)
    within = pc.max_element_wise(after, pc.min_element_wise(before, both["earlier_max_offset"]))
    requested = pc.if_else(overtaken, handed_out, within)
    moved = both.append_column("requested_offset", requested).append_column("corrected_offset", corrected)
    moved = moved.filter(pc.or_(overtaken, pc.and_(moved_back, pc.greater(within, after))))
    position = int(interval.start.timestamp() * 1000)
    return [
        move_row(
            cluster,
            interval,
            (group, topic, broker_name, queue_id),
            origin="snapshot",
            source=f"{broker_name}/{topic}/{queue_id}/{group}",
            position=position,
            moved_at=at,
            requested=requested,
            corrected=corrected,
        )
        for group, topic, broker_name, queue_id, at, requested, corrected in zip(
            *(moved[name].to_pylist() for name in _MOVED), strict=True
        )
    ]


def _both_sides(earlier: pa.Table, now: pa.Table, pop_groups: Collection[str]) -> pa.Table:
    """Join the rounds by queue and group; an unknown or negative committed offset cannot be compared with anything."""
    before, after = (_comparable(one) for one in (earlier.select(EARLIER_COLUMNS), now.select(NOW_COLUMNS)))
    if pop_groups:
        after = after.filter(pc.invert(pc.is_in(after["consumer_group"], pa.array(list(pop_groups), pa.string()))))
    before = before.rename_columns([name if name in _QUEUE else f"earlier_{name}" for name in before.column_names])
    if all(before[name].equals(after[name]) for name in _QUEUE):  # two rounds usually list the same queues
        return pa.table({**dict(_columns(before)), **dict(_columns(after))})
    return after.join(before, list(_QUEUE), join_type="inner")


def _columns(table: pa.Table) -> Iterator[tuple[str, pa.ChunkedArray]]:
    return zip(table.column_names, table.columns, strict=True)


def _comparable(queues: pa.Table) -> pa.Table:
    known = (pc.is_valid(queues["consumer_offset_read_at"]), pc.greater_equal(queues["consumer_offset"], 0))
    return queues.filter(_all(*known))


def _all(*conditions: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whether all are true; NULL is not."""
    result = conditions[0]
    for condition in conditions[1:]:
        result = pc.and_kleene(result, condition)
    return pc.fill_null(result, False)


def jumps(
    earlier: EarlierRound, tables: Mapping[str, pa.Table], cluster: str, interval: Interval, pop_groups: Collection[str]
) -> Iterator[Row]:
    """Yield the moves that only the comparison with the earlier round shows, broker by broker: it costs less memory.

    `tables`: of this round. What was started nearest to a move stands with it: later starts must not hide it.
    """
    if earlier.manifest is None:
        return
    starts = _starts(tables[BROKER_SNAPSHOTS.name], tables[CLIENT_SNAPSHOTS.name])
    after = dict(_by_broker(tables[QUEUE_SNAPSHOTS.name].select(NOW_COLUMNS)))
    parts = (one for part in earlier.parts(QUEUE_SNAPSHOTS, EARLIER_COLUMNS) for one in _by_broker(part))
    for broker_name, of_broker in groupby(parts, key=itemgetter(0)):
        before = pa.concat_tables([with_plain_texts(rows) for _, rows in of_broker])
        if broker_name in after:
            sides = before, with_plain_texts(after[broker_name])
            for move in snapshot_moves(*sides, cluster=cluster, interval=interval, pop_groups=pop_groups):
                near = (*starts[None, move["broker_name"]], *starts[move["consumer_group"], None])
                yield move | {"nearest_start_at": min(near, key=lambda at: abs(at - move["moved_at"]), default=None)}
            pa.default_memory_pool().release_unused()  # else the next broker's comparison comes on top: 35 MiB of 380


def _starts(brokers: pa.Table, clients: pa.Table) -> Mapping[tuple[str | None, str | None], Sequence[datetime]]:
    """Return when masters were started, by (None, broker name), and clients, by (consumer group, None)."""
    found: dict[tuple[str | None, str | None], list[datetime]] = defaultdict(list)
    for row in brokers.select(["broker_id", "broker_name", "boot_at"]).to_pylist():
        if row["broker_id"] == 0 and row["boot_at"] is not None:
            found[None, row["broker_name"]].append(row["boot_at"])
    for row in clients.select(["consumer_group", "consumer_start_at"]).to_pylist():
        if row["consumer_start_at"] is not None:
            found[row["consumer_group"], None].append(row["consumer_start_at"])
    return found


def _by_broker(rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yield the rows of each broker, without a copy: those of one broker stand together in every snapshot."""
    start = 0
    for counted in rows["broker_name"].value_counts().to_pylist():
        yield counted["values"], rows.slice(start, counted["counts"])
        start += counted["counts"]
