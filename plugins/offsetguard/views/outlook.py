"""What lies beyond a group's courses: when its backlog is gone, when messages are lost, how far back any are kept.

Of a group that is what its topics say together: its backlog is gone with the last of them, and is unknown if it is of
one; what is lost first counts.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from offsetguard.judge.forecasts.forecasts import stands
from offsetguard.model.verdicts import DRAINED_MS, FURTHEST_MS, Kind, Stated
from offsetguard.model.views import Record
from offsetguard.views.course import WIDTH, Band, place_of

AHEAD = WIDTH // 4  # of a picture, beyond its newest moment
_MS = timedelta(milliseconds=1)


class LossInSight(StrEnum):
    """What is known of losses to come."""

    NOTHING_WAITS = "nothing_waits"  # that is older than a minute
    FORECAST = "forecast"  # an outlook says when
    LOST = "lost"  # some are lost already; of more to come nothing is forecast then
    NONE = "none"  # as old as what waits is, and as far back as brokers keep
    UNKNOWN = "unknown"


class Outlook(Record):
    """A range of time in which a backlog is gone, or messages are lost, if everything goes on as when it was made."""

    kind: Kind
    made_at: datetime
    low_ms: int  # from made_at on
    high_ms: int | None  # None: or later
    band: Band  # in the pictures, whose newest moment is 720 wide; it may lie beyond them


def outlooks(
    stated: Iterable[Stated], topics: Sequence[dict[str, Any]], since: datetime, until: datetime
) -> tuple[Outlook, ...]:
    """Return what is forecast of a group; `stated`: its open forecasts, oldest first; `topics`: its newest rows."""
    newest = {(one.kind, one.topic): one for one in stated}
    standing = {key: one for key, one in newest.items() if stands(one, until)}
    waiting = {row["topic"] for row in topics if is_behind(row)}
    drains = [one for (kind, topic), one in standing.items() if kind is Kind.DRAIN and topic in waiting]
    losses = [one for (kind, _), one in standing.items() if kind is Kind.LOSS]
    found = []
    if drains and len(drains) == len(waiting):
        low, high = (max(drains, key=lambda one: _moment(one, end)) for end in (0, 1))
        found.append(_outlook(low, high, since, until))
    if losses:
        low, high = (min(losses, key=lambda one: _moment(one, end)) for end in (0, 1))
        found.append(_outlook(low, high, since, until))
    return tuple(found)


def is_behind(row: dict[str, Any]) -> bool:
    """Whether messages wait in a topic that are older than a minute, or may: queues or ages are not known."""
    waits = (row["effective_lag"] or 0) > 0 and (row["lag_ms"] is None or row["lag_ms"] > DRAINED_MS)
    return waits or row["unknown_queue_count"] > 0


def place_by_age(lag_ms: int | None, effective_lag: int | None) -> tuple[int, int]:
    """Return a key that sorts what waits longest first; an unknown age before all that is not older than a minute."""
    age_ms = (0 if effective_lag == 0 else DRAINED_MS + 1) if lag_ms is None else lag_ms
    return -age_ms, -(1 if effective_lag is None else effective_lag)


def loss_in_sight(outlooks: Iterable[Outlook], topics: Sequence[dict[str, Any]], kept: datetime | None) -> LossInSight:
    """Return what is known of losses; `topics`: a group's newest rows; `kept`: since when all brokers keep messages."""
    if any((row["lost"] or 0) > 0 for row in topics):
        return LossInSight.LOST
    if any(one.kind is Kind.LOSS for one in outlooks):
        return LossInSight.FORECAST
    behind = [row for row in topics if is_behind(row)]
    unseen = any(row["unknown_queue_count"] != 0 or row["lost"] is None for row in topics)
    if not behind and not unseen:
        return LossInSight.NOTHING_WAITS
    known = kept is not None and not unseen and all(row["lag_ms"] is not None for row in behind)
    return LossInSight.NONE if known else LossInSight.UNKNOWN


def kept_since(brokers: Iterable[dict[str, Any]]) -> datetime | None:
    """Return since when every broker keeps messages; None: of one nobody knows. `brokers`: rows of broker_facts."""
    oldest = [row["earliest_message_at"] for row in brokers if row["broker_id"] == 0]
    return None if not oldest or None in oldest else max(oldest)


def _moment(stated: Stated, end: int) -> datetime:
    return stated.made_at + stated.forecast.range_ms[end] * _MS


def _outlook(low: Stated, high: Stated, since: datetime, until: datetime) -> Outlook:
    earliest, latest = _moment(low, 0), _moment(high, 1)
    left, right = place_of(earliest, since, until), place_of(latest, since, until)
    return Outlook(
        kind=low.kind,
        made_at=low.made_at,
        low_ms=low.forecast.low_ms,
        high_ms=None if high.forecast.high_ms >= FURTHEST_MS else (latest - low.made_at) // _MS,
        band=Band(x=left, width=max(right - left, 1.0)),
    )
