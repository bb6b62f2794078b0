"""The command line of `spark/jobs/publish_interval.py`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from offsetguard.config.file import config_in_use
from offsetguard.config.workspace import Workspace
from offsetguard.model.errors import OffsetGuardError
from offsetguard.model.intervals import Interval
from offsetguard.store.database import open_database
from offsetguard_spark.progress import Progress
from offsetguard_spark.publish import Publisher
from offsetguard_spark.session import make_session
from offsetguard_spark.spark_errors import first_line


def main(arguments: Sequence[str] | None = None) -> int:
    """Publish the interval that the arguments name; returns the exit code."""
    parsed = _parser().parse_args(arguments)
    progress = Progress(say)
    try:
        workspace = Workspace.from_environment()
        config = config_in_use(workspace).config
        workspace.home.mkdir(parents=True, exist_ok=True)
        publisher = Publisher(
            workspace, config, open_database(workspace.database_url), lambda: make_session(workspace), progress
        )
        report = publisher.publish(parsed.cluster, parsed.interval, now=datetime.now(UTC), again=parsed.again)
    except OffsetGuardError as error:
        return fail(f"{error}")
    except (PySparkException, Py4JError) as error:
        return fail(f"step {progress.current}: Spark: {first_line(error)}; readers stay on the last good state")
    if report.verdict == "already published":
        say(f"already published: {parsed.interval.name} of {parsed.cluster}, nothing was changed (--again to redo)")
    say(json.dumps(report.as_dict()))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="publish_interval.py", description="Publish one landed interval.")
    parser.add_argument("--cluster", required=True, help="name of the cluster in config/offsetguard.yml")
    parser.add_argument(
        "--interval-start",
        dest="interval",
        required=True,
        type=_interval,
        metavar="ISO",
        help="start of the interval, e.g. 2026-11-21T10:39:00Z",
    )
    parser.add_argument("--again", action="store_true", help="publish once more, also when nothing has changed")
    return parser


def _interval(text: str) -> Interval:
    start = moment(text)
    interval = Interval.containing(start)
    if interval.start != start:
        raise argparse.ArgumentTypeError(f"{text!r} is not the start of an interval; {interval.start.isoformat()} is")
    return interval


def moment(text: str) -> datetime:
    """Return the moment that an argument says, aware; raises ArgumentTypeError."""
    try:
        said = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an ISO 8601 time") from None
    if said.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} has no time zone; write {text}Z for UTC")
    return said


def fail(message: str) -> int:
    """Say an error on stderr; returns the exit code."""
    print(f"error: {message}", file=sys.stderr, flush=True)  # noqa: T201 - a command line prints
    return 1


def say(line: str) -> None:
    """Say a line at once."""
    print(line, flush=True)  # noqa: T201 - a command line prints
