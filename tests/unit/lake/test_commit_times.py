"""No commit makes a table's times go back, and one whose times do is refused with what to do."""

from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from offsetguard.config import Retention
from offsetguard.lake.upkeep.clean import Housekeeper
from offsetguard.lake.upkeep.expiry import delete_older, expire
from offsetguard.lake.upkeep.packing import Exchange, exchange, live_files
from offsetguard.model.errors import PublishError
from offsetguard.model.intervals import Interval
from offsetguard.tables import TOPIC_FACTS
from offsetguard_peers.lake.warehouse import Warehouse, put_newest_commit_ahead

START = datetime(2026, 11, 21, tzinfo=UTC)
NOW = datetime.now(UTC)
NO_GRACE = timedelta(days=-10_000)  # no snapshot is young
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


def clean(warehouse: Warehouse) -> None:
    Housekeeper(warehouse.workspace, Retention(), warehouse.engine, print).clean(now=interval(5).start)


def test_nothing_is_committed_while_the_clock_lies_before_the_newest_commit(warehouse: Warehouse) -> None:
    table = warehouse.iceberg_table(TOPIC_FACTS)
    before = table.metadata_location
    refused = "table topic_facts was changed at .* and the clock says .* nothing more was .*goes on by itself at "
    with pytest.raises(PublishError, match=refused):
        clean(warehouse)
    for commit in (  # somebody else's commit came since a housekeeping began
        lambda: delete_older(table, START + timedelta(days=9)),
        lambda: expire(table, {one.snapshot_id for one in table.snapshots()[:1]}, nullcontext, now=NOW, keep=NO_GRACE),
        lambda: exchange(table, [Exchange(tuple(live_files(table)), ())], "pack"),
    ):
        with pytest.raises(PublishError, match=refused):
            commit()
    assert warehouse.iceberg_table(TOPIC_FACTS).metadata_location == before


@pytest.mark.parametrize("commits", [1, 30])
def test_a_table_whose_times_go_back_is_refused_with_what_to_bring_back(warehouse: Warehouse, commits: int) -> None:
    """Another program's commits: after many of them, the log does not name the metadata of before."""
    last_in_order = warehouse.iceberg_table(TOPIC_FACTS).metadata_location
    for minute in range(2, 2 + commits):
        publish(warehouse, minute)
    said = f"are {last_in_order}" if commits == 1 else "are not in its log any more, but in a backup"
    with pytest.raises(PublishError, match=f"topic_facts: the times .* go back, .* {said}: bring"):
        clean(warehouse)
