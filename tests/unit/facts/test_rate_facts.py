"""Rates over every replica, where a group reads, and the share of messages that match its filter."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from offsetguard.config.judgement import Judgement
from offsetguard.fact_queries import FactQueries, Moment
from offsetguard.facts import GroupFacts
from offsetguard.intervals import Interval
from offsetguard.tables import (
    BROKER_SNAPSHOTS,
    BROKER_STATS,
    CLIENT_SNAPSHOTS,
    GROUP_FACTS,
    GROUP_SNAPSHOTS,
    QUEUE_SNAPSHOTS,
)
from offsetguard_peers.fact_answers import answers

INTERVAL = Interval(datetime(2026, 11, 21, 10, 39, tzinfo=UTC))
Row = dict[str, Any]


def rates_of(stats: list[Row], slaves: dict[str, int], places: list[str]) -> GroupFacts:
    """Return the facts of group g in topic t. `slaves`: how many each broker has; `places`: brokers with its queues."""
    listed = [(name, broker_id) for name, count in slaves.items() for broker_id in range(count + 1)]
    rows = {
        BROKER_STATS.name: stats,
        BROKER_SNAPSHOTS.name: [{"broker_name": name, "broker_id": broker_id} for name, broker_id in listed],
        QUEUE_SNAPSHOTS.name: [
            {"consumer_group": "g", "topic": "t", "broker_name": name, "queue_id": 0, "origin": "broker"}
            for name in places
        ],
    }
    (facts,) = answers(GROUP_FACTS, GroupFacts, rows, INTERVAL)
    return facts


def _read(broker_name: str, broker_id: int, tps: float, stats_name: str = "GROUP_GET_NUMS") -> Row:
    key = {"stats_name": stats_name, "consumer_group": "g", "topic": "t"}
    return {**key, "broker_name": broker_name, "broker_id": broker_id, "tps": tps}


@pytest.mark.parametrize(
    ("master", "slaves", "listed", "moved"),
    [
        (0.0, [15_714.0], 1, True),
        (0.0, [15_714.0], 2, True),
        (12.0, [15_714.0], 1, True),  # it decays for 65 s after reads have moved
        (12.0, [12.0], 1, False),
        (12.0, [3.0], 2, None),
        (0.0, [0.0], 1, False),
        (0.0, [], 0, False),
        (0.0, [0.0], 2, None),
        (0.0, [], 1, None),
        (None, [15_714.0], 1, None),
        (None, [], 0, None),
    ],
)
def test_reads_have_moved_when_slaves_hand_out_more_than_their_master(
    master: float | None, slaves: list[float], listed: int, moved: bool | None
) -> None:
    stats = [] if master is None else [_read("b", 0, master)]
    stats += [_read("b", number, tps) for number, tps in enumerate(slaves, start=1)]
    assert rates_of(stats, {"b": listed}, ["b"]).reads_moved_to_slave is moved


def test_a_groups_rate_is_the_sum_over_master_and_slaves() -> None:
    """Incident I1: 0 on the master of broker-a, 15,714/s on its slave."""
    stats = [_read("broker-a", 0, 0.0), _read("broker-a", 1, 15_714.0), _read("broker-b", 0, 10.0)]
    stats += [_read("broker-c", 0, 99.0), _read("broker-b", 0, 2.5, "SNDBCK_PUT_NUMS")]
    rates = rates_of(stats, {"broker-a": 1}, ["broker-a", "broker-b"])
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
    rates = rates_of(stats, slaves, ["broker-a", "broker-b", "broker-c"])
    assert (rates.slave_read_broker_names, rates.slave_read_since) == (("broker-a", "broker-b"), first)


def test_a_replica_that_was_not_seen_is_counted_and_never_zero() -> None:
    rates = rates_of([_read("broker-a", 0, 7.0)], {"broker-a": 1}, ["broker-a", "broker-b"])
    assert (rates.get_tps, rates.unseen_rate_count, rates.reads_moved_to_slave) == (7.0, 2, None)
    nothing = rates_of([], {}, ["broker-a"])
    assert (nothing.get_tps, nothing.unseen_rate_count, nothing.reads_moved_to_slave) == (None, None, None)


FILTERED: Row = {
    "expression": "a",
    "consumption": "classic",
    "get_tps": 12.0,
    "listed_slaves": 0,
    "consume_tps": 100.0,
}


@pytest.mark.parametrize(
    ("change", "ratio"),
    [
        ({}, 0.12),
        ({"get_tps": 0.0}, 0.0),
        ({"get_tps": 130.0}, 1.0),
        ({"consumption": None}, 0.12),
        ({"expression": "*"}, None),
        ({"expression": None}, None),
        ({"consumption": "pop"}, None),
        ({"get_tps": None}, None),
        ({"listed_slaves": 1}, None),
        ({"consume_tps": None}, None),
        ({"consume_tps": 0.2}, None),
    ],
)
def test_the_hit_ratio_is_what_was_handed_out_of_what_was_passed(change: Row, ratio: float | None) -> None:
    given = FILTERED | change
    key = {"consumer_group": "g", "topic": "t", "broker_name": "b", "queue_id": 0}
    subscription = given["expression"] and [f"t {given['expression']}"]
    rows = {
        QUEUE_SNAPSHOTS.name: [key | {"origin": "broker"}],
        CLIENT_SNAPSHOTS.name: [{"consumer_group": "g", "client_id": "c", "subscriptions": subscription}],
        GROUP_SNAPSHOTS.name: [{"consumer_group": "g", "consumption": given["consumption"]}],
        BROKER_SNAPSHOTS.name: [{"broker_name": "b", "broker_id": one} for one in range(given["listed_slaves"] + 1)],
        BROKER_STATS.name: [] if given["get_tps"] is None else [_read("b", 0, given["get_tps"])],
    }
    queries = FactQueries([rows], [Moment(0, INTERVAL.start, INTERVAL.end)], Judgement())
    queries.rate_queues([key | {"cluster": "0", "produce_tps": None, "consume_tps": given["consume_tps"]}])
    (facts,) = queries.about(0).records(GROUP_FACTS, GroupFacts)
    assert facts.hit_ratio == ratio
