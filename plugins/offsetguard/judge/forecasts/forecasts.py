"""When will a backlog be drained, and when will messages be lost? Ranges in ms from now, each with its basis.

*Drain* is the time until nothing waits that is older than a minute, at the speeds at which the queue was written and
consumed since its backlog shrinks: the fastest and the slowest are the range. A backlog that does not shrink has none.

*Loss* is the time until the broker deletes the oldest message that the group has not consumed. Brokers delete whole
commit-log files of all topics (`broker_cleaning.py` runs the cleaner ahead, once as early and once as late as may be);
the group's place moves on meanwhile if it consumes. Where nothing is known of the broker, the last two moves of the
queue's own min offset tell its pace.

A range says what comes if everything goes on as now: who starts a consumer makes it untrue, and should.

What became of a forecast, and when a new one is worth keeping.

A forecast is *inside* when what it is about came within its range, *early* when it came before, *late* when it came
after or had not come at the range's end. It is *void* when it cannot come any more as it was meant: the backlog was
drained before the loss, all clients of a draining group left, or the group is gone. Void ones count for nothing.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from offsetguard.facts.interval import QueueFacts
from offsetguard.judge.forecasts.broker_cleaning import BrokerRetention, Deletion
from offsetguard.judge.windows.pace import place, speeds
from offsetguard.model.offsets import epoch_ms
from offsetguard.model.verdicts import (
    DRAINED_MS,
    FURTHEST_MS,
    Basis,
    Forecast,
    Kind,
    Outcome,
    QueueVerdict,
    State,
    Stated,
)
from offsetguard.tables.facts import OffsetMoveFacts
from offsetguard.tables.group_facts import GroupFacts
from offsetguard.tables.queue_state import QueueState

_MS = timedelta(milliseconds=1)
_CLOSING = 0.02  # of the consume rate: a backlog that shrinks more slowly may as well grow
_FASTER, _SLOWER = 1.1, 0.9  # what each speed does beyond those that were seen
_DRIFT_PER_HOUR, _MOST_DRIFT = 0.05, 0.5  # of the produce rate: a day has its rhythm
_HOUR_MS = 3_600_000
_CYCLE_MS = 60_000  # what happens between two samples is seen with the later one
_AT_MOST, _STEP_MS = 1.1, 1_200_000  # beyond the latest run of the cleaner: its steps, and what it leaves out
_EARLIER, _LATER = 0.75, 1.5  # the pace of min's own moves
_MOVES_ENDED = 3  # times their distance without another one
_SAME_MS = 300_000  # a forecast stands so long, or a tenth of its range, before the same is kept again
_GONE_MS = 3_600_000  # after the end of its range without a sight of the group


def drain(window: QueueState, now: datetime) -> Forecast | None:
    """Return when nothing old waits any more; None: nothing does, the backlog does not shrink, or nobody knows."""
    newest, waiting = window.seen, window.sample.offsets.effective_lag
    seen = list(speeds(window))
    if newest is None or waiting is None or not seen:
        return None
    if any(consumed - produced <= _CLOSING * consumed for consumed, produced in seen):
        return None
    drift = min(_MOST_DRIFT, _DRIFT_PER_HOUR * max(_until_drained(waiting, *one) for one in seen) / _HOUR_MS)
    low = min(_until_drained(waiting, consumed * _FASTER, produced * (_SLOWER - drift)) for consumed, produced in seen)
    high = max(_until_drained(waiting, consumed * _SLOWER, produced * (_FASTER + drift)) for consumed, produced in seen)
    if high <= 0:
        return None
    since_ms = max(0, (now - newest.at) // _MS)
    return _range(low - since_ms - _CYCLE_MS, high - since_ms + _CYCLE_MS, Basis.CONSUME_RATE)


def loss(
    window: QueueState, retention: BrokerRetention | None, now: datetime, *, oldest_at: datetime | None = None
) -> Forecast | None:
    """Return when the oldest unconsumed message is deleted; None: not within FURTHEST_MS, or nobody knows.

    Of a group that is below the oldest message kept, and has lost some already, nothing is forecast.
    `oldest_at`: when that message was stored, where it is known better than by the window's newest sample.
    `retention`: what its broker will delete; None = only the queue's own samples are known.
    """
    newest, waiting = window.seen, window.sample.offsets.effective_lag
    if newest is None or newest.committed_offset is None or waiting is None or waiting <= 0:
        return None
    if window.seen_min_offset is not None and newest.committed_offset < window.seen_min_offset:
        return None
    if retention is None:
        return _by_own_moves(window, newest.committed_offset, now)
    at = place(window, now, oldest_at, retention.oldest_ms)
    if at is None or (epoch_ms(newest.at) or 0) - at.earliest_ms <= DRAINED_MS:  # `now` may be a minute later
        return None
    low = _first_crossing(retention.early, at.earliest_ms, at.slowest)
    if low is None:
        return None
    high = _first_crossing(retention.late, at.latest_ms, at.fastest)
    return _range(low.after_ms, FURTHEST_MS if high is None else high.after_ms * _AT_MOST + _STEP_MS, low.basis)


def drained_before(drained: Forecast | None, lost: Forecast) -> bool:
    """Whether a backlog is gone before anything of it is lost.

    That is so if it drains before the earliest loss even when it drains late; or if it is not lost at all when it goes
    well, and could drain before the earliest loss.
    """
    if drained is None:
        return False
    may_be_first = drained.low_ms <= lost.low_ms
    return drained.high_ms < lost.low_ms or (may_be_first and lost.high_ms >= FURTHEST_MS)


def group_drain(verdicts: Iterable[QueueVerdict]) -> Forecast | None:
    """Return when the last queue of a group is drained; None: nothing old waits, or of one queue nobody knows."""
    behind = [verdict for verdict in verdicts if _is_behind(verdict)]
    known = [verdict.drain for verdict in behind if verdict.drain is not None]
    if not known or len(known) < len(behind):
        return None
    last = max(known, key=lambda one: one.high_ms)
    return Forecast(max(one.low_ms for one in known), last.high_ms, last.basis)


def group_loss(verdicts: Iterable[QueueVerdict]) -> Forecast | None:
    """Return when the first queue of a group loses messages; None: none does within FURTHEST_MS, or nobody knows."""
    known = [verdict.loss for verdict in verdicts if verdict.loss is not None]
    if not known:
        return None
    first = min(known, key=lambda one: one.low_ms)
    return Forecast(first.low_ms, min(one.high_ms for one in known), first.basis)


def _until_drained(waiting: int, consumed: float, produced: float) -> float:
    """Return ms until no more waits than is written in DRAINED_MS; infinite if the backlog grows."""
    old = waiting - produced * DRAINED_MS
    if old <= 0:
        return 0.0
    return old / (consumed - produced) if consumed > produced else math.inf


def _range(low: float, high: float, basis: Basis) -> Forecast | None:
    if low >= FURTHEST_MS:
        return None
    low_ms = max(0, int(low))
    return Forecast(low_ms, max(low_ms, int(min(high, FURTHEST_MS))), basis)


def _is_behind(verdict: QueueVerdict) -> bool:
    if verdict.effective_lag is None:  # nobody knows what waits; without a commit nothing is drained
        return verdict.state is State.UNKNOWN
    return verdict.effective_lag > 0 and (verdict.lag_ms is None or verdict.lag_ms > DRAINED_MS)


def _first_crossing(deletions: Iterable[Deletion], stored_ms: int, speed: float) -> Deletion | None:
    """Return the first deletion that takes a message of `stored_ms`, or one that the group has come to by then."""
    return next((one for one in deletions if one.gone_before_ms > stored_ms + speed * one.after_ms), None)


def _by_own_moves(window: QueueState, committed: int, now: datetime) -> Forecast | None:
    """Return when min passes the committed offset if it goes on with steps like its last two, as far apart."""
    moved_at, moved_from = window.min_moved_at, window.min_moved_from
    before_at, before_from = window.earlier_min_moved_at, window.earlier_min_moved_from
    low = window.seen_min_offset
    if moved_at is None or moved_from is None or before_at is None or before_from is None or low is None:
        return None
    apart, since = (moved_at - before_at) / _MS, (now - moved_at) / _MS
    ahead = committed - low
    if apart <= 0 or since > _MOVES_ENDED * apart or ahead < 0:
        return None
    seen = [consumed for consumed, _ in speeds(window)] or [0.0]
    most, least = max(low - moved_from, moved_from - before_from), min(low - moved_from, moved_from - before_from)
    fast, slow = most - min(seen) * apart, least - max(seen) * apart
    if fast <= 0:
        return None
    steps = math.floor(ahead / fast) + 1
    last = math.inf if slow <= 0 else (math.floor(ahead / slow) + 1) * apart * _LATER - since
    return _range(steps * apart * _EARLIER - since, last + _CYCLE_MS, Basis.OBSERVED_MOVES)


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
    lost = [queue.window.lost_at for queue in queues if queue.window.lost_at is not None]
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
    return apart or since_ms >= _same_for_ms(newest.forecast)


def stands(newest: Stated, now: datetime) -> bool:
    """Whether the newest forecast still holds: else the same would have been kept again, were it still forecast."""
    return (now - newest.made_at) // _MS < _same_for_ms(newest.forecast) + 2 * _CYCLE_MS


def _same_for_ms(forecast: Forecast) -> int:
    return max(_SAME_MS, forecast.high_ms // 10)


def _drained(group: GroupFacts) -> bool | None:
    if group.unknown_queue_count or group.effective_lag is None:
        return None
    if group.effective_lag <= 0:
        return True
    return None if group.lag_ms is None else group.lag_ms <= DRAINED_MS


def _lost_since(shown: Seen, made_at: datetime) -> bool:
    return shown.lost_at is not None and shown.lost_at > made_at
