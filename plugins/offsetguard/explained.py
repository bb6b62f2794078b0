"""What `offsetguard explain` says of samples that somebody gives: the pipeline's judgement, on one queue."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa

from offsetguard.known_figures import epoch_ms
from offsetguard.offsets import QueueOffsets
from offsetguard.queue_fold import windows_of
from offsetguard.queue_state import QueueState, Sample
from offsetguard.time_lag import Basis, TimeLag, lag_in_time, producer_curve
from offsetguard.windows import judge_window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offsetguard.config import WindowPolicy
    from offsetguard.time_lag import Point
    from offsetguard.verdicts import QueueVerdict
    from offsetguard.window_rules import QueueContext

_LATEST_MS = 253_402_300_799_999  # the end of the year 9999
_POINT = pa.struct([("max_offset", pa.int64()), ("at_ms", pa.int64())])
_CURVES = pa.schema(
    [("cluster", pa.string()), ("places", pa.list_(pa.int64())), ("points", pa.list_(_POINT)), ("now_ms", pa.int64())]
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class GivenSample:
    """One sample of a queue; None = not known. A commit that no sample shows was never made."""

    at_ms: int
    consumer_offset: int | None = None
    max_offset: int | None = None
    min_offset: int | None = None
    pull_offset: int | None = None
    last_timestamp_ms: int | None = None  # store time of the message before consumer_offset


@dataclass(frozen=True, slots=True)
class GivenQueue:
    """A queue of which some samples are known, in any order, and as of when it is judged by what."""

    samples: Sequence[GivenSample]
    context: QueueContext
    policy: WindowPolicy
    now_ms: int

    def known(self) -> list[GivenSample]:
        """Return its samples in order of time: none from the future, and of several of one moment one."""
        return _one_of_each_moment([one for one in self.samples if one.at_ms <= self.now_ms])

    def history(self) -> list[tuple[datetime, Sample]]:
        """Return what its window is folded of."""
        within = [one for one in self.known() if one.at_ms >= self.now_ms - self.policy.window_ms]
        commits_seen = any(one.consumer_offset is not None for one in within)
        return [(_moment(one.at_ms), _sample(one, commits_seen=commits_seen)) for one in within]


def explain_queues(given: Sequence[GivenQueue]) -> list[QueueVerdict]:
    """Return the verdicts on queues: one query for all whose windows are equally long."""
    of_length: dict[int, dict[int, list[tuple[datetime, Sample]]]] = defaultdict(dict)
    for number, one in enumerate(given):
        of_length[one.policy.window_ms][number] = one.history()
    states: dict[int, QueueState] = {}
    for window_ms, histories in of_length.items():
        states |= windows_of(histories, timedelta(milliseconds=window_ms))
    return [_judged(one, states.get(number)) for number, one in enumerate(given)]


def _judged(given: GivenQueue, state: QueueState | None) -> QueueVerdict:
    now = _moment(given.now_ms)
    state = state or QueueState(interval_start=now, sample=Sample())
    context = replace(given.context, lag_ms=_lag_ms(state, given.known(), given.now_ms))
    return judge_window(state, context, given.policy, now)


@dataclass(frozen=True, slots=True)
class GivenCurve:
    """The producer curve of a queue, and the offset whose age is asked for; None = not known."""

    points: Sequence[Point]  # as `producer_curve` makes them
    offset: int | None
    now_ms: int


def explain_time_lags(given: Sequence[GivenCurve]) -> list[TimeLag]:
    """Return the age of the message at each offset, as `facts/time_lags.sql` says it."""
    from offsetguard.facts.duckdb_engine import DuckDBEngine  # noqa: PLC0415 0.3 s, and most commands make no facts

    engine = DuckDBEngine()
    rows = [
        {
            "cluster": str(number),
            "places": [one.offset],
            "points": [{"max_offset": offset, "at_ms": min(at_ms, _LATEST_MS)} for offset, at_ms in one.points],
            "now_ms": one.now_ms,
        }
        for number, one in enumerate(given)
    ]
    engine.add("queue_curves", pa.Table.from_pylist(rows, schema=_CURVES))
    found = {row["cluster"]: row["ages"][0] for row in engine.rows("time_lags")}
    return [TimeLag(age["lag_ms"], Basis(age["basis"])) for age in (found[row["cluster"]] for row in rows)]


def _one_of_each_moment(samples: Sequence[GivenSample]) -> list[GivenSample]:
    """Return the samples in order of time, of each moment the one that tells most."""
    in_order = sorted(samples, key=lambda one: one.at_ms)
    return [max(some, key=_told) for _, some in groupby(in_order, key=lambda one: one.at_ms)]


def _told(sample: GivenSample) -> int:
    return sum(one is not None for one in (sample.max_offset, sample.consumer_offset, sample.min_offset))


def _sample(given: GivenSample, *, commits_seen: bool) -> Sample:
    """Return a sample for the fold. A commit does not go away: where others show one, none shown is one not seen."""
    at = _moment(given.at_ms)
    unseen = given.max_offset is None or (given.consumer_offset is None and commits_seen)
    return Sample(
        min_offset=given.min_offset,
        max_offset=given.max_offset,
        consumer_offset=given.consumer_offset,
        pull_offset=given.pull_offset,
        last_timestamp=_moment(given.last_timestamp_ms) if given.last_timestamp_ms else None,
        consumer_offset_read_at=None if unseen else at,
        pull_offset_read_at=None if given.pull_offset is None else at,
        max_offset_read_at=None if unseen else at,
    )


def _lag_ms(state: QueueState, samples: Sequence[GivenSample], now_ms: int) -> int | None:
    """Return the age of the oldest unconsumed message on the curve of all samples; the state keeps only a few.

    It is younger than the message before it, of which the broker tells when it was stored.
    """
    offsets = QueueOffsets(state.seen_min_offset, state.seen_max_offset, state.committed_offset)
    curve = producer_curve((one.max_offset, one.at_ms) for one in samples)
    found = lag_in_time(offsets, None, curve, now_ms).lag_ms
    before_ms = epoch_ms(state.sample.last_timestamp) if state.unknown_count == 0 else None
    return found if found is None or before_ms is None else max(0, min(found, now_ms - before_ms))


def _moment(at_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=at_ms)
