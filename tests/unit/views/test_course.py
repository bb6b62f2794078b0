"""A picture of any span keeps every peak and every gap."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.views.course import HEIGHT, POINTS, WIDTH, Course, band_of, course_of, plot_of

START = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def course(samples: dict[int, int | None], minutes: int) -> Course:
    """Return the course of a figure with these samples, by minute."""
    starts = pa.array([START + number * MINUTE for number in samples], pa.timestamp("us", "UTC"))
    rows = pa.table({"interval_start": starts, "lag": pa.array(samples.values(), pa.int64())})
    return course_of(rows, "lag", START, START + minutes * MINUTE)


@given(
    st.integers(1, 45_000).flatmap(
        lambda minutes: st.tuples(
            st.just(minutes),
            st.dictionaries(st.integers(0, minutes - 1), st.none() | st.integers(0, 10**15), max_size=30),
        )
    )
)
def test_no_peak_and_no_sample_is_lost_and_nothing_is_made_up(given_: tuple[int, dict[int, int | None]]) -> None:
    minutes, samples = given_
    made = course(samples, minutes)
    known = {number: figure for number, figure in samples.items() if figure is not None}
    assert len(made.points) <= POINTS
    assert (made.least, made.greatest) == (min(known.values(), default=None), max(known.values(), default=None))
    assert made.newest == made.points[-1].last
    assert made.unknown_ms == made.step_ms * sum(point.last is None for point in made.points)
    assert bool(made.gap_count) == bool(made.unknown_ms)
    step = timedelta(milliseconds=made.step_ms)
    for point in made.points:
        until = point.at + step
        inside = [figure for number, figure in sorted(known.items()) if point.at <= START + number * MINUTE < until]
        assert (point.least, point.greatest, point.last) == (
            (min(inside), max(inside), inside[-1]) if inside else (None, None, None)
        )
    picture = plot_of(made)
    assert bool(picture.lines) == bool(known)
    corners = [pair.split(",") for points in (*picture.lines, *picture.bands) for pair in points.split()]
    assert all(0 <= float(x) <= WIDTH and 0 <= float(y) <= HEIGHT for x, y in corners)


def test_what_is_not_known_is_a_gap_and_a_lonely_sample_is_drawn() -> None:
    picture = plot_of(course({0: 5, 1: None, 2: 0}, minutes=4))
    assert [(gap.x, gap.width) for gap in picture.gaps] == [(WIDTH / 4, WIDTH / 4), (3 * WIDTH / 4, WIDTH / 4)]
    assert picture.lines == ("0.0,0.0 180.0,0.0", "360.0,120.0 540.0,120.0")


@pytest.mark.parametrize(
    ("start", "end", "x", "width"),
    [(-60, 30, 0, WIDTH / 2), (15, 15, WIDTH / 4, 1), (30, 600, WIDTH / 2, WIDTH / 2), (-9, -3, 0, 1)],
)
def test_what_reaches_beyond_the_span_is_cut_and_a_moment_can_be_seen(
    start: int, end: int, x: float, width: float
) -> None:
    band = band_of(START + start * MINUTE, START + end * MINUTE, START, START + 60 * MINUTE)
    assert (band.x, band.width) == (pytest.approx(x), pytest.approx(width))
