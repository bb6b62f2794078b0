"""The hour before the newest facts of each group: read minute by minute, and as whole as if it were read anew."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from offsetguard.model.intervals import Interval
from offsetguard.store import published_intervals
from offsetguard.tables import GROUP_FACTS
from offsetguard.views.course import spark_of
from offsetguard.views.last_hour import STEPS, LastHours, Trend, trend_of
from offsetguard_peers.lake.warehouse import Warehouse, minute

COUNT = 64  # minutes


def hour(hours: LastHours, warehouse: Warehouse) -> dict[str, tuple[int | None, ...]]:
    newest = published_intervals.newest(warehouse.engine, "main")
    assert newest is not None
    found = hours(newest)
    return {group: found.steps(group) for group in found.rows}


def publish(warehouse: Warehouse, number: int, lag: int | None, *more: str, again_at: datetime | None = None) -> None:
    """`again_at`: it was published before, and is now at this moment."""
    rows = [
        {"consumer_group": group, "topic": topic, "effective_lag": lag}
        for group in ("billing", *more)
        for topic in ("orders", "payments")
    ]
    rows.append({"consumer_group": "TOOLS_CONSUMER", "topic": "orders", "effective_lag": 9, "system_group": True})
    interval, again = Interval(minute(number)), again_at is not None
    run_id = "again" if again else None
    warehouse.publish("main", interval, {GROUP_FACTS: rows}, run_id=run_id, again=again, show=not again)
    if again_at is not None:
        snapshot = warehouse.iceberg_table(GROUP_FACTS).current_snapshot()
        assert snapshot is not None
        ids = {GROUP_FACTS.name: snapshot.snapshot_id}
        warehouse.show(interval, ids, cluster="main", run_id="again", at=again_at)


def test_what_is_kept_is_what_would_be_read_anew(tmp_path: Path) -> None:
    warehouse = Warehouse.in_folder(tmp_path, GROUP_FACTS)
    warehouse.publish("main", Interval(minute(0)), {GROUP_FACTS: []})
    assert hour(LastHours(warehouse.reader(), warehouse.engine), warehouse) == {}, "a cluster without groups"
    hours = LastHours(warehouse.reader(), warehouse.engine)
    for number in range(COUNT):
        if number in {30, 31, 32}:
            continue
        publish(warehouse, number, None if number == 40 else number, *(["gone"] if number < 3 else []))
        if number % 20 == 1 or number > COUNT - 3:
            assert hour(hours, warehouse) == hour(LastHours(warehouse.reader(), warehouse.engine), warehouse)
    found = hour(hours, warehouse)
    assert set(found) == {"billing"}, "of the other one nothing is in the hour, and RocketMQ's own is left out"
    lags = found["billing"]
    assert (len(lags), lags[0], lags[-1]) == (STEPS, 10, 126), "the sum of two topics, the greatest of two minutes"
    assert (lags[13], lags[14], lags[18]) == (None, 66, 82), "unknown is not zero"
    assert trend_of(lags) is Trend.RISING

    publish(warehouse, 50, 9_000, again_at=minute(COUNT) + timedelta(seconds=20))
    assert hour(hours, warehouse)["billing"][23] == 102, "until there is something newer"
    publish(warehouse, COUNT, 0)
    assert hour(hours, warehouse) == hour(LastHours(warehouse.reader(), warehouse.engine), warehouse)
    assert max(one or 0 for one in hour(hours, warehouse)["billing"]) == 18_000


@pytest.mark.parametrize(
    ("lags", "trend"),
    [
        ([5, 5, 5, 5, 5, 6, 6, 6, 6, 6], Trend.RISING),
        ([9, 9, 9, 9, 9, 1, 0, 3, 0, 0], Trend.FALLING),
        ([5, 5, 5, 5, 6, 6, 7, 8, 9, 9], Trend.STEADY),
        ([0] * 10, Trend.STEADY),
        ([None] * 4 + [4, None, 7, None, None, None], Trend.RISING),
        ([None] * 5 + [1, 2, 3, 4, 5], None),
        ([1, 2, 3, 4, 5] + [None] * 5, None),
        ([], None),
    ],
)
def test_a_trend_is_told_only_where_ten_minutes_lie_beyond_the_ten_before(
    lags: list[int | None], trend: Trend | None
) -> None:
    assert trend_of(lags) is trend


def test_a_small_picture_has_a_gap_where_nothing_is_known() -> None:
    assert spark_of((0, 10, None, 5), 16) == ("0,16.0 1,0.0", "3,8.0 3.5,8.0")
    assert spark_of((0, 0), 16) == ("0,16.0 1,16.0",)
    assert spark_of((None, None), 16) == ()
