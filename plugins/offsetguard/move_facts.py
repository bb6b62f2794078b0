"""Offset moves of the look-back window as facts, each move once whatever told of it: the pure side.

`offsetguard_spark.moves` makes the same of the Iceberg table; cases in tests/unit/moves/cases.yml and a property test
hold the two equal. What both do, in this order:

1. A row that was read twice (a repeated round; a log file read in a round and again as a whole) counts once.
2. An event and its log line: the same group, topic, broker and requested offset. The event stays, since it names the
   queue; the client's address is taken from the log lines if they name exactly one.
3. Rows become one fact per (origin, group, client, topic, broker, queue, requested offset).
4. A snapshot's move is the trace of an event or a log line of the same group, topic and broker when both moved in the
   same direction over overlapping offsets (in the same queue, where both name one): the told one stays.
5. A log line names no queue. It is that of the snapshot moves that are its trace: of the ones with the very same
   corrected offset if these name exactly one queue, else of all if they do; otherwise it stays unknown.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from offsetguard.facts import OffsetMoveFacts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

Row = dict[str, Any]

EVENT, LOG, SNAPSHOT = "event", "log", "snapshot"

# What makes two rows the same move: everything but where it was found and when it was collected.
CONTENT = (
    "origin",
    "position",
    "moved_at",
    "consumer_group",
    "client_id",
    "topic",
    "broker_name",
    "queue_id",
    "requested_offset",
    "corrected_offset",
)
_REQUEST = ("consumer_group", "topic", "broker_name", "requested_offset")


def offset_move_facts(moves: Iterable[Row], since: datetime) -> list[OffsetMoveFacts]:
    """Return the facts of `offset_moves` rows of one cluster from `since` on, in no particular order."""
    rows = {tuple(move[name] for name in CONTENT): move for move in moves if move["moved_at"] >= since}
    facts = _aggregated(_told_once(list(rows.values())))
    by_place: dict[tuple[str, str, str], list[OffsetMoveFacts]] = defaultdict(list)
    for fact in facts:
        by_place[fact.consumer_group, fact.topic, fact.broker_name].append(fact)
    return [fact for place in by_place.values() for fact in _without_traces(place)]


def _told_once(rows: Sequence[Row]) -> list[Row]:
    """Drop log lines of events, and give the events the client that these lines name."""
    requests: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        requests[tuple(row[name] for name in _REQUEST)].append(row)
    return [row for same in requests.values() for row in _prefer_events(same)]


def _prefer_events(same_request: Sequence[Row]) -> Iterable[Row]:
    if not any(row["origin"] == EVENT for row in same_request):
        return same_request
    clients = {row["client_id"] for row in same_request if row["origin"] == LOG} - {None}
    named = clients.pop() if len(clients) == 1 else None
    others = (row for row in same_request if row["origin"] != LOG)
    return [row | {"client_id": row["client_id"] or named} if row["origin"] == EVENT else row for row in others]


def _aggregated(rows: Iterable[Row]) -> list[OffsetMoveFacts]:
    grouped: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        key = ("origin", "consumer_group", "client_id", "topic", "broker_name", "queue_id", "requested_offset")
        grouped[tuple(row[name] for name in key)].append(row)
    return [_one_fact(same) for same in grouped.values()]


def _one_fact(same: Sequence[Row]) -> OffsetMoveFacts:
    newest: Mapping[str, Any] = max(same, key=lambda row: (row["moved_at"], row["position"], row["corrected_offset"]))
    return OffsetMoveFacts(
        consumer_group=newest["consumer_group"],
        client_id=newest["client_id"],
        topic=newest["topic"],
        broker_name=newest["broker_name"],
        queue_id=newest["queue_id"],
        requested_offset=newest["requested_offset"],
        corrected_offset=newest["corrected_offset"],
        move_count=len(same),
        first_moved_at=min(row["moved_at"] for row in same),
        last_moved_at=newest["moved_at"],
        origin=newest["origin"],
    )


def _without_traces(place: Sequence[OffsetMoveFacts]) -> Iterable[OffsetMoveFacts]:
    """Take the facts of one group, topic and broker."""
    told = [fact for fact in place if fact.origin != SNAPSHOT]
    traces = [fact for fact in place if fact.origin == SNAPSHOT]
    yield from (fact for fact in traces if not any(is_trace(fact, of) for of in told))
    for fact in told:
        yield fact if fact.queue_id is not None else replace(fact, queue_id=_queue_of(fact, traces))


def is_trace(snapshot: OffsetMoveFacts, told: OffsetMoveFacts) -> bool:
    """Whether the snapshot's move is what the told one left behind; group, topic and broker are the same."""
    same_queue = told.queue_id is None or told.queue_id == snapshot.queue_id
    if not same_queue or _forwards(snapshot) != _forwards(told):
        return False
    low, high = _span(snapshot)
    told_low, told_high = _span(told)
    return max(low, told_low) < min(high, told_high)


def _queue_of(fact: OffsetMoveFacts, traces: Iterable[OffsetMoveFacts]) -> int | None:
    own = [trace for trace in traces if is_trace(trace, fact)]
    exact = {trace.queue_id for trace in own if trace.corrected_offset == fact.corrected_offset}
    queues = exact or {trace.queue_id for trace in own}
    return queues.pop() if len(queues) == 1 else None


def _forwards(fact: OffsetMoveFacts) -> bool:
    return fact.corrected_offset > fact.requested_offset


def _span(fact: OffsetMoveFacts) -> tuple[int, int]:
    return min(fact.requested_offset, fact.corrected_offset), max(fact.requested_offset, fact.corrected_offset)
