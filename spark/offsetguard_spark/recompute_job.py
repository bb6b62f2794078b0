"""The command line of `spark/jobs/recompute_intervals.py`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from datetime import UTC, datetime

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from offsetguard.config.file import config_in_use, did_you_mean
from offsetguard.config.workspace import Workspace
from offsetguard.model.errors import ConfigError, OffsetGuardError
from offsetguard.store.database import open_database
from offsetguard_spark.progress import Progress
from offsetguard_spark.publish import Publisher
from offsetguard_spark.publish_job import fail, moment, say
from offsetguard_spark.recompute import Recomputer, RecomputeReport, span_of, start_once
from offsetguard_spark.session import make_session
from offsetguard_spark.spark_errors import first_line
from offsetguard_spark.state_rebuild import rebuild_state


def main(arguments: Sequence[str] | None = None) -> int:
    """Recompute the span that the arguments name; returns the exit code: 1 when an interval failed."""
    parsed = _parser().parse_args(arguments)
    now = datetime.now(UTC)
    progress = Progress(say)
    try:
        workspace = Workspace.from_environment()
        config = config_in_use(workspace).config
        if parsed.cluster not in config.clusters:
            hint = did_you_mean(parsed.cluster, config.clusters)
            raise ConfigError(f"{workspace.config_file}: clusters: there is no cluster {parsed.cluster!r}{hint}")
        workspace.home.mkdir(parents=True, exist_ok=True)
        engine = open_database(workspace.database_url)
        publisher = start_once(Publisher(workspace, config, engine, lambda: make_session(workspace), progress))
        report = _recompute(publisher, parsed, now)
    except OffsetGuardError as error:
        return fail(f"{error}")
    except (PySparkException, Py4JError) as error:
        return fail(f"Spark: {first_line(error)}; what was recomputed stays, run it again to go on")
    say(json.dumps(report.as_dict()))
    if report.failed or report.not_tried:
        return fail(
            f"{len(report.failed)} intervals could not be recomputed, {report.not_tried} were not tried; readers stay "
            "on what they had of them (offsetguard cycles --failed says why)"
        )
    return 0


def _recompute(publisher: Publisher, parsed: argparse.Namespace, now: datetime) -> RecomputeReport:
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="recompute_intervals.py", description="Publish landed intervals once more.")
    parser.add_argument("--cluster", required=True, help="name of the cluster in config/offsetguard.yml")
    for name, destination, what in (("from", "first", "first"), ("to", "last", "last")):
        parser.add_argument(
            f"--{name}",
            dest=destination,
            required=True,
            type=moment,
            metavar="ISO",
            help=f"any moment of the {what} interval, e.g. 2026-11-21T10:39:00Z",
        )
    parser.add_argument(
        "--since", type=moment, metavar="ISO", help="go on with one that was asked for then (default: now)"
    )
    parser.add_argument("--rebuild-state", action="store_true", help="also make queue_state again from queue_snapshots")
    parser.add_argument("--dry-run", action="store_true", help="say what would be recomputed, and do nothing")
    return parser
