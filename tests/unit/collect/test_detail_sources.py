"""Running info and rates: who is asked what, whose failure it is, and which rows come of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from offsetguard.collect.broker_reading import BrokerReading, ClientAnswer, StatsItem
from offsetguard.collect.broker_rows import broker_stats_rows
from offsetguard.collect.details import IN_FLIGHT, items_for, items_of_replica, read_broker_stats, read_running_info
from offsetguard.collect.earlier_round import EarlierFigures
from offsetguard.collect.manifest import RequestLedger
from offsetguard.collect.replica import Answer, Replica, ReplicaLink
from offsetguard.collect.snapshot_rows import client_answers, client_queue_rows, running_info_columns
from offsetguard.model.intervals import Interval
from offsetguard.model.offsets import MessageQueue
from offsetguard.sources.rocketmq.broker_figures import BrokerRuntimeInfo, BrokerStats, StatsSnapshot
from offsetguard.sources.rocketmq.client import RocketMQClient
from offsetguard.sources.rocketmq.codes import RequestCode
from offsetguard.sources.rocketmq.consumers import (
    Connection,
    ConsumerConnections,
    ConsumerRunningInfo,
    PopProcessQueueInfo,
    consumer_running_info,
)
from offsetguard.sources.rocketmq.header import RemotingCommand
from offsetguard.sources.rocketmq.requests import GetBrokerConfig
from offsetguard.tables import BROKER_STATS, CLIENT_QUEUE_SNAPSHOTS, CLIENT_SNAPSHOTS
from offsetguard_peers.scripted.peer import Conversation, ScriptedPeer

BODIES = Path(__file__).parents[1] / "sources" / "rocketmq" / "bodies"
RUNNING_INFO = (BODIES / "307_4.9.8.json").read_bytes()
STATS = (BODIES / "315_5.3.3.json").read_bytes()
NOW = datetime(2026, 11, 21, 8, tzinfo=UTC)
INTERVAL = Interval(NOW)
QUICK_MS = 1_500  # where time-outs must pass
PATIENT_MS = 60_000  # where none may

Reader = Callable[[ReplicaLink, BrokerReading], Awaitable[None]]


def ask(
    answer: Callable[[Conversation, RemotingCommand], None],
    read: Reader,
    *,
    broker_id: int = 0,
    timeout_ms: int = PATIENT_MS,
    reading: BrokerReading | None = None,
) -> tuple[BrokerReading, ReplicaLink, RequestLedger]:
    """Let `read` ask a replica that answers as `answer` does; afterwards the replica is asked for its settings."""

    async def play(conversation: Conversation) -> None:
        while True:
            request = await conversation.next_request()
            if request.code == RequestCode.GET_BROKER_CONFIG:
                conversation.answer(request, body=b"brokerRole=ASYNC_MASTER\n")
            else:
                answer(conversation, request)

    async def run() -> tuple[BrokerReading, ReplicaLink, RequestLedger]:
        async with ScriptedPeer(play) as peer, RocketMQClient(timeout_ms) as client:
            ledger = RequestLedger()
            replica = Replica("broker-a", broker_id, peer.address)
            link = ReplicaLink(client, replica, ledger, "log in")
            filled = reading or BrokerReading(replica)
            await read(link, filled)
            assert await link.ask(GetBrokerConfig()) is not None, "the replica must not have been given up"
            return filled, link, ledger

    return asyncio.run(run())


def read_clients(*clients: str) -> Reader:
    return lambda link, reading: read_running_info(link, reading, [("billing", client) for client in clients])


def read_items(*items: StatsItem) -> Reader:
    return lambda link, reading: read_broker_stats(link, reading, items)


def test_a_client_that_does_not_answer_costs_its_own_time_out_and_is_no_gap_of_the_broker() -> None:
    def answer(conversation: Conversation, request: RemotingCommand) -> None:
        match request.ext_fields["clientId"]:
            case "silent":
                pass
            case "gone":
                conversation.answer(request, 1, "The Consumer <billing> <gone> not online")
            case "hangs":
                conversation.answer(request, 207, "consumer <billing> <hangs> timeout")
            case "mad":
                conversation.answer(request, 0, "not set any response code", body=b"[]")
            case _:
                conversation.answer(request, 0, "not set any response code", body=RUNNING_INFO)

    reading, link, ledger = ask(
        answer, read_clients("one", "silent", "gone", "hangs", "mad", "two"), timeout_ms=QUICK_MS
    )
    given = {client: one.info is not None for (_, client), one in reading.running_info.items()}
    assert given == {"one": True, "silent": False, "gone": False, "hangs": False, "mad": False, "two": True}
    failures = {client: one.failure or "" for (_, client), one in reading.running_info.items()}
    assert "did not answer" in failures["silent"]
    assert "not online" in failures["gone"]
    assert "did not answer" in failures["hangs"]
    assert "expected an object" in failures["mad"]
    assert failures["one"] == ""
    assert (ledger.gap_count, link.failure) == (0, None)
    assert ledger.counts.asked == 7
    assert (ledger.counts.timed_out, ledger.counts.refused, ledger.counts.undecodable) == (1, 2, 1)


def test_where_clients_hang_the_brokers_admin_threads_are_spared() -> None:
    asked: list[str] = []

    def answer(_: Conversation, request: RemotingCommand) -> None:
        asked.append(request.ext_fields["clientId"])

    clients = [f"silent-{number}" for number in range(20)]
    reading, _, ledger = ask(answer, read_clients(*clients), timeout_ms=QUICK_MS)
    assert len(asked) == IN_FLIGHT
    left = [one.failure or "" for (_, client), one in reading.running_info.items() if client not in asked]
    assert len(left) == 20 - IN_FLIGHT
    assert all("not asked" in failure for failure in left)
    assert ledger.gap_count == 0


def test_clients_that_cannot_answer_are_never_asked() -> None:
    """gRPC clients behind a LOCAL proxy answer 207 after 10 s; some languages have no running info at all."""
    asked: list[str] = []

    def answer(conversation: Conversation, request: RemotingCommand) -> None:
        asked.append(request.ext_fields["clientId"])
        conversation.answer(request, body=RUNNING_INFO)

    connections = ConsumerConnections(
        tuple(
            Connection(client_id, "h:1", language, 479)
            for client_id, language in [("java", "JAVA"), ("go", "GO"), ("rust", "RUST"), ("h@12@0@3jc5x8", "JAVA")]
        ),
        "CONSUME_PASSIVELY",
        "CLUSTERING",
        None,
        {},
    )
    reading = BrokerReading(Replica("broker-a", 0, "h:1"), connections={"billing": connections})
    clients = ("java", "go", "rust", "h@12@0@3jc5x8", "192.0.2.2@27907#1888406890671", "ip@1@unit@STREAM", "unlisted")
    ask(answer, read_clients(*clients), reading=reading)
    assert sorted(asked) == ["192.0.2.2@27907#1888406890671", "go", "ip@1@unit@STREAM", "java", "unlisted"]


def test_nothing_counted_is_an_answer_and_a_failure_is_a_gap() -> None:
    def answer(conversation: Conversation, request: RemotingCommand) -> None:
        key = request.ext_fields["statsKey"]
        match key.partition("@")[0]:
            case "counted":
                conversation.answer(request, body=STATS)
            case "fresh":
                conversation.answer(request, 1, f"The stats <GROUP_GET_NUMS> <{key}> not exist")
            case _:
                conversation.answer(request, 1, "java.lang.NullPointerException")

    items = [StatsItem("GROUP_GET_NUMS", f"{topic}@G") for topic in ("counted", "fresh", "broken")]
    reading, _, ledger = ask(answer, read_items(*items, items[0]))
    assert {item.topic: answer.body is not None for item, answer in reading.broker_stats.items()} == {
        "counted": True,
        "fresh": False,
    }
    assert [gap.what for gap in ledger.gaps] == ["VIEW_BROKER_STATS_DATA(statsName=GROUP_GET_NUMS, statsKey=broken@G)"]
    counted, fresh = broker_stats_rows("c", INTERVAL, [reading])
    assert set(counted) == set(fresh) == {column.name for column in BROKER_STATS.columns}
    assert (counted["counted"], counted["tps"], counted["minute_sum"], counted["average"]) == (
        True,
        4.883333333333334,
        293,
        1.0,
    )
    assert (fresh["counted"], fresh["tps"], fresh["minute_sum"], fresh["day_sum"]) == (False, 0.0, 0, 0)
    assert (fresh["topic"], fresh["consumer_group"], fresh["queue_id"]) == ("fresh", "G", None)
    replica = reading.replica
    place = (replica.broker_name, replica.broker_id, "GROUP_GET_NUMS", "counted@G")
    assert (counted["counting_since"], fresh["counting_since"]) == (counted["read_at"], None)
    before = EarlierFigures(counting_since={place: counted["read_at"] - timedelta(minutes=3)})
    counted, fresh = broker_stats_rows("c", INTERVAL, [reading], before)
    assert counted["counting_since"] == counted["read_at"] - timedelta(minutes=3)
    assert fresh["counting_since"] is None


@pytest.mark.parametrize(
    ("item", "parts"),
    [
        (StatsItem("GROUP_GET_NUMS", "orders@billing"), ("orders", "billing", None)),
        (StatsItem("GROUP_CK_NUMS", "orders@billing"), ("orders", "billing", None)),
        (StatsItem("TOPIC_PUT_NUMS", "%RETRY%billing"), ("%RETRY%billing", None, None)),
        (StatsItem("GROUP_GET_LATENCY", "3@orders@billing"), ("orders", "billing", 3)),
        (StatsItem("BROKER_GET_NUMS", "DefaultCluster"), (None, None, None)),
    ],
)
def test_what_a_key_is_made_of(item: StatsItem, parts: tuple[str | None, str | None, int | None]) -> None:
    assert (item.topic, item.consumer_group, item.queue_id) == parts


def replica(broker_id: int = 0, version: str | None = "V4_9_7", **settings: str) -> BrokerReading:
    runtime = BrokerRuntimeInfo({"brokerVersionDesc": version}) if version else None
    return BrokerReading(Replica("broker-a", broker_id, "h:1"), runtime=runtime, settings=settings)


GROUPS = {"billing": ["orders", "%RETRY%billing"]}
READ = {"GROUP_GET_NUMS orders@billing", "GROUP_GET_NUMS %RETRY%billing@billing"}
WRITTEN = {"TOPIC_PUT_NUMS orders", "TOPIC_PUT_NUMS %RETRY%billing", "SNDBCK_PUT_NUMS orders@billing"}
POPPED = {"GROUP_CK_NUMS orders@billing", "GROUP_ACK_NUMS orders@billing"}


@pytest.mark.parametrize(
    ("reading", "expected"),
    [
        (replica(), READ | WRITTEN),
        (replica(1), READ),
        (replica(version="V5_5_0"), READ | WRITTEN | POPPED),
        (replica(1, version="V5_5_0"), READ),
        (replica(version=None), READ | WRITTEN),
    ],
    ids=["4.x master", "4.x slave", "5.x master", "5.x slave", "unknown version"],
)
def test_reading_is_asked_of_every_replica_and_writing_of_masters(reading: BrokerReading, expected: set[str]) -> None:
    items = items_for(GROUPS, reading)
    assert {f"{item.stats_name} {item.stats_key}" for item in items} == expected
    assert len(items) == len(set(items))


def test_a_list_that_is_cut_off_has_everything_of_the_first_groups() -> None:
    items = items_for({"worst": ["orders"], "other": ["payments"]}, replica(), lambda _: [0])
    assert [item.consumer_group or item.topic for item in items] == [
        *("worst", "orders", "worst"),
        *("other", "payments", "other"),
        *("worst", "other"),  # latencies
    ]


def test_latencies_are_per_queue_and_bounded() -> None:
    items = items_for({"g": ["orders", "payments"]}, replica(1), lambda _: range(10))
    keys = [item.stats_key for item in items if item.stats_name == "GROUP_GET_LATENCY"]
    assert keys == [*(f"{queue_id}@orders@g" for queue_id in range(10)), *(f"{n}@payments@g" for n in range(6))]
    assert not any(
        item.stats_name == "GROUP_GET_LATENCY"
        for item in items_for(GROUPS, replica(enableDetailStat="false"), lambda _: range(4))
    )


def test_a_topic_of_many_groups_is_asked_once_and_lite_topics_never() -> None:
    items = items_for({"a": ["orders"], "b": ["orders", "%LMQ%$chat$session-1"]}, replica())
    assert [item.stats_key for item in items if item.stats_name == "TOPIC_PUT_NUMS"] == ["orders"]
    assert not any("%LMQ%" in item.stats_key for item in items)


def test_a_replicas_own_rates_have_the_clusters_name_of_its_settings() -> None:
    assert items_of_replica(replica(1, brokerClusterName="Pay@Cluster")) == [
        StatsItem("BROKER_GET_NUMS", "Pay@Cluster"),
        StatsItem("BROKER_PUT_NUMS", "Pay@Cluster"),
    ]
    assert items_of_replica(replica()) == []


def test_running_info_becomes_columns_of_the_client_and_rows_of_its_queues() -> None:
    reading = BrokerReading(
        Replica("broker-a", 0, "h:1"),
        running_info={("G_ORDER_PAY", "c1"): ClientAnswer(consumer_running_info(RUNNING_INFO), None, NOW)},
    )
    columns = running_info_columns(reading.running_info["G_ORDER_PAY", "c1"])
    assert set(columns) <= {column.name for column in CLIENT_SNAPSHOTS.columns}
    assert (columns["orderly"], columns["thread_count"], columns["max_reconsume_times"]) == (True, 20, -1)
    assert (columns["held_queue_count"], columns["locked_queue_count"], columns["cached_message_count"]) == (10, 10, 0)
    assert columns["own_subscriptions"] == ["%RETRY%G_ORDER_PAY *", "OrderPay *"]
    assert columns["consume_ok_tps"] > 0
    assert columns["pop_wait_ack_count"] is None
    rows = list(client_queue_rows("c", INTERVAL, [reading]))
    assert len(rows) == 10
    assert all(set(row) <= {column.name for column in CLIENT_QUEUE_SNAPSHOTS.columns} for row in rows)
    row = next(
        row for row in rows if (row["topic"], row["broker_name"], row["queue_id"]) == ("OrderPay", "broker-a", 0)
    )
    assert (row["commit_offset"], row["locked"], row["dropped"]) == (673, True, False)
    assert (row["consumer_group"], row["client_id"], row["read_at"]) == ("G_ORDER_PAY", "c1", NOW)
    assert row["last_lock_at"] < row["last_pull_at"] < row["last_consume_at"]


def test_a_client_that_pops_has_rows_of_what_waits_for_its_acknowledgement() -> None:
    info = consumer_running_info((BODIES / "307_5.5.1-pop.json").read_bytes())
    reading = BrokerReading(Replica("broker-a", 0, "h:1"), running_info={("G", "c"): ClientAnswer(info, None, NOW)})
    assert running_info_columns(reading.running_info["G", "c"])["pop_wait_ack_count"] == 76
    row = next(row for row in client_queue_rows("c", INTERVAL, [reading]) if row["topic"] == "tasks")
    assert (row["queue_id"], row["pop_wait_ack_count"], row["last_pop_at"] is not None) == (-1, 76, True)


def test_what_was_not_asked_is_told_apart_from_what_did_not_answer() -> None:
    assert running_info_columns(None) == {"running_info_failure": None}
    assert running_info_columns(ClientAnswer(None, "silent", None)) == {"running_info_failure": "silent"}


def test_of_a_client_that_several_brokers_were_asked_about_the_newest_info_counts() -> None:
    empty = ConsumerRunningInfo({}, (), {})
    answers = [ClientAnswer(None, "silent", None), ClientAnswer(empty, None, NOW), ClientAnswer(None, "late", None)]
    readings = [BrokerReading(Replica(f"b{number}", 0, "h:1")) for number in range(3)]
    for reading, one in zip(readings, answers, strict=True):
        reading.running_info["G", "c"] = one
    assert client_answers(readings) == {("G", "c"): answers[1]}


def test_a_sum_that_no_column_can_hold_is_unknown() -> None:
    popped = {MessageQueue("T", "b", number): PopProcessQueueInfo(2**62, None, None) for number in range(3)}
    info = ConsumerRunningInfo({}, (), {}, pop_queues=popped)
    assert running_info_columns(ClientAnswer(info, None, NOW))["pop_wait_ack_count"] is None


def test_rates_of_all_replicas_become_rows() -> None:
    window = StatsSnapshot(60, 1.0, 1.0)
    readings = [BrokerReading(Replica("broker-a", number, "h:1")) for number in (0, 1)]
    for reading in readings:
        reading.broker_stats[StatsItem("GROUP_GET_NUMS", "T@G")] = Answer(BrokerStats(window, window, window), NOW)
    rows = list(broker_stats_rows("c", INTERVAL, readings))
    assert [(row["broker_name"], row["broker_id"], row["tps"]) for row in rows] == [
        ("broker-a", 0, 1.0),
        ("broker-a", 1, 1.0),
    ]
