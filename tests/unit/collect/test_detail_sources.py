"""Running info and rates: who is asked what, whose failure it is, and which rows come of it."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from offsetguard.collect.broker_reading import FAR_BYTES, BrokerReading, ClientAnswer, StatsItem
from offsetguard.collect.broker_rows import broker_stats_rows
from offsetguard.collect.details import IN_FLIGHT, items_for, items_of_replica, read_broker_stats, read_running_info
from offsetguard.collect.earlier_round import EarlierFigures
from offsetguard.collect.manifest import RequestLedger
from offsetguard.collect.read_broker import read_replication
from offsetguard.collect.replica import Replica, ReplicaLink
from offsetguard.collect.snapshot_rows import client_answers, client_queue_rows, running_info_columns
from offsetguard.model.intervals import Interval
from offsetguard.model.offsets import MessageQueue
from offsetguard.sources.rocketmq import consumers
from offsetguard.sources.rocketmq.brokers import BrokerRuntimeInfo
from offsetguard.sources.rocketmq.client import RocketMQClient
from offsetguard.sources.rocketmq.codes import RequestCode
from offsetguard.sources.rocketmq.header import RemotingCommand
from offsetguard.sources.rocketmq.requests import GetBrokerConfig
from offsetguard.tables import BROKER_STATS, CLIENT_QUEUE_SNAPSHOTS, CLIENT_SNAPSHOTS
from offsetguard_peers.scripted.peer import PATIENT_MS, QUICK_MS, Conversation
from offsetguard_peers.scripted.peer import ask as ask_peer

BODIES = Path(__file__).parents[1] / "sources" / "rocketmq" / "bodies"
RUNNING_INFO = (BODIES / "307_4.9.8.json").read_bytes()
STATS = (BODIES / "315_5.3.3.json").read_bytes()
NOW = datetime(2026, 11, 21, 8, tzinfo=UTC)
INTERVAL = Interval(NOW)


def replica(broker_id: int = 0, version: str | None = "V4_9_7", **settings: str) -> BrokerReading:
    runtime = BrokerRuntimeInfo({"brokerVersionDesc": version}) if version else None
    return BrokerReading(Replica("broker-a", broker_id, "h:1"), runtime=runtime, settings=settings)


def ask(
    answer: Callable[[Conversation, RemotingCommand], None],
    read: Callable[[ReplicaLink, BrokerReading], Awaitable[None]],
    *,
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

    filled, ledger = reading or replica(), RequestLedger()

    async def client_does(client: RocketMQClient, address: str) -> ReplicaLink:
        link = ReplicaLink(client, Replica("broker-a", 0, address), ledger, "log in")
        await read(link, filled)
        assert await link.ask(GetBrokerConfig()) is not None, "the replica must not have been given up"
        return link

    link, _ = ask_peer(play, client_does, timeout_ms=timeout_ms)
    return filled, link, ledger


def read_clients(*clients: str) -> Callable[[ReplicaLink, BrokerReading], Awaitable[None]]:
    return lambda link, reading: read_running_info(link, reading, [("billing", client) for client in clients])


def test_a_slave_that_is_far_from_its_master_is_asked_when_it_read_from_it_and_need_not_say() -> None:
    said = b'{"master":false,"haClientRuntimeInfo":{"activated":false,"lastReadTimestamp":1795250340000}}'
    asked: list[int] = []

    def read(code: int, body: bytes, *, own_end: int) -> tuple[datetime | None, int]:
        ends = (FAR_BYTES, own_end)
        master, slave = (BrokerRuntimeInfo({"commitLogMaxOffset": str(end)}) for end in ends)

        def answer(conversation: Conversation, request: RemotingCommand) -> None:
            asked.append(request.code)
            conversation.answer(request, code, body=body)

        reading = BrokerReading(Replica("broker-a", 1, "h:1"), runtime=slave)
        of_master = BrokerReading(Replica("broker-a", 0, "h:2"), runtime=master)
        filled, _, ledger = ask(answer, lambda link, one: read_replication(link, one, of_master), reading=reading)
        return filled.replicated_at, ledger.gap_count

    assert read(0, said, own_end=0) == (datetime(2026, 11, 21, 8, 39, tzinfo=UTC), 0)
    refused = [read(code, b"", own_end=0) for code in (1, 3, 16)]  # 4.x does not know it; no right on it
    assert refused == [(None, 0)] * 3
    assert read(0, b'{"master":true,"haClientRuntimeInfo":{}}', own_end=0) == (None, 0)
    assert asked == [RequestCode.GET_BROKER_HA_STATUS] * 5
    assert read(0, said, own_end=1) == (None, 0), "near"
    assert len(asked) == 5


def test_a_client_that_does_not_answer_costs_its_own_time_out_and_is_no_gap_of_the_broker() -> None:
    answers = {
        "gone": (1, "The Consumer <billing> <gone> not online", b""),
        "hangs": (207, "consumer <billing> <hangs> timeout", b""),
        "mad": (0, "not set any response code", b"[]"),
        "one": (0, "not set any response code", RUNNING_INFO),
        "two": (0, "not set any response code", RUNNING_INFO),
    }

    def answer(conversation: Conversation, request: RemotingCommand) -> None:
        if (client := request.ext_fields["clientId"]) != "silent":
            code, remark, body = answers[client]
            conversation.answer(request, code, remark, body=body)

    clients = read_clients("one", "silent", "gone", "hangs", "mad", "two")
    reading, link, ledger = ask(answer, clients, timeout_ms=QUICK_MS)
    told = {client: one for (_, client), one in reading.running_info.items()}
    failures = {
        "silent": "did not answer",
        "gone": "not online",
        "hangs": "did not answer",
        "mad": "expected an object",
    }
    for client, one in told.items():
        assert (one.info is None) == (client in failures)
        assert failures.get(client, "") in (one.failure or "")
    assert (ledger.gap_count, link.failure) == (0, None)
    assert ledger.counts.asked == 7
    assert (ledger.counts.timed_out, ledger.counts.refused, ledger.counts.undecodable) == (1, 2, 1)


def test_where_clients_hang_the_brokers_admin_threads_are_spared() -> None:
    asked: list[str] = []
    clients = [f"silent-{number}" for number in range(20)]
    reading, _, ledger = ask(
        lambda _, request: asked.append(request.ext_fields["clientId"]), read_clients(*clients), timeout_ms=QUICK_MS
    )
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

    languages = {"java": "JAVA", "go": "GO", "rust": "RUST", "h@12@0@3jc5x8": "JAVA"}
    clients = tuple(consumers.Connection(client_id, "h:1", language, 479) for client_id, language in languages.items())
    reading = replica()
    reading.connections["billing"] = consumers.ConsumerConnections(clients, "CONSUME_PASSIVELY", "CLUSTERING", {})
    unlisted = ("192.0.2.2@27907#1888406890671", "ip@1@unit@STREAM", "unlisted")
    ask(answer, read_clients(*languages, *unlisted), reading=reading)
    assert sorted(asked) == sorted(["java", "go", *unlisted])


def test_nothing_counted_is_an_answer_and_a_failure_is_a_gap() -> None:
    def answer(conversation: Conversation, request: RemotingCommand) -> None:
        key = request.ext_fields["statsKey"]
        remarks = {
            "fresh@G": f"The stats <GROUP_GET_NUMS> <{key}> not exist",
            "broken@G": "java.lang.NullPointerException",
        }
        code = 1 if key in remarks else 0
        conversation.answer(request, code, remarks.get(key), body=b"" if code else STATS)

    items = [StatsItem("GROUP_GET_NUMS", f"{topic}@G", topic, "G") for topic in ("counted", "fresh", "broken")]
    reading, _, ledger = ask(answer, lambda link, reading: read_broker_stats(link, reading, items))
    assert [gap.what for gap in ledger.gaps] == ["VIEW_BROKER_STATS_DATA(statsName=GROUP_GET_NUMS, statsKey=broken@G)"]
    counted, fresh = broker_stats_rows("c", INTERVAL, [reading])
    assert set(counted) == set(fresh) == {column.name for column in BROKER_STATS.columns}
    figures = ("counted", "tps", "minute_sum", "average")
    assert [counted[name] for name in figures] == [True, 4.883333333333334, 293, 1.0]
    assert [fresh[name] for name in figures] == [False, 0.0, 0, 0.0]
    assert (fresh["topic"], fresh["consumer_group"], fresh["queue_id"]) == ("fresh", "G", None)
    assert (counted["counting_since"], fresh["counting_since"]) == (counted["read_at"], None)
    since = counted["read_at"] - timedelta(minutes=3)
    before = EarlierFigures(counting_since={("broker-a", 0, "GROUP_GET_NUMS", "counted@G"): since})
    counted, fresh = broker_stats_rows("c", INTERVAL, [reading], before)
    assert (counted["counting_since"], fresh["counting_since"]) == (since, None)


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
    assert sorted(f"{item.stats_name} {item.stats_key}" for item in items) == sorted(expected)


def test_a_list_that_is_cut_off_has_everything_of_the_first_groups() -> None:
    items = items_for({"worst": ["orders"], "other": ["payments"]}, replica(), lambda _: [0])
    assert [item.consumer_group or item.topic for item in items] == [
        *("worst", "orders", "worst"),
        *("other", "payments", "other"),
        *("worst", "other"),  # latencies
    ]


def test_latencies_are_per_queue_and_bounded() -> None:
    def latencies(**settings: str) -> list[str]:
        items = items_for({"g": ["orders", "payments"]}, replica(1, **settings), lambda _: range(10))
        return [item.stats_key for item in items if item.stats_name == "GROUP_GET_LATENCY"]

    assert latencies() == [*(f"{n}@orders@g" for n in range(10)), *(f"{n}@payments@g" for n in range(6))]
    assert latencies(enableDetailStat="false") == []


def test_a_topic_of_many_groups_is_asked_once_and_lite_topics_never() -> None:
    items = items_for({"a": ["orders"], "b": ["orders", "%LMQ%$chat$session-1"]}, replica())
    assert [item.stats_key for item in items if item.stats_name == "TOPIC_PUT_NUMS"] == ["orders"]
    assert not any("%LMQ%" in item.stats_key for item in items)


def test_a_replicas_own_rates_have_the_clusters_name_of_its_settings() -> None:
    items = items_of_replica(replica(1, brokerClusterName="Pay@Cluster"))
    assert items == [StatsItem("BROKER_GET_NUMS", "Pay@Cluster"), StatsItem("BROKER_PUT_NUMS", "Pay@Cluster")]
    assert items_of_replica(replica()) == []


def test_running_info_becomes_columns_of_the_client_and_rows_of_its_queues() -> None:
    reading, answer = replica(), ClientAnswer(consumers.consumer_running_info(RUNNING_INFO), None, NOW)
    reading.running_info["G_ORDER_PAY", "c1"] = answer
    columns = running_info_columns(answer)
    assert set(columns) <= {column.name for column in CLIENT_SNAPSHOTS.columns}
    assert (columns["orderly"], columns["thread_count"], columns["max_reconsume_times"]) == (True, 20, -1)
    assert (columns["held_queue_count"], columns["locked_queue_count"], columns["cached_message_count"]) == (10, 10, 0)
    assert columns["own_subscriptions"] == ["%RETRY%G_ORDER_PAY *", "OrderPay *"]
    assert columns["consume_ok_tps"] > 0
    assert columns["pop_wait_ack_count"] is None
    rows = list(client_queue_rows("c", INTERVAL, [reading]))
    assert len(rows) == 10
    assert all(set(row) <= {column.name for column in CLIENT_QUEUE_SNAPSHOTS.columns} for row in rows)
    queues = {(row["topic"], row["broker_name"], row["queue_id"]): row for row in rows}
    row = queues["OrderPay", "broker-a", 0]
    assert (row["commit_offset"], row["locked"], row["dropped"]) == (673, True, False)
    assert (row["consumer_group"], row["client_id"], row["read_at"]) == ("G_ORDER_PAY", "c1", NOW)
    assert row["last_lock_at"] < row["last_pull_at"] < row["last_consume_at"]


def test_a_client_that_pops_has_rows_of_what_waits_for_its_acknowledgement() -> None:
    reading = replica()
    info = consumers.consumer_running_info((BODIES / "307_5.5.1-pop.json").read_bytes())
    reading.running_info["G", "c"] = ClientAnswer(info, None, NOW)
    assert running_info_columns(reading.running_info["G", "c"])["pop_wait_ack_count"] == 76
    row = next(row for row in client_queue_rows("c", INTERVAL, [reading]) if row["topic"] == "tasks")
    assert (row["queue_id"], row["pop_wait_ack_count"], row["last_pop_at"] is not None) == (-1, 76, True)


def test_what_was_not_asked_is_told_apart_from_what_did_not_answer() -> None:
    assert running_info_columns(None) == {"running_info_failure": None}
    assert running_info_columns(ClientAnswer(None, "silent", None)) == {"running_info_failure": "silent"}


def test_of_a_client_that_several_brokers_were_asked_about_the_newest_info_counts() -> None:
    info = ClientAnswer(consumers.ConsumerRunningInfo({}, (), {}), None, NOW)
    readings = [replica(), replica(), replica()]
    answers = (ClientAnswer(None, "silent", None), info, ClientAnswer(None, "late", None))
    for reading, answer in zip(readings, answers, strict=True):
        reading.running_info["G", "c"] = answer
    assert client_answers(readings) == {("G", "c"): info}


def test_a_sum_that_no_column_can_hold_is_unknown() -> None:
    popped = {MessageQueue("T", "b", number): consumers.PopProcessQueueInfo(2**62, None, None) for number in range(3)}
    info = consumers.ConsumerRunningInfo({}, (), {}, pop_queues=popped)
    assert running_info_columns(ClientAnswer(info, None, NOW))["pop_wait_ack_count"] is None


def test_a_pull_consumer_that_lists_no_queues_may_hold_some() -> None:
    """4.9.7, seen live: each of two listed none while they consumed four; idle clients would be counted of that."""
    counts = ("held_queue_count", "locked_queue_count", "cached_message_count", "cached_message_mib")
    for consume_type, expected in (("CONSUME_ACTIVELY", None), ("CONSUME_PASSIVELY", 0)):
        info = consumers.ConsumerRunningInfo({"PROP_CONSUME_TYPE": consume_type}, (), {})
        columns = running_info_columns(ClientAnswer(info, None, NOW))
        assert [columns.get(name) for name in counts] == [expected] * 4
        assert columns["running_info_read_at"] == NOW
