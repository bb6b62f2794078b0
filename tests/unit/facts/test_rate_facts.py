"""Rates over every replica, where a group reads, and the share of messages that match its filter."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

from offsetguard import tables
from offsetguard.config.groups import Judgement
from offsetguard.facts.queries import FactQueries, Moment
from offsetguard.model.intervals import Interval
from offsetguard.tables.group_facts import GroupFacts
from offsetguard_peers.facts.answers import answers

INTERVAL = Interval(datetime(2026, 11, 21, 10, 39, tzinfo=UTC))
Row = dict[str, Any]


def rates_of(stats: list[Row], slaves: dict[str, int], places: list[str]) -> GroupFacts:
    """Return the facts of group g in topic t. `slaves`: how many each broker has; `places`: brokers with its queues."""
    return rates_by_group(stats, slaves, {"g": places})["g"]


def rates_by_group(stats: list[Row], slaves: dict[str, int], places: dict[str, list[str]]) -> dict[str, GroupFacts]:
    """Return the facts of some groups in topic t: one run, which takes as long for many as for one."""
    rows = {
        tables.BROKER_STATS.name: stats,
        tables.BROKER_SNAPSHOTS.name: [
            {"broker_name": name, "broker_id": broker_id}
            for name, count in slaves.items()
            for broker_id in range(count + 1)
        ],
        tables.QUEUE_SNAPSHOTS.name: [
            {"consumer_group": group, "topic": "t", "broker_name": name, "queue_id": 0, "origin": "broker"}
            for group, names in places.items()
            for name in names
        ],
    }
    return {one.consumer_group: one for one in answers(tables.GROUP_FACTS, GroupFacts, rows, INTERVAL)}


def _read(broker_name: str, broker_id: int, tps: float, stats_name: str = "GROUP_GET_NUMS", group: str = "g") -> Row:
    key = {"stats_name": stats_name, "consumer_group": group, "topic": "t"}
    return {**key, "broker_name": broker_name, "broker_id": broker_id, "tps": tps}


# what the master and each slave that answers hand out, how many slaves there are, and whether reads have moved
READS: list[tuple[float | None, list[float], int, bool | None]] = [
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
]


def test_reads_have_moved_when_slaves_hand_out_more_than_their_master() -> None:
    stats, listed = list[Row](), dict[str, int]()
    names = [str(case[:3]) for case in READS]  # each case is a group at a broker of its own
    for name, (master, slaves, listed[name], _) in zip(names, READS, strict=True):
        known = [] if master is None else [(0, master)]
        stats += [_read(name, number, tps, group=name) for number, tps in (*known, *enumerate(slaves, start=1))]
    found = rates_by_group(stats, listed, {name: [name] for name in names})
    moved = {name: one.reads_moved_to_slave for name, one in found.items()}
    assert moved == {name: expected for name, (*_, expected) in zip(names, READS, strict=True)}


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


HIT_RATIOS: list[tuple[Row, float | None]] = [
    ({}, 0.12),
    ({"get_tps": 0.0}, 0.0),
    ({"get_tps": 130.0}, 1.0),
    ({"consumption": None}, None),
    ({"expression": "*"}, None),
    ({"expression": None}, None),
    ({"consumption": "pop"}, None),
    ({"get_tps": None}, None),
    ({"listed_slaves": 1}, None),
    ({"consume_tps": None}, None),
    ({"consume_tps": 0.2}, None),
]


def test_the_hit_ratio_is_what_was_handed_out_of_what_was_passed() -> None:
    """Each case is a group of its own, at a broker of its own; both are called as what the case changes."""
    rows, rates = defaultdict[str, list[Row]](list), list[Row]()
    for change, _ in HIT_RATIOS:
        given, name = FILTERED | change, str(change)
        key = {"consumer_group": name, "topic": "t", "broker_name": name, "queue_id": 0}
        subscription = given["expression"] and [f"t {given['expression']}"]
        rows[tables.QUEUE_SNAPSHOTS.name] += [key | {"origin": "broker"}]
        rows[tables.CLIENT_SNAPSHOTS.name] += [
            {"consumer_group": name, "client_id": "c", "subscriptions": subscription}
        ]
        rows[tables.GROUP_SNAPSHOTS.name] += [{"consumer_group": name, "consumption": given["consumption"]}]
        brokers = [{"broker_name": name, "broker_id": one} for one in range(given["listed_slaves"] + 1)]
        rows[tables.BROKER_SNAPSHOTS.name] += brokers
        reads = [] if given["get_tps"] is None else [_read(name, 0, given["get_tps"], group=name)]
        rows[tables.BROKER_STATS.name] += reads
        rates.append(key | {"cluster": "0", "produce_tps": None, "consume_tps": given["consume_tps"]})
    queries = FactQueries([rows], [Moment(0, INTERVAL.start, INTERVAL.end)], Judgement())
    queries.rate_queues(rates)
    found = {one.consumer_group: one.hit_ratio for one in queries.about(0).records(tables.GROUP_FACTS, GroupFacts)}
    assert found == {str(change): ratio for change, ratio in HIT_RATIOS}
