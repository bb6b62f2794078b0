"""The command line of `spark/jobs/ingest_broker_logs.py`."""

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
from offsetguard_spark.ingest import Ingester, LogBatch
from offsetguard_spark.progress import Progress
from offsetguard_spark.publish_job import fail, say
from offsetguard_spark.session import make_session
from offsetguard_spark.spark_errors import first_line


def main(arguments: Sequence[str] | None = None) -> int:
    """Ingest the files that the arguments name; returns the exit code."""
    parsed = _parser().parse_args(arguments)
    batch = LogBatch(
        cluster=parsed.cluster,
        files=tuple(parsed.files),
        broker_name=parsed.broker_name or None,
        broker_id=parsed.broker_id,
        time_zone=parsed.time_zone,
        routine=parsed.routine,
    )
    progress = Progress(say)
    try:
        workspace = Workspace.from_environment()
        clusters = config_in_use(workspace).config.clusters
        if batch.cluster not in clusters:
            hint = did_you_mean(batch.cluster, clusters)
            raise ConfigError(f"{workspace.config_file}: clusters: there is no cluster {batch.cluster!r}{hint}")
        workspace.home.mkdir(parents=True, exist_ok=True)
        engine = open_database(workspace.database_url)
        ingester = Ingester(workspace, engine, lambda: make_session(workspace, runs_for_minutes=True), progress)
        report = ingester.ingest(batch, now=datetime.now(UTC), dry_run=parsed.dry_run)
    except OffsetGuardError as error:
        return fail(f"{error}")
    except (PySparkException, Py4JError) as error:
        return fail(f"step {progress.current}: Spark: {first_line(error)}; the tables are as they were before")
    say(json.dumps(report.as_dict()))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ingest_broker_logs.py", description="Bring whole log files into log_events and offset_moves."
    )
    parser.add_argument("--cluster", required=True, help="name of the cluster in config/offsetguard.yml")
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
    return parser
