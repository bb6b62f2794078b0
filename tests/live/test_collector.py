"""The collector against real brokers of both lines: its figures are those that were produced and committed."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from offsetguard.collect.collector import collect_cluster
from offsetguard.collect.landing import Row
from offsetguard.collect.manifest import Manifest
from offsetguard.facts.rounds import facts_from_snapshot
from offsetguard.model.errors import BrokerRefused
from offsetguard.model.intervals import Interval
from offsetguard.model.offsets import OffsetOrderViolation, offsets_of
from offsetguard.sources.rocketmq.header import Credentials
from offsetguard.sources.rocketmq.requests import PullMessage
from offsetguard.tables import BROKER_SNAPSHOTS, OFFSET_MOVES, QUEUE_SNAPSHOTS, TOPIC_QUEUE_SNAPSHOTS
from offsetguard_peers.collecting import (
    Rows,
    as_rows,
    collect_snapshot,
    config_of,
    group_row,
    one_round,
    round_that_has_seen,
    running_infos,
)
from offsetguard_peers.processes import run_command
from offsetguard_peers.rocketmq import security
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.clients import Producer, produce, running_consumer
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.rocketmq.staging import commit_beyond_end, stage_overtaken_by_retention
from offsetguard_peers.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.slow]


@pytest.fixture(params=["4.9.7", "5.5.0"])
def cluster_to_break(request: pytest.FixtureRequest) -> Iterator[RocketMQCluster]:
    """Two masters that a test may kill."""
    with RocketMQCluster(request.param, masters=2) as own:
        yield own


def queues_of(rows: Rows, group: str, topic: str) -> dict[int, Row]:
    return {
        row["queue_id"]: row
        for row in rows[QUEUE_SNAPSHOTS.name]
        if (row["consumer_group"], row["topic"]) == (group, topic)
    }


def test_figures_are_those_that_were_produced_and_committed(cluster: RocketMQCluster) -> None:
    admin = Admin(cluster)
    admin.create_topic("FigureTopic", queues=4)
    admin.create_group("figure-group")
    for queue_id in range(4):
        produce(cluster, "FigureTopic", 10 + queue_id, queue_id=queue_id)
    for queue_id, offset in ((0, 10), (1, 4), (2, 0)):
        admin.commit("figure-group", "FigureTopic", queue_id, offset)
    before = datetime.now(UTC)
    manifest, rows = one_round(cluster)
    queues = queues_of(rows, "figure-group", "FigureTopic")
    assert {
        queue_id: (row["consumer_offset"], row["min_offset"], row["max_offset"]) for queue_id, row in queues.items()
    } == {
        0: (10, 0, 10),
        1: (4, 0, 11),
        2: (0, 0, 12),
    }, "queue 3 was never committed and nobody is online: no row, and no 0"
    assert queues[0]["oldest_unconsumed_at"] is None
    for queue_id in (1, 2):
        # the broker tells an age, which is as old as its answer when we read it: at most the time-out
        assert abs(before - queues[queue_id]["oldest_unconsumed_at"]) < timedelta(seconds=60)
    kept = {
        row["queue_id"]: row["max_offset"] for row in rows[TOPIC_QUEUE_SNAPSHOTS.name] if row["topic"] == "FigureTopic"
    }
    assert kept == {0: 10, 1: 11, 2: 12, 3: 13}
    assert manifest.complete, manifest.gaps
    brokers = {row["broker_id"]: row["answered"] for row in rows[BROKER_SNAPSHOTS.name]}
    assert brokers[0]
    assert {row["broker_id"]: row["role"] for row in rows[BROKER_SNAPSHOTS.name]} == {0: "ASYNC_MASTER", 1: "SLAVE"}
    assert all(brokers.values()), "slaves too, once they have registered"


def test_never_committed_is_unknown_and_not_zero_while_the_group_is_online(cluster: RocketMQCluster) -> None:
    admin = Admin(cluster)
    admin.create_topic("SilentTopic", queues=2)
    produce(cluster, "SilentTopic", 6)
    # the listener never finishes, so nothing is committed
    with running_consumer(cluster, "silent-group", "SilentTopic", handling_ms=600_000, commit_every_ms=600_000):
        _, rows = round_that_has_seen(cluster, lambda rows: group_row(rows, "silent-group").get("online_client_count"))
    queues = queues_of(rows, "silent-group", "SilentTopic")
    assert queues.keys() == {0, 1}
    group = group_row(rows, "silent-group")
    assert (group["online_client_count"], group["message_model"], group["consume_type"]) == (
        1,
        "CLUSTERING",
        "CONSUME_PASSIVELY",
    )
    assert all(row["consumer_offset"] in (None, 0) for row in queues.values())
    assert {row["max_offset"] for row in queues.values()} == {3}


def test_a_group_that_hangs_is_asked_in_detail_on_every_replica_and_a_healthy_one_is_not(
    cluster: RocketMQCluster, tmp_path: Path
) -> None:
    admin = Admin(cluster)
    admin.create_topic("HangingTopic", queues=2)
    admin.create_group("done-group")
    produce(cluster, "HangingTopic", 6)
    for queue_id in range(2):
        admin.commit("done-group", "HangingTopic", queue_id, 3)
    with running_consumer(cluster, "hanging-group", "HangingTopic", handling_ms=600_000):
        _, rows = round_that_has_seen(cluster, lambda rows: running_infos(rows, "hanging-group"))
        ended = run_command("collect", "--namesrv", cluster.namesrv, "--out", tmp_path)
    groups = {row["consumer_group"]: row for row in rows["group_snapshots"]}
    assert groups["hanging-group"]["in_detail"]
    assert groups["hanging-group"]["suspect_reason"] in {"waiting", "offsets_unknown"}
    assert (groups["done-group"]["in_detail"], groups["done-group"]["suspect_reason"]) == (False, None)
    asked = {
        row["broker_id"]
        for row in rows["broker_stats"]
        if (row["stats_name"], row["consumer_group"]) == ("GROUP_GET_NUMS", "hanging-group")
    }
    assert asked == {0, 1}, "the master and its slave"
    (client,) = running_infos(rows, "hanging-group")
    assert client["orderly"] is False
    assert client["own_subscriptions"] == ["%RETRY%hanging-group *", "HangingTopic *"]
    line = json.loads(ended.stdout)
    assert ended.returncode == 0, ended.stderr
    assert line["rows"]["queue_snapshots"] > 0
    assert line["complete"]


def test_a_broadcasting_group_gets_no_lag(cluster: RocketMQCluster) -> None:
    Admin(cluster).create_topic("ShoutTopic", queues=2)
    produce(cluster, "ShoutTopic", 6)
    with running_consumer(cluster, "shout-group", "ShoutTopic", broadcasting=True) as consumers:
        consumers.wait_until_consumed(6)
        _, rows = round_that_has_seen(cluster, lambda rows: group_row(rows, "shout-group").get("message_model"))
    assert queues_of(rows, "shout-group", "ShoutTopic") == {}
    assert group_row(rows, "shout-group")["message_model"] == "BROADCASTING"


def test_a_group_beyond_the_end_breaks_the_order_in_every_round(cluster: RocketMQCluster) -> None:
    Admin(cluster).create_topic("BeyondTopic", queues=2)
    produce(cluster, "BeyondTopic", 6)
    commit_beyond_end(cluster, "beyond-group", "BeyondTopic", by=1_000)
    manifest, rows = one_round(cluster)
    now = datetime.now(UTC)
    facts = facts_from_snapshot(manifest, rows, config_of(cluster), Interval.containing(now))
    broken = [queue for queue in facts.queues if queue.consumer_group == "beyond-group"]
    assert [queue.offsets.lag for queue in broken] == [-1_000, -1_000]
    assert all(OffsetOrderViolation.CONSUMER_ABOVE_MAX.value in queue.violated_invariants for queue in broken)


def test_a_busy_healthy_group_never_breaks_the_order(cluster: RocketMQCluster) -> None:
    Admin(cluster).create_topic("BusyTopic", queues=8)
    producer = Producer(cluster)
    with running_consumer(cluster, "busy-group", "BusyTopic", commit_every_ms=50) as consumers:
        order = producer.order("BusyTopic", 6_000, rate_per_s=600)
        consumers.wait_until_consumed(100)
        seen = 0
        for _ in range(20):
            _, rows = one_round(cluster)
            for row in queues_of(rows, "busy-group", "BusyTopic").values():
                assert offsets_of(row).order_violations() == (), row
                seen += row["consumer_offset"] is not None
        producer.answer(order)
        consumers.wait_until_consumed(6_000)
    assert seen >= 100


def test_an_offset_move_is_read_once_with_its_figures(cluster: RocketMQCluster, tmp_path: Path) -> None:
    """4.x brokers write an event when a client asks for an offset that the queue does not have; 5.x write none."""
    admin = Admin(cluster)
    admin.create_topic("MovedTopic", queues=1)
    produce(cluster, "MovedTopic", 5)
    start = datetime.now(UTC)
    events = admin.max_offset("OFFSET_MOVED_EVENT", 0)
    with suppress(BrokerRefused):
        admin.read(
            cluster.masters[0].address,
            PullMessage(topic="MovedTopic", queue_id=0, queue_offset=99, consumer_group="moved-group"),
        )
    if cluster.version.startswith("4."):  # a broker stores a message before its queue shows it
        wait_until(lambda: admin.max_offset("OFFSET_MOVED_EVENT", 0) > events, "the event of the moved offset")
    config, interval = config_of(cluster), Interval.containing(start)

    async def two_rounds() -> list[dict[str, int]]:
        counts = []
        for one in (interval, Interval(interval.end)):
            manifest = await collect_cluster("main", config, one, tmp_path, started_at=one.end)
            counts.append(dict(manifest.row_counts))
        return counts

    first, second = asyncio.run(two_rounds())
    _, rows = one_round(cluster)
    mine = [row for row in rows[OFFSET_MOVES.name] if row["consumer_group"] == "moved-group"]
    if cluster.version.startswith("4."):
        (move,) = mine
        assert (move["topic"], move["requested_offset"], move["corrected_offset"]) == ("MovedTopic", 99, 5)
        assert move["moved_at"] >= start - timedelta(seconds=1)
        assert first[OFFSET_MOVES.name] >= 1
    else:
        assert mine == []
    assert second[OFFSET_MOVES.name] == 0, "the second round goes on where the first ended"


def test_a_group_overtaken_by_retention_and_a_broker_killed_in_the_middle(cluster_to_break: RocketMQCluster) -> None:
    cluster = cluster_to_break
    stage_overtaken_by_retention(cluster, "overtaken-group", "OvertakenTopic", queues=1)
    manifest, rows = one_round(cluster)
    lost = queues_of(rows, "overtaken-group", "OvertakenTopic")[0]
    violated = offsets_of(lost).order_violations()
    assert OffsetOrderViolation.CONSUMER_BELOW_MIN in violated
    assert offsets_of(lost).lost == lost["min_offset"] - lost["consumer_offset"] > 0
    assert lost["last_timestamp"] is None, "the last consumed message is deleted: unknown, not 1970"
    assert lost["oldest_unconsumed_at"] is not None, "the oldest message that is kept"
    assert manifest.complete, manifest.gaps

    admin = Admin(cluster)
    for number in range(300):
        admin.create_group(f"filler-{number}")

    async def kill_during_collection() -> tuple[Manifest, Rows]:
        now = datetime.now(UTC)
        interval = Interval.containing(now)
        process_id = cluster.broker("broker-b").pid
        assert process_id is not None
        os.kill(process_id, signal.SIGSTOP)  # else it may be done before it is killed
        collecting = asyncio.create_task(collect_snapshot("main", config_of(cluster), interval, started_at=now))
        await asyncio.sleep(0.2)
        await asyncio.to_thread(cluster.broker("broker-b").kill)
        manifest, tables = await collecting
        return manifest, as_rows(tables)

    manifest, rows = asyncio.run(kill_during_collection())
    assert not manifest.complete
    assert {gap.broker_name for gap in manifest.gaps} == {"broker-b"}
    assert manifest.unseen_broker_names == ("broker-b",)
    assert {row["broker_name"] for row in rows[QUEUE_SNAPSHOTS.name]} == {"broker-a"}


def test_a_cluster_that_asks_for_a_login_names_the_connection_and_works_with_it() -> None:
    with RocketMQCluster("4.9.7", acl=True) as cluster:
        logins = None, Credentials(security.ADMIN.access_key, "wrong-secret-12345"), security.ADMIN
        refused, wrong, admitted = (
            one_round(cluster, credentials=login, connection="rocketmq_main")[0] for login in logins
        )
    for manifest in (refused, wrong):
        assert manifest.unseen_broker_names == ("broker-a",)
        (login,) = [gap for gap in manifest.gaps if not gap.what.endswith("not sent")]
        assert "Airflow connection 'rocketmq_main'" in login.reason
    assert admitted.complete, admitted.gaps
