"""The lag formulas: every figure of a queue, with unknown positions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.model.offsets import OffsetOrderViolation, QueueOffsets, per_second, sum_of_known

CASES = {
    # case: (min, max, consumer, pull), (lag, effective lag, inflight, available, lost, beyond the end)
    "all in order": ((100, 500, 300, 350), (200, 200, 50, 150, 0, 0)),
    "caught up": ((100, 500, 500, 500), (0, 0, 0, 0, 0, 0)),
    "overtaken by retention: deleted messages are lost, not lag": (
        (400, 500, 300, None),
        (200, 100, None, None, 100, 0),
    ),
    "everything deleted": ((500, 500, 300, None), (200, 0, None, None, 200, 0)),
    "committed beyond the end": ((0, 500, 700, 700), (-200, -200, 0, -200, 0, 200)),
    "never committed is not 0": ((0, 500, None, None), (None, None, None, None, None, None)),
    "broker did not answer": ((None, None, 300, None), (None, None, None, None, None, None)),
    "min unknown": ((None, 500, 300, 300), (200, 200, 0, 200, None, 0)),
    "empty queue": ((0, 0, 0, 0), (0, 0, 0, 0, 0, 0)),
}


@pytest.mark.parametrize("case", CASES)
def test_figures(case: str) -> None:
    """Each case gives all figures."""
    (min_offset, max_offset, consumer_offset, pull_offset), figures = CASES[case]
    offsets = QueueOffsets(min_offset, max_offset, consumer_offset, pull_offset)
    found = (offsets.lag, offsets.effective_lag, offsets.inflight, offsets.available, offsets.lost, offsets.beyond_end)
    assert found == figures


VIOLATIONS = {
    (100, 500, 50, 60): {OffsetOrderViolation.CONSUMER_BELOW_MIN},
    (100, 500, 300, 200): {OffsetOrderViolation.CONSUMER_ABOVE_PULL},
    (100, 500, 600, None): {OffsetOrderViolation.CONSUMER_ABOVE_MAX},
    (100, 500, 600, 600): {OffsetOrderViolation.CONSUMER_ABOVE_MAX, OffsetOrderViolation.PULL_ABOVE_MAX},
    (600, 500, 550, None): {
        OffsetOrderViolation.MIN_ABOVE_MAX,
        OffsetOrderViolation.CONSUMER_BELOW_MIN,
        OffsetOrderViolation.CONSUMER_ABOVE_MAX,
    },
    (100, 500, None, None): set(),
    (None, None, 50, None): set(),
    (100, 100, 100, 100): set(),
}


@pytest.mark.parametrize("row", VIOLATIONS)
def test_the_broken_pairs_are_named(row: tuple[int | None, int | None, int | None, int | None]) -> None:
    """A pair with an unknown side is not broken; equal positions are in order."""
    assert set(QueueOffsets(*row).order_violations()) == VIOLATIONS[row]


positions = st.none() | st.integers(min_value=0, max_value=2**63 - 1)


@given(positions, positions, positions, positions)
def test_offsets_in_order_have_no_negative_figure(
    min_offset: int | None, max_offset: int | None, consumer_offset: int | None, pull_offset: int | None
) -> None:
    """Where nothing is violated, no figure is negative."""
    offsets = QueueOffsets(min_offset, max_offset, consumer_offset, pull_offset)
    if not offsets.order_violations():
        figures = (offsets.lag, offsets.effective_lag, offsets.inflight, offsets.available, offsets.lost)
        assert all(figure >= 0 for figure in figures if figure is not None)


def test_a_sum_is_unknown_only_when_nothing_is_known() -> None:
    assert [sum_of_known(values) for values in ([], [None], [None, 0], [2, None, 3])] == [None, None, 0, 5]


@pytest.mark.parametrize(
    ("grown", "since_ms", "rate"),
    [(30, 60_000, 0.5), (3, 1_500, 2.0), (0, 5, 0.0), (None, 1, None), (1, None, None), (1, 0, None)],
)
def test_a_rate_is_per_second_and_unknown_without_a_span(
    grown: int | None, since_ms: int | None, rate: float | None
) -> None:
    assert per_second(grown, since_ms) == rate
