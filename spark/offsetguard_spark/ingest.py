"""Whole log files into `log_events` and `offset_moves`: parse, write, audit, and only then show.

files      the files are found and named, before Spark starts; of a log that is there twice one is read
session    Spark starts
parse      each task reads a part of a file, by the reader that reads logs everywhere (`sources.logs.parts`)
write      rows of the same files from an earlier run are deleted, these are added, on branches
audit      what was written is read back and counted
forward    the branches become the tables' main state; readers see it with the next published interval

A rerun replaces the rows of its files and nothing else; killed anywhere, the rows of before are there. The rows'
source begins with `ingested/`, so that publishing an interval, which replaces what a round read, leaves them alone.
A line belongs to the interval in which it was written.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import PyZipFile

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from sqlalchemy import Engine

import offsetguard
from offsetguard.config.workspace import Workspace
from offsetguard.model.errors import ConfigError, PublishError
from offsetguard.model.intervals import Interval, zone_of
from offsetguard.sources.logs.log_files import LogFile, identity_of, log_file_at, matching_paths
from offsetguard.sources.logs.parts import PARTS_SCHEMA, ROWS_SCHEMA, parts_of, record_batches
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
from offsetguard_spark.minutes import Minutes
from offsetguard_spark.reports import Progress, run_name
from offsetguard_spark.session import suit_row_count
from offsetguard_spark.tables import table_name

PART_BYTES = 32 * 1024 * 1024
_MOST_TASKS = 400  # more parts share them
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
            parsed = parsed_rows(spark, batch, identities, size)
            counts = parsed_counts(parsed)
            events = _rows(parsed, LOG_EVENTS)
            marked = mark(_rows(parsed, OFFSET_MOVES), OFFSET_MOVES).persist(StorageLevel.DISK_ONLY)
            moves = sound_rows(marked).select(*[column.name for column in OFFSET_MOVES.columns])
            counts["moves"] = moves.count()
            counts["corrupt_moves"] = marked.count() - counts["moves"]
        if not dry_run:
            rows = {LOG_EVENTS: (events, counts["events"]), OFFSET_MOVES: (moves, counts["moves"])}
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
            minutes = Minutes((batch.cluster,), (Interval.containing(now),))
            say = self.progress.say
            branches = begin(spark, self.workspace, minutes, name=run_name("ingest"), say=say)
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


def parsed_rows(
    spark: SparkSession, batch: LogBatch, identities: Mapping[str, str], size: int, *, part_bytes: int = PART_BYTES
) -> DataFrame:
    """Return a struct of `log_events` and one of `offset_moves` for each record; NULL is what it is none of.

    Both are NULL for records that cannot be read. `identities`: path -> name of the log; `size`: of all, bytes. All is
    parsed once, and kept on the disk until the caller unpersists it: the memory needed does not follow the size of the
    files. Raises ConfigError.
    """
    suit_row_count(spark, size // _BYTES_PER_LINE)
    try:
        parts = [
            {"file": file} | asdict(part) for path, file in identities.items() for part in parts_of(path, part_bytes)
        ]
    except OSError as error:  # it was there when it was identified
        raise ConfigError(f"{error.filename}: cannot be read any more: {error.strerror or error}") from error
    spark.addArtifacts(str(_package()[0]), pyfile=True)  # what reads logs is of this release, wherever workers run
    read = partial(
        record_batches,
        cluster=batch.cluster,
        source=batch.source,
        broker_name=batch.broker_name,
        broker_id=batch.broker_id,
        time_zone=batch.time_zone,
        routine=batch.routine,
    )
    numbered = pa.Table.from_pylist(parts, PARTS_SCHEMA).append_column("part", pa.array(range(len(parts)), pa.int32()))
    tasks = spark.createDataFrame(numbered).repartitionById(min(len(parts), _MOST_TASKS), "part").drop("part")
    schema = from_arrow_schema(ROWS_SCHEMA, prefer_timestamp_ntz=False)
    return tasks.mapInArrow(read, schema).persist(StorageLevel.DISK_ONLY)


@cache
def _package() -> tuple[Path, TemporaryDirectory[str]]:
    """Return our code as a file, and the folder that it is in, which lasts as long as this process: workers ask."""
    folder = TemporaryDirectory(prefix="offsetguard-package-")
    file = Path(folder.name) / "offsetguard.zip"
    with PyZipFile(str(file), "w") as package:
        package.writepy(str(Path(offsetguard.__file__).parent))
    return file, folder


def _rows(parsed: DataFrame, table: Table) -> DataFrame:
    return parsed.where(F.col(table.name).isNotNull()).select(f"{table.name}.*")


def parsed_counts(parsed: DataFrame) -> dict[str, Any]:
    """Return the figures of the report that `parsed_rows` gives."""
    by_kind = parsed.groupBy(f"{LOG_EVENTS.name}.kind").agg(
        F.count("*").alias("count"),
        F.date_format(F.min(f"{LOG_EVENTS.name}.at"), "yyyy-MM-dd'T'HH:mm:ss'Z'").alias("first_at"),
        F.date_format(F.max(f"{LOG_EVENTS.name}.at"), "yyyy-MM-dd'T'HH:mm:ss'Z'").alias("last_at"),
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
