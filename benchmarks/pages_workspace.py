"""The workspace that `pages.py` asks: 30 days of minutes of 5,000 groups and 200,000 queues.

The tables have as many files as the product has at 23:59 of the last day, after housekeeping: of each past day a few
packed ones, of today one an hour. Of each past day one file is written, the one that has the groups (or topics) that
are asked for; the others stand in the manifests only, with the bounds that they would have: no reader opens them.
Columns that no page reads are NULL.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pages import (
    BROKERS,
    CHANGES,
    CLUSTER,
    DAY,
    END,
    GROUPS,
    HOUR,
    MEMBERS,
    PAST_INCIDENTS,
    QUEUES,
    TOPICS,
    TROUBLED,
    group_name,
    incident_id,
    topic_name,
)
from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table as IcebergTable
from pyiceberg.types import StringType
from sqlalchemy import insert

from offsetguard.catalogue import Sentence
from offsetguard.config.workspace import Workspace
from offsetguard.lake.upkeep.packing import PACKED_FILES, PACKED_PREFIX, full_rows, write_file
from offsetguard.model.incident import Kind
from offsetguard.model.intervals import Interval
from offsetguard.model.verdicts import Severity
from offsetguard.store import incidents
from offsetguard.store.columns import to_json
from offsetguard.store.database import writing
from offsetguard.store.models import ChangeRow, PublishedIntervalRow, RecordedChangesRow
from offsetguard.tables import (
    BROKER_FACTS,
    CLIENT_SNAPSHOTS,
    CLUSTER_FACTS,
    GROUP_FACTS,
    OFFSET_MOVE_FACTS,
    QUEUE_FACTS,
    TOPIC_FACTS,
    TOPIC_QUEUE_SNAPSHOTS,
    Table,
)
from offsetguard.tables.table import arrow_schema
from offsetguard_peers.collecting import manifest_of
from offsetguard_peers.judging.records import an_incident
from offsetguard_peers.lake.warehouse import Warehouse

Starts = np.ndarray[Any, np.dtype[np.int64]]  # of intervals, microseconds since 1970
RowsOf = Callable[[range, Starts], dict[str, Any]]  # some things and intervals -> columns


WRITTEN = 5  # the part of a past day that is really written: it has the groups that are asked for


def groups_written() -> range:
    """Return the groups of the file of a past day that is written."""
    parts = -(-GROUPS * DAY // full_rows(GROUP_FACTS))
    return range(GROUPS * WRITTEN // parts, GROUPS * (WRITTEN + 1) // parts)


def write(folder: Path, days_kept: int) -> None:
    """Write the tables, what says that their intervals are published, incidents and changes."""
    url = f"sqlite:///{folder / 'offsetguard.db'}"
    # by table, in the order of its rows: the things that have a row each minute, days that are kept (0: two hours)
    kept = {
        GROUP_FACTS: (group_rows, GROUPS, days_kept),
        TOPIC_FACTS: (topic_rows, TOPICS, days_kept),
        QUEUE_FACTS: (queue_rows, TROUBLED * QUEUES, 1),
        BROKER_FACTS: (broker_rows, BROKERS, 1),
        CLIENT_SNAPSHOTS: (client_rows, GROUPS * MEMBERS * BROKERS, 0),
        TOPIC_QUEUE_SNAPSHOTS: (topic_queue_rows, TOPICS * QUEUES, 0),
        CLUSTER_FACTS: (cluster_rows, 1, 0),
        OFFSET_MOVE_FACTS: (move_rows, TROUBLED, 0),
    }
    warehouse = Warehouse(Workspace(folder, folder / "offsetguard.yml", url), list(kept))
    ids = {}
    for table, (rows_of, things, days) in kept.items():
        began = time.perf_counter()
        ids[table.name] = append(warehouse, table, rows_of, things, days)
        print(f"{table.name} written in {time.perf_counter() - began:.0f} s", flush=True)
    with writing(warehouse.engine) as session:
        for number in range(days_kept * DAY):
            start = END - timedelta(minutes=number + 1)
            session.add(
                PublishedIntervalRow(
                    cluster=CLUSTER,
                    interval_start=start,
                    run_id=f"run-{number}",
                    published_at=start + timedelta(minutes=1),
                    verdict="published",
                    snapshot_ids=ids,
                    manifest_json=manifest_of(Interval(start), finished_at=start + timedelta(seconds=40)).to_json(),
                    settled=False,
                )
            )
            session.add(RecordedChangesRow(cluster=CLUSTER, interval_start=start, run_id=f"run-{number}"))
        session.execute(insert(ChangeRow), [_change(number) for number in range(days_kept * DAY * CHANGES)])
        opened_at, critical = END - timedelta(hours=5), Severity.CRITICAL
        troubled = [group_name(number) for number in groups_written()][:TROUBLED]
        told = [
            an_incident(
                incident_id=incident_id(number),
                cluster=CLUSTER,
                consumer_group=name,
                severity=critical,
                opened_at=opened_at,
            )
            for number, name in enumerate(troubled)
        ]
        over = [
            an_incident(
                incident_id=f"past{number}",
                cluster=CLUSTER,
                consumer_group=group_name(number % GROUPS),
                opened_at=(began := END - timedelta(minutes=8 * number + 70)),
                resolved_at=began + timedelta(hours=1),
            )
            for number in range(PAST_INCIDENTS)
        ]
        incidents.save(session, [*over, *told])
    warehouse.engine.dispose()


def _change(number: int) -> dict[str, Any]:
    """Return the numbered row of `changes`, newest first: most are of groups, some of topics and of brokers."""
    at = END - timedelta(minutes=number // CHANGES + 1)
    group = {"consumer_group": group_name(number * 7 % GROUPS), "topic": "", "broker_name": ""}
    topic = {"consumer_group": "", "topic": topic_name(number * 7 % TOPICS), "broker_name": ""}
    broker = {"consumer_group": "", "topic": "", "broker_name": _broker(number // 50)}
    whose = topic if number % 100 == 1 else broker if number % 50 == 2 else group
    kind, what = Kind.MEMBERS, Sentence("changed_joined", came=f"10.0.0.{number % 250}@{number}", count=MEMBERS)
    said = {"kind": kind, "what_json": json.dumps(to_json(what))}
    return {"cluster": CLUSTER, "at": at, "interval_start": at, "identity": f"{number:032x}", **whose, **said}


def append(warehouse: Warehouse, table: Table, rows_of: RowsOf, things: int, days: int) -> int:
    """Commit a table's files day by day, the last one's as they lie at 23:59; returns the snapshot id."""
    iceberg_table = warehouse.iceberg_table(table)
    schema = schema_to_pyarrow(iceberg_table.schema(), include_field_ids=True)
    end = int(END.timestamp()) * 1_000_000
    parts = max(1, -(-things * DAY // full_rows(table)))

    def written(some: range, minutes: range) -> DataFile:
        """Write the rows of some things, of minutes before the end."""
        starts = end - np.array(minutes, np.int64)[::-1] * 60_000_000
        columns = rows_of(some, starts)
        rows = _filled(table, len(some) * len(starts), columns).cast(schema)
        return write_file(iceberg_table, rows, PACKED_PREFIX)

    def commit(files: Sequence[DataFile]) -> None:
        with iceberg_table.transaction() as transaction, transaction.update_snapshot().fast_append() as producer:
            for file in files:
                producer.append_data_file(file)

    for day in range(days - 1, 0, -1):
        minutes = range(day * DAY + 1, (day + 1) * DAY + 1)
        real = min(WRITTEN, parts - 1)
        file = written(range(things * real // parts, things * (real + 1) // parts), minutes)
        commit(
            [file, *(_elsewhere(iceberg_table, table, file, number, real) for number in range(parts) if number != real)]
        )
    everything = range(things)
    at_once = min(PACKED_FILES, max(1, full_rows(table) // things // HOUR))
    packed = range(1 + HOUR, (DAY if days else 2 * HOUR) + 1)
    whole = len(packed) // (at_once * HOUR)
    cuts = [packed[-(n + 1) * at_once * HOUR :][: at_once * HOUR] for n in range(whole)]
    rest = packed[: len(packed) - whole * at_once * HOUR]
    cuts += [rest[n : n + HOUR] for n in range(0, len(rest), HOUR)]
    commit(
        [written(everything, cut) for cut in cuts] + [written(everything, range(n, n + 1)) for n in range(1, HOUR + 1)]
    )
    head = iceberg_table.current_snapshot()
    assert head is not None
    return head.snapshot_id


def _elsewhere(iceberg_table: IcebergTable, table: Table, file: DataFile, number: int, real: int) -> DataFile:
    """Return a file as the manifest would have it: with names before or after those that are asked for."""
    names = (one for one in vars(DataFile) if isinstance(vars(DataFile)[one], property) and one != "spec_id")
    said = {name: getattr(file, name) for name in names}
    field = iceberg_table.schema().find_field(table.sort_order[0])
    bounds = {field.field_id: to_bytes(StringType(), f"{'a' if number < real else 'z'}-{number:02}")}
    said |= {"file_path": f"{file.file_path}.{number}", "lower_bounds": said["lower_bounds"] | bounds}
    return DataFile.from_args(spec_id=0, **said | {"upper_bounds": said["upper_bounds"] | bounds})


def _filled(table: Table, count: int, given: dict[str, Any]) -> pa.Table:
    """Return rows with NULL in all columns that are not given."""
    nothing = {"bool": False, "string": "", "list<item: string>": []}
    columns = []
    for field in arrow_schema(table):
        if field.name in given:
            columns.append(pa.array(given[field.name]).cast(field.type))
        elif field.name == "cluster":
            columns.append(pa.repeat(pa.scalar(CLUSTER), count))
        else:
            value = None if field.nullable else nothing.get(str(field.type), 0)
            columns.append(pa.repeat(pa.scalar(value, field.type), count))
    return pa.Table.from_arrays(columns, schema=arrow_schema(table))


def _things(some: range, starts: Starts, **named: Callable[[int], Any]) -> dict[str, Any]:
    """Return who and when of rows that are sorted by things, then time."""
    places = pa.array(np.repeat(np.arange(len(some)), len(starts)))
    who = {name: pa.array([call(number) for number in some]).take(places) for name, call in named.items()}
    return {"interval_start": np.tile(starts, len(some)), **who}


def _dice(some: range, starts: Starts, *names: str) -> dict[str, Any]:
    """Return figures that do not compress to nothing, and a fifth of unknowns."""
    dice = np.random.default_rng(len(some))
    count = len(some) * len(starts)
    return {name: pa.array(dice.integers(0, 5_000, count), mask=dice.random(count) < 0.2) for name in names}


def group_rows(some: range, starts: Starts) -> dict[str, Any]:
    rows = _things(some, starts, consumer_group=group_name, topic=lambda n: topic_name(n * TOPICS // GROUPS))
    figures = ("effective_lag", "lag_ms", "lag", "inflight", "lost", "produce_tps", "consume_tps")
    rows |= _dice(some, starts, *figures, "suspect_queue_count")
    fixed = {"queue_count": QUEUES, "broker_count": BROKERS, "online_client_count": MEMBERS}
    return rows | {name: np.full(len(rows["topic"]), n) for name, n in fixed.items()} | _deployed(some, starts)


def _deployed(some: range, starts: Starts) -> dict[str, Any]:
    """Let each fiftieth group have another version, and clients that started then, for an hour and a half."""
    of_groups, at = np.repeat(np.arange(some.start, some.stop), len(starts)), np.tile(starts, len(some))
    places = of_groups % 50 == 0
    places &= at >= int((END - timedelta(minutes=90)).timestamp()) * 1_000_000
    versions = pa.array([["JAVA V5_3_2"], ["JAVA V5_3_3"]]).take(pa.array(places.astype(int)))
    digests = pa.array([f"{number:032x}" for number in range(2 * len(some))])
    of_some = 2 * np.repeat(np.arange(len(some)), len(starts)) + places
    return {"client_versions": versions, "seen_digest": digests.take(pa.array(of_some))}


def topic_rows(some: range, starts: Starts) -> dict[str, Any]:
    figures = ("produce_tps", "baseline_tps", "message_count", "max_offset_total")
    return _things(some, starts, topic=topic_name) | _dice(some, starts, *figures)


def queue_rows(some: range, starts: Starts) -> dict[str, Any]:
    first = groups_written().start
    who = {
        "consumer_group": lambda n: group_name(first + n // QUEUES),
        "topic": lambda n: topic_name((first + n // QUEUES) * TOPICS // GROUPS),
        "broker_name": lambda n: _broker(n % QUEUES * BROKERS // QUEUES),
        "queue_id": lambda n: n % (QUEUES // BROKERS),
    }
    figures = ("min_offset", "consumer_offset", "pull_offset", "max_offset", "effective_lag", "lag_ms")
    return _things(some, starts, **who) | _dice(some, starts, *figures)


def broker_rows(some: range, starts: Starts) -> dict[str, Any]:
    rows = _things(some, starts, broker_name=_broker)
    return rows | {"consumed_queue_count": np.full(len(rows["broker_name"]), 20_000)}


def client_rows(some: range, starts: Starts) -> dict[str, Any]:
    who = {
        "consumer_group": lambda n: group_name(n // (MEMBERS * BROKERS)),
        "client_id": lambda n: f"10.0.0.{n // BROKERS % MEMBERS}@1",
        "broker_name": _broker,
    }
    return _things(some, starts, **who) | _dice(some, starts, "held_queue_count")


def topic_queue_rows(some: range, starts: Starts) -> dict[str, Any]:
    who = {"topic": lambda n: topic_name(n // QUEUES), "broker_name": lambda n: _broker(n % BROKERS)}
    return _things(some, starts, **who, queue_id=lambda n: n % QUEUES) | _dice(some, starts, "min_offset", "max_offset")


def move_rows(some: range, starts: Starts) -> dict[str, Any]:
    who = {"consumer_group": group_name, "topic": lambda _: topic_name(0), "broker_name": _broker}
    rows = _things(some, starts, **who)
    return rows | {"origin": pa.array(["event"]).take(pa.array(np.zeros(len(rows["topic"]), int)))}


def cluster_rows(some: range, starts: Starts) -> dict[str, Any]:
    return _things(some, starts) | _dice(some, starts, "effective_lag")


def _broker(number: int) -> str:
    return f"broker-{number % BROKERS}"


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]))
