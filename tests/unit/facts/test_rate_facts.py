"""Rates over every replica, where a group reads, and the share of messages that match its filter."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.rate_facts import BrokerRates, group_rates, hit_ratio

G_OF_T = ("g", "t")


def _read(broker_name: str, broker_id: int, tps: float, stats_name: str = "GROUP_GET_NUMS") -> dict[str, object]:
    key = {"stats_name": stats_name, "consumer_group": "g", "topic": "t"}
    return {**key, "broker_name": broker_name, "broker_id": broker_id, "tps": tps}


@pytest.mark.parametrize(
    ("rates", "moved"),
    [
        (BrokerRates(master_tps=0.0, slave_tps=15_714.0), True),
        (BrokerRates(master_tps=0.0, slave_tps=15_714.0, unseen_slave_count=1), True),
        (BrokerRates(master_tps=12.0, slave_tps=15_714.0), True),  # it decays for 65 s after reads have moved
        (BrokerRates(master_tps=12.0, slave_tps=12.0), False),
        (BrokerRates(master_tps=12.0, slave_tps=3.0, unseen_slave_count=1), None),
        (BrokerRates(master_tps=0.0, slave_tps=0.0), False),
        (BrokerRates(master_tps=0.0), False),
        (BrokerRates(master_tps=0.0, slave_tps=0.0, unseen_slave_count=1), None),
        (BrokerRates(master_tps=0.0, unseen_slave_count=1), None),
        (BrokerRates(master_tps=None, slave_tps=15_714.0), None),
        (BrokerRates(), None),
    ],
)
def test_reads_have_moved_when_slaves_hand_out_more_than_their_master(rates: BrokerRates, moved: bool | None) -> None:
    assert rates.reads_moved is moved


def test_a_groups_rate_is_the_sum_over_master_and_slaves() -> None:
    """Incident I1: 0 on the master of broker-a, 15,714/s on its slave."""
    stats = [_read("broker-a", 0, 0.0), _read("broker-a", 1, 15_714.0), _read("broker-b", 0, 10.0)]
    stats += [_read("broker-c", 0, 99.0), _read("broker-b", 0, 2.5, "SNDBCK_PUT_NUMS")]
    rates = group_rates(stats, {"broker-a": 1}, {G_OF_T: {"broker-a", "broker-b"}})[G_OF_T]
    assert (rates.get_tps, rates.master_get_tps, rates.slave_get_tps) == (15_724.0, 10.0, 15_714.0)
    assert (rates.reads_moved_to_slave, rates.unseen_rate_count, rates.send_back_tps) == (True, 0, 2.5)


def test_where_reads_moved_and_since_when_at_the_latest_is_told() -> None:
    first, second = (datetime(2026, 11, 21, 10, minute, tzinfo=UTC) for minute in (1, 2))
    stats = [
        _read("broker-b", 0, 0.0),
        _read("broker-b", 1, 5.0) | {"counting_since": second},
        _read("broker-b", 2, 5.0) | {"counting_since": first},
        _read("broker-a", 0, 0.0),
        _read("broker-a", 1, 5.0) | {"counting_since": second},
        _read("broker-c", 0, 50.0),
        _read("broker-c", 1, 5.0) | {"counting_since": first - timedelta(hours=1)},
    ]
    slaves = {"broker-a": 1, "broker-b": 2, "broker-c": 1}
    rates = group_rates(stats, slaves, {G_OF_T: {"broker-a", "broker-b", "broker-c"}})[G_OF_T]
    assert (rates.slave_read_broker_names, rates.slave_read_since) == (("broker-a", "broker-b"), first)


def test_a_replica_that_was_not_seen_is_counted_and_never_zero() -> None:
    rates = group_rates([_read("broker-a", 0, 7.0)], {"broker-a": 1}, {G_OF_T: {"broker-a", "broker-b"}})[G_OF_T]
    assert (rates.get_tps, rates.unseen_rate_count, rates.reads_moved_to_slave) == (7.0, 2, None)
    nothing = group_rates([], {}, {G_OF_T: {"broker-a"}})[G_OF_T]
    assert (nothing.get_tps, nothing.unseen_rate_count, nothing.reads_moved_to_slave) == (None, None, None)


FILTERED = {"filtered": True, "consumption": "classic", "get_tps": 12.0, "unseen_rate_count": 0, "consume_tps": 100.0}


@pytest.mark.parametrize(
    ("change", "ratio"),
    [
        ({}, 0.12),
        ({"get_tps": 0.0}, 0.0),
        ({"get_tps": 130.0}, 1.0),
        ({"consumption": None}, 0.12),
        ({"filtered": False}, None),
        ({"filtered": None}, None),
        ({"consumption": "pop"}, None),
        ({"get_tps": None}, None),
        ({"unseen_rate_count": 1}, None),
        ({"consume_tps": None}, None),
        ({"consume_tps": 0.2}, None),
    ],
)
def test_the_hit_ratio_is_what_was_handed_out_of_what_was_passed(change, ratio: float | None) -> None:
    assert hit_ratio(**(FILTERED | change)) == ratio


@given(get_tps=st.floats(0, 1e9), consume_tps=st.none() | st.floats(0, 1e9))
def test_a_hit_ratio_is_a_share(get_tps: float, consume_tps: float | None) -> None:
    found = hit_ratio(**(FILTERED | {"get_tps": get_tps, "consume_tps": consume_tps}))
    assert found is None or 0 <= found <= 1
