"""Usual traffic by hour of the week: what a week adds, and that old weeks fade."""

from __future__ import annotations

import statistics
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.fact_rows import traffic_hour_of
from offsetguard.traffic_baselines import (
    REMEMBERED_WEEKS,
    Baseline,
    earlier_rows,
    fold,
    hour_of_week,
    hour_that_passed,
    unfold,
)

RATES = st.floats(0, 10**6)


def folded(rates: list[float]) -> Baseline:
    baseline = None
    for rate in rates:
        baseline = fold(baseline, rate)
    assert baseline is not None
    return baseline


@given(st.lists(RATES, min_size=1, max_size=REMEMBERED_WEEKS))
def test_few_weeks_have_their_plain_mean_and_standard_deviation(rates: list[float]) -> None:
    baseline = folded(rates)
    assert baseline.week_count == len(rates)
    assert baseline.mean_tps == pytest.approx(statistics.fmean(rates), abs=1e-3)
    assert baseline.spread_tps == pytest.approx(statistics.pstdev(rates), abs=1e-1, rel=1e-3)


@given(st.lists(RATES, min_size=1, max_size=40))
def test_a_mean_lies_within_what_was_seen(rates: list[float]) -> None:
    baseline = folded(rates)
    assert min(rates) - 1e-3 <= baseline.mean_tps <= max(rates) + 1e-3
    assert 0 <= baseline.spread_tps <= max(rates) + 1e-3


@given(st.lists(RATES, min_size=1, max_size=2 * REMEMBERED_WEEKS), RATES)
def test_a_week_can_be_taken_out_again(rates: list[float], newest: float) -> None:
    before = folded(rates)
    found = unfold(fold(before, newest), newest)
    assert found is not None
    assert found.week_count == before.week_count
    assert found.mean_tps == pytest.approx(before.mean_tps, abs=1e-3)
    assert found.spread_tps == pytest.approx(before.spread_tps, abs=1.0, rel=1e-3)
    assert unfold(fold(None, newest), newest) is None


def test_an_hour_of_a_topic_is_told_beside_the_weeks_before_it() -> None:
    baseline = folded([100.0, 110.0, 90.0, 0.0])
    row = {"topic": "orders", "consumer_group": None, "hour_start_at": datetime(2026, 11, 21, 10, tzinfo=UTC)}
    row |= {"hour_tps": 0.0, **asdict(baseline)}
    (hour,) = traffic_hour_of(row)
    assert (hour.topic, hour.hour_tps, hour.week_count) == ("orders", 0.0, 3)
    assert hour.usual_tps == pytest.approx(100)
    assert hour.usual_spread_tps == pytest.approx(statistics.pstdev([100, 110, 90]))
    assert not list(traffic_hour_of(row | {"consumer_group": "billing"}))
    assert not list(traffic_hour_of(row | {"week_count": 1}))


def test_traffic_that_has_doubled_is_usual_after_some_weeks() -> None:
    baseline = folded([100.0] * 50 + [200.0] * 3 * REMEMBERED_WEEKS)
    assert baseline.mean_tps == pytest.approx(200, rel=0.05)


@pytest.mark.parametrize(
    ("moment", "hour"),
    [
        (datetime(2026, 11, 16, 0, 59, tzinfo=UTC), 0),
        (datetime(2026, 11, 22, 23, 0, tzinfo=UTC), 167),
        (datetime.fromisoformat("2026-11-16T07:30:00+08:00"), 167),
    ],
)
def test_hours_are_counted_from_monday_in_utc(moment: datetime, hour: int) -> None:
    assert hour_of_week(moment) == hour


def test_the_first_interval_of_an_hour_folds_the_hour_that_has_passed() -> None:
    noon = datetime(2026, 11, 21, 12, tzinfo=UTC)
    assert hour_that_passed(noon) == noon - timedelta(hours=1)
    assert hour_that_passed(noon + timedelta(minutes=1)) is None


def test_the_row_of_the_week_before_was_written_when_the_same_hour_had_passed() -> None:
    """So a row never reads itself: an interval's baseline is made of weeks before it."""
    hour = datetime(2026, 11, 21, 11, tzinfo=UTC)
    starts = earlier_rows(hour)
    assert starts[0] == hour + timedelta(hours=1) - timedelta(days=7)
    assert all(hour_that_passed(start) == start - timedelta(hours=1) for start in starts)
