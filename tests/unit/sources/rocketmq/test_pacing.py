"""The limits of one peer, with the time given."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.sources.rocketmq.peer import (
    BUSY_PAUSES_S,
    BUSY_REPEATS,
    GOOD_ANSWERS,
    Pacing,
    is_busy,
)


@given(
    max_in_flight=st.integers(1, 20),
    max_requests_per_s=st.integers(1, 60),
    steps=st.lists(st.tuples(st.floats(0, 0.6), st.integers(0, 20)), max_size=60),
)
def test_within_any_second_no_more_is_sent_than_allowed_and_never_more_is_in_flight(
    max_in_flight: int, max_requests_per_s: int, steps: list[tuple[float, int]]
) -> None:
    pacing = Pacing(max_in_flight, max_requests_per_s)
    now, in_flight = 0.0, 0
    sent: list[float] = []
    for passed_s, answered in steps:
        now += passed_s
        in_flight = max(0, in_flight - answered)
        count = pacing.allowed(now, in_flight)
        if count:
            pacing.sent(now, count)
            sent += [now] * count
            in_flight += count
        assert in_flight <= max_in_flight
        assert sum(moment + 1 > now for moment in sent) <= max_requests_per_s
        if not count and in_flight < max_in_flight:
            chance = pacing.next_chance(now)
            assert chance is not None, "it says when to look again"
            assert copy.deepcopy(pacing).allowed(chance, in_flight) > 0


def test_a_busy_peer_gets_nothing_for_a_pause_and_half_as_much_afterwards() -> None:
    pacing = Pacing(8, 5000)
    assert [pacing.busy(0.0, 1) for _ in range(8)] == [True] * 8, "each of them is worth a repeat"
    assert pacing.allowed(0.05, 0) == 0
    assert pacing.next_chance(0.05) == BUSY_PAUSES_S[0]
    assert pacing.allowed(BUSY_PAUSES_S[0], 0) == 4, "eight refusals at once are one event"
    pacing.busy(1.0, 1)
    assert pacing.allowed(2.0, 0) == 2
    for moment in range(2, 20):
        pacing.busy(float(moment), 1)
    assert pacing.allowed(100.0, 0) == 1, "one may be sent, however often it is busy"


def test_places_come_back_with_good_answers_and_never_too_many() -> None:
    pacing = Pacing(4, 5000)
    pacing.busy(0.0, 1)
    assert pacing.allowed(1.0, 0) == 2
    for _ in range(GOOD_ANSWERS):
        pacing.answered()
    assert pacing.allowed(1.0, 0) == 3
    for _ in range(10 * GOOD_ANSWERS):
        pacing.answered()
    assert pacing.allowed(1.0, 0) == 4


def test_pauses_grow_with_the_repeats_of_a_request_and_end() -> None:
    pacing = Pacing(8, 5000)
    assert pacing.busy(0.0, 1)
    assert pacing.busy(1.0, BUSY_REPEATS)
    assert pacing.next_chance(1.0) == 1.0 + BUSY_PAUSES_S[BUSY_REPEATS - 1] > 1.0 + BUSY_PAUSES_S[0]
    assert not pacing.busy(2.0, BUSY_REPEATS + 1)


def test_a_peer_that_was_busy_for_three_requests_is_hopeless_until_it_answers() -> None:
    pacing = Pacing(8, 5000)
    for _ in range(3):
        assert not pacing.is_hopeless
        pacing.busy(0.0, BUSY_REPEATS + 1)
    seen = [pacing.is_hopeless]
    pacing.start_over()
    seen.append(pacing.is_hopeless)
    pacing.busy(10.0, BUSY_REPEATS + 1)
    seen.append(pacing.is_hopeless)  # one more request showed that nothing has changed
    pacing.start_over()
    pacing.answered()
    pacing.busy(20.0, BUSY_REPEATS + 1)
    seen.append(pacing.is_hopeless)
    assert seen == [True, False, True, False]


@pytest.mark.parametrize(
    ("code", "remark", "busy"),
    [
        (2, None, True),
        (2, "[REJECTREQUEST]system busy, start flow control for a while", True),
        (215, "", True),
        (1, "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: 203ms", True),
        (1, "[OVERLOAD]system busy, start flow control for a while", True),
        (0, "start flow control", False),
        (1, "java.lang.NullPointerException", False),
        (1, "x" * 1000 + "[REJECTREQUEST]", False),
        (17, None, False),
    ],
)
def test_what_counts_as_busy(code: int, remark: str | None, busy: bool) -> None:
    assert is_busy(code, remark) is busy
