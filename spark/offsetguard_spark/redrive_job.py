"""What `offsetguard quarantine redrive` starts: intervals whose rows shall be judged again, one name a line on stdin.

    python -m offsetguard_spark.redrive_job --cluster demo < names

The intervals are published again from their landed snapshots, in one session; that judges every row of them with the
invariants of this release. Exit code 1 when an interval failed, or when its snapshot was deleted by retention.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from offsetguard.collect.landing import snapshot_folder
from offsetguard.config.file import config_in_use
from offsetguard.config.workspace import MANIFEST_FILE_NAME, Workspace
from offsetguard.model.errors import OffsetGuardError
from offsetguard.model.intervals import Interval
from offsetguard.store.database import open_database
from offsetguard_spark.progress import Progress
from offsetguard_spark.publish import Publisher
from offsetguard_spark.publish_job import fail, say
from offsetguard_spark.recompute import Recomputer, RecomputeReport, start_once
from offsetguard_spark.session import make_session
from offsetguard_spark.spark_errors import first_line


def main(arguments: Sequence[str] | None = None, names: Sequence[str] | None = None) -> int:
    """Publish the named intervals again; returns the exit code."""
    parser = argparse.ArgumentParser(prog="redrive_job", description="Judge quarantined rows again.")
    parser.add_argument("--cluster", required=True, help="name of the cluster in config/offsetguard.yml")
    cluster = parser.parse_args(arguments).cluster
    intervals = [Interval.from_name(name.strip()) for name in (sys.stdin if names is None else names) if name.strip()]
    try:
        workspace = Workspace.from_environment()
        config = config_in_use(workspace).config
        publisher = Publisher(
            workspace, config, open_database(workspace.database_url), lambda: make_session(workspace), Progress(say)
        )
        report = redrive(start_once(publisher), cluster, intervals, now=datetime.now(UTC))
    except OffsetGuardError as error:
        return fail(f"{error}")
    except (PySparkException, Py4JError) as error:
        return fail(f"Spark: {first_line(error)}; what was judged again stays, run it again to go on")
    say(json.dumps(report.as_dict()))
    return 1 if report.failed or report.not_tried or report.left_out else 0


def redrive(publisher: Publisher, cluster: str, intervals: Sequence[Interval], *, now: datetime) -> RecomputeReport:
    """Publish those of the intervals again whose snapshots are still there."""
    landed = [
        interval
        for interval in intervals
        if (snapshot_folder(publisher.workspace.landing_folder, cluster, interval) / MANIFEST_FILE_NAME).exists()
    ]
    report = RecomputeReport(cluster, intervals[0].start.isoformat(), intervals[-1].start.isoformat())
    if gone := len(intervals) - len(landed):
        report.left_out = {"the landed snapshot was deleted: the rows stay in quarantine": gone}
    return Recomputer(publisher).recompute(cluster, landed, report, now=now) if landed else report


if __name__ == "__main__":
    sys.exit(main())
