"""Whole log files into `log_events` and `offset_moves`: parse, write, audit, and only then show.

files      the files are found and named, before Spark starts; of a log that is there twice one is read
session    Spark starts
parse      records, events, and what could not be read, in tasks of their own
write      rows of the same files from an earlier run are deleted, these are added, on branches
audit      what was written is read back and counted
forward    the branches become the tables' main state; readers see it with the next published interval

A rerun replaces the rows of its files and nothing else; killed anywhere, the rows of before are there. The rows'
source begins with `ingested/`, so that publishing an interval, which replaces what a round read, leaves them alone.
A line belongs to the interval in which it was written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from sqlalchemy import Engine

from offsetguard.config.workspace import Workspace
from offsetguard.model.errors import ConfigError, PublishError
from offsetguard.model.intervals import Interval, zone_of
from offsetguard.sources.logs.log_files import LogFile, identity_of, log_file_at, matching_paths
from offsetguard.sources.logs.matching import PATTERNS
from offsetguard.store.locks import Lock, only_publisher
from offsetguard.tables import LOG_EVENTS, OFFSET_MOVES, Table
from offsetguard_spark.branches import (
    INGESTED_PREFIX,
    INGESTED_TABLES,
    ROWS_PER_FILE,
    Branches,
    begin,
)
from offsetguard_spark.invariants import mark, sound_rows
from offsetguard_spark.log_events import laid_out, log_event_rows, offset_move_rows, outcomes
from offsetguard_spark.log_records import read_records
from offsetguard_spark.reports import Progress, run_name
from offsetguard_spark.session import suit_row_count
from offsetguard_spark.tables import table_name

_BYTES_PER_LINE = 100  # only decides whether Spark compiles what it does


@dataclass(frozen=True, slots=True)
class LogBatch:
    """Log files of one broker replica, or of clients."""

    cluster: str
    files: tuple[str, ...]  # paths or globs
    broker_name: str | None  # None: clients' logs
    broker_id: int = 0
    time_zone: str = "+08:00"
    routine: bool = False  # also lines that are written for ever, e.g. every counter of stats.log

    @property
    def source(self) -> str:
        """`log_events.source` of its rows."""
        return INGESTED_PREFIX + (f"{self.broker_name}-{self.broker_id}" if self.broker_name else "clients")


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What became of the files; one JSON line of the job."""

    cluster: str
    source: str
    verdict: str  # "ingested" or "dry run"
    files: dict[str, str]  # path -> identity of the log
    left_out: dict[str, str]  # path -> why
    events: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    first_at: str | None = None
    last_at: str | None = None
    moves: int = 0
    corrupt_moves: int = 0  # negative offsets: not written
    unreadable_records: int = 0  # no time stamp, or in a layout that RocketMQ does not write
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ingester:
    """Everything that an ingestion needs besides the files. `start_spark` is called when there are some."""

    workspace: Workspace
    engine: Engine
    start_spark: Callable[[], SparkSession]
    progress: Progress

    def ingest(self, batch: LogBatch, *, now: datetime, dry_run: bool = False) -> IngestReport:
        """Read the files and replace their rows; a dry run only says what would be written.

        Raises ConfigError when nothing matches, PublishError when the audit fails; the tables are then as before.
        """
        step = self.progress.step
        with step("files", f"looking for {', '.join(batch.files)}"):
            zone_of(batch.time_zone)
            identities, left_out, size = _identified(batch.files)
        with step("session", "starting Spark"):
            spark = self.start_spark()
        report = partial(IngestReport, batch.cluster, batch.source, files=identities, left_out=left_out)
        with step("parse", f"reading {len(identities)} files of {size:,} bytes"):
            parsed = parsed_events(spark, batch, list(identities), size)
            counts = parsed_counts(parsed)
            events = _placed(parsed.where(F.col("pattern").isNotNull()), batch, identities)
            marked = mark(offset_move_rows(events), OFFSET_MOVES).persist(StorageLevel.DISK_ONLY)
            moves = sound_rows(marked).select(*[column.name for column in OFFSET_MOVES.columns])
            counts["moves"] = moves.count()
            counts["corrupt_moves"] = marked.count() - counts["moves"]
        if not dry_run:
            rows = {LOG_EVENTS: (log_event_rows(events), counts["events"]), OFFSET_MOVES: (moves, counts["moves"])}
            with only_publisher(self.engine, self.progress.say) as lock:
                self._write(spark, batch, rows, sorted(identities.values()), lock, now=now)
        for cached in (parsed, marked):
            cached.unpersist()
        return report(verdict="dry run" if dry_run else "ingested", **counts, seconds=self.progress.seconds)

    def _write(
        self,
        spark: SparkSession,
        batch: LogBatch,
        rows: Mapping[Table, tuple[DataFrame, int]],
        identities: Sequence[str],
        lock: Lock,
        *,
        now: datetime,
    ) -> None:
        step = self.progress.step
        with step("write", "replacing the rows of these files on branches"):
            interval, say = Interval.containing(now), self.progress.say
            branches = begin(spark, self.workspace, (batch.cluster,), interval, name=run_name("ingest"), say=say)
            branches.start(INGESTED_TABLES)
            for table, (new, count) in rows.items():
                _delete(branches, table, batch, identities)
                writer = new.coalesce(count // ROWS_PER_FILE + 1).writeTo(table_name(table, branches.name))
                writer.options(**branches.write_options).append()
        with step("audit", "reading back what was written"):
            for table, (_, count) in rows.items():
                written = _rows_of(branches.read_with_history(table), table, batch, identities).count()
                if written != count:
                    raise PublishError(f"{table.name}: {written} rows written instead of {count}; nothing was changed")
        with step("forward", "making the branches the main state of their tables"):
            lock.check()
            branches.forward(branches.snapshot_ids())


def _identified(globs: Sequence[str]) -> tuple[dict[str, str], dict[str, str], int]:
    """Return (path -> identity, path -> why it is left out, bytes on the disk).

    Raises ConfigError when there is no file to read, or one cannot be read.
    """
    files, left_out = [], {}
    for path in matching_paths(globs):
        try:
            file = log_file_at(path)
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
        if file.first_line is None:
            left_out[path] = "empty, or its first line is not complete"
        else:
            files.append(file)
    taken: dict[str, LogFile] = {}
    # Of copies of one log the longest uncompressed one is read.
    for file in sorted(files, key=lambda file: (file.compressed, -file.size, file.path)):
        identity = identity_of(file.family, file.first_line or b"")
        if other := next((one for one in taken.values() if _is_copy(file, one)), None):
            left_out[file.path] = f"begins like {other.path}"
        else:
            taken[identity if identity not in taken else f"{identity}-{len(taken) + 1}"] = file
    if not taken:
        raise ConfigError(f"{', '.join(globs)}: no log to read; are the folder and the pattern right on this machine?")
    return {file.path: name for name, file in taken.items()}, left_out, sum(file.size for file in taken.values())


def _is_copy(file: LogFile, other: LogFile) -> bool:
    length = min(len(file.head), len(other.head))
    return file.family[1] == other.family[1] and file.head[:length] == other.head[:length]


def parsed_events(spark: SparkSession, batch: LogBatch, paths: Sequence[str], size: int) -> DataFrame:
    """Return the events, and the records that cannot be read: those without `pattern`. Raises ConfigError.

    `size`: of the files, bytes. They are parsed once, and kept on the disk until the caller unpersists them: the
    memory needed does not follow the size of the files.
    """
    suit_row_count(spark, size // _BYTES_PER_LINE)
    wanted = [pattern for pattern in PATTERNS if batch.routine or not pattern.routine]
    try:
        records = read_records(spark, paths, patterns=wanted)
    except OSError as error:  # it was there when it was identified
        raise ConfigError(f"{error.filename}: cannot be read any more: {error.strerror or error}") from error
    parsed = outcomes(laid_out(records, batch.time_zone))
    if not batch.routine:
        parsed = parsed.where(~F.coalesce("pattern.routine", F.lit(False)))
    return parsed.persist(StorageLevel.DISK_ONLY)


def _placed(events: DataFrame, batch: LogBatch, identities: Mapping[str, str]) -> DataFrame:
    """Say whose events they are; not before they are kept, since the same names in each row would be kept, too."""
    names = F.create_map(*[F.lit(text) for pair in identities.items() for text in pair])
    return events.withColumns(
        {
            "cluster": F.lit(batch.cluster),
            "source": F.lit(batch.source),
            "file": names[F.col("path")],
            "broker_name": F.lit(batch.broker_name).cast("string"),
            "broker_id": F.lit(batch.broker_id if batch.broker_name else None).cast("bigint"),
        }
    )


def parsed_counts(parsed: DataFrame) -> dict[str, Any]:
    """Return the figures of the report that `parsed_events` gives."""
    by_kind = parsed.groupBy("pattern.kind").agg(
        F.count("*").alias("count"),
        F.date_format(F.min("at"), "yyyy-MM-dd'T'HH:mm:ss'Z'").alias("first_at"),
        F.date_format(F.max("at"), "yyyy-MM-dd'T'HH:mm:ss'Z'").alias("last_at"),
    )
    rows = by_kind.collect()
    kinds = sorted((row for row in rows if row["kind"] is not None), key=lambda row: row["kind"])
    return {
        "events": sum(row["count"] for row in kinds),
        "kinds": {row["kind"]: row["count"] for row in kinds},
        "first_at": min((row["first_at"] for row in kinds), default=None),
        "last_at": max((row["last_at"] for row in kinds), default=None),
        "unreadable_records": sum(row["count"] for row in rows if row["kind"] is None),
    }


def _rows_of(rows: DataFrame, table: Table, batch: LogBatch, identities: Sequence[str]) -> DataFrame:
    """Return a table's rows of the batch's files."""
    own = rows.where(F.col("cluster") == batch.cluster)
    if table == LOG_EVENTS:
        return own.where((F.col("source") == batch.source) & F.col("file").isin(*identities))
    return own.where(F.col("source").isin(*[f"{batch.source}/{identity}" for identity in identities]))


def _delete(branches: Branches, table: Table, batch: LogBatch, identities: Sequence[str]) -> None:
    """Delete the rows that an earlier run wrote of the same files; the usual first run has none."""
    if _rows_of(branches.read_with_history(table), table, batch, identities).limit(1).count() == 0:
        return
    condition = "cluster = :cluster AND source = :source AND file IN ({})"
    values = dict(enumerate(identities))
    if table == OFFSET_MOVES:
        condition = "cluster = :cluster AND source IN ({})"
        values = {number: f"{batch.source}/{identity}" for number, identity in values.items()}
    where = condition.format(", ".join(f":value_{number}" for number in values))
    arguments = {"cluster": batch.cluster, **{f"value_{number}": value for number, value in values.items()}}
    if table == LOG_EVENTS:
        arguments["source"] = batch.source
    branches.spark.sql(f"DELETE FROM {table_name(table, branches.name)} WHERE {where}", args=arguments)
