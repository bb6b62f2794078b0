"""Facts of a past span once more: every interval that has landed is published again, oldest first, in one session.

Nothing newer is touched: a publication replaces the rows of its own interval, and `queue_state` only moves forward.
Nothing is judged here, so nobody is told anything.

Before each of them what is live is published, of every cluster, so that the past keeps no new minute waiting.

Killed anywhere, it goes on where it was: what was published since the recomputation was asked for is left out.

`rebuild_state` makes the state of a cluster's queues again from the published snapshots, when that one is doubted.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from offsetguard.collect.landing import landed_intervals
from offsetguard.lake.catalog import catalog_exists
from offsetguard.lake.upkeep.commit_times import check_times
from offsetguard.lake.upkeep.expiry import kept_from
from offsetguard.lake.upkeep.packing import unpack
from offsetguard.model.errors import OffsetGuardError, PublishError, SnapshotError
from offsetguard.model.intervals import INTERVAL_LENGTH, Interval
from offsetguard.store import published_intervals
from offsetguard.store.locks import only_publisher
from offsetguard.tables import QUEUE_SNAPSHOTS, QUEUE_STATE
from offsetguard_spark.branches import TableRows, begin
from offsetguard_spark.minutes import Minutes
from offsetguard_spark.publish import Publisher
from offsetguard_spark.publish_waiting import publish_waiting
from offsetguard_spark.queue_state import rebuild
from offsetguard_spark.reports import Progress, run_name
from offsetguard_spark.session import first_line
from offsetguard_spark.tables import load_tables

_UNPACKED_AT_ONCE = 60  # intervals: housekeeping may pack again what takes longer
_FAILURES = 3  # in a row, of which none is due to a landed file: the next interval would fail, too


class LeftOut(StrEnum):
    """Why an interval of the span is not recomputed."""

    DONE = "published since the recomputation was asked for"
    RETENTION_PASSED = "older than retention.snapshots_days: its snapshot was deleted"
    NOT_LANDED = "no snapshot has landed"


@dataclass(frozen=True, slots=True)
class RecomputePlan:
    """What a recomputation has to do."""

    intervals: tuple[Interval, ...]  # oldest first
    left_out: dict[LeftOut, int]


@dataclass(slots=True)
class RecomputeReport:
    """What became of a span; one JSON line of the job. All numbers together are the minutes of the span."""

    cluster: str
    first: str
    last: str
    recomputed: int = 0
    left_out: dict[str, int] = field(default_factory=dict)  # reason -> intervals
    failed: dict[str, str] = field(default_factory=dict)  # interval -> why
    not_tried: int = 0  # it stopped before them
    rebuilt_state_rows: int | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Recomputer:
    """Publishes many intervals with one publisher, whose session is started when there is work."""

    publisher: Publisher

    def plan(self, cluster: str, first: Interval, last: Interval, *, since: datetime, now: datetime) -> RecomputePlan:
        """Return which intervals of [first, last] can be recomputed, and why the others cannot.

        `since`: when the recomputation was asked for; what was published after it is done.
        """
        workspace, config = self.publisher.workspace, self.publisher.config
        landed = set(landed_intervals(workspace.landing_folder, cluster, first.start, last.start))
        done = published_intervals.published_since(self.publisher.engine, cluster, since)
        oldest = kept_from(timedelta(days=config.retention.snapshots_days), now)
        chosen, left_out = [], dict.fromkeys(LeftOut, 0)
        for interval in _span(first, last):
            if interval not in landed:
                left_out[LeftOut.RETENTION_PASSED if interval.start < oldest else LeftOut.NOT_LANDED] += 1
            elif interval.start in done:
                left_out[LeftOut.DONE] += 1
            else:
                chosen.append(interval)
        return RecomputePlan(tuple(chosen), {reason: count for reason, count in left_out.items() if count})

    def recompute(
        self, cluster: str, intervals: Sequence[Interval], report: RecomputeReport, *, now: datetime
    ) -> RecomputeReport:
        """Publish the intervals again, one after the other; what fails is kept in the report, and the rest goes on.

        Says a line for each: how many of how many, how fast, how long it will take.
        """
        began, own = time.monotonic(), {(cluster, one) for one in intervals}
        failures = 0
        for number, interval in enumerate(intervals):
            if number % _UNPACKED_AT_ONCE == 0:
                self._unpack(cluster, intervals[number : number + _UNPACKED_AT_ONCE])
            outcome, next_will_fail = self._publish(cluster, interval, report, lambda: now + _since(began), own)
            failures = failures + 1 if next_will_fail else 0
            self._say(
                _progress_line(number + 1, len(intervals), time.monotonic() - began, f"{interval.name}: {outcome}")
            )
            if failures == _FAILURES:
                report.not_tried = len(intervals) - number - 1
                self._say(f"stopped: {_FAILURES} intervals in a row failed; run it again to go on when that is mended")
                break
        report.seconds = round(time.monotonic() - began, 1)
        return report

    def _publish(
        self,
        cluster: str,
        interval: Interval,
        report: RecomputeReport,
        clock: Callable[[], datetime],
        own: set[tuple[str, Interval]],
    ) -> tuple[str, bool]:
        quiet = replace(self.publisher, progress=Progress(lambda line: None))
        try:
            session = publish_waiting(quiet, clock, live_only=True, without=own)
            for (live_cluster, live), error in session.failed.items():
                self._say(f"{live_cluster}: {live.name}: {error}")
            published = quiet.publish(cluster, interval, now=clock(), again=True)
        except OffsetGuardError as error:
            report.failed[interval.name] = str(error)
            return f"FAILED: {error}", not isinstance(error, SnapshotError)
        except (PySparkException, Py4JError) as error:
            report.failed[interval.name] = f"step {quiet.progress.current}: Spark: {first_line(error)}"
            return f"FAILED: {report.failed[interval.name]}", True
        report.recomputed += 1
        seconds = sum(published.seconds.values())
        return f"{sum(published.rows.values()):,} rows in {seconds:.1f} s", False

    def _unpack(self, cluster: str, intervals: Sequence[Interval]) -> None:
        """Give all of them files of their own at once: one after the other would rewrite the same file many times."""
        if not catalog_exists(self.publisher.workspace):
            return
        with only_publisher(self.publisher.engine, self._say):
            states = load_tables(self.publisher.workspace)
            check_times(states.values(), datetime.now(UTC))
            for table, state in states.items():
                if count := unpack(state, table, cluster, min(intervals).start, max(intervals).start):
                    self._say(f"{table.name}: {count} packed files were taken apart")

    def _say(self, line: str) -> None:
        self.publisher.progress.say(line)


def span_of(first: datetime, last: datetime) -> tuple[Interval, Interval]:
    """Return the first and the last interval of a span; raises PublishError when it is none."""
    if last < first:
        raise PublishError(f"the span ends ({last.isoformat()}) before it begins ({first.isoformat()}); swap the two")
    return Interval.containing(first), Interval.containing(last)


def _span(first: Interval, last: Interval) -> Iterator[Interval]:
    start = first.start
    while start <= last.start:
        yield Interval(start)
        start += INTERVAL_LENGTH


def _since(began: float) -> timedelta:
    return timedelta(seconds=time.monotonic() - began)


def _progress_line(done: int, total: int, seconds: float, outcome: str) -> str:
    per_minute = done / seconds * 60 if seconds else 0.0
    left = timedelta(seconds=round((total - done) * seconds / done))
    return f"{done}/{total} {outcome}; {per_minute:.1f} intervals a minute, {left} left"


def rebuild_state(publisher: Publisher, cluster: str) -> int:
    """Replace `queue_state` by what `queue_snapshots` say as of the newest published interval; returns the rows.

    Raises PublishError when nothing was published.
    """
    say = publisher.progress.say
    with only_publisher(publisher.engine, say) as lock:
        newest = published_intervals.newest(publisher.engine, cluster)
        if newest is None:
            raise PublishError(f"cluster {cluster}: nothing was published, so there is no state to rebuild")
        spark = publisher.start_spark()
        minutes = Minutes((cluster,), (newest.interval,))
        branches = begin(spark, publisher.workspace, minutes, name=run_name("rebuild"), say=say)
        rows = rebuild(branches.of_clusters(QUEUE_SNAPSHOTS), newest.interval)
        branches.write([TableRows(QUEUE_STATE, lambda: rows, 0)])
        count = branches.added_row_counts()[QUEUE_STATE]
        snapshot_ids = branches.snapshot_ids()
        lock.check()
        branches.forward(snapshot_ids)
        ids = newest.snapshot_ids | {QUEUE_STATE.name: snapshot_ids[QUEUE_STATE.name]}
        published_intervals.record(publisher.engine, replace(newest, snapshot_ids=ids))
    return count
