"""What a replica says of itself, as a row: typed, unknown where it does not say, and a slave's distance."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from offsetguard.collect.broker_reading import BrokerReading
from offsetguard.collect.broker_rows import broker_rows
from offsetguard.collect.earlier_round import UNKNOWN_ADDRESS, EarlierFigures, EarlierRound
from offsetguard.collect.landing import table_of
from offsetguard.collect.manifest import Manifest, RequestCounts
from offsetguard.collect.replica import Replica
from offsetguard.model.intervals import Interval
from offsetguard.sources.rocketmq import broker_figures, broker_settings
from offsetguard.sources.rocketmq.broker_figures import BrokerRuntimeInfo
from offsetguard.tables import BROKER_SNAPSHOTS

BODIES = Path(__file__).parents[1] / "sources" / "rocketmq" / "bodies"
NOW = datetime(2026, 11, 21, 8, tzinfo=UTC)
INTERVAL = Interval(NOW)


def replica(broker_id: int, end: str | None, *, name: str = "broker-a") -> BrokerReading:
    runtime = None if end is None else BrokerRuntimeInfo({"commitLogMaxOffset": end})
    return BrokerReading(Replica(name, broker_id, f"127.0.0.1:1{broker_id}911"), runtime=runtime)


def behind(*readings: BrokerReading) -> list[object]:
    return [row["slave_behind_bytes"] for row in broker_rows("c", INTERVAL, readings)]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("4.9.8", {"version": "V4_9_8", "get_transferred_tps": 1.7975732760772956, "active": None, "earliest": None}),
        ("5.5.1", {"version": "V5_5_1", "get_transferred_tps": 9.443389627260917, "active": True, "earliest": 2026}),
    ],
)
def test_figures_and_settings_of_a_real_broker(version: str, expected: dict[str, object]) -> None:
    reading = BrokerReading(
        Replica("broker-a", 0, "127.0.0.1:10911"),
        answered_at=NOW,
        runtime=broker_figures.broker_runtime_info((BODIES / f"28_{version}.json").read_bytes()),
        settings=broker_settings.broker_config((BODIES / f"26_{version}.properties").read_bytes()),
    )
    (row,) = broker_rows("c", INTERVAL, [reading])
    assert set(row) == {column.name for column in BROKER_SNAPSHOTS.columns}
    assert (row["version"], row["get_transferred_tps"], row["active"]) == tuple(
        expected[name] for name in ("version", "get_transferred_tps", "active")
    )
    assert (row["earliest_message_at"].year if row["earliest_message_at"] else None) == expected["earliest"]
    assert (row["dispatch_behind_bytes"], row["page_cache_lock_time_ms"], row["send_queue_size"]) == (0, 0, 0)
    assert (row["pull_queue_size"], row["pull_queue_head_wait_ms"], row["send_queue_head_wait_ms"]) == (0, 0, 0)
    assert (row["access_message_in_memory_max_ratio"], row["broker_permission"]) == (40, 6)
    assert row["rocketmq_cluster"] == "DefaultCluster"
    assert (row["answered"], row["failure"], row["slave_behind_bytes"]) == (True, None, None)


def test_a_replica_that_was_not_seen_has_its_reason_and_nothing_else() -> None:
    (row,) = broker_rows("c", INTERVAL, [BrokerReading(Replica("b", 0, "h:1"), failure="connection refused")])
    assert (row["answered"], row["failure"], row.get("version"), row["role"]) == (
        False,
        "connection refused",
        None,
        None,
    )


def test_a_slave_is_as_far_behind_as_its_own_master_is_ahead() -> None:
    assert behind(replica(0, "1000"), replica(1, "400"), replica(2, "1000"), replica(0, "9", name="broker-b")) == [
        None,
        600,
        0,
        None,
    ]


def test_a_slave_that_was_read_after_its_master_is_not_ahead() -> None:
    assert behind(replica(1, "1010"), replica(0, "1000")) == [0, None]


@pytest.mark.parametrize(("master", "slave"), [(None, "5"), ("5", None), ("5", "null"), ("x" * 5000, "5")])
def test_a_distance_is_unknown_where_one_end_was_not_seen(master: str | None, slave: str | None) -> None:
    assert behind(replica(0, master), replica(1, slave)) == [None, None]
    assert behind(replica(1, slave)) == [None]


@pytest.mark.parametrize("text", ["", "two", "1.5", "99999999999", "9" * 5000])
def test_settings_that_are_no_number_are_unknown(text: str) -> None:
    reading = BrokerReading(Replica("b", 0, "h:1"), settings={"fileReservedTime": text, "slaveReadEnable": text})
    (row,) = broker_rows("c", INTERVAL, [reading])
    assert (row["file_reserved_time_hours"], row["slave_read_enable"]) == (None, None)


@pytest.mark.parametrize(
    ("text", "minute_tps"), [("", None), ("0.0  ", None), ("1.0 2.5 ", 2.5), ("1 0.0 3", 0.0), ("1 NaN", None)]
)
def test_the_rate_of_a_minute_is_unknown_in_the_first_minute(text: str, minute_tps: float | None) -> None:
    reading = BrokerReading(Replica("b", 0, "h:1"), runtime=BrokerRuntimeInfo({"putTps": text}))
    (row,) = broker_rows("c", INTERVAL, [reading])
    assert row["put_tps"] == minute_tps


@pytest.mark.parametrize(
    ("table", "ahead_ms"),
    [
        ({"bootTimestamp": "1795247370047", "runtime": "[ 0 days, 0 hours, 17 minutes, 30 seconds ]"}, -352),
        ({"bootTimestamp": "1795247370047", "runtime": "[ 1 days, 0 hours, 17 minutes, 30 seconds ]"}, 86_399_648),
        ({"bootTimestamp": "1795247370047"}, None),
        ({"runtime": "[ 0 days, 0 hours, 17 minutes, 30 seconds ]"}, None),
        (
            {"bootTimestamp": "1795247370047", "runtime": "[ 999999 days, 0 hours, 0 minutes, 0 seconds ]"},
            86_399_912_549_648,
        ),
        ({"bootTimestamp": "253402300799000", "runtime": "[ 999999 days, 0 hours, 0 minutes, 0 seconds ]"}, None),
        ({"bootTimestamp": "1795247370047", "runtime": "up"}, None),
    ],
)
def test_the_clock_of_a_replica_is_its_start_and_the_time_it_has_run(
    table: dict[str, str], ahead_ms: int | None
) -> None:
    answered_at = datetime.fromtimestamp(1795248420.399, UTC)
    reading = BrokerReading(Replica("b", 0, "h:1"), runtime=BrokerRuntimeInfo(table), runtime_at=answered_at)
    (row,) = broker_rows("c", INTERVAL, [reading])
    assert row["clock_ahead_ms"] == ahead_ms


def changed_at(address: str, before: tuple[str, datetime | None] | None, broker_id: int = 0) -> object:
    reading = BrokerReading(Replica("broker-a", broker_id, address), answered_at=NOW)
    slaves = frozenset({("broker-a", "10.0.0.2:10911")})
    known = dict(zip(("address", "master_changed_at"), before or (), strict=False))
    earlier = EarlierFigures(masters={} if before is None else {"broker-a": known}, slaves=slaves)
    (row,) = broker_rows("c", INTERVAL, [reading], earlier)
    return row["master_changed_at"]


def test_a_master_that_was_a_slave_has_changed_just_now() -> None:
    assert changed_at("10.0.0.2:10911", ("10.0.0.1:10911", None)) == NOW
    assert changed_at("10.0.0.2:10911", ("10.0.0.1:10911", NOW - timedelta(days=1))) == NOW


def test_a_master_where_no_slave_was_is_the_former_one_at_another_address() -> None:
    assert changed_at("10.0.0.3:10911", ("10.0.0.1:10911", None)) is None


def test_it_is_remembered_since_when_a_master_is_the_master() -> None:
    assert changed_at("10.0.0.2:10911", ("10.0.0.2:10911", NOW - timedelta(hours=1))) == NOW - timedelta(hours=1)
    assert changed_at("10.0.0.1:10911", ("10.0.0.1:10911", None)) is None


def test_no_change_is_made_up_of_a_first_round_a_master_never_seen_or_a_slave() -> None:
    assert changed_at("10.0.0.1:10911", None) is None
    assert changed_at("10.0.0.1:10911", (UNKNOWN_ADDRESS, None)) is None
    assert changed_at("10.0.0.2:10911", ("10.0.0.1:10911", None), broker_id=1) is None


def test_the_last_known_master_of_a_round_is_also_one_that_was_missing_in_it() -> None:
    missing = BrokerReading(Replica("broker-a", 0, "10.0.0.1:10911"), failure="not listed")
    slave = BrokerReading(Replica("broker-a", 2, "10.0.0.2:10911"), answered_at=NOW)
    landed = table_of(BROKER_SNAPSHOTS, list(broker_rows("c", INTERVAL, [missing, slave])))
    manifest = Manifest(
        cluster="c", interval_start=NOW, started_at=NOW, finished_at=NOW, requests=RequestCounts(), row_counts={}
    )
    earlier = EarlierFigures.of(EarlierRound(manifest, {BROKER_SNAPSHOTS.name: landed}))
    assert earlier.masters["broker-a"]["address"] == "10.0.0.1:10911"
    assert earlier.slaves == {("broker-a", "10.0.0.2:10911")}


def test_a_broker_tells_its_tiered_storage() -> None:
    settings = {"messageStorePlugIn": "org.apache.rocketmq.tieredstore.TieredMessageStore"}
    for given, expected in ((settings, settings["messageStorePlugIn"]), ({"messageStorePlugIn": ""}, None)):
        (row,) = broker_rows("c", INTERVAL, [BrokerReading(Replica("b", 0, "h:1"), answered_at=NOW, settings=given)])
        assert row["message_store_plug_in"] == expected
