"""`offsetguard quarantine`: show rows that cannot be right, and judge them again."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

import click

from offsetguard.catalogue.text import format_moment
from offsetguard.cli.output import show
from offsetguard.cli.parameters import MOMENT, WithExamples, check_cluster, check_is_known, format_option
from offsetguard.config.workspace import Workspace
from offsetguard.lake.reading import FactReader, python_rows
from offsetguard.model.intervals import Interval
from offsetguard.store.database import our_database
from offsetguard.tables import LANDED, QUARANTINE
from offsetguard.tables.facts import Quarantined

UNDECODABLE = "UNDECODABLE"  # instead of an invariant's id: what could not even be read
_DEFAULT_SPAN = timedelta(days=1)
_JOB = "offsetguard_spark.jobs"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedRow(Quarantined):
    """Such a row of an interval."""

    cluster: str
    interval: Interval


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows of the quarantine; None: any."""

    cluster: str
    since: datetime
    until: datetime
    table_name: str | None = None
    invariant_id: str | None = None


@click.group(cls=WithExamples)
def quarantine() -> None:
    """Rows that were left out of the facts because they cannot be right, and why.

    \b
    Examples:
      offsetguard quarantine list --cluster main
      offsetguard quarantine list --cluster main --invariant OG-Q13 --since 2026-11-20T00:00:00Z
      offsetguard quarantine redrive --cluster main --dry-run
      offsetguard quarantine redrive --cluster main        after a fix: judge the rows again
    """


def _choosing(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say which rows."""
    options = (
        click.option("--cluster", required=True, help="Name of the cluster in the configuration."),
        click.option("--since", type=MOMENT, metavar="ISO", help="First moment; default: a day ago."),
        click.option("--until", type=MOMENT, metavar="ISO", help="Before this moment; default: now."),
        click.option("--table", "table_name", help="Only rows that were meant for this table."),
        click.option("--invariant", "invariant_id", help="Only rows that break this invariant, e.g. OG-Q13."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@quarantine.command("list")
@_choosing
@click.option(
    "--limit", type=click.IntRange(1, 1_000_000), default=100, show_default=True, help="At most so many rows."
)
@format_option("row")
def list_rows(*, limit: int, as_json: bool, **choice: str | datetime | None) -> None:
    """Show rows in quarantine, newest interval first, with the reason of each."""
    rows = _rows(*_asked(choice))
    texts = chain.from_iterable(map(_texts, rows[:limit]))
    show(map(_document, rows[:limit]), texts, as_json=as_json, nothing="Nothing is in quarantine.")
    if len(rows) > limit and not as_json:
        click.echo(f"and {len(rows) - limit} more: --limit {len(rows)}")


@quarantine.command()
@_choosing
@click.option("--dry-run", is_flag=True, help="Only say which intervals would be published again.")
def redrive(*, dry_run: bool, **choice: str | datetime | None) -> None:
    """Judge rows in quarantine again, with the invariants of today.

    Their intervals are published again from the snapshots that landed: rows that are sound now come back into the
    tables and the facts, the others stay, with the version of the rule that judged them now. Nobody is told anything.
    """
    reader, wanted = _asked(choice)
    before = _rows(reader, wanted)
    intervals = intervals_to_redrive(before)
    click.echo(f"{len(before)} reasons in {len(intervals)} intervals that can be judged again")
    if dry_run or not intervals:
        for interval in intervals:
            click.echo(f"  {interval.name}")
        return
    names = "".join(f"{interval.name}\n" for interval in intervals)
    job = subprocess.run([sys.executable, "-m", _JOB, "--cluster", wanted.cluster], input=names, text=True, check=False)
    after = quarantined_rows(reader, wanted)
    stayed = {_identity(row) for row in after}
    put_back = sum(_identity(row) not in stayed for row in before)
    click.echo(
        f"{put_back} of {len(before)} reasons are gone: their rows are sound now; {len(after)} are in quarantine"
    )
    click.get_current_context().exit(job.returncode)


def _asked(choice: Mapping[str, Any]) -> tuple[FactReader, Wanted]:
    """Return what reads, and what is wanted; raises UsageError for names that are not known."""
    engine = our_database()
    check_cluster(engine, choice["cluster"])
    if choice["table_name"] is not None:
        check_is_known("--table", choice["table_name"], {table.name for table in LANDED})
    until = choice["until"] or datetime.now(UTC)
    since = choice["since"] or datetime.now(UTC) - _DEFAULT_SPAN
    wanted = Wanted(choice["cluster"], since, until, choice["table_name"], choice["invariant_id"])
    return FactReader(Workspace.from_environment(), engine), wanted


def _rows(reader: FactReader, wanted: Wanted) -> list[QuarantinedRow]:
    """Return the rows that are wanted; raises UsageError where there are none, of an invariant that nobody checks."""
    rows = quarantined_rows(reader, wanted)
    checked = set() if rows or wanted.invariant_id is None else reader.checked_invariants(wanted.cluster)
    if checked:
        check_is_known("--invariant", wanted.invariant_id or "", checked | {UNDECODABLE})
    return rows


def _identity(row: QuarantinedRow) -> tuple[str, str, str, str]:
    return row.interval.name, row.table_name, row.row_key, row.invariant_id


def _document(row: QuarantinedRow) -> dict[str, object]:
    return {
        "cluster": row.cluster,
        "interval_start": row.interval.start,
        "table": row.table_name,
        "invariant": row.invariant_id,
        "row_key": row.row_key,
        "reason": row.reason,
        "rule_version": row.rule_version,
        "run_id": row.run_id,
        "row": json.loads(row.row_json),
    }


def _texts(row: QuarantinedRow) -> Iterator[str]:
    at = format_moment(row.interval.start)
    yield f"{at}  {row.table_name}  {row.invariant_id}: {row.reason or row.row_key}"
    yield f"    rule {row.rule_version or 'unknown'}, run {row.run_id or 'unknown'}"


def quarantined_rows(reader: FactReader, wanted: Wanted) -> list[QuarantinedRow]:
    """Return the rows of published intervals, newest interval first; raises PublishError when they cannot be read."""
    found = reader.history(QUARANTINE, wanted.cluster, wanted.since, wanted.until)
    rows = [
        QuarantinedRow(interval=Interval(row.pop("interval_start")), **row)
        for row in python_rows(found)
        if wanted.table_name in (None, row["table_name"]) and wanted.invariant_id in (None, row["invariant_id"])
    ]
    order = sorted(rows, key=lambda row: (row.table_name, row.row_key, row.reason_number))
    return sorted(order, key=lambda row: row.interval, reverse=True)


def intervals_to_redrive(rows: list[QuarantinedRow]) -> list[Interval]:
    """Return the intervals with rows that can be judged again, oldest first.

    What could not be decoded has no columns that an invariant could look at: it is left out.
    """
    return sorted({row.interval for row in rows if row.invariant_id != UNDECODABLE})
