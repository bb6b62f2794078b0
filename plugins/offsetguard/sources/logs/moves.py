"""Moves of offsets that a broker log tells of, as rows of `offset_moves` (origin `log`). On 5.x they are all there is.

A corrected pull prints two lines of one thread: INFO with what was wrong (it has the client's address, or the queue),
then WARN `PULL_OFFSET_MOVED:correction offset`, which has neither. The second one is the move; the first completes it.
A slave's `none correction` moves nothing. What no line says (the queue id, mostly) stays None.

Source: PullMessageProcessor, DefaultPullMessageResultHandler 4.9.7, 4.9.8, 5.3.3, 5.5.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum

from offsetguard.sources.logs.events import LogEvent, LogOrigin
from offsetguard.sources.logs.matching import Value

MOVE = "offset_corrected"
CAUSES = frozenset({"offset_too_small", "offset_beyond_end", "no_queue_data", "queue_was_reset"})


class Direction(StrEnum):
    """Which way a client was sent."""

    FORWARD = "forward"  # messages were deleted before they were consumed: corrected - requested are lost
    BACK = "back"  # the queue ends below: it was recreated or truncated, or the offset was reset too far
    NONE = "none"


def direction(requested_offset: int, corrected_offset: int) -> Direction:
    """Say which way a move goes."""
    if corrected_offset == requested_offset:
        return Direction.NONE
    return Direction.FORWARD if corrected_offset > requested_offset else Direction.BACK


def moves_from(events: Iterable[LogEvent], cluster: str, interval_start: datetime) -> Iterator[dict[str, object]]:
    """Yield the row of `tables.OFFSET_MOVES` for every correction. Events of one file must come in its order."""
    said_before: dict[tuple[LogOrigin, str | None], LogEvent] = {}
    for event in events:
        thread = (event.origin, event.thread)
        if event.kind in CAUSES:
            said_before[thread] = event
        elif event.kind == MOVE:
            cause = said_before.pop(thread, None)
            known = cause.fields if cause is not None and _same_pull(cause.fields, event.fields) else {}
            row = _row(event, known, cluster, interval_start)
            if row is not None:
                yield row


def _same_pull(cause: Mapping[str, Value], move: Mapping[str, Value]) -> bool:
    """Every field that both lines have is equal: a thread serves one pull after the other."""
    shared = ("requested_offset", "corrected_offset", "topic", "consumer_group")
    return all(cause[name] in {None, move[name]} for name in shared if name in cause)


def _row(
    event: LogEvent, known: Mapping[str, Value], cluster: str, interval_start: datetime
) -> dict[str, object] | None:
    requested, corrected = event.fields["requested_offset"], event.fields["corrected_offset"]
    if requested is None or corrected is None or event.origin.broker_name is None:
        return None  # beyond 64 bits: no offset; no broker name: not a broker's log
    return {
        "cluster": cluster,
        "interval_start": interval_start,
        "origin": "log",
        "source": f"{event.origin.source}/{event.origin.file}",
        "position": event.position,
        "moved_at": event.at,
        "consumer_group": event.fields["consumer_group"],
        "client_id": known.get("client_address"),
        "topic": event.fields["topic"],
        "broker_name": event.origin.broker_name,
        "queue_id": known.get("queue_id"),
        "requested_offset": requested,
        "corrected_offset": corrected,
    }
