"""What an ordered reset did to each queue: rows of `offset_moves` with origin `reset`.

Each broker writes down who ordered a reset of which group and topic, and to which moment; not from where to where
(4.9.7, 5.3.3, 5.5.0 AdminBrokerProcessor.resetOffset). Two rounds do not show it either: what was set back by 45 s is
regained before the second one.

To where    what the broker looked up itself, asked again (SEARCH_OFFSET_BY_TIMESTAMP); "to the end": its end then.
From where  what the group had consumed by then. Commits are up to a round old, so a group that keeps up is taken to
            have been at the end, between the ends of the round before and of this one; any other has gone on from its
            last commit as fast as the broker said that it pulls, if it was asked (GROUP_GET_NUMS). A commit that this
            round saw before the target counts: clients of 4.x stop, wait for 10 s, and go there.
            Log lines tell whole seconds: half of one has passed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from offsetguard.records import record
from offsetguard.rocketmq.requests import SearchOffsetByTimestamp
from offsetguard.tables import BROKER_STATS, QUEUE_SNAPSHOTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    import pyarrow as pa

    from offsetguard.collect.broker_reading import BrokerReading
    from offsetguard.collect.earlier_round import EarlierRound
    from offsetguard.collect.group_members import GroupMembers
    from offsetguard.collect.landing import Row
    from offsetguard.collect.replica import ReplicaLink
    from offsetguard.intervals import Interval
    from offsetguard.logs.events import LogEvent
    from offsetguard.logs.tailing import LogReading

ORDERED = "offset_reset_started"
TO_THE_END_MS = -1
MOST_QUEUES = 512  # about which a broker is asked in a round
KEEPS_UP = timedelta(seconds=15)  # three commits of a client: whoever lags by what is written in it keeps up
HALF_A_SECOND = timedelta(seconds=0.5)

_QUEUE = ("consumer_group", "topic", "broker_name", "queue_id")
_COLUMNS = ("cluster", *_QUEUE, "consumer_offset", "max_offset", "max_offset_read_at")


@record
class QueueReset:
    """One queue of a group that was ordered to be set; `target`: to that offset, None = to its end."""

    order: LogEvent
    queue: tuple[str, str, str, int]  # as _QUEUE
    target: int | None


async def read_resets(link: ReplicaLink, reading: BrokerReading, logs: LogReading) -> list[QueueReset]:
    """Ask a master to where each queue went that its log says was reset; those without a commit are left out."""
    committed = reading.committed.body.offsets if reading.committed and reading.committed.body else {}
    orders = {
        (str(event.fields["topic"]), str(event.fields["consumer_group"])): event  # the newest of each
        for event in logs.events
        if event.kind == ORDERED and event.origin.broker_name == reading.broker_name
    }
    queues = (
        (order, (group, topic, reading.broker_name, queue_id))
        for (topic, group), order in orders.items()
        for queue_id in committed.get((topic, group), ())
    )
    to_the_end, asked = [], {}
    for order, queue in islice(queues, MOST_QUEUES):
        target_ms = order.fields["target_timestamp_ms"]
        if target_ms == TO_THE_END_MS:
            to_the_end.append(QueueReset(order, queue, None))
        elif isinstance(target_ms, int):
            asked[order, queue] = SearchOffsetByTimestamp(queue[1], queue[3], target_ms)
    answers = await link.ask_many(list(asked.values()))
    return to_the_end + [
        QueueReset(*one, answer.body)
        for one, answer in zip(asked, answers, strict=True)
        if answer is not None and answer.body is not None
    ]


def reset_moves(
    resets: Sequence[QueueReset],
    earlier: EarlierRound,
    now: pa.Table,
    members: Mapping[str, GroupMembers],
    interval: Interval,
) -> Iterator[Row]:
    """Yield the rows of `offset_moves`, one at most for each reset; a queue that no earlier round saw has none.

    `now`: this round's `queue_snapshots`.
    """
    if not resets:
        return
    wanted = {one.queue for one in resets}
    before = _rows(earlier.parts(QUEUE_SNAPSHOTS, _COLUMNS), wanted)
    after = _rows([now.select(_COLUMNS)], wanted)
    paces = _paces(earlier, Counter(one.queue[:3] for one in resets))
    for one in resets:
        if one.queue in before and one.queue in after and before[one.queue]["consumer_offset"] is not None:
            sides = before[one.queue], after[one.queue]
            at = one.order.at + HALF_A_SECOND
            corrected = _end(*sides, at) if one.target is None else one.target
            group = members.get(one.queue[0])
            is_offline = group is not None and not group.online_client_count
            pace = 0.0 if is_offline else paces.get(one.queue[:3], 0.0)
            requested = _consumed(*sides, at, corrected, pace, is_offline=is_offline)
            if requested != corrected:
                yield _row(one, requested, corrected, before[one.queue]["cluster"], interval)


def _rows(parts: Iterable[pa.Table], wanted: set[tuple[str, str, str, int]]) -> dict[tuple[Any, ...], Row]:
    import pyarrow.compute as pc  # noqa: PLC0415 0.1 s, and resets are rare

    from offsetguard.collect.columns import text_array  # noqa: PLC0415 likewise
    from offsetguard.collect.landing import with_plain_texts  # noqa: PLC0415 likewise

    groups = text_array(sorted({queue[0] for queue in wanted}))
    found = {}
    for part in parts:
        plain = with_plain_texts(part)
        for row in plain.filter(pc.is_in(plain["consumer_group"], groups)).to_pylist():
            queue = tuple(row[name] for name in _QUEUE)
            if queue in wanted and row["max_offset"] is not None and row["max_offset_read_at"] is not None:
                found[queue] = row
    return found


def _paces(earlier: EarlierRound, queues: Mapping[tuple[str, str, str], int]) -> dict[tuple[str, str, str], float]:
    """Return messages per second of one queue, by (group, topic, broker), as the broker and its slaves said them."""
    from offsetguard.collect.landing import with_plain_texts  # noqa: PLC0415 as above

    columns = ("consumer_group", "topic", "broker_name", "stats_name", "tps")
    stats = earlier.columns(BROKER_STATS, columns)
    found: defaultdict[tuple[str, str, str], float] = defaultdict(float)
    for row in with_plain_texts(stats).to_pylist() if stats else ():
        pair = row["consumer_group"], row["topic"], row["broker_name"]
        if row["stats_name"] == "GROUP_GET_NUMS" and pair in queues:
            found[pair] += row["tps"] / queues[pair]
    return found


def _consumed(before: Row, after: Row, at: datetime, target: int, pace: float, *, is_offline: bool) -> int:
    """Return up to where the queue was consumed at a moment between the rounds."""
    committed: int = before["consumer_offset"]
    committed_since: int | None = after["consumer_offset"]
    end = _end(before, after, at)
    if committed_since is not None and committed <= committed_since < target:
        return committed_since
    between = after["max_offset_read_at"] - before["max_offset_read_at"]
    written = max(0, after["max_offset"] - before["max_offset"])
    if not is_offline and between and before["max_offset"] - committed <= written * (KEEPS_UP / between):
        return max(committed, end)
    since: datetime = before["max_offset_read_at"]
    return max(committed, min(committed + round(pace * max(0.0, (at - since).total_seconds())), end))


def _end(before: Row, after: Row, at: datetime) -> int:
    """Return the queue's end at a moment, as if it had been written evenly between the rounds."""
    between = after["max_offset_read_at"] - before["max_offset_read_at"]
    part = min(1.0, max(0.0, (at - before["max_offset_read_at"]) / between)) if between else 1.0
    low, high = before["max_offset"], after["max_offset"]
    return int(low + round((high - low) * part))


def _row(one: QueueReset, requested: int, corrected: int, cluster: str, interval: Interval) -> Row:
    group, topic, broker_name, queue_id = one.queue
    return {
        "cluster": cluster,
        "interval_start": interval.start,
        "origin": "reset",
        "source": f"{one.order.origin.source}/{one.order.origin.file}/{group}/{topic}/{queue_id}",
        "position": one.order.position,
        "moved_at": one.order.at,
        "consumer_group": group,
        "client_id": None,
        "topic": topic,
        "broker_name": broker_name,
        "queue_id": queue_id,
        "requested_offset": requested,
        "corrected_offset": corrected,
    }
