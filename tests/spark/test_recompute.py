"""Facts of the past once more: nothing newer changes, and nothing gets lost, whoever works beside it."""

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from sqlalchemy import delete, update

from offsetguard.config import Retention
from offsetguard.config.workspace import Workspace
from offsetguard.lake.catalog import load_table, open_catalog
from offsetguard.lake.upkeep.clean import Housekeeper
from offsetguard.model.errors import StoreError
from offsetguard.model.intervals import Interval
from offsetguard.store import cycles, published_intervals
from offsetguard.store.database import writing
from offsetguard.store.models import LockRow
from offsetguard.tables import GROUP_FACTS, PUBLISHED, QUEUE_STATE, Table
from offsetguard_spark.publish import Publisher
from offsetguard_spark.recompute import LeftOut, Recomputer, RecomputeReport, rebuild_state
from offsetguard_spark.reports import Progress, PublishReport

START = datetime(2026, 11, 21, 10, 39, tzinfo=UTC)
NOW = START + timedelta(minutes=20)
OF_THE_STATE = ("OG-V14", "OG-W01")  # invariants of queue_state, which an older interval does not write
Rows = list[dict[str, Any]]


def interval(number: int) -> Interval:
    return Interval(START + number * timedelta(minutes=1))


@pytest.fixture
def publisher(kept_workspace, new_publisher, land_in) -> Publisher:
    """Give a publisher that has published the intervals 0 to 2."""

    def publish_first(workspace: Workspace) -> list[PublishReport]:
        first = new_publisher(workspace)
        for number in range(3):
            land_in(workspace, number)
        return [first.publish("demo", interval(number), now=NOW) for number in range(3)]

    return new_publisher(kept_workspace.restored(publish_first))


@pytest.fixture
def land_in(snapshot) -> Callable[..., Path]:
    """Land an interval: two groups, of which one falls behind by ten messages a minute."""

    def land_one(workspace: Workspace, number: int, groups: tuple[str, ...] = ("billing", "stock")) -> Path:
        one = replace(snapshot, interval=interval(number), rows={name: [] for name in snapshot.rows})
        one.broker()
        one.topic("orders")
        one.topic_queue("orders", 0, 0, 100 + 10 * number)
        for group in groups:
            one.group(group)
            committed = 50 if group == "billing" else 100 + 10 * number
            one.queue(group, "orders", 0, (0, committed, 100 + 10 * number))
        return one.land(workspace)

    return land_one


@pytest.fixture
def land(publisher, land_in) -> Callable[..., Path]:
    return partial(land_in, publisher.workspace)


def everything(workspace: Workspace) -> dict[Table, dict[datetime, Rows]]:
    """Return the rows of main of every table by interval."""
    catalog = open_catalog(workspace)
    found: dict[Table, dict[datetime, Rows]] = {}
    for table in PUBLISHED:
        by_interval = found.setdefault(table, {})
        rows = load_table(catalog, table).scan().to_arrow().to_pylist()
        rows = [row for row in rows if row.get("invariant_id") not in OF_THE_STATE]
        for row in sorted(rows, key=lambda row: [str(row[name]) for name in table.key]):
            by_interval.setdefault(row["interval_start"], []).append(row)
    return found


def differences(before: dict[Table, dict[datetime, Rows]], after: dict[Table, dict[datetime, Rows]]) -> list[str]:
    return [
        f"{table.name} {start}: {before[table].get(start)} != {after[table].get(start)}"
        for table in PUBLISHED
        for start in sorted({*before[table], *after[table]})
        if before[table].get(start) != after[table].get(start)
    ]


def new_report() -> RecomputeReport:
    return RecomputeReport("demo", "", "")


def housekeeper(publisher: Publisher) -> Housekeeper:
    """One for which no snapshot is young: they are of the real clock, whatever `now` a test says."""
    young = timedelta(days=-10_000)
    return Housekeeper(publisher.workspace, Retention(), publisher.engine, [].append, keep_snapshots=young)


def test_recomputing_the_past_in_any_order_changes_nothing_but_what_landed_anew(publisher, land) -> None:
    """Packed intervals come out as they were; a snapshot that was repaired changes its own interval and no other."""
    before = everything(publisher.workspace)
    report = housekeeper(publisher).clean(now=START + timedelta(days=1))
    assert report.tables["group_facts"].files == 1
    assert differences(before, everything(publisher.workspace)) == []
    lines: list[str] = []
    told = replace(publisher, progress=Progress(lines.append))

    done = Recomputer(told).recompute("demo", [interval(2), interval(0)], new_report(), now=NOW)

    assert (done.recomputed, done.failed) == (2, {})
    assert differences(before, everything(publisher.workspace)) == []
    progress = [line for line in lines if " left" in line]
    assert [line.split()[0] for line in progress] == ["1/2", "2/2"]
    assert progress[-1].endswith("0:00:00 left")

    def start_after_another_took_the_lock() -> SparkSession:
        with writing(publisher.engine) as session:
            session.execute(update(LockRow).values(token="of another publisher"))
        return publisher.start_spark()

    with pytest.raises(StoreError, match="the lock 'publication' was lost"):
        rebuild_state(replace(publisher, start_spark=start_after_another_took_the_lock), "demo")
    with writing(publisher.engine) as session:
        session.execute(delete(LockRow))
    assert rebuild_state(publisher, "demo") == 2
    assert differences(before, everything(publisher.workspace)) == []
    published = published_intervals.get(publisher.engine, "demo", interval(2))
    state = load_table(open_catalog(publisher.workspace), QUEUE_STATE).current_snapshot()
    assert published is not None
    assert state is not None
    assert published.snapshot_ids[QUEUE_STATE.name] == state.snapshot_id, "readers see the rebuilt one"

    shutil.rmtree(land(1))
    land(1, groups=("stock",))
    Recomputer(publisher).recompute("demo", [interval(1)], new_report(), now=NOW)
    after = everything(publisher.workspace)
    assert [row["consumer_group"] for row in after[GROUP_FACTS][interval(1).start]] == ["stock"]
    assert after[QUEUE_STATE] == before[QUEUE_STATE]
    for table in PUBLISHED:
        for number in (0, 2):
            start = interval(number).start
            assert after[table].get(start) == before[table].get(start), table.name


@pytest.mark.slow
def test_recomputing_publishing_and_housekeeping_at_once_lose_nothing(publisher, land, new_publisher) -> None:
    before = everything(publisher.workspace)
    land(3)

    def recompute(number: int) -> int:
        return (
            Recomputer(new_publisher(publisher.workspace))
            .recompute("demo", [interval(number)], new_report(), now=NOW)
            .recomputed
        )

    with ThreadPoolExecutor(4) as pool:
        works = [pool.submit(recompute, number) for number in (1, 0)]
        newest = pool.submit(new_publisher(publisher.workspace).publish, "demo", interval(3), now=NOW)
        cleaning = pool.submit(housekeeper(publisher).clean, now=START + timedelta(days=1))
        assert [work.result() for work in works] == [1, 1]
        assert newest.result().verdict in {"published", "already published"}, "a recomputation lets it go first"
        cleaning.result()

    after = everything(publisher.workspace)
    assert set(after[QUEUE_STATE]) == {interval(3).start}
    for table in PUBLISHED:
        for number in (0, 1, 2) if table != QUEUE_STATE else ():
            start = interval(number).start
            assert after[table].get(start) == before[table].get(start), f"{table.name} {number}"


def test_what_cannot_be_recomputed_is_counted_with_its_reason_and_a_killed_run_goes_on(publisher, land) -> None:
    file = land(3) / "topic_settings.parquet"
    file.write_bytes(file.read_bytes()[:100])
    before = everything(publisher.workspace)
    asked_at = NOW + timedelta(hours=1)
    span = (Interval(START - timedelta(days=9)), interval(4))
    recomputer = Recomputer(publisher)
    plan = recomputer.plan("demo", *span, since=asked_at, now=asked_at)
    assert plan.intervals == tuple(interval(number) for number in range(4))
    minutes_kept = (START - datetime(2026, 11, 14, tzinfo=UTC)) // timedelta(minutes=1)
    assert plan.left_out == {LeftOut.RETENTION_PASSED: 9 * 24 * 60 - minutes_kept, LeftOut.NOT_LANDED: minutes_kept + 1}

    report = recomputer.recompute("demo", [interval(3), interval(0)], new_report(), now=asked_at)

    assert (report.recomputed, list(report.failed)) == (1, [interval(3).name])
    assert "topic_settings.parquet: cannot be read as Parquet" in report.failed[interval(3).name]
    assert differences(before, everything(publisher.workspace)) == []
    again = recomputer.plan("demo", *span, since=asked_at, now=asked_at)
    assert (again.intervals, again.left_out[LeftOut.DONE]) == ((interval(1), interval(2), interval(3)), 1)

    [failed] = cycles.newest(publisher.engine, failed=True)
    assert (failed.interval, failed.failed_step) == (interval(3), "landed")
    last, first = (cycle for cycle in cycles.newest(publisher.engine) if cycle.interval == interval(0))
    assert (last.rows["group_facts"], last.seconds["write"] > 0) == (2, True)
    assert (first.files.get("group_facts", 0), last.files["group_facts"]) == (0, 3), "what was there before the run"
