"""Whole rounds with POP groups and lite topics, against brokers and a proxy on real sockets."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from offsetguard.collect.collector import collect_cluster
from offsetguard.collect.landing import Row, read_table, snapshot_folder
from offsetguard.collect.manifest import Manifest
from offsetguard.config import Config
from offsetguard.facts.rounds import facts_from_snapshot
from offsetguard.judge.rules import consumer_offline
from offsetguard.judge.rules.accumulation import find
from offsetguard.judge.windows.windows import judge_queues
from offsetguard.model.intervals import Interval
from offsetguard.sources.rocketmq.codes import RequestCode
from offsetguard.sources.rocketmq.header import RemotingCommand
from offsetguard.tables import GROUP_SNAPSHOTS, LANDED, QUEUE_SNAPSHOTS
from offsetguard_peers.configs import one_team
from offsetguard_peers.scripted.broker import ScriptedBroker, scripted_cluster
from offsetguard_peers.scripted.peer import Conversation, ScriptedPeer

INTERVAL = Interval.containing(datetime(2026, 11, 21, 10, 39, 30, tzinfo=UTC))
NEXT = Interval(INTERVAL.start + timedelta(minutes=1))
RUNTIME = b'{"table":{"brokerVersionDesc":"V5_5_0","bootTimestamp":"1795214730000","earliestMessageTimeStamp":"-1"}}'
SEVEN_TOPICS = {f"%LMQ%$chat$session-{number}": {0: 3} for number in range(7)}


def config_for(name_server: str, **settings: Any) -> Config:
    described = {"name_servers": [name_server], "request_timeout_ms": 20_000, **settings}
    return one_team({"main": described}, groups=[{"match": "*", "max_lag_messages": 1}])


def new_broker(settings: bytes = b"brokerClusterName=DefaultCluster\n", **others: Any) -> ScriptedBroker:
    """Make a broker of 5.5.0."""

    async def as_5_5_0(conversation: Conversation, request: RemotingCommand) -> bool:
        bodies = {RequestCode.GET_BROKER_RUNTIME_INFO: RUNTIME, RequestCode.GET_BROKER_CONFIG: settings}
        if request.code not in bodies:
            return False
        conversation.answer(request, body=bodies[RequestCode(request.code)])
        return True

    return ScriptedBroker("broker-a", trouble=as_5_5_0, **others)


def popping_broker(**others: Any) -> ScriptedBroker:
    topics = {"jobs": [(0, 25), (0, 25)], "%RETRY%workers_jobs": [(0, 5)]}
    return new_broker(topics=topics, committed={("jobs", "workers"): {0: 20, 1: 25}}, **others)


async def round_of(
    broker: ScriptedBroker, folder: Path, interval: Interval = INTERVAL, **settings: Any
) -> tuple[Manifest, Config]:
    async with scripted_cluster(broker) as (name_server, _):
        config = config_for(name_server, **settings)
        return await collect_cluster("main", config, interval, folder, started_at=interval.end), config


def landed(folder: Path, interval: Interval = INTERVAL) -> dict[str, list[Row]]:
    return {table.name: read_table(snapshot_folder(folder, "main", interval), table).to_pylist() for table in LANDED}


def group_row(folder: Path, group: str, interval: Interval = INTERVAL) -> Row:
    (row,) = (row for row in landed(folder, interval)[GROUP_SNAPSHOTS.name] if row["consumer_group"] == group)
    return row


def test_statistics_of_a_suspect_tell_that_it_pops_and_nobody_calls_it_offline(tmp_path: Path) -> None:
    broker = popping_broker(stats={("GROUP_CK_NUMS", "jobs@workers"): 0.0})
    manifest, config = asyncio.run(round_of(broker, tmp_path))
    row = group_row(tmp_path, "workers")
    assert (row["consumption"], row["consumption_evidence"]) == ("pop", "pop_statistics")
    assert (row["pop_available"], row["pop_inflight"], row["online_client_count"]) == (5 + 5, None, None)
    rows = landed(tmp_path)
    assert {queue["pull_offset"] for queue in rows[QUEUE_SNAPSHOTS.name]} == {None}
    (finding,) = find(facts_from_snapshot(manifest, rows, config, INTERVAL), config)
    assert (finding.variant, finding.figures["inflight"]) == ("clients_unknown", None)


def test_a_suspect_that_never_popped_may_be_called_offline(tmp_path: Path) -> None:
    manifest, config = asyncio.run(round_of(popping_broker(), tmp_path))
    row = group_row(tmp_path, "workers")
    assert (row["consumption"], row["online_client_count"]) == (None, 0)
    facts = judge_queues(facts_from_snapshot(manifest, landed(tmp_path), config, INTERVAL), config)
    (finding,) = consumer_offline.find(facts, config)
    assert finding.consumer_group == "workers"


def test_a_suspect_for_whose_statistics_there_was_no_place_is_not_called_offline(tmp_path: Path) -> None:
    nobody = {"detail_groups": 0, "share_rounds": 1_000_000_000}
    asyncio.run(round_of(popping_broker(), tmp_path, collection=nobody))
    row = group_row(tmp_path, "workers")
    assert (row["consumption"], row["online_client_count"], row["in_detail"]) == (None, None, False)


def test_what_was_recognised_is_remembered_and_asked_about_in_detail_although_nothing_waits(tmp_path: Path) -> None:
    broker = popping_broker(stats={("GROUP_CK_NUMS", "jobs@workers"): 0.0})
    asyncio.run(round_of(broker, tmp_path))
    broker.committed[("jobs", "workers")] = {0: 25, 1: 25}  # everything is handed out
    broker.committed[("%RETRY%other", "other")] = {0: 0}
    broker.stats.clear()  # the broker was restarted
    asyncio.run(round_of(broker, tmp_path, NEXT, collection={"share_rounds": 1_000_000_000}))
    row = group_row(tmp_path, "workers", NEXT)
    assert (row["consumption"], row["consumption_evidence"]) == ("pop", "remembered")
    assert (row["pop_available"], row["pop_inflight"]) == (0 + 5, None)
    assert (row["suspect_reason"], row["in_detail"]) == ("pop", True)


def test_members_come_from_the_proxy_that_the_configuration_names(tmp_path: Path) -> None:
    behind = ScriptedBroker("proxy", subscriptions={"workers": ["jobs"]})

    async def run() -> Manifest:
        async with ScriptedPeer(behind.play) as proxy:
            manifest, _ = await round_of(popping_broker(), tmp_path, proxies=[proxy.address])
            return manifest

    assert asyncio.run(run()).gaps == ()
    assert group_row(tmp_path, "workers")["online_client_count"] == 1
    assert set(behind.asked) == {RequestCode.GET_CONSUMER_CONNECTION_LIST}


def test_a_metrics_page_that_nobody_serves_is_a_gap_and_the_figure_unknown(tmp_path: Path) -> None:
    broker = popping_broker(stats={("GROUP_CK_NUMS", "jobs@workers"): 0.0})
    manifest, _ = asyncio.run(round_of(broker, tmp_path, metrics_urls={"broker-a": "http://127.0.0.1:1/metrics"}))
    (gap,) = manifest.gaps
    assert (gap.broker_name, gap.address) == ("broker-a", "127.0.0.1:1")
    assert "check metrics_urls in the configuration" in gap.reason
    assert manifest.unseen_broker_names == ()
    assert group_row(tmp_path, "workers")["pop_inflight"] is None


def test_lite_topics_are_folded_into_their_group(tmp_path: Path) -> None:
    committed = {(topic, "readers"): queues for topic, queues in SEVEN_TOPICS.items()}
    lite_topics = {topic: [(0, 5)] for topic in SEVEN_TOPICS}
    broker = new_broker(topics={"chat": [(0, 24), (0, 36)], **lite_topics}, committed=committed)
    asyncio.run(round_of(broker, tmp_path))
    row = group_row(tmp_path, "readers")
    assert (row["lite_topic_count"], row["lite_lag"]) == (7, None)
    assert (row["consumption"], row["consumption_evidence"]) == ("pop", "lite_topics")
    assert (row["pop_available"], row["pop_inflight"], row["online_client_count"]) == (None, None, None)
    assert landed(tmp_path)[QUEUE_SNAPSHOTS.name] == []
    asyncio.run(round_of(broker, tmp_path, NEXT, collection={"share_rounds": 1}))
    assert group_row(tmp_path, "readers", NEXT)["lite_lag"] == 7 * 2


def test_offsets_that_vanish_with_a_switch_of_files_are_explained_once(tmp_path: Path) -> None:
    asyncio.run(round_of(popping_broker(), tmp_path))
    switched = new_broker(b"enableLmq=true\n", topics={"jobs": [(0, 25), (0, 25)]})
    manifest, _ = asyncio.run(round_of(switched, tmp_path, NEXT))
    (gap,) = manifest.gaps
    assert (gap.broker_name, gap.what) == ("broker-a", "committed offsets")
    assert gap.reason.startswith("all 2 committed offsets are gone, and enableLmq is on")
    after = Interval(NEXT.start + timedelta(minutes=1))
    assert asyncio.run(round_of(switched, tmp_path, after))[0].gaps == ()
