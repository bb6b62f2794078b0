"""Usual traffic by hour of the week: what a week adds, and that old weeks fade."""

from __future__ import annotations

import statistics
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.traffic_baselines import (
    REMEMBERED_WEEKS,
    Baseline,
    earlier_rows,
    fold,
    hour_of_week,
    hour_that_passed,
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
