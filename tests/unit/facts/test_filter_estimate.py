"""How many messages of a filtered group's lag are really for it: the truth lies within the stated range."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.facts.filter_estimate import (
    FilterEstimate,
    estimate_for,
    wilson_range,
)
from offsetguard.facts.interval import QueueFacts
from offsetguard.model.offsets import MessageQueue, QueueOffsets
from offsetguard_peers.judging.records import a_group, a_queue

SLOW = a_group(
    "alarm-pager",
    4028,
    inflight=995,
    online_client_count=1,
    filtered=True,
    told_client_count=1,
    cached_message_count=93,
    consume_ok_tps=0.98,
    consume_tps=7.89,
    hit_ratio=0.034,
)


def estimate(topic_count: int = 1, **columns: Any) -> FilterEstimate:
    found = estimate_for(replace(SLOW, **columns), (), topic_count=topic_count)
    assert found is not None
    return found


def test_what_clients_finished_and_hold_gives_the_share_of_a_slow_group() -> None:
    """A live 5.5.0 group whose brokers' rates alone said 3 %: 10 % of its topic matched."""
    found = estimate()
    assert found.low < 403 < found.high
    assert found.hit_ratio == pytest.approx(0.1035, abs=0.001)


def test_without_pull_offsets_as_on_4_9_what_was_finished_is_compared_with_what_was_committed() -> None:
    found = estimate(inflight=None)
    assert found.low < 403 < found.high
    assert found.hit_ratio == pytest.approx(0.98 / 7.89)


def test_one_message_of_the_last_minute_is_enough_and_less_than_one_is_nothing() -> None:
    one = {"inflight": None, "consume_ok_tps": 1 / 60, "consume_tps": 1 / 60}
    assert estimate(**one).hit_ratio == pytest.approx(1.0)
    assert estimate_for(replace(SLOW, **one | {"consume_tps": 0.9 / 60}), (), topic_count=1) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"told_client_count": 0}, id="a client did not tell"),
        pytest.param({"consume_ok_tps": None}, id="no client was asked"),
        pytest.param({"online_client_count": None}, id="who is online was not seen"),
        pytest.param({"topic_count": 2}, id="what clients finished is of several topics"),
    ],
)
def test_without_all_clients_the_brokers_rates_are_taken_with_what_may_be_under_way(given: dict[str, Any]) -> None:
    found = estimate(**given)
    assert found.low < 403 < found.high
    assert found.hit_ratio == SLOW.hit_ratio


def test_a_failing_message_of_an_orderly_group_is_tried_in_place_and_counts_once() -> None:
    tries = {"consume_failed_tps": 50.0, "inflight": 0}
    assert estimate(orderly=True, **tries).hit_ratio < estimate(orderly=False, **tries).hit_ratio


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({"filtered": False}, id="it takes every message"),
        pytest.param({"filtered": None}, id="its subscription was not seen"),
        pytest.param({"consumption": "pop"}, id="POP rates count repeated hand-outs"),
        pytest.param({"effective_lag": None}, id="the lag is unknown"),
        pytest.param({"consume_tps": None}, id="commits were not compared"),
        pytest.param({"consume_tps": 0.0, "inflight": 0}, id="nothing went by"),
        pytest.param({"consume_ok_tps": None, "hit_ratio": None}, id="neither way is known"),
    ],
)
def test_what_is_not_known_gives_no_estimate(columns: dict[str, Any]) -> None:
    assert estimate_for(replace(SLOW, **columns), (), topic_count=1) is None


def queue(number: int, lag: int, cache: tuple[int, int, int] | None = None, **more: Any) -> QueueFacts:
    """Return a queue; `cache`: its first and its last offset, and how many messages it holds."""
    names = ("cached_min_offset", "cached_max_offset", "cached_message_count")
    cached = dict(zip(names, cache or (None, None, None), strict=True))
    place, offsets = MessageQueue("orders", "broker-a", number), QueueOffsets(0, 5_000, 5_000 - lag)
    return a_queue("alarm-pager", place, offsets, **cached, **more)


QUARTER, HALF = queue(0, 1_000, (100, 299, 50)), queue(1, 500, (0, 99, 50))


@pytest.mark.parametrize(
    ("lag", "queues", "matching", "hit_ratio"),
    [
        pytest.param(1_500, [QUARTER, HALF], 500, 1 / 3, id="250 of 1000, and 250 of 500"),
        pytest.param(1_500, [QUARTER, HALF, queue(2, 0, (0, 99, 99))], 500, 1 / 3, id="nothing waits in a third one"),
        pytest.param(1_666, [QUARTER, HALF, queue(2, 166)], 500, 1 / 3, id="a tenth of the lag has no cache"),
        pytest.param(1_667, [QUARTER, HALF, queue(2, 167)], 172, 0.1034, id="more than that: what was counted"),
        pytest.param(1_000, [queue(0, 1_000, (100, 299, 8))], 40, 0.04, id="eight messages are enough"),
        pytest.param(1_000, [queue(0, 1_000, (100, 299, 7))], 103, 0.1034, id="seven are not"),
        pytest.param(1_000, [queue(0, 1_000, (100, 100, 8))], 103, 0.1034, id="nor one offset"),
        pytest.param(1_000, [queue(0, 1_000, (100, 101, 8))], 1_000, 1.0, id="two have no more than two messages"),
    ],
)
def test_what_caches_hold_of_what_went_by_is_the_share_of_each_queue(
    lag: int, queues: list[QueueFacts], matching: int, hit_ratio: float
) -> None:
    """Else it is what was finished in a minute or is held, 58.8 + 93, of what was committed or is held, 473.4 + 995."""
    found = estimate_for(replace(SLOW, effective_lag=lag), queues, topic_count=1)
    assert found is not None
    assert found.low < found.matching <= found.high
    assert found.matching == matching
    assert found.hit_ratio == pytest.approx(hit_ratio, abs=0.001)


@pytest.mark.parametrize(
    ("rates", "is_told"),
    [
        pytest.param([(600, 3.0), (400, 1.0)], True, id="half of what was committed is of queues that lag"),
        pytest.param([(600, 3.0), (400, 0.9)], False, id="less is"),
        pytest.param([(1_000, 0.9), (0, 7.1)], False, id="the most is of one in which nothing waits"),
        pytest.param([(600, 0.9), (400, None)], True, id="of one it is not known: nothing says otherwise"),
    ],
)
def test_what_was_counted_elsewhere_says_nothing_of_the_queues_that_lag(
    rates: list[tuple[int, float | None]], *, is_told: bool
) -> None:
    queues = [queue(number, lag, consume_tps=rate) for number, (lag, rate) in enumerate(rates)]
    group = replace(SLOW, effective_lag=1_000, consume_tps=8.0)
    assert (estimate_for(group, queues, topic_count=1) is not None) is is_told


@given(
    lag=st.integers(0, 10**9),
    finished=st.floats(0, 10_000),
    committed=st.floats(0, 10_000),
    cached=st.integers(0, 100_000),
    inflight=st.integers(-5, 1_000_000),
)
def test_the_range_holds_the_estimate_and_stays_between_nothing_and_the_lag(
    lag: int, finished: float, committed: float, cached: int, inflight: int
) -> None:
    rates = {"consume_tps": committed, "consume_ok_tps": finished}
    group = replace(SLOW, effective_lag=lag, cached_message_count=cached, inflight=inflight, **rates)
    found = estimate_for(group, (), topic_count=1)
    if found is not None:
        assert 0 <= found.low <= found.matching <= found.high <= lag + 1
        assert 0.0 <= found.hit_ratio <= 1.0


@pytest.mark.parametrize("share", [0.01, 0.05, 0.12, 0.5, 0.9])
@pytest.mark.parametrize("count", [60, 300, 900])
def test_nine_of_ten_measurements_and_more_hold_the_true_share(share: float, count: int) -> None:
    """Summed up over everything that may be counted: an approximation of 95 %, which small counts miss by some."""
    held = sum(
        math.comb(count, matched) * share**matched * (1.0 - share) ** (count - matched)
        for matched in range(count + 1)
        if (bounds := wilson_range(matched / count, count))[0] <= share <= bounds[1]
    )
    assert held >= 0.9
