"""How many messages of a filtered group's lag are really for it: the truth lies within the stated range."""

from __future__ import annotations

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
from offsetguard_peers.judging.records import a_group

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
