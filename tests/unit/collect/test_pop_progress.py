"""Since when a POP group finishes nothing, whatever else happens meanwhile."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.collect.pop import Progress, progress

START = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)


def after(rounds: list[tuple[int | None, int | None]]) -> tuple[int | None, int | None]:
    """Return (finished, minute since which nothing was) after one round a minute, given as (finished, in flight)."""
    known = Progress()
    for minute, (finished, inflight) in enumerate(rounds):
        known = progress(known, finished, inflight, START + timedelta(minutes=minute))
    since = known.unfinished_since
    return known.finished, None if since is None else (since - START) // timedelta(minutes=1)


@pytest.mark.parametrize(
    ("why", "rounds", "expected"),
    [
        ("60 messages hang from the first look on", [(0, 60), (0, 60), (0, 60)], (0, 0)),
        ("nothing is in flight", [(10, 60), (70, 0)], (70, None)),
        ("in flight again: the time begins anew", [(70, 0), (70, 5), (70, 5)], (70, 1)),
        ("one was finished in between", [(0, 60), (1, 59), (1, 59)], (1, 1)),
        ("a round that could not see says nothing", [(0, 60), (None, None), (None, 60), (0, 60)], (0, 0)),
        ("what was handed out while we read counts twice for a moment", [(100, 5), (92, 8), (100, 8)], (100, 0)),
        ("a topic was recreated", [(1000, 5), (3, 5), (3, 5)], (3, 1)),
        ("never seen", [(None, None)], (None, None)),
    ],
)
def test_the_time_begins_with_the_first_look_that_saw_nothing_finished(why: str, rounds, expected) -> None:
    assert after(rounds) == expected, why


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 20)), min_size=2, max_size=20))
def test_a_group_that_finishes_something_between_all_looks_never_hangs(rounds: list[tuple[int, int]]) -> None:
    """Whatever is handed out while the figures are read, as long as more is finished than that."""
    finished, seen = 0, []
    for doubled, inflight in rounds:
        finished += doubled + 1
        seen.append((finished - doubled, inflight + doubled))
    known, minute = after(seen)
    assert minute in (None, len(seen) - 1)
    assert known is not None
