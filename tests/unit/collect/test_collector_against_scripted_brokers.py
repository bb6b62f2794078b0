"""One round against brokers on real sockets: what they say lands as it is, and what they do not say is unknown."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from offsetguard.collect.collector import collect_cluster
from offsetguard.collect.landing import read_manifest
from offsetguard.model.errors import SnapshotError
from offsetguard.sources.rocketmq.codes import RequestCode
from offsetguard.sources.rocketmq.header import RemotingCommand
from offsetguard.tables import QUEUE_SNAPSHOTS, TOPIC_QUEUE_SNAPSHOTS
from offsetguard_peers.scripted.broker import refuse, when
from offsetguard_peers.scripted.peer import Conversation
from offsetguard_peers.scripted.rounds import INTERVAL, Play, collect, config_for, healthy_broker


def by_queue(rows: dict[str, list[dict]], group: str = "billing") -> dict[tuple[str, str, int], dict]:
    """Return a group's rows by broker name, topic and queue id."""
    of_group = [row for row in rows[QUEUE_SNAPSHOTS.name] if row["consumer_group"] == group]
    return {(row["broker_name"], row["topic"], row["queue_id"]): row for row in of_group}


def test_offsets_of_a_group_are_those_of_the_broker_each_with_its_time() -> None:
    before = datetime.now(UTC)
    manifest, rows = collect(healthy_broker())
    row = by_queue(rows)["broker-a", "orders", 1]
    assert (row["min_offset"], row["consumer_offset"], row["pull_offset"], row["max_offset"]) == (0, 15, 18, 20)
    assert row["consumer_offset_read_at"] <= row["pull_offset_read_at"] <= row["max_offset_read_at"]
    age = timedelta(minutes=1)  # says the broker, of whatever waits
    assert before - age <= row["oldest_unconsumed_at"] <= datetime.now(UTC) - age
    assert by_queue(rows)["broker-a", "orders", 0]["oldest_unconsumed_at"] is None, "nothing waits there"
    assert manifest.complete
    assert manifest.requests.asked == manifest.requests.answered


def test_committed_offsets_are_asked_before_pull_offsets_and_those_before_max_offsets() -> None:
    """Everything is asked once; of what waits, pull offsets follow, and max offsets once more behind them."""
    broker = healthy_broker()
    collect(broker)
    offsets, pulled, ends = (
        RequestCode.GET_ALL_CONSUMER_OFFSET,
        RequestCode.GET_CONSUME_STATS,
        RequestCode.GET_TOPIC_STATS_INFO,
    )
    assert [code for code in broker.asked if code in (offsets, pulled, ends)] == [offsets, ends, pulled, ends]


def test_a_broker_before_5_1_has_no_pull_offset() -> None:
    broker = healthy_broker()
    broker.pulled = None
    _, rows = collect(broker)
    row = by_queue(rows)["broker-a", "orders", 1]
    assert (row["pull_offset"], row["pull_offset_read_at"]) == (None, None)


def test_an_online_group_has_all_read_queues_of_its_topics_and_never_committed_is_not_zero() -> None:
    broker = healthy_broker()
    broker.subscriptions = {"billing": ["orders", "refunds", "TBW102"]}
    broker.topics |= {"refunds": [(0, 3)], "TBW102": [(0, 0)]}
    broker.committed["orders", "billing"] = {0: 0}
    _, rows = collect(broker)
    offsets = {(topic, queue_id): row["consumer_offset"] for (_, topic, queue_id), row in by_queue(rows).items()}
    assert offsets == {("orders", 0): 0, ("orders", 1): None, ("refunds", 0): None}
    assert all(row["consumer_offset_read_at"] for row in by_queue(rows).values()), "seen, and not there"


def test_a_group_that_only_one_master_sees_gets_its_queues_on_every_master() -> None:
    first, second = healthy_broker("broker-a"), healthy_broker("broker-b")
    first.subscriptions = {"audit": ["orders"]}
    _, rows = collect(first, second)
    assert by_queue(rows, "audit").keys() == {(name, "orders", n) for name in ("broker-a", "broker-b") for n in (0, 1)}
    (group,) = [row for row in rows["group_snapshots"] if row["consumer_group"] == "audit"]
    assert (group["online_client_count"], group["message_model"]) == (1, "CLUSTERING")


def test_an_offline_group_has_no_client_and_one_behind_a_refusal_is_unknown() -> None:
    broker = healthy_broker()
    broker.groups = {"idle"}
    of_billing = {"consumerGroup": "billing"}
    broker.trouble = when(
        lambda one: one.ext_fields == of_billing and one.code == RequestCode.GET_CONSUMER_CONNECTION_LIST,
        refuse("no memory"),
    )
    manifest, rows = collect(broker)
    online = {row["consumer_group"]: row["online_client_count"] for row in rows["group_snapshots"]}
    assert (online["idle"], online["billing"]) == (0, None)
    (gap,) = manifest.gaps
    assert gap.what == "GET_CONSUMER_CONNECTION_LIST(consumerGroup=billing)"
    assert "no memory" in gap.reason


def test_broadcasting_groups_and_keys_and_rocketmqs_own_groups_have_no_queue_rows() -> None:
    broker = healthy_broker()
    broker.subscriptions = {"shouter": ["orders"]}
    broker.message_model = {"shouter": "BROADCASTING"}
    broker.committed |= {("orders", "shouter"): {0: 4}, ("orders", "CID_RMQ_SYS_TRANS"): {0: 1}}
    broker.raw_offset_keys = {"orders@shouter@broadcast": {0: 5}, "%LMQ%orders$1@billing": {0: 9}}
    _, rows = collect(broker)
    assert {(row["consumer_group"], row["topic"]) for row in rows[QUEUE_SNAPSHOTS.name]} == {("billing", "orders")}
    system = {row["consumer_group"]: row["system_group"] for row in rows["group_snapshots"]}
    assert (system["TOOLS_CONSUMER"], system["billing"]) == (True, False)


def test_committed_offsets_of_queues_that_are_gone_are_asked_and_have_no_max_offset() -> None:
    broker = healthy_broker()
    broker.committed |= {("orders", "billing"): {0: 10, 7: 3}, ("deleted", "billing"): {0: 5}}
    manifest, rows = collect(broker)
    for key in (("broker-a", "orders", 7), ("broker-a", "deleted", 0)):
        assert by_queue(rows)[key]["max_offset"] is None
        assert by_queue(rows)[key]["max_offset_read_at"] is not None
    assert manifest.complete, "a topic that does not exist is an answer"


def test_read_queues_beyond_the_write_queues_are_asked_one_by_one() -> None:
    broker = healthy_broker()
    broker.read_queue_nums = {"orders": 4}
    _, rows = collect(broker)
    seen = {row["queue_id"]: row["max_offset"] for row in rows[TOPIC_QUEUE_SNAPSHOTS.name] if row["topic"] == "orders"}
    assert seen == {0: 10, 1: 20, 2: 0, 3: 0}


def test_an_order_that_only_our_reading_broke_is_read_again_and_does_not_land() -> None:
    """The group committed and retention moved on between our readings of consumer and min offset."""
    broker = healthy_broker()

    async def move_on(conversation: Conversation, request: RemotingCommand) -> bool:
        if request.code == RequestCode.GET_CONSUME_STATS:
            broker.topics["orders"] = [(100, 210), (100, 220)]
            broker.committed["orders", "billing"] = {0: 205, 1: 215}
            broker.pulled = {("orders", "billing"): {0: 210, 1: 220}}
        return False

    broker.trouble = move_on
    _, rows = collect(broker)
    row = by_queue(rows)["broker-a", "orders", 0]
    assert (row["min_offset"], row["consumer_offset"], row["pull_offset"], row["max_offset"]) == (100, 205, 210, 210)


def test_an_order_that_is_really_broken_lands_as_it_is() -> None:
    broker = healthy_broker()
    broker.committed["orders", "billing"] = {0: 1_010, 1: 15}
    broker.topics["orders"] = [(0, 10), (18, 20)]
    _, rows = collect(broker)
    assert by_queue(rows)["broker-a", "orders", 0]["consumer_offset"] == 1_010
    lost = by_queue(rows)["broker-a", "orders", 1]
    assert (lost["min_offset"], lost["consumer_offset"]) == (18, 15)
    assert lost["oldest_unconsumed_at"] == datetime(2026, 11, 20, 22, 45, 30, 52_000, tzinfo=UTC), "the oldest one kept"


def test_a_landed_interval_is_not_asked_for_again(play: Play) -> None:
    rounds = play(healthy_broker())
    first = rounds.run()
    second = rounds.run(0, name_servers=["127.0.0.1:9"])
    assert first == second == read_manifest(rounds.folder)


@pytest.mark.parametrize(
    ("started_at", "words"),
    [
        (INTERVAL.end + timedelta(minutes=2, seconds=1), "cannot look into the past"),
        (INTERVAL.start - timedelta(minutes=6, seconds=1), "lies in the future"),
    ],
)
def test_only_the_present_can_be_collected(tmp_path: Path, started_at: datetime, words: str) -> None:
    with pytest.raises(SnapshotError, match=words):
        asyncio.run(collect_cluster("main", config_for("127.0.0.1:9"), INTERVAL, tmp_path, started_at=started_at))


@pytest.mark.parametrize(
    ("host", "shared"),
    [(timedelta(minutes=10), timedelta(0)), (timedelta(minutes=-10), timedelta(minutes=-5)), (timedelta(0), None)],
    ids=["a host that is ahead", "a scheduler that is ahead, and a host that is behind", "no database"],
)
def test_a_minute_is_collected_where_hosts_are_minutes_apart(
    tmp_path: Path, host: timedelta, shared: timedelta | None
) -> None:
    """Whichever host gets the task: the minutes are made by the clock of Airflow's database."""
    manifest = asyncio.run(
        collect_cluster(
            "main",
            config_for("127.0.0.1:9"),
            INTERVAL,
            tmp_path,
            started_at=INTERVAL.start + host,
            shared_now=None if shared is None else INTERVAL.start + shared,
        )
    )
    assert manifest.gaps, "nobody is there, and it was asked for"


def test_declared_lock_settings_stand_beside_the_group() -> None:
    broker = healthy_broker()
    broker.groups = {"orderly-1"}
    _, rows = collect(broker)
    names = ("declared_orderly", "lock_interval_ms", "lock_max_live_time_ms")
    settings = {row["consumer_group"]: [row[name] for name in names] for row in rows["group_snapshots"]}
    assert settings["orderly-1"] == [True, 30_000, 60_000]
    assert not settings["billing"][0]
