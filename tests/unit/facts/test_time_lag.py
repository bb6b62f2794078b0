"""Lag in time on the producer curve: a table of cases, and what must hold for every curve."""

from __future__ import annotations

from pathlib import Path

import yaml
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.explained import GivenCurve, explain_time_lags
from offsetguard.offsets import QueueOffsets
from offsetguard.time_lag import Basis, lag_in_time, lag_ms, producer_curve
from offsetguard_peers.for_each import for_each

CASES = yaml.safe_load((Path(__file__).parent / "time_lag_cases.yml").read_text(encoding="utf-8"))
NOW_MS = 600_000

POINTS = st.lists(st.tuples(st.none() | st.integers(0, 1000), st.none() | st.integers(0, NOW_MS)), max_size=8)


@for_each("case", CASES, name_of=lambda case: case["name"])
def test_the_table_of_cases(case) -> None:
    curve = [(offset, at_s * 1000) for offset, at_s in case["curve"]]
    (found,) = explain_time_lags([GivenCurve(curve, case["offset"], NOW_MS)])
    expected_ms = None if case["lag_s"] is None else case["lag_s"] * 1000
    assert (found.lag_ms, found.basis) == (expected_ms, Basis(case["basis"]))


@given(points=POINTS, offsets=st.lists(st.none() | st.integers(0, 1200), min_size=1))
def test_rules_take_the_same_age_from_a_window_as_facts_have(points, offsets) -> None:
    curve = producer_curve(points)
    found = explain_time_lags([GivenCurve(curve, offset, NOW_MS) for offset in offsets])
    assert found == [lag_ms(curve, offset, NOW_MS) for offset in offsets]


@given(points=POINTS, offset=st.integers(0, 1200), further=st.integers(0, 1200))
def test_who_has_consumed_further_is_never_later(points, offset: int, further: int) -> None:
    curve = producer_curve(points)
    behind, ahead = (lag_ms(curve, one, NOW_MS).lag_ms for one in sorted((offset, further)))
    assert ahead is None or behind is None or ahead <= behind
    assert ahead is not None or behind is None, "what is known of an older message is known of a younger one"


@given(points=POINTS, offset=st.integers(0, 1200))
def test_an_age_is_bounded_by_the_curve_and_one_length_before_it(points, offset: int) -> None:
    curve = producer_curve(points)
    found = lag_ms(curve, offset, NOW_MS)
    if found.lag_ms is not None:
        span_ms = curve[-1][1] - curve[0][1]
        assert 0 <= found.lag_ms <= NOW_MS - curve[0][1] + span_ms


@given(points=POINTS, offset=st.integers(0, 1200), by_offset=st.integers(0, 10**6), by_ms=st.integers(0, 10**6))
def test_moving_offsets_and_times_alike_changes_nothing(points, offset: int, by_offset: int, by_ms: int) -> None:
    curve = producer_curve(points)
    moved = [(high + by_offset, at_ms + by_ms) for high, at_ms in curve]
    assert lag_ms(moved, offset + by_offset, NOW_MS + by_ms) == lag_ms(curve, offset, NOW_MS)


@given(points=POINTS)
def test_a_curve_goes_back_neither_in_offsets_nor_in_time(points) -> None:
    curve = producer_curve(points)
    assert curve == sorted(curve, key=lambda point: point[1])
    assert [high for high, _ in curve] == sorted(high for high, _ in curve)
    assert len({at_ms for _, at_ms in curve}) == len(curve)


def test_a_recreated_queue_starts_a_new_curve() -> None:
    assert producer_curve([(900, 1), (1000, 2), (None, 3), (5, 4), (8, None), (20, 5)]) == [(5, 4), (20, 5)]


def test_the_lags_of_a_queue_in_time() -> None:
    """One message a second is written; pulled up to 60 s ago, consumed up to 150 s ago, 20 s of it were deleted."""
    curve = [(second, second * 1000) for second in range(0, 601, 60)]
    found = lag_in_time(QueueOffsets(470, 600, 450, 540), None, curve, NOW_MS)
    assert (found.lag_ms, found.lag_ms_basis) == (130_000, Basis.INTERPOLATED)
    assert (found.available_ms, found.inflight_ms, found.lost_ms) == (60_000, 70_000, 20_000)


def test_what_the_broker_told_is_preferred_to_the_curve() -> None:
    curve = [(0, 0), (600, NOW_MS)]
    found = lag_in_time(QueueOffsets(0, 600, 450, None), NOW_MS - 1234, curve, NOW_MS)
    assert (found.lag_ms, found.lag_ms_basis) == (1234, Basis.MEASURED)
    assert (found.available_ms, found.inflight_ms, found.lost_ms) == (None, None, 0)


def test_what_is_unknown_stays_unknown_in_time() -> None:
    found = lag_in_time(QueueOffsets(0, None, 450, None), NOW_MS, [(0, 0), (600, NOW_MS)], NOW_MS)
    assert (found.lag_ms, found.lag_ms_basis, found.inflight_ms, found.available_ms) == (None, None, None, None)
