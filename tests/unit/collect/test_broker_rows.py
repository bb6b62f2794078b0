"""What a replica says of itself, as a row: typed, unknown where it does not say, and a slave's distance."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from offsetguard.collect.broker_reading import BrokerReading
from offsetguard.collect.broker_rows import broker_rows
from offsetguard.collect.earlier_round import UNKNOWN_ADDRESS, EarlierFigures, EarlierRound
from offsetguard.collect.landing import Row, table_of
from offsetguard.collect.replica import Replica
from offsetguard.model.intervals import Interval
from offsetguard.sources.rocketmq import brokers
from offsetguard.sources.rocketmq.brokers import BrokerRuntimeInfo
from offsetguard.tables import BROKER_SNAPSHOTS
from offsetguard_peers.cases.running import for_each
from offsetguard_peers.collecting import manifest_of

BODIES = Path(__file__).parents[1] / "sources" / "rocketmq" / "bodies"
NOW = datetime(2026, 11, 21, 8, tzinfo=UTC)
INTERVAL = Interval(NOW)
HOUR = timedelta(hours=1)


def row_of(*earlier: EarlierFigures, broker_id: int = 0, address: str = "h:1", **read: Any) -> Row:
    reading = BrokerReading(Replica("broker-a", broker_id, address), answered_at=NOW, **read)
    (row,) = broker_rows("c", INTERVAL, [reading], *earlier)
    return row


@pytest.mark.parametrize(
    ("version", "shown", "transferred_tps", "active", "earliest_year"),
    [("4.9.8", "V4_9_8", 1.7975732760772956, None, None), ("5.5.1", "V5_5_1", 9.443389627260917, True, 2026)],
)
def test_figures_and_settings_of_a_real_broker(
    version: str, shown: str, transferred_tps: float, active: bool | None, earliest_year: int | None
) -> None:
    row = row_of(
        runtime=brokers.broker_runtime_info((BODIES / f"28_{version}.json").read_bytes()),
        settings=brokers.broker_config((BODIES / f"26_{version}.properties").read_bytes()),
    )
    assert set(row) == {column.name for column in BROKER_SNAPSHOTS.columns}
    assert (row["version"], row["get_transferred_tps"], row["active"]) == (shown, transferred_tps, active)
    assert (row["earliest_message_at"].year if row["earliest_message_at"] else None) == earliest_year
    assert (row["dispatch_behind_bytes"], row["page_cache_lock_time_ms"], row["send_queue_size"]) == (0, 0, 0)
    assert (row["pull_queue_size"], row["pull_queue_head_wait_ms"], row["send_queue_head_wait_ms"]) == (0, 0, 0)
    assert (row["access_message_in_memory_max_ratio"], row["broker_permission"]) == (40, 6)
    assert row["rocketmq_cluster"] == "DefaultCluster"
    assert (row["answered"], row["failure"], row["slave_behind_bytes"]) == (True, None, None)


@for_each(
    "why, ends, behind",
    [
        ("as its own master is ahead", [(0, "1000"), (1, "400"), (2, "1000")], [None, 600, 0]),
        ("it goes on where its master ended", [(1, "1010"), (0, "1000")], [-10, None]),
        ("the master was not seen", [(0, None), (1, "5")], [None, None]),
        ("the master is not there", [(1, "5")], [None]),
        ("the slave was not seen", [(0, "5"), (1, None)], [None, None]),
        ("the slave says nothing", [(0, "5"), (1, "null")], [None, None]),
        ("the master says nonsense", [(0, "x" * 5000), (1, "5")], [None, None]),
    ],
)
def test_how_far_a_slave_is_behind(why: str, ends: list[tuple[int, str | None]], behind: list[int | None]) -> None:
    runtimes = [
        (number, None if end is None else BrokerRuntimeInfo({"commitLogMaxOffset": end})) for number, end in ends
    ]
    readings = [BrokerReading(Replica("broker-a", number, "h:1"), runtime=runtime) for number, runtime in runtimes]
    readings.append(
        BrokerReading(Replica("broker-b", 0, "h:2"), runtime=BrokerRuntimeInfo({"commitLogMaxOffset": "9"}))
    )
    assert [row["slave_behind_bytes"] for row in broker_rows("c", INTERVAL, readings)] == [*behind, None], why


@pytest.mark.parametrize("text", ["", "two", "1.5", "99999999999", "9" * 5000])
def test_settings_that_are_no_number_are_unknown(text: str) -> None:
    row = row_of(settings={"fileReservedTime": text, "slaveReadEnable": text})
    assert (row["file_reserved_time_hours"], row["slave_read_enable"]) == (None, None)


def test_a_broker_tells_its_tiered_storage() -> None:
    plug_in = "org.apache.rocketmq.tieredstore.TieredMessageStore"
    assert row_of(settings={"messageStorePlugIn": plug_in})["message_store_plug_in"] == plug_in
    assert row_of(settings={"messageStorePlugIn": ""})["message_store_plug_in"] is None


@pytest.mark.parametrize(
    ("text", "minute_tps"), [("", None), ("0.0  ", None), ("1.0 2.5 ", 2.5), ("1 0.0 3", 0.0), ("1 NaN", None)]
)
def test_the_rate_of_a_minute_is_unknown_in_the_first_minute(text: str, minute_tps: float | None) -> None:
    assert row_of(runtime=BrokerRuntimeInfo({"putTps": text}))["put_tps"] == minute_tps


@pytest.mark.parametrize(
    ("boot_at", "runtime", "ahead_ms"),
    [
        ("1795247370047", "[ 0 days, 0 hours, 17 minutes, 30 seconds ]", -352),
        ("1795247370047", "[ 1 days, 0 hours, 17 minutes, 30 seconds ]", 86_399_648),
        ("1795247370047", "", None),
        ("", "[ 0 days, 0 hours, 17 minutes, 30 seconds ]", None),
        ("1795247370047", "[ 999999 days, 0 hours, 0 minutes, 0 seconds ]", 86_399_912_549_648),
        ("253402300799000", "[ 999999 days, 0 hours, 0 minutes, 0 seconds ]", None),
        ("1795247370047", "up", None),
    ],
)
def test_the_clock_of_a_replica_is_its_start_and_the_time_it_has_run(
    boot_at: str, runtime: str, ahead_ms: int | None
) -> None:
    told = BrokerRuntimeInfo({"bootTimestamp": boot_at, "runtime": runtime})
    answered_at = datetime.fromtimestamp(1795248420.399, UTC)
    assert row_of(runtime=told, runtime_at=answered_at)["clock_ahead_ms"] == ahead_ms


@for_each(
    "why, address, before, changed_at",
    [
        ("it was a slave", "10.0.0.2:10911", ("10.0.0.1:10911", None), NOW),
        ("it was a slave, and there was a change before", "10.0.0.2:10911", ("10.0.0.1:10911", NOW - 24 * HOUR), NOW),
        ("where no slave was, it is the former one elsewhere", "10.0.0.3:10911", ("10.0.0.1:10911", None), None),
        ("since when is remembered", "10.0.0.2:10911", ("10.0.0.2:10911", NOW - HOUR), NOW - HOUR),
        ("it was the master all the time", "10.0.0.1:10911", ("10.0.0.1:10911", None), None),
        ("a first round", "10.0.0.2:10911", None, None),
        ("a master never seen", "10.0.0.2:10911", (UNKNOWN_ADDRESS, None), None),
    ],
)
def test_when_a_master_has_taken_over(
    why: str, address: str, before: tuple[str, datetime | None] | None, changed_at: datetime | None
) -> None:
    known = {"broker-a": dict(zip(("address", "master_changed_at"), before, strict=True))} if before else {}
    earlier = EarlierFigures(masters=known, slaves=frozenset({("broker-a", "10.0.0.2:10911")}))
    assert row_of(earlier, address=address)["master_changed_at"] == changed_at, why
    assert row_of(earlier, address=address, broker_id=1)["master_changed_at"] is None, "of a slave"


def test_the_last_known_master_of_a_round_is_also_one_that_was_missing_in_it() -> None:
    missing = BrokerReading(Replica("broker-a", 0, "10.0.0.1:10911"), failure="not listed")
    slave = BrokerReading(Replica("broker-a", 2, "10.0.0.2:10911"), answered_at=NOW)
    landed = table_of(BROKER_SNAPSHOTS, list(broker_rows("c", INTERVAL, [missing, slave])))
    earlier = EarlierRound(manifest_of(INTERVAL), {BROKER_SNAPSHOTS.name: landed}).figures()
    assert earlier.masters["broker-a"]["address"] == "10.0.0.1:10911"
    assert earlier.slaves == {("broker-a", "10.0.0.2:10911")}
