"""What became of a forecast, and when a new one is worth keeping.

A forecast is *inside* when what it is about came within its range, *early* when it came before, *late* when it came
after or had not come at the range's end. It is *void* when it cannot come any more as it was meant: the backlog was
drained before the loss, all clients of a draining group left, or the group is gone. Void ones count for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from offsetguard.facts.interval import QueueFacts
from offsetguard.judge.forecasts.forecasts import group_drain, group_loss
from offsetguard.model.forecast import DRAINED_MS, FURTHEST_MS, Forecast, Kind, Outcome, Stated
from offsetguard.tables.facts import OffsetMoveFacts
from offsetguard.tables.group_facts import GroupFacts

_MS = timedelta(milliseconds=1)
_SAME_MS = 300_000  # a forecast stands so long, or a tenth of its range, before the same is kept again
_GONE_MS = 3_600_000  # after the end of its range without a sight of the group


@dataclass(frozen=True, slots=True)
class Seen:
    """What one interval shows of a (consumer group, topic); None = not known."""

    drained: bool | None
    lost_at: datetime | None  # last time that messages were seen to be lost
    clients_online: bool | None
    drain: Forecast | None
    loss: Forecast | None


def seen(group: GroupFacts, queues: Sequence[QueueFacts], moves: Iterable[OffsetMoveFacts], now: datetime) -> Seen:
    """Return what an interval shows of a group; `queues`: its suspect ones, with verdicts; `moves`: of its offsets."""
    lost = [queue.window.lost_at for queue in queues if queue.window is not None and queue.window.lost_at is not None]
    lost += [move.last_moved_at for move in moves if move.corrected_offset > move.requested_offset]
    if group.lost:
        lost.append(now)
    verdicts = [queue.verdict for queue in queues if queue.verdict is not None]
    return Seen(
        drained=_drained(group),
        lost_at=max(lost, default=None),
        clients_online=None if group.online_client_count is None else group.online_client_count > 0,
        drain=group_drain(verdicts),
        loss=group_loss(verdicts),
    )


def outcome(stated: Stated, shown: Seen | None, now: datetime) -> Outcome | None:
    """Return what became of a forecast by now; None: nothing yet. `shown` None: the group was not seen."""
    elapsed_ms = (now - stated.made_at) // _MS
    forecast = stated.forecast
    if shown is None:
        return Outcome.VOID if elapsed_ms > forecast.high_ms + _GONE_MS else None
    passed = forecast.high_ms < FURTHEST_MS and elapsed_ms > forecast.high_ms
    if shown.drained if stated.kind is Kind.DRAIN else _lost_since(shown, stated.made_at):
        return Outcome.LATE if passed else Outcome.EARLY if elapsed_ms < forecast.low_ms else Outcome.INSIDE
    if stated.kind is Kind.DRAIN:
        return Outcome.VOID if shown.clients_online is False else Outcome.LATE if passed else None
    if shown.drained or (passed and (shown.drain is not None or shown.loss is None)):
        return Outcome.VOID
    if elapsed_ms >= FURTHEST_MS:
        return Outcome.INSIDE  # "or later", and it is later
    return Outcome.LATE if passed else None


def says_something_new(newest: Stated | None, forecast: Forecast, now: datetime) -> bool:
    """Whether a forecast differs from the newest one that stands, or that one is old: else it is the same again."""
    if newest is None or newest.forecast.basis is not forecast.basis:
        return True
    since_ms = (now - newest.made_at) // _MS
    low_ms, high_ms = newest.forecast.low_ms - since_ms, newest.forecast.high_ms - since_ms
    apart = forecast.high_ms < low_ms or forecast.low_ms > high_ms
    return apart or since_ms >= max(_SAME_MS, newest.forecast.high_ms // 10)


def _drained(group: GroupFacts) -> bool | None:
    if group.unknown_queue_count or group.effective_lag is None:
        return None
    if group.effective_lag <= 0:
        return True
    return None if group.lag_ms is None else group.lag_ms <= DRAINED_MS


def _lost_since(shown: Seen, made_at: datetime) -> bool:
    return shown.lost_at is not None and shown.lost_at > made_at
