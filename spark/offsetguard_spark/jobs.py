"""The command lines of `spark/jobs`, which Airflow's tasks run, and what `offsetguard quarantine redrive` starts.

    python -m offsetguard_spark.jobs --cluster demo < names

publishes the named intervals again from their landed snapshots, in one session, one name a line on stdin: that judges
every row of them with the invariants of this release. Exit code 1 when an interval failed, or when its snapshot was
deleted by retention.
"""

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from sqlalchemy import Engine

from offsetguard.collect.backlog import is_live
from offsetguard.collect.landing import has_landed
from offsetguard.config import Config
from offsetguard.config.file import config_in_use, did_you_mean
from offsetguard.config.workspace import ENDS_AT_VARIABLE, TASK_PROCESS_VARIABLE, Workspace
from offsetguard.model.errors import ConfigError, OffsetGuardError
from offsetguard.model.intervals import Interval
from offsetguard.model.processes import write_for_owner_only
from offsetguard.store.database import open_database
from offsetguard.store.locks import has_ended
from offsetguard_spark.ingest import Ingester, LogBatch
from offsetguard_spark.minutes import Minutes
from offsetguard_spark.publish import Publisher
from offsetguard_spark.publish_waiting import publish_waiting
from offsetguard_spark.recompute import Recomputer, RecomputeReport, rebuild_state, span_of
from offsetguard_spark.reports import Progress
from offsetguard_spark.session import first_line, session_when_needed

_EVERY_S = 1.0


def end_with_task() -> None:
    """Have this process killed once the task's process is gone; without one (a command line) nothing happens."""
    if task := os.environ.get(TASK_PROCESS_VARIABLE):
        threading.Thread(target=_end_after, args=(task,), name="end with task", daemon=True).start()


def _end_after(task: str) -> None:
    while not has_ended(task):
        time.sleep(_EVERY_S)
    # Killed as its task was: readers, tables and `cycles` bear that at any step (docs/publishing.md).
    os.kill(os.getpid(), signal.SIGKILL)


_ERROR = "error: "


@dataclass(frozen=True, slots=True)
class _Job:
    """What every job has."""

    say: Callable[[str], None]
    workspace: Workspace
    config: Config
    engine: Engine
    start_spark: Callable[[], SparkSession]
    progress: Progress
    now: datetime

    @property
    def publisher(self) -> Publisher:
        """Publishes any number of intervals in one session."""
        return Publisher(self.workspace, self.config, self.engine, self.start_spark, self.progress)

    def check_cluster(self, name: str) -> None:
        """Raise ConfigError for a cluster that is not configured."""
        if name not in self.config.clusters:
            hint = did_you_mean(name, self.config.clusters)
            raise ConfigError(f"{self.workspace.config_file}: clusters: there is no cluster {name!r}{hint}")


def _print(line: str) -> None:
    print(line, file=sys.stderr if line.startswith(_ERROR) else sys.stdout, flush=True)


def _run(work: Callable[[_Job], int], after_spark_error: str, say: Callable[[str], None]) -> int:
    """Do a job; returns its exit code, 1 for an error, which is one line."""
    write_for_owner_only()
    end_with_task()
    progress = Progress(say)
    try:
        workspace = Workspace.from_environment()
        config = config_in_use(workspace).config
        workspace.home.mkdir(parents=True, exist_ok=True)
        engine = open_database(workspace.database_url)
        with session_when_needed(workspace) as start_spark:
            return work(_Job(say, workspace, config, engine, start_spark, progress, datetime.now(UTC)))
    except OffsetGuardError as error:
        say(f"{_ERROR}{error}")
    except (PySparkException, Py4JError) as error:
        step = f"step {progress.current}: " if progress.current else ""
        say(f"{_ERROR}{step}Spark: {first_line(error)}; {after_spark_error}")
    return 1


def publish(arguments: Sequence[str] | None = None, say: Callable[[str], None] = _print) -> int:
    """Publish the interval of each cluster that the arguments name, and all that waits; returns the exit code."""
    parser = argparse.ArgumentParser(prog="publish_interval.py", description="Publish landed intervals.")
    parser.add_argument(
        "--cluster",
        dest="clusters",
        action="append",
        default=[],
        help="name of a cluster in config/offsetguard.yml whose interval is published; may be given again",
    )
    parser.add_argument(
        "--interval-start",
        dest="interval",
        required=True,
        type=_interval,
        metavar="ISO",
        help="start of the interval, e.g. 2026-11-21T10:39:00Z",
    )
    parser.add_argument("--again", action="store_true", help="publish once more, also when nothing has changed")
    parsed = parser.parse_args(arguments)

    def work(job: _Job) -> int:
        publisher, wanted = job.publisher, [(cluster, parsed.interval) for cluster in parsed.clusters]
        asked_for = [one for one in wanted if parsed.again or not is_live(job.engine, *one)]
        ends_at = os.environ.get(ENDS_AT_VARIABLE)
        session = publish_waiting(
            publisher,
            _now,
            ends_at=datetime.fromisoformat(ends_at) if ends_at else None,
            live_only=bool(asked_for),
            without=asked_for,
        )
        ended = {*session.published, *session.failed}
        left = [
            one for one, _ in wanted if parsed.again or not (session.out_of_time or (one, parsed.interval) in ended)
        ]
        if left:
            session.publish(publisher, Minutes(tuple(left), (parsed.interval,)), now=_now(), again=parsed.again)
        for (cluster, interval), error in session.failed.items():
            say(
                f"{_ERROR}{cluster}: {interval.name}: {' '.join(error.split())}"
            )  # a line each: the task shows the last ones
        for one in wanted:
            if one in session.published:
                say(json.dumps(asdict(session.published[one])))
        return 1 if session.failed else 0

    return _run(work, "readers stay on the last good state", say)


def ingest(arguments: Sequence[str] | None = None, say: Callable[[str], None] = _print) -> int:
    """Ingest the files that the arguments name; returns the exit code."""
    parser = _parser("ingest_broker_logs.py", "Bring whole log files into log_events and offset_moves.")
    parser.add_argument(
        "--files", required=True, action="append", metavar="GLOB", help="path or pattern; may be given again"
    )
    parser.add_argument("--broker-name", help="broker that wrote the logs; without it they are clients' logs")
    parser.add_argument("--broker-id", type=int, default=0, help="its replica; 0 = master (default)")
    parser.add_argument(
        "--time-zone", default="+08:00", help="of the times in the files (default: +08:00, as brokers write)"
    )
    parser.add_argument(
        "--routine", action="store_true", help="also lines that are written for ever, e.g. all of stats.log"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be written, and write nothing")
    parsed = parser.parse_args(arguments)
    batch = LogBatch(
        cluster=parsed.cluster,
        files=tuple(parsed.files),
        broker_name=parsed.broker_name or None,
        broker_id=parsed.broker_id,
        time_zone=parsed.time_zone,
        routine=parsed.routine,
    )

    def work(job: _Job) -> int:
        job.check_cluster(batch.cluster)
        ingester = Ingester(job.workspace, job.engine, job.start_spark, job.progress)
        say(json.dumps(asdict(ingester.ingest(batch, now=job.now, dry_run=parsed.dry_run))))
        return 0

    return _run(work, "the tables are as they were before", say)


def recompute(arguments: Sequence[str] | None = None, say: Callable[[str], None] = _print) -> int:
    """Recompute the span that the arguments name; returns the exit code: 1 when an interval failed."""
    parser = _parser("recompute_intervals.py", "Publish landed intervals once more.")
    for name, destination, what in (("from", "first", "first"), ("to", "last", "last")):
        parser.add_argument(
            f"--{name}",
            dest=destination,
            required=True,
            type=_moment,
            metavar="ISO",
            help=f"any moment of the {what} interval, e.g. 2026-11-21T10:39:00Z",
        )
    parser.add_argument(
        "--since", type=_moment, metavar="ISO", help="go on with one that was asked for then (default: now)"
    )
    parser.add_argument("--rebuild-state", action="store_true", help="also make queue_state again from queue_snapshots")
    parser.add_argument("--dry-run", action="store_true", help="say what would be recomputed, and do nothing")
    parsed = parser.parse_args(arguments)

    def work(job: _Job) -> int:
        job.check_cluster(parsed.cluster)
        report = _recomputed(job, parsed)
        say(json.dumps(asdict(report)))
        if report.failed or report.not_tried:
            say(
                f"{_ERROR}{len(report.failed)} intervals could not be recomputed, {report.not_tried} were not tried; "
                "readers stay on what they had of them (offsetguard cycles --failed says why)"
            )
            return 1
        return 0

    return _run(work, "what was recomputed stays, run it again to go on", say)


def _recomputed(job: _Job, parsed: argparse.Namespace) -> RecomputeReport:
    publisher, now, say = job.publisher, job.now, job.say
    first, last = span_of(parsed.first, parsed.last)
    recomputer = Recomputer(publisher)
    plan = recomputer.plan(parsed.cluster, first, last, since=parsed.since or now, now=now)
    left_out = {reason.value: count for reason, count in plan.left_out.items()}
    report = RecomputeReport(parsed.cluster, first.start.isoformat(), last.start.isoformat(), left_out=left_out)
    say(f"{len(plan.intervals)} intervals to recompute in {first.name} to {last.name}")
    for reason, count in left_out.items():
        say(f"{count} left out: {reason}")
    if parsed.dry_run:
        report.not_tried = 0
        return report
    if plan.intervals:
        recomputer.recompute(parsed.cluster, plan.intervals, report, now=now)
    if parsed.rebuild_state:
        report.rebuilt_state_rows = rebuild_state(publisher, parsed.cluster)
        say(f"queue_state: {report.rebuilt_state_rows} rows made again from queue_snapshots")
    return report


def redrive(arguments: Sequence[str] | None = None) -> int:
    """Publish the intervals that are named on stdin again; returns the exit code."""
    cluster = _parser("redrive", "Judge quarantined rows again.").parse_args(arguments).cluster
    intervals = [Interval.from_name(name.strip()) for name in sys.stdin if name.strip()]

    def work(job: _Job) -> int:
        report = redrive_intervals(job.publisher, cluster, intervals, now=job.now)
        job.say(json.dumps(asdict(report)))
        return 1 if report.failed or report.not_tried or report.left_out else 0

    return _run(work, "what was judged again stays, run it again to go on", _print)


def redrive_intervals(
    publisher: Publisher, cluster: str, intervals: Sequence[Interval], *, now: datetime
) -> RecomputeReport:
    """Publish those of the intervals again whose snapshots are still there."""
    landed = [one for one in intervals if has_landed(publisher.workspace.landing_folder, cluster, one)]
    report = RecomputeReport(cluster, intervals[0].start.isoformat(), intervals[-1].start.isoformat())
    if gone := len(intervals) - len(landed):
        report.left_out = {"the landed snapshot was deleted: the rows stay in quarantine": gone}
    return Recomputer(publisher).recompute(cluster, landed, report, now=now) if landed else report


JOBS: dict[str, Callable[[Sequence[str], Callable[[str], None]], int]] = {
    "publish_interval": publish,
    "ingest_broker_logs": ingest,
    "recompute_intervals": recompute,
}
"""By the names of their files in `spark/jobs`, for tasks: command line, and what takes each line -> exit code."""


def _parser(program: str, description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=program, description=description)
    parser.add_argument("--cluster", required=True, help="name of the cluster in config/offsetguard.yml")
    return parser


def _interval(text: str) -> Interval:
    start = _moment(text)
    interval = Interval.containing(start)
    if interval.start != start:
        raise argparse.ArgumentTypeError(f"{text!r} is not the start of an interval; {interval.start.isoformat()} is")
    return interval


def _moment(text: str) -> datetime:
    try:
        said = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an ISO 8601 time") from None
    if said.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} has no time zone; write {text}Z for UTC")
    return said


def _now() -> datetime:
    return datetime.now(UTC)


if __name__ == "__main__":
    sys.exit(redrive())
