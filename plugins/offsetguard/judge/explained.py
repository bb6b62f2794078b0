"""What `offsetguard explain` says of samples that somebody gives: the pipeline's judgement, on one queue."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby

from offsetguard.config import WindowPolicy
from offsetguard.facts.duckdb_engine import CurvePlace, TimeLag, producer_curve, time_lags, windows_of
from offsetguard.judge.windows.figures import QueueContext, WindowFigures
from offsetguard.judge.windows.windows import judge_windows
from offsetguard.model.offsets import QueueOffsets, epoch_ms
from offsetguard.model.verdicts import QueueVerdict
from offsetguard.tables.queue_state import QueueState, Sample

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
        """Return what its window is folded of; none where no sample lies in the window.

        As in the pipeline those of before are folded, too: without them nobody knows what a gap at its edge is.
        """
        known = self.known()
        if not known or known[-1].at_ms < self.now_ms - self.policy.window_ms:
            return []
        commits_seen = any(one.consumer_offset is not None for one in known)
        return [(_moment(one.at_ms), _sample(one, commits_seen=commits_seen)) for one in known]


def explain_queues(given: Sequence[GivenQueue]) -> list[QueueVerdict]:
    """Return the verdicts on queues: one query for all whose windows are equally long."""
    of_length: dict[int, dict[int, list[tuple[datetime, Sample]]]] = defaultdict(dict)
    for number, one in enumerate(given):
        of_length[one.policy.window_ms][number] = one.history()
    found: dict[int, QueueState] = {}
    for window_ms, histories in of_length.items():
        found |= windows_of(histories, timedelta(milliseconds=window_ms))
    states = [
        found.get(number) or QueueState(interval_start=_moment(one.now_ms), sample=Sample())
        for number, one in enumerate(given)
    ]
    ages = time_lags([_oldest(one, state) for one, state in zip(given, states, strict=True)])
    return judge_windows(
        [
            WindowFigures(state, replace(one.context, lag_ms=_lag_ms(state, age, one)), one.policy, _moment(one.now_ms))
            for one, state, age in zip(given, states, ages, strict=True)
        ]
    )


def _one_of_each_moment(samples: Sequence[GivenSample]) -> list[GivenSample]:
    """Return the samples in order of time, of each moment the one that tells most."""
    in_order = sorted(samples, key=lambda one: one.at_ms)
    return [max(some, key=_figures_known) for _, some in groupby(in_order, key=lambda one: one.at_ms)]


def _figures_known(sample: GivenSample) -> int:
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


def _oldest(given: GivenQueue, state: QueueState) -> CurvePlace:
    """Return where the oldest unconsumed message lies on the curve of all samples; the state keeps only a few."""
    curve = producer_curve((one.max_offset, one.at_ms) for one in given.known())
    unbroken = epoch_ms(state.unbroken_since)
    return CurvePlace(curve, _offsets(state).first_readable, _seen_ms(state, given), unbroken)


def _lag_ms(state: QueueState, on_curve: TimeLag, given: GivenQueue) -> int | None:
    """Return the age of the oldest unconsumed message.

    It is younger than the message before it, of which the broker tells when it was stored.
    """
    waiting = _offsets(state).effective_lag
    found = 0 if waiting is not None and waiting <= 0 else on_curve.lag_ms
    before_ms = epoch_ms(state.sample.last_timestamp) if state.unknown_count == 0 else None
    return found if found is None or before_ms is None else max(0, min(found, _seen_ms(state, given) - before_ms))


def _seen_ms(state: QueueState, given: GivenQueue) -> int:
    """Return when the newest seen sample was read: an age is as of then."""
    seen_ms = epoch_ms(state.seen_at)
    return given.now_ms if seen_ms is None else seen_ms


def _offsets(state: QueueState) -> QueueOffsets:
    return QueueOffsets(state.seen_min_offset, state.seen_max_offset, state.committed_offset)


def _moment(at_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=at_ms)
