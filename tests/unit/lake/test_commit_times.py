"""Tables whose times go back, since a clock was off, are put in order; none is damaged by a clock that is behind."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlparse

import pytest
from pyiceberg.table import Table as IcebergTable

from offsetguard.config import Retention
from offsetguard.lake.upkeep.clean import Housekeeper
from offsetguard.lake.upkeep.commit_times import keep_times_in_order
from offsetguard.model.errors import PublishError
from offsetguard.model.intervals import Interval
from offsetguard.tables import TOPIC_FACTS
from offsetguard_peers.lake.warehouse import Warehouse, put_newest_commit_ahead

START = datetime(2026, 11, 21, tzinfo=UTC)
THREE_MINUTES = timedelta(minutes=3)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """Hold two published minutes; the clock of whoever published the second one was ahead."""
    warehouse = Warehouse.in_folder(tmp_path, TOPIC_FACTS)
    for minute in range(2):
        publish(warehouse, minute)
    put_newest_commit_ahead(warehouse.iceberg_table(TOPIC_FACTS), THREE_MINUTES)
    return warehouse


def interval(minute: int) -> Interval:
    return Interval(START + timedelta(minutes=minute))


def publish(warehouse: Warehouse, minute: int) -> None:
    row = {"topic": "orders", "queue_count": 4, "consumer_group_count": 1, "lag": minute}
    warehouse.publish("demo", interval(minute), {TOPIC_FACTS: [row]})


def clean(warehouse: Warehouse) -> list[str]:
    """Let housekeeping look; returns what it says of times."""
    lines: list[str] = []
    Housekeeper(warehouse.workspace, Retention(), warehouse.engine, lines.append).clean(now=interval(5).start)
    return [line for line in lines if "times" in line]


def steps_back_ms(table: IcebergTable) -> list[int]:
    """Return by how much times go back in what Iceberg compares."""
    metadata = table.metadata
    logs = ([entry.timestamp_ms for entry in log] for log in (metadata.metadata_log, metadata.snapshot_log))
    steps = (earlier - later for log in logs for earlier, later in pairwise([*log, metadata.last_updated_ms]))
    return [step for step in steps if step > 0]


def test_housekeeping_puts_damaged_times_in_order_once_and_loses_nothing(warehouse: Warehouse) -> None:
    publish(warehouse, 2)
    publish(warehouse, 3)
    damaged = warehouse.iceberg_table(TOPIC_FACTS)
    assert [round(step / 60_000) for step in steps_back_ms(damaged)] == [3, 3], "in either log"
    seen = [warehouse.rows(TOPIC_FACTS, "demo", interval(minute)) for minute in range(4)]

    (line,) = clean(warehouse)
    assert line.startswith("tables: topic_facts: 2 entries of its logs had times up to ")

    mended = warehouse.iceberg_table(TOPIC_FACTS)
    assert steps_back_ms(mended) == []
    assert mended.snapshots() == damaged.snapshots()
    assert mended.metadata.refs == damaged.metadata.refs
    files = [entry.metadata_file for entry in mended.metadata.metadata_log]
    assert files == [*(entry.metadata_file for entry in damaged.metadata.metadata_log), damaged.metadata_location]
    assert all(Path(urlparse(file).path).exists() for file in files)
    assert [warehouse.rows(TOPIC_FACTS, "demo", interval(minute)) for minute in range(4)] == seen
    assert clean(warehouse) == []


def test_nothing_is_committed_while_the_clock_lies_before_the_newest_commit(warehouse: Warehouse) -> None:
    before = warehouse.iceberg_table(TOPIC_FACTS).metadata_location
    with pytest.raises(
        PublishError,
        match=r"table topic_facts was changed at .* and the clock says .* nothing was .*goes on by itself at ",
    ):
        clean(warehouse)
    assert warehouse.iceberg_table(TOPIC_FACTS).metadata_location == before


def test_who_has_committed_meanwhile_is_not_undone(warehouse: Warehouse) -> None:
    publish(warehouse, 2)
    seen_before = warehouse.iceberg_table(TOPIC_FACTS)
    publish(warehouse, 3)
    newest = warehouse.iceberg_table(TOPIC_FACTS).metadata_location
    with pytest.raises(PublishError, match="topic_facts: something else has changed the table meanwhile; run it again"):
        keep_times_in_order([seen_before], datetime.now(UTC), print)
    assert warehouse.iceberg_table(TOPIC_FACTS).metadata_location == newest
