"""Housekeeping keeps files and snapshots bounded, and no reader can tell from the rows that it was there."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from offsetguard.config import Retention
from offsetguard.lake.catalog import path_of
from offsetguard.lake.upkeep import packing
from offsetguard.lake.upkeep.clean import Housekeeper
from offsetguard.lake.upkeep.expiry import delete_landed, expire
from offsetguard.lake.upkeep.packing import live_files, ranges_of_rows, unpack
from offsetguard.model.intervals import Interval
from offsetguard.model.notification import Matchers, Silence
from offsetguard.store import published_intervals, silences
from offsetguard.store.database import reading, writing
from offsetguard.store.published_intervals import RETENTION_PASSED
from offsetguard.tables import GROUP_SNAPSHOTS, LOG_EVENTS, QUEUE_STATE, TOPIC_FACTS, Table
from offsetguard_peers.lake.warehouse import Warehouse

MIDNIGHT = datetime(2026, 11, 21, tzinfo=UTC)
NO_GRACE = timedelta(days=-10_000)  # snapshots are of the real clock, whatever `now` a test says: none is young


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse.in_folder(tmp_path, TOPIC_FACTS, GROUP_SNAPSHOTS)


@pytest.fixture
def of_topics(tmp_path: Path) -> Warehouse:
    return Warehouse.in_folder(tmp_path, TOPIC_FACTS)


@pytest.fixture
def of_groups(tmp_path: Path) -> Warehouse:
    return Warehouse.in_folder(tmp_path, GROUP_SNAPSHOTS)


def housekeeper(warehouse: Warehouse, lines: list[str] | None = None, **more: Any) -> Housekeeper:
    settings = {"keep_snapshots": NO_GRACE, "keep_unnamed_files": timedelta(0)} | more
    say = (lines if lines is not None else []).append
    return Housekeeper(warehouse.workspace, Retention(), warehouse.engine, say, **settings)


def interval(minute: int) -> Interval:
    return Interval(MIDNIGHT + minute * timedelta(minutes=1))


def rows_of(minute: int, count: int = 3) -> dict[Table, list[dict[str, Any]]]:
    topics = [
        {"topic": f"topic-{number}", "queue_count": 4, "consumer_group_count": 1, "lag": None if number else minute}
        for number in range(count)
    ]
    groups = [
        {"consumer_group": f"group-{number}", "system_group": False, "in_detail": minute % 2 == 0}
        for number in reversed(range(count))
    ]
    return {TOPIC_FACTS: topics, GROUP_SNAPSHOTS: groups}


def publish(warehouse: Warehouse, minutes: range, cluster: str = "demo") -> None:
    for minute in minutes:
        rows = rows_of(minute)
        warehouse.publish(cluster, interval(minute), {table: rows[table] for table in warehouse.tables})


def seen(warehouse: Warehouse, minutes: range, cluster: str = "demo") -> list[list[dict[str, Any]]]:
    return [warehouse.rows(table, cluster, interval(minute)) for table in warehouse.tables for minute in minutes]


@pytest.mark.slow
def test_while_a_day_lasts_fresh_files_are_packed_and_readers_see_the_same_rows(warehouse: Warehouse) -> None:
    minutes = range(packing.FRESH_FILES)
    publish(warehouse, minutes)
    before = seen(warehouse, minutes)

    report = housekeeper(warehouse).clean(now=interval(minutes[-1] + 2).start)

    assert seen(warehouse, minutes) == before
    for table in warehouse.tables:
        told = report.tables[table.name]
        assert (told.files, told.packed_files, told.snapshots) == (1, packing.FRESH_FILES, 2), "main, and the newest's"
    assert report.settled_intervals == packing.FRESH_FILES - 1
    [packed] = live_files(warehouse.iceberg_table(TOPIC_FACTS))
    assert (packed.first, packed.last, packed.packed) == (interval(0).start, interval(minutes[-1]).start, True)


def test_few_fresh_files_are_not_worth_a_commit_until_their_day_is_over(of_topics: Warehouse) -> None:
    minutes = range(3)
    publish(of_topics, minutes)
    publish(of_topics, minutes, "other")
    before = seen(of_topics, minutes)
    assert housekeeper(of_topics).clean(now=interval(5).start).tables["topic_facts"].files == 6
    report = housekeeper(of_topics).clean(now=MIDNIGHT + timedelta(hours=25))
    assert report.tables["topic_facts"].files == 2, "one of each cluster: they are partitions of their own"
    assert seen(of_topics, minutes) == before
    assert seen(of_topics, minutes, "other") == before_of("other", before)


def before_of(cluster: str, rows: list[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    return [[{**row, "cluster": cluster} for row in some] for some in rows]


@pytest.mark.slow
def test_packed_rows_lie_in_the_order_in_which_readers_look_for_them(of_groups: Warehouse) -> None:
    publish(of_groups, range(4))
    housekeeper(of_groups).clean(now=MIDNIGHT + timedelta(hours=25))
    iceberg_table = of_groups.iceberg_table(GROUP_SNAPSHOTS)
    [file] = live_files(iceberg_table)
    found = iceberg_table.scan().to_arrow().select(["consumer_group", "interval_start"]).to_pylist()
    assert file.row_count == len(found) == 12
    assert found == sorted(found, key=lambda row: (row["consumer_group"], row["interval_start"]))


def test_a_day_of_several_files_is_cut_between_consumer_groups(of_groups: Warehouse) -> None:
    publish(of_groups, range(4))
    iceberg_table = of_groups.iceberg_table(GROUP_SNAPSHOTS)
    parts = list(ranges_of_rows(iceberg_table, live_files(iceberg_table), "consumer_group", 2))
    groups = [set(part.column("consumer_group").to_pylist()) for part in parts]
    assert sum(part.num_rows for part in parts) == 12
    assert len(parts) == 2
    assert max(groups[0]) < min(groups[1])


def test_retention_deletes_whole_days_and_readers_are_told_so(warehouse: Warehouse) -> None:
    publish(warehouse, range(2))
    later = 10 * 24 * 60
    publish(warehouse, range(later, later + 2))
    newest = seen(warehouse, range(later, later + 2))

    report = housekeeper(warehouse).clean(now=interval(later).start + timedelta(hours=1))

    assert report.tables["group_snapshots"].aged_files == 2
    assert report.tables["topic_facts"].aged_files == 0, "facts are kept for longer"
    old = published_intervals.get(warehouse.engine, "demo", interval(0))
    assert old is not None
    assert old.snapshot_ids["group_snapshots"] == RETENTION_PASSED
    assert len(warehouse.rows(TOPIC_FACTS, "demo", interval(0))) == 3
    assert seen(warehouse, range(later, later + 2)) == newest

    report = housekeeper(warehouse).clean(now=interval(later).start + timedelta(days=85))
    assert report.deleted_intervals == 2
    assert published_intervals.get(warehouse.engine, "demo", interval(0)) is None
    assert report.tables["topic_facts"].aged_files == 1, "both were packed into one"


def test_what_is_over_goes_with_the_facts_of_its_day_and_the_report_counts_it(warehouse: Warehouse) -> None:
    kept_from = MIDNIGHT - timedelta(days=Retention().facts_days)
    for ends_at in (kept_from, kept_from - timedelta(microseconds=1)):
        began = ends_at - timedelta(hours=1)
        with writing(warehouse.engine) as session:
            silences.add(session, Silence(Matchers("demo"), "li", "load test", began, ends_at, began))
    report = housekeeper(warehouse).clean(now=interval(12 * 60).start)
    assert (report.deleted_incidents, report.deleted_messages, report.deleted_silences) == (0, 0, 1)
    with reading(warehouse.engine) as session:
        assert [one.ends_at for one in silences.newest(session, limit=9)] == [kept_from]


@pytest.mark.slow
def test_rows_that_a_killed_run_left_in_main_are_not_shown_by_housekeeping(warehouse: Warehouse) -> None:
    """A run of an old interval dies after its tables went forward and before its row was written."""
    minutes = range(4)
    publish(warehouse, minutes)
    housekeeper(warehouse).clean(now=interval(5).start)
    before = seen(warehouse, minutes)
    killed = warehouse.publish("demo", interval(1), {TOPIC_FACTS: []}, run_id="killed", show=False, again=True)
    warehouse.publish("demo", interval(1), {TOPIC_FACTS: rows_of(99)[TOPIC_FACTS]}, run_id=killed, show=False)
    publish(warehouse, range(4, 6))
    lines: list[str] = []

    for _ in range(2):  # once more: what tells of the killed run must not be forgotten
        report = housekeeper(warehouse, lines).clean(now=interval(7).start)
        assert (seen(warehouse, minutes), report.never_shown) == (before, 1)
    what_to_do = "a run was killed before it showed its rows; trigger recompute_facts for it"
    assert f"demo: {interval(1).start.isoformat()}: {what_to_do}" in lines

    warehouse.publish("demo", interval(1), rows_of(1), run_id=f"{interval(1).name}_again", again=True)
    report = housekeeper(warehouse).clean(now=interval(8).start)
    assert (report.never_shown, seen(warehouse, minutes)) == (0, before)
    assert report.tables["topic_facts"].snapshots == 2


@pytest.mark.slow
def test_a_recomputed_interval_counts_as_shown_although_the_state_of_its_queues_is_not_its_own(tmp_path: Path) -> None:
    """`queue_state` goes forward only, so that a recomputation leaves the former run's snapshot of it alone."""
    warehouse = Warehouse.in_folder(tmp_path, TOPIC_FACTS, QUEUE_STATE)
    zero = {"string": "x", "int32": 0, "int64": 0, "float64": 0.0, "boolean": False, "timestamp": MIDNIGHT}
    state = {column.name: zero.get(column.type.value, []) for column in QUEUE_STATE.columns[2:] if not column.nullable}
    for minute in range(3):
        warehouse.publish("demo", interval(minute), {TOPIC_FACTS: rows_of(minute)[TOPIC_FACTS], QUEUE_STATE: [state]})
    again = f"{interval(1).name}_again"
    warehouse.publish("demo", interval(1), {TOPIC_FACTS: rows_of(1)[TOPIC_FACTS]}, run_id=again, again=True)

    report = housekeeper(warehouse).clean(now=interval(5).start)

    assert (report.never_shown, report.settled_intervals) == (0, 2)
    old, newest = (published_intervals.get(warehouse.engine, "demo", interval(minute)) for minute in (1, 2))
    assert old is not None
    assert newest is not None
    assert old.snapshot_ids["queue_state"] == RETENTION_PASSED
    assert warehouse.iceberg_table(QUEUE_STATE).snapshot_by_id(newest.snapshot_ids["queue_state"]) is not None


def test_files_that_nothing_names_go_after_a_while_and_others_stay(of_topics: Warehouse) -> None:
    publish(of_topics, range(2))
    folder = path_of(of_topics.iceberg_table(TOPIC_FACTS).location())
    orphan, fresh = folder / "data" / "of a killed run.parquet", folder / "data" / "under way.parquet"
    for file in (orphan, fresh):
        file.write_bytes(b"PAR1")
    now = datetime.now(UTC)
    os.utime(orphan, ((now - timedelta(days=2)).timestamp(),) * 2)
    before = seen(of_topics, range(2))

    report = housekeeper(of_topics, keep_unnamed_files=timedelta(days=1)).clean(now=now)

    assert (report.tables["topic_facts"].orphan_files, orphan.exists(), fresh.exists()) == (1, False, True)
    assert seen(of_topics, range(2)) == before


def test_the_checksum_that_spark_leaves_beside_a_file_goes_with_it_and_not_before(of_topics: Warehouse) -> None:
    publish(of_topics, range(6))
    folder = path_of(of_topics.iceberg_table(TOPIC_FACTS).location())
    for file in [one for one in folder.rglob("*") if one.is_file()]:
        checksum = file.with_name(f".{file.name}.crc")
        checksum.write_bytes(b"crc")
        os.utime(checksum, (MIDNIGHT.timestamp(),) * 2)

    report = housekeeper(of_topics).clean(now=MIDNIGHT + timedelta(hours=25))

    checksums = {one.with_name(one.name[1:-4]) for one in folder.rglob(".*.crc")}
    gone = [one for one in checksums if not one.exists()]
    done = report.tables["topic_facts"]
    assert (gone, done.orphan_files, done.packed_files > 1, len(checksums) > 0) == ([], 0, True, True)


def test_a_snapshot_that_a_reader_may_be_at_stays(of_topics: Warehouse) -> None:
    publish(of_topics, range(3))
    report = housekeeper(of_topics, keep_snapshots=timedelta(hours=1)).clean(now=datetime.now(UTC))
    assert report.tables["topic_facts"].expired_snapshots == 0


def test_a_snapshot_that_somebody_names_just_then_stays_with_its_name_and_files(of_topics: Warehouse) -> None:
    publish(of_topics, range(3))
    table = of_topics.iceberg_table(TOPIC_FACTS)
    old = table.snapshots()[0].snapshot_id

    @contextmanager
    def named_first() -> Iterator[None]:
        of_topics.iceberg_table(TOPIC_FACTS).manage_snapshots().create_tag(old, "audit").commit()
        yield

    assert expire(table, {old}, named_first, now=datetime.now(UTC), keep=NO_GRACE) == (0, 0)
    assert of_topics.iceberg_table(TOPIC_FACTS).scan(snapshot_id=old).to_arrow().num_rows == 3


def test_an_interval_gets_files_of_its_own_again_when_it_is_to_be_published_once_more(
    of_topics: Warehouse,
) -> None:
    minutes = range(6)
    publish(of_topics, minutes)
    housekeeper(of_topics).clean(now=MIDNIGHT + timedelta(hours=25))
    before = seen(of_topics, minutes)
    iceberg_table = of_topics.iceberg_table(TOPIC_FACTS)

    assert unpack(iceberg_table, TOPIC_FACTS, "other", interval(2).start, interval(3).start) == 0
    assert unpack(iceberg_table, TOPIC_FACTS, "demo", interval(2).start, interval(3).start) == 1
    assert unpack(iceberg_table, TOPIC_FACTS, "demo", interval(2).start, interval(3).start) == 0

    spans = sorted((file.first, file.last) for file in live_files(iceberg_table))
    expected = [(0, 1), (2, 2), (3, 3), (4, 5)]
    assert spans == [(interval(first).start, interval(last).start) for first, last in expected]
    assert seen(of_topics, minutes) == before
    of_topics.publish("demo", interval(2), {TOPIC_FACTS: rows_of(2, count=1)[TOPIC_FACTS]}, again=True)
    assert [len(of_topics.rows(TOPIC_FACTS, "demo", interval(minute))) for minute in minutes] == [3, 3, 1, 3, 3, 3]


def test_rows_of_whole_log_files_are_never_packed_with_those_of_rounds(tmp_path: Path) -> None:
    """A publication replaces the rows of its round in a file, and must not meet others in it."""
    warehouse = Warehouse.in_folder(tmp_path, LOG_EVENTS)
    line = {"file": "broker.log", "kind": "client_online", "fields_json": "{}"}
    for minute in range(3):
        for position, source in enumerate(("broker-a", "ingested/broker-a-0")):
            rows = {LOG_EVENTS: [{**line, "source": source, "position": 10 * minute + position}]}
            warehouse.publish("demo", interval(minute), rows)

    housekeeper(warehouse).clean(now=MIDNIGHT + timedelta(hours=25))

    iceberg_table = warehouse.iceberg_table(LOG_EVENTS)
    assert sorted((file.ingested, file.row_count) for file in live_files(iceberg_table)) == [(False, 3), (True, 3)]
    assert unpack(iceberg_table, LOG_EVENTS, "demo", interval(1).start, interval(1).start) == 1
    assert len(live_files(iceberg_table)) == 4


@pytest.mark.slow
def test_after_many_cycles_files_and_snapshots_are_as_few_as_after_some(warehouse: Warehouse) -> None:
    """120 cycles with a housekeeping after each 30, over a day's end."""
    on_disk = []
    first_minute = 24 * 60 - 60
    everything = range(first_minute, first_minute + 120)
    for minute in everything:
        warehouse.publish("demo", interval(minute), {TOPIC_FACTS: rows_of(minute)[TOPIC_FACTS]})
        if (minute + 1) % packing.FRESH_FILES:
            continue
        told = housekeeper(warehouse).clean(now=interval(minute + 31).start).tables["topic_facts"]
        assert (told.files <= 4, told.snapshots <= 3) == (True, True), (minute, told)
        iceberg_table = warehouse.iceberg_table(TOPIC_FACTS)
        folder = path_of(iceberg_table.location())
        on_disk.append(sum(1 for path in folder.rglob("*") if path.is_file()))
        main = iceberg_table.current_snapshot()
        assert main is not None
        assert len(main.manifests(iceberg_table.io)) <= told.files + 1, "publications merge them, housekeeping does not"
    assert max(on_disk) <= on_disk[0] + 20, f"beyond the 20 metadata files that a table keeps: {on_disk}"
    assert all(len(warehouse.rows(TOPIC_FACTS, "demo", interval(minute))) == 3 for minute in everything)


def test_what_ended_sessions_left_on_the_warm_server_goes_after_a_day(warehouse: Warehouse) -> None:
    folder = warehouse.workspace.spark_server_folder / "tmp" / "spark_connect_model_cache"
    old, with_models, fresh = (folder / name for name in ("old", "with models", "fresh"))
    for one in (old, with_models, fresh):
        one.mkdir(parents=True)
    (with_models / "model").touch()
    now = datetime.now(UTC)
    for one in (old, with_models):
        os.utime(one, ((now - timedelta(days=2)).timestamp(),) * 2)

    report = housekeeper(warehouse, keep_unnamed_files=timedelta(days=1)).clean(now=now)

    assert report.deleted_session_folders == 1
    assert sorted(one.name for one in folder.iterdir()) == ["fresh", "with models"]


def test_landed_snapshots_go_by_age_and_are_counted_but_the_newest_two_of_a_cluster_stay(tmp_path: Path) -> None:
    for cluster, minutes in {"main": range(6), "quiet": range(1)}.items():
        for minute in minutes:
            folder = tmp_path / cluster / interval(minute).name
            folder.mkdir(parents=True)
            (folder / "manifest.json").touch()
    assert delete_landed(tmp_path, interval(3).start) == 3
    assert sorted(path.name for path in (tmp_path / "main").iterdir()) == [interval(n).name for n in (3, 4, 5)]
    assert delete_landed(tmp_path, interval(60).start) == 1
    assert sorted(path.name for path in (tmp_path / "main").iterdir()) == [interval(n).name for n in (4, 5)]
    assert (tmp_path / "quiet" / interval(0).name).is_dir()
    assert delete_landed(tmp_path / "nothing", interval(60).start) == 0
