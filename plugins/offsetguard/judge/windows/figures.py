"""The figures of a queue's window by which it is judged, each computed once from the folded state.

Nothing here is a verdict. Every figure that cannot be known is None; moments before `since` are outside the window.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from itertools import combinations
from statistics import median
from typing import NamedTuple

from offsetguard.config import WindowPolicy
from offsetguard.facts.duckdb_engine import CurvePlace, time_lags
from offsetguard.judge.forecasts.broker_cleaning import BrokerRetention
from offsetguard.judge.windows.pace import waited_between, waits_between
from offsetguard.model.offsets import QueueOffsets, epoch_ms
from offsetguard.tables.queue_state import Point, QueueState, curve

_MS = timedelta(milliseconds=1)
_DECLINES = 2  # samples in a row with a lower lag: one dip is none
_TREND_PARTS = 6  # of the window: a lag must be as old as one of them to have a trend
_SHORT_PARTS = 30  # of the window: for so long a group may be late even where samples are closer together
OVERRUN = 1.2  # so many times what is consumed is written: the usual limits are passed within a window
EVENLY = 0.9  # rounds of a minute are not always a minute apart
LEAST_SAMPLES = 3  # two make a difference, three a trend


class Ages(NamedTuple):
    """How old the oldest unconsumed message was by the producer curve, ms; None = it is not known, or not asked for."""

    newest_ms: int | None = None  # when the newest seen sample was read
    first_ms: int | None = None  # at the first moment of `lags`
    last_ms: int | None = None  # at the last one


_NOT_ASKED = Ages()


class _Ends(NamedTuple):
    """The queue's end and the group's committed offset at a moment, between samples; None = not known."""

    end: float
    committed: float | None


@dataclass(frozen=True, slots=True)
class QueueContext:
    """What is known of the queue besides its samples; None = unknown."""

    online_client_count: int | None = None
    message_model: str | None = None  # clustering or broadcasting, in any case
    subscribed: bool | None = None  # whether a client subscribes to the topic
    consumption: str | None = None  # classic or pop
    lag_ms: int | None = None  # age of the oldest unconsumed message, where it is known better than by the window
    came_at: tuple[datetime, ...] = ()  # when the newest client was started, and when clients were back last
    group_committed: bool | None = None  # POP: whether anything of the group's other queues was handed out
    retention: BrokerRetention | None = None  # what the queue's broker will delete
    tiered: bool = False  # what it deletes can still be read

    @property
    def broadcasting(self) -> bool:
        """Whether clients keep the offsets."""
        return (self.message_model or "").casefold() == "broadcasting"


@dataclass(frozen=True)
class WindowFigures:
    """What the window of a queue says as of `now`; `ages` are given by `with_ages`, of many windows at once."""

    state: QueueState
    context: QueueContext
    policy: WindowPolicy
    now: datetime
    ages: Ages = _NOT_ASKED

    @cached_property
    def since(self) -> datetime:
        """When the window begins."""
        return self.now - timedelta(milliseconds=self.policy.window_ms)

    def lies_within(self, moment: datetime | None) -> bool:
        """Whether a moment is known and in the window."""
        return moment is not None and moment >= self.since

    @cached_property
    def is_newest_seen(self) -> bool:
        """Whether the newest sample is the newest seen one."""
        return self.state.unknown_count == 0

    @cached_property
    def offsets(self) -> QueueOffsets:
        """The offsets of the newest seen sample; a commit that it did not show is the last one shown."""
        state = self.state
        pull = state.sample.pull_offset if self.is_newest_seen else None
        return QueueOffsets(state.seen_min_offset, state.seen_max_offset, state.committed_offset, pull)

    @cached_property
    def commit_is_gone(self) -> bool:
        """Whether the broker's table of commits was seen and has no entry for the queue any more."""
        return self.is_newest_seen and self.state.sample.consumer_offset is None

    @cached_property
    def waiting(self) -> int | None:
        """Messages that can still be consumed."""
        return self.offsets.effective_lag

    @cached_property
    def lag_ms(self) -> int | None:
        """Age of the oldest of them when the newest seen sample was read.

        None as well beyond the end, where what comes next is not written yet.
        """
        if (self.offsets.lag or 0) < 0:
            return None
        return self.ages.newest_ms if self._told_lag_ms is None else self._told_lag_ms

    @cached_property
    def _told_lag_ms(self) -> int | None:
        if self.context.lag_ms is not None or self.waiting is None:
            return self.context.lag_ms
        if self.waiting <= 0:
            return 0
        told_at = epoch_ms(self.state.sample.oldest_unconsumed_at) if self.is_newest_seen else None
        return None if told_at is None else max(0, (epoch_ms(self.state.seen_at) or 0) - told_at)

    @cached_property
    def lag_ms_at_most(self) -> int | None:
        """An age that the oldest of them did not exceed, where its own is not known; None = no such one is known."""
        return self.lag_ms if self.lag_ms is not None or not self.is_newest_seen else waits_between(self.state)[1]

    @cached_property
    def samples_used(self) -> int:
        """Seen samples within the window; where the state counts older ones too, as many as its spacing lets fit."""
        count, first = self.state.sample_count, self.state.first_seen_at
        if first is None or first >= self.since or not self.spacing:
            return count
        return min(count, 1 + timedelta(milliseconds=self.policy.window_ms) // self.spacing)

    @cached_property
    def spacing(self) -> timedelta:
        """Time between the newest two seen samples: no moment is known more exactly. 0 where rounds were missed."""
        seen, points = self.state.seen, self.state.points
        return timedelta(0) if seen is None or not points or self.state.sample_count < 2 else seen.at - points[0].at

    @cached_property
    def rounds_were_missed(self) -> bool:
        """Whether the queue was seen before, and since the rounds that were missed too seldom to see a movement.

        A lag that has grown since then is one.
        """
        count, points, seen = self.state.sample_count, self.state.points, self.state.seen
        if count >= LEAST_SAMPLES or len(points) < count or seen is None:
            return False
        return count == 1 or (_lag_at(seen) or 0) <= (_lag_at(points[0]) or 0)

    @cached_property
    def is_stale(self) -> bool:
        """Whether the newest seen sample is too old to say how the queue stands now."""
        seen = self.state.seen
        window = timedelta(milliseconds=self.policy.window_ms)
        return seen is None or self.now - seen.at > min(max(3 * self.spacing, window / 6), window)

    @cached_property
    def silence_ms(self) -> int:
        """For how long messages have waited without a commit that moved on, as of the newest seen sample."""
        state = self.state
        moments = [one for one in (state.advanced_at, state.end_reached_at, state.first_seen_at) if one is not None]
        return 0 if state.seen_at is None or not moments else (state.seen_at - max(moments)) // _MS

    @cached_property
    def began_unseen(self) -> bool:
        """Whether the silence is as long as the queue is known: it may have begun long before."""
        state = self.state
        seen = [one for one in (state.advanced_at, state.end_reached_at) if one is not None]
        return state.first_seen_at is not None and all(one < state.first_seen_at for one in seen)

    @cached_property
    def stood_still(self) -> bool:
        """Whether rounds were missed, and what waited before them waits behind the same committed offset."""
        first, unbroken = self.state.first_seen_at, self.state.unbroken_since
        return first is not None and unbroken is not None and first < unbroken

    @cached_property
    def rhythm_ms(self) -> int:
        """The longest such silence that a commit ended, within the last one or two windows; 0 = none.

        Of one in which clients came, only the time since: before that it was trouble, or nobody was there.
        """
        state = self.state
        ended = (
            (state.longest_pause_ms, state.longest_pause_ended_at),
            (state.earlier_longest_pause_ms, state.earlier_longest_pause_ended_at),
        )
        return max(
            (self._since_clients_came(ms, at) for ms, at in ended if ms is not None and at is not None), default=0
        )

    def _since_clients_came(self, pause_ms: int, ended_at: datetime) -> int:
        came = [at for at in self.context.came_at if at <= ended_at]
        return min([pause_ms, *((ended_at - at) // _MS for at in came)])

    @cached_property
    def is_silent(self) -> bool:
        """Whether the silence is longer than the window's own rhythm, and than what is too short to speak of."""
        longest = timedelta(milliseconds=self.rhythm_ms) + self.spacing / 2
        silence = timedelta(milliseconds=self.silence_ms)
        return silence > longest and self.silence_ms >= self.policy.lag_floor_ms * EVENLY

    @cached_property
    def waits_in_silence(self) -> bool:
        """Whether messages that an earlier sample had, as long ago as is worth a word, wait for a commit ever since."""
        seen, committed = self.state.seen, self.state.committed_offset
        if seen is None or committed is None or not self.is_silent or self.state.sample_count < LEAST_SAMPLES:
            return False
        least = timedelta(milliseconds=self.policy.lag_floor_ms) * EVENLY
        return any(seen.at - point.at >= least and point.max_offset > committed for point in self._earlier())

    @cached_property
    def never_moved(self) -> bool:
        """Whether messages have waited all the window long, and nothing was committed: it has no rhythm."""
        return not (self.lies_within(self.state.advanced_at) or self.lies_within(self.state.end_reached_at))

    @cached_property
    def rests(self) -> bool:
        """Whether a silence goes on that is still within the window's own rhythm, as of who commits now and then."""
        silence = timedelta(milliseconds=self.silence_ms)
        return self.rhythm_ms > 0 and not self.is_silent and silence >= 2 * self.spacing

    @cached_property
    def new_messages(self) -> int | None:
        """Messages written since the oldest sample of the window; None = there is one sample."""
        seen, earlier = self.state.seen, list(self._earlier())
        return None if seen is None or not earlier else seen.max_offset - earlier[-1].max_offset

    @cached_property
    def end_was_reached(self) -> bool:
        """Whether nothing waited a few samples ago, or what was there then has been consumed and the rest is young.

        Not where nothing of what has come since is consumed.
        """
        seen, committed, reached_at = self.state.seen, self.state.committed_offset, self.state.end_reached_at
        if seen is None or committed is None or self.waits_in_silence:
            return False
        recent = seen.at - self._few_samples
        if reached_at is not None and reached_at >= recent:
            return True
        # the lag of who is overrun grows: half of what is worth a word shows it
        young_ms = self.policy.lag_floor_ms // (2 if self._is_overrun else 1)
        is_young = self.lag_ms_at_most is not None and self.lag_ms_at_most <= young_ms
        then = self._at(recent)
        return is_young and then is not None and then.end <= committed

    @cached_property
    def _is_overrun(self) -> bool:
        """Whether clearly more was written than is consumed, in the last minute and the one before: no mere burst."""
        if self.state.seen_at is None:
            return False
        minute = max(self._short, self.spacing)
        now, then, before = (self._at(self.state.seen_at - back * minute) for back in range(3))
        if now is None or then is None or before is None or now.committed is None or then.committed is None:
            return False
        consumed = now.committed - then.committed  # of the minute before less is known: samples lie further apart
        return min(now.end - then.end, then.end - before.end) > OVERRUN * consumed

    def _at(self, moment: datetime) -> _Ends | None:
        """Return the ends at a moment, between the samples next to it; before the oldest one its own."""
        samples = [one for one in (self.state.seen, *self.state.points) if one is not None]
        if not samples:
            return None
        before = next((one for one in samples if one.at <= moment), samples[-1])
        after = next((one for one in reversed(samples) if one.at > moment), before)
        part = max(timedelta(0), moment - before.at) / max(timedelta.resolution, after.at - before.at)
        committed = None
        if before.committed_offset is not None and after.committed_offset is not None:
            committed = before.committed_offset + part * (after.committed_offset - before.committed_offset)
        return _Ends(before.max_offset + part * (after.max_offset - before.max_offset), committed)

    @property
    def _short(self) -> timedelta:
        return timedelta(milliseconds=min(self.policy.lag_floor_ms, self.policy.window_ms // _SHORT_PARTS))

    @property
    def _few_samples(self) -> timedelta:
        return max(self._short, 2 * self.spacing)

    @cached_property
    def lags(self) -> list[tuple[datetime, int]]:
        """(when, lag) of the window's samples that are kept, oldest first, from the last one at which nothing waited.

        An old zero is a point as any other; what lies before it is another backlog.
        """
        seen, reached_at = self.state.seen, self.state.end_reached_at
        if seen is None:
            return []
        known = [(point.at, lag) for point in (seen, *self._earlier()) if (lag := _lag_at(point)) is not None]
        if reached_at is None or not self.lies_within(reached_at):
            return known[::-1]
        return [(reached_at, 0), *((at, lag) for at, lag in reversed(known) if at > reached_at)]

    @cached_property
    def growth(self) -> int | None:
        """By how many messages the lag grew since the oldest of `lags`; negative: it shrank."""
        return self.lags[-1][1] - self.lags[0][1] if len(self.lags) > 1 else None

    @cached_property
    def growth_ms(self) -> int | None:
        """By how much the age of the oldest unconsumed message grew meanwhile; None = it is not known of both."""
        if len(self.lags) < 2:
            return None
        first = 0 if self.lags[0][0] == self.state.end_reached_at else self.ages.first_ms
        return None if first is None or self.ages.last_ms is None else self.ages.last_ms - first

    @cached_property
    def growth_ms_between(self) -> tuple[int | None, int | None]:
        """`growth_ms`: at least, and at most; None = no such bound is known."""
        if self.growth_ms is not None or len(self.lags) < 2:
            return self.growth_ms, self.growth_ms
        (first_at, _), (last_at, _) = self.lags[0], self.lags[-1]
        first = next((waited_between(self.state, one) for one in self._earlier() if one.at == first_at), (0, 0))
        is_known = self.lag_ms is not None and last_at == self.state.seen_at
        last = (self.lag_ms, self.lag_ms) if is_known else waits_between(self.state)
        span_ms = (last_at - first_at) // _MS  # what is consumed later was not written earlier
        return (
            None if last[0] is None or first[1] is None else last[0] - first[1],
            span_ms if last[1] is None else min(span_ms, last[1] - first[0]),
        )

    @cached_property
    def grows(self) -> bool:
        """Whether the lag grows by and large: the median of its slopes is up, and it does not shrink by now.

        What began at the queue's end a moment ago is a burst, not a trend.
        """
        if len(self.lags) < LEAST_SAMPLES or self._began_lately:
            return False
        slopes = [(b - a) / ((later - at) / _MS) for (at, a), (later, b) in combinations(self.lags, 2)]
        return median(slopes) > 0 and not self.shrinks

    @cached_property
    def shrinks(self) -> bool:
        """Whether the lag fell from sample to sample, more than once."""
        newest = [lag for _, lag in self.lags[-_DECLINES - 1 :]]
        return len(newest) > _DECLINES and newest == sorted(set(newest), reverse=True)

    @cached_property
    def _began_lately(self) -> bool:
        began_at, newest_at = self.lags[0][0], self.lags[-1][0]
        least = timedelta(milliseconds=self.policy.window_ms) / _TREND_PARTS
        return began_at == self.state.end_reached_at and newest_at - began_at < least

    def places(self) -> tuple[CurvePlace | None, ...]:
        """Return what the fields of `Ages` are the ages of; None = not asked for."""
        waits = (self.waiting or 0) > 0 and self._told_lag_ms is None
        committed = {one.at: one.committed_offset for one in (self.state.seen, *self._earlier()) if one is not None}
        moments = [self.lags[0][0], self.lags[-1][0]] if len(self.lags) > 1 else []
        asked = [(self.offsets.first_readable if waits else None, self.state.seen_at)]
        asked += [(None if at == self.state.end_reached_at else committed.get(at), at) for at in moments]
        if all(offset is None for offset, _ in asked):
            return ()
        points = [(offset, epoch_ms(at) or 0) for offset, at in curve(self.state)]
        unbroken = epoch_ms(self.state.unbroken_since)
        return tuple(None if one is None else CurvePlace(points, one, epoch_ms(at) or 0, unbroken) for one, at in asked)

    def _earlier(self) -> Iterator[Point]:
        """Yield the window's points, newest first."""
        return (point for point in self.state.points if point.at >= self.since)


def with_ages(windows: Sequence[WindowFigures]) -> list[WindowFigures]:
    """Return the windows with the ages that they ask for: one query for all."""
    asked = [one.places() for one in windows]
    found = iter(time_lags([place for places in asked for place in places if place is not None]))
    ages = [Ages(*(None if place is None else next(found).lag_ms for place in places)) for places in asked]
    return [replace(one, ages=its) for one, its in zip(windows, ages, strict=True)]


def _lag_at(point: Point) -> int | None:
    return None if point.committed_offset is None else max(0, point.max_offset - point.committed_offset)
