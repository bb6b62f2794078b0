"""Lag in time on the producer curve: a table of cases, and what must hold for every curve."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.facts.duckdb_engine import CurvePlace, Point, TimeLag, producer_curve, time_lags
from offsetguard.tables.queue_state import Sample
from offsetguard_peers.cases.running import for_each
from offsetguard_peers.facts.answers import figures_of, states_of

CASES = yaml.safe_load((Path(__file__).parent / "time_lag_cases.yml").read_text(encoding="utf-8"))
NOW_MS = 600_000


def at(ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


NOW = at(NOW_MS)
POINTS = st.lists(st.tuples(st.none() | st.integers(0, 1000), st.none() | st.integers(0, NOW_MS)), max_size=8)
OFFSETS = st.lists(st.integers(0, 1200), min_size=1)


def lags_at(curve: list[Point], offsets: list[int], now_ms: int = NOW_MS) -> list[TimeLag]:
    return time_lags([CurvePlace(curve, offset, now_ms) for offset in offsets])


@for_each("case", CASES, name_of=lambda case: case["name"])
def test_the_table_of_cases(case) -> None:
    curve = [(offset, at_s * 1000) for offset, at_s in case["curve"]]
    expected_ms, unbroken = (None if ms is None else ms * 1000 for ms in (case["lag_s"], case.get("unbroken_since")))
    assert time_lags([CurvePlace(curve, case["offset"], NOW_MS, unbroken)]) == [(expected_ms, case["basis"])]


@given(points=POINTS, offsets=OFFSETS)
def test_who_has_consumed_further_is_never_later(points, offsets: list[int]) -> None:
    ages = [one.lag_ms for one in lags_at(producer_curve(points), sorted(offsets))]
    known = [age for age in ages if age is not None]
    assert known == sorted(known, reverse=True)
    assert ages[len(ages) - len(known) :] == known, "what is known of an older message is known of a younger one"


@given(points=POINTS, offsets=OFFSETS)
def test_an_age_is_bounded_by_the_curve_and_one_length_before_it(points, offsets: list[int]) -> None:
    curve = producer_curve(points)
    for found in lags_at(curve, offsets):
        if found.lag_ms is not None:
            span_ms = curve[-1][1] - curve[0][1]
            assert 0 <= found.lag_ms <= NOW_MS - curve[0][1] + span_ms


@given(points=POINTS, offsets=OFFSETS, by_offset=st.integers(0, 10**6), by_ms=st.integers(0, 10**6))
def test_moving_offsets_and_times_alike_changes_nothing(points, offsets, by_offset: int, by_ms: int) -> None:
    curve = producer_curve(points)
    moved = [(high + by_offset, at_ms + by_ms) for high, at_ms in curve]
    assert lags_at(moved, [one + by_offset for one in offsets], NOW_MS + by_ms) == lags_at(curve, offsets)


@given(points=POINTS)
def test_a_curve_goes_back_neither_in_offsets_nor_in_time(points) -> None:
    curve = producer_curve(points)
    assert curve == sorted(curve, key=lambda point: point[1])
    assert [high for high, _ in curve] == sorted(high for high, _ in curve)
    assert len({at_ms for _, at_ms in curve}) == len(curve)


def test_a_recreated_queue_starts_a_new_curve() -> None:
    assert producer_curve([(900, 1), (1000, 2), (None, 3), (5, 4), (8, None), (20, 5)]) == [(5, 4), (20, 5)]


def figures(curve: list[Point], newest: Sample, until: datetime = NOW) -> dict[str, Any]:
    """Return the figures of a queue whose end was seen as the curve says; `newest` is the sample at its last point.

    `until`: when the interval ends.
    """
    samples = [Sample(max_offset=high, max_offset_read_at=at(ms), consumer_offset_read_at=at(ms)) for high, ms in curve]
    last = replace(newest, max_offset_read_at=NOW, consumer_offset_read_at=NOW)
    history = [(at(ms), one) for (_, ms), one in zip(curve, [*samples[:-1], last], strict=True)]
    (found,) = figures_of(states_of([history]), [until])
    return found


def test_the_lags_of_a_queue_in_time() -> None:
    """One message a second is written; pulled up to 60 s ago, consumed up to 150 s ago, 20 s of it were deleted."""
    curve = [(second, second * 1000) for second in range(0, 601, 60)]
    found = figures(curve, Sample(min_offset=470, max_offset=600, consumer_offset=450, pull_offset=540))
    assert (found["lag_ms"], found["lag_ms_basis"]) == (130_000, "interpolated")
    assert (found["available_ms"], found["inflight_ms"], found["lost_ms"]) == (60_000, 70_000, 20_000)


def test_what_the_broker_told_is_preferred_to_the_curve() -> None:
    told = Sample(
        min_offset=0, max_offset=600, consumer_offset=450, pull_offset=None, oldest_unconsumed_at=at(NOW_MS - 1234)
    )
    found = figures([(0, 0), (600, NOW_MS)], told)
    assert (found["lag_ms"], found["lag_ms_basis"]) == (1234, "measured")
    assert (found["available_ms"], found["inflight_ms"], found["lost_ms"]) == (None, None, 0)


def test_a_lag_in_time_is_as_of_the_reading_and_not_as_of_the_intervals_end() -> None:
    """Of a healthy queue, read 2 s after the interval's start, the oldest message was 1.3 s old: not 59 s."""
    one = Sample(min_offset=0, max_offset=600, consumer_offset=599, oldest_unconsumed_at=at(NOW_MS - 1300))
    measured = figures([(540, NOW_MS - 60_000), (600, NOW_MS)], one, until=at(NOW_MS + 58_000))
    assert measured["lag_ms"] == 1300
    interpolated = figures(
        [(540, NOW_MS - 60_000), (600, NOW_MS)], replace(one, oldest_unconsumed_at=None), at(NOW_MS + 58_000)
    )
    assert interpolated["lag_ms"] == 1000


def test_what_is_unknown_stays_unknown_in_time() -> None:
    found = figures(
        [(0, 0), (600, NOW_MS)], Sample(min_offset=0, max_offset=None, consumer_offset=450, pull_offset=None)
    )
    lags = found["lag_ms"], found["lag_ms_basis"], found["inflight_ms"], found["available_ms"]
    assert lags == (None, None, None, None)
