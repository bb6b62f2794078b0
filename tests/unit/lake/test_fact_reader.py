"""Published facts are read without Spark: what was published, all of it, and nothing else."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, In, LessThan

from offsetguard.lake.catalog import path_of
from offsetguard.lake.creation import create_missing_tables
from offsetguard.lake.data_files import data_files
from offsetguard.lake.reading import read_interval, table_schema
from offsetguard.model.errors import PublishError
from offsetguard.model.intervals import Interval
from offsetguard.store.published_intervals import RETENTION_PASSED
from offsetguard.tables import GROUP_FACTS, TOPIC_FACTS
from offsetguard_peers.lake.warehouse import Warehouse, group_rows, minute, rows_of

GROUPS = [f"group-with-a-long-name-{number}" for number in range(6)]
DAY = 30  # the warehouse starts at 23:30: minute 30 is the next day
EVERYTHING = (minute(0), minute(10 * DAY))


def append(warehouse: Warehouse, groups: Iterable[str], minutes: Iterable[int], cluster: str = "demo") -> int:
    return warehouse.append(GROUP_FACTS, [group_rows(groups, minutes, cluster)])


def a_day_an_hour_and_minutes(warehouse: Warehouse) -> range:
    """Lay files out as housekeeping does: days, then hours, then what is not yet compacted."""
    append(warehouse, GROUPS, range(DAY))
    append(warehouse, GROUPS, range(DAY, DAY + 10))
    append(warehouse, ["group-of-the-other-cluster", GROUPS[3]], range(DAY), cluster="other")
    for number in range(DAY + 10, DAY + 13):
        snapshot_id = append(warehouse, GROUPS, [number])
    minutes = range(DAY + 13)
    warehouse.show_minutes(minutes, snapshot_id)
    return minutes


def test_a_group_s_past_is_whole_and_in_order(warehouse: Warehouse) -> None:
    """In files of a day, of an hour and of a minute; the second time from memory."""
    minutes = a_day_an_hour_and_minutes(warehouse)
    reader = warehouse.reader()
    for _ in range(2):
        for group in (GROUPS[0], GROUPS[3], GROUPS[5]):
            rows = reader.group_history("demo", group, *EVERYTHING)
            assert rows.schema == table_schema(GROUP_FACTS)
            assert set(rows["consumer_group"].to_pylist()) == {group}
            assert set(rows["cluster"].to_pylist()) == {"demo"}
            assert rows["lag"].to_pylist() == list(minutes)
            assert rows["interval_start"].to_pylist() == [minute(number) for number in minutes]


def test_a_file_as_it_was_published_is_in_no_order(warehouse: Warehouse) -> None:
    in_order = group_rows(GROUPS, range(3))
    mixed = in_order.take([number * 7 % in_order.num_rows for number in range(in_order.num_rows)])
    assert mixed["consumer_group"].to_pylist()[:3] == [GROUPS[0], GROUPS[2], GROUPS[4]]
    warehouse.show_minutes(range(3), warehouse.append(GROUP_FACTS, [mixed]))
    reader = warehouse.reader()
    for group in GROUPS:
        assert reader.group_history("demo", group, *EVERYTHING)["lag"].to_pylist() == [0, 1, 2]
    assert reader.history(GROUP_FACTS, "demo", *EVERYTHING).num_rows == in_order.num_rows


@pytest.mark.slow
def test_only_what_was_asked_for_is_returned(warehouse: Warehouse) -> None:
    a_day_an_hour_and_minutes(warehouse)
    reader = warehouse.reader()
    rows = reader.group_history("demo", GROUPS[1], minute(DAY - 2), minute(DAY + 2), columns=["lag", "topic"])
    assert rows.column_names == ["topic", "lag"]
    assert rows["lag"].to_pylist() == [DAY - 2, DAY - 1, DAY, DAY + 1]
    assert reader.group_history("demo", "group-with-a-long-name", *EVERYTHING).num_rows == 0, "a prefix is another name"
    assert reader.group_history("nowhere", GROUPS[1], *EVERYTHING).num_rows == 0
    assert reader.group_history("demo", GROUPS[1], minute(-5), minute(0)).num_rows == 0


def test_what_was_written_but_not_published_does_not_show(warehouse: Warehouse) -> None:
    """A publication that was killed before its row was there; the next one makes its snapshot an ancestor."""
    warehouse.show_minutes([0], append(warehouse, GROUPS, [0]))
    append(warehouse, GROUPS, [1])
    reader = warehouse.reader()
    assert reader.group_history("demo", GROUPS[0], *EVERYTHING)["lag"].to_pylist() == [0]
    warehouse.show_minutes([2], append(warehouse, GROUPS, [2]))
    assert reader.group_history("demo", GROUPS[0], *EVERYTHING)["lag"].to_pylist() == [0, 2]
    assert reader.interval(GROUP_FACTS, "demo", Interval(minute(1))).num_rows == 0
    warehouse.show_minutes([1], warehouse.append(GROUP_FACTS, []))
    assert reader.group_history("demo", GROUPS[0], *EVERYTHING)["lag"].to_pylist() == [0, 1, 2]


def test_a_backfilled_interval_shows_although_it_is_not_the_newest(warehouse: Warehouse) -> None:
    """Also when the clock of its publisher was behind."""
    warehouse.show_minutes([5], append(warehouse, GROUPS, [5]))
    warehouse.show_minutes([1], append(warehouse, GROUPS, [1]), late=-1)
    assert warehouse.reader().group_history("demo", GROUPS[0], *EVERYTHING)["lag"].to_pylist() == [1, 5]


def test_an_interval_is_read_as_it_was_published(warehouse: Warehouse) -> None:
    first = append(warehouse, GROUPS[::-1], [0])
    warehouse.show_minutes([0], first)
    append(warehouse, ["written-later"], [0])
    rows = warehouse.reader().interval(GROUP_FACTS, "demo", Interval(minute(0)))
    assert rows["consumer_group"].to_pylist() == GROUPS


@pytest.mark.slow
def test_many_threads_share_a_reader(warehouse: Warehouse) -> None:
    a_day_an_hour_and_minutes(warehouse)
    reader = warehouse.reader()

    def lags(group: str) -> list[int]:
        return list(reader.group_history("demo", group, *EVERYTHING)["lag"].to_pylist())

    with ThreadPoolExecutor(6) as pool:
        assert set(map(tuple, pool.map(lags, GROUPS * 3))) == {tuple(range(DAY + 13))}


def test_rows_whose_retention_has_passed_are_not_called_none(warehouse: Warehouse) -> None:
    append(warehouse, GROUPS, [0])
    warehouse.show_minutes([0], RETENTION_PASSED)
    with pytest.raises(PublishError, match="group_facts: rows of demo 20261120T233000Z were deleted: retention passed"):
        warehouse.reader().interval(GROUP_FACTS, "demo", Interval(minute(0)))


def test_a_table_that_a_release_did_not_have_has_no_rows_of_its_intervals(warehouse: Warehouse) -> None:
    warehouse.show_minutes([0], append(warehouse, GROUPS, [0]))
    create_missing_tables(warehouse.workspace, [TOPIC_FACTS])
    rows = rows_of(TOPIC_FACTS, [{"cluster": "demo", "interval_start": minute(0), "topic": "orders"}])
    warehouse.append(TOPIC_FACTS, [rows])
    assert warehouse.reader().interval(TOPIC_FACTS, "demo", Interval(minute(0))).num_rows == 0


def test_a_column_that_was_added_since_is_unknown_in_older_rows(warehouse: Warehouse) -> None:
    older = replace(TOPIC_FACTS, columns=tuple(column for column in TOPIC_FACTS.columns if column.name != "lag"))
    create_missing_tables(warehouse.workspace, [older])
    row = {"cluster": "demo", "interval_start": minute(0), "topic": "orders", "queue_count": 4}
    snapshot_id = warehouse.append(older, [rows_of(older, [row])])
    published = warehouse.show(Interval(minute(0)), {TOPIC_FACTS.name: snapshot_id})
    rows = read_interval(warehouse.catalog, TOPIC_FACTS, published)
    assert rows.schema == table_schema(TOPIC_FACTS)
    assert rows.select(["topic", "queue_count", "lag"]).to_pylist() == [
        {"topic": "orders", "queue_count": 4, "lag": None}
    ]


def test_files_are_told_by_their_bounds_as_pyiceberg_tells_them(warehouse: Warehouse) -> None:
    a_day_an_hour_and_minutes(warehouse)
    state = warehouse.iceberg_table(GROUP_FACTS)
    snapshot = state.current_snapshot()
    assert snapshot is not None
    spans = [(0, DAY), (DAY - 1, DAY + 1), (DAY, DAY + 11), (DAY + 11, DAY + 12), (-DAY, 0), (DAY + 13, 99)]
    groups = (GROUPS[2:3], ["a"], ["z", GROUPS[0]], ["group-of-the-other-cluster"])
    for (first, end), names, cluster in product(spans, groups, ("demo", "other", "none")):
        span = [("interval_start", ">=", minute(first)), ("interval_start", "<", minute(end))]
        found = data_files(
            state, snapshot.snapshot_id, [("cluster", "=", cluster), *span, ("consumer_group", "in", names)]
        )
        condition = And(
            EqualTo("cluster", cluster),  # type: ignore[call-arg]
            GreaterThanOrEqual("interval_start", minute(first).isoformat()),  # type: ignore[call-arg]
            LessThan("interval_start", minute(end).isoformat()),  # type: ignore[call-arg]
            In("consumer_group", names),  # type: ignore[call-arg]
        )
        planned = {str(path_of(task.file.file_path)) for task in state.scan(condition).plan_files()}
        assert set(found) == planned, (first, end, names, cluster)


def test_a_home_may_be_called_anything(tmp_path: Path) -> None:
    warehouse = Warehouse.in_folder(tmp_path / "a home 100% 数据 #1", GROUP_FACTS)
    warehouse.show_minutes([0], append(warehouse, GROUPS, [0]))
    assert warehouse.reader().group_history("demo", GROUPS[0], *EVERYTHING)["lag"].to_pylist() == [0]
    folder = path_of(warehouse.iceberg_table(GROUP_FACTS).location())
    assert folder.is_relative_to(warehouse.workspace.home)
    assert [*folder.rglob("*.parquet")]
