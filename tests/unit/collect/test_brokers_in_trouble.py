"""Brokers on real sockets that hang, die, lie and refuse: half a snapshot that says so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import fields
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from offsetguard.collect.manifest import GAPS_FILE_NAME, Gap, Manifest
from offsetguard.sources.rocketmq.codes import RequestCode
from offsetguard.sources.rocketmq.header import RemotingCommand
from offsetguard.tables import BROKER_SNAPSHOTS, QUEUE_SNAPSHOTS, TOPIC_QUEUE_SNAPSHOTS
from offsetguard_peers.collecting import collect_snapshot
from offsetguard_peers.scripted.broker import scripted_cluster
from offsetguard_peers.scripted.peer import Conversation, answer_bytes
from offsetguard_peers.scripted.rounds import (
    INTERVAL,
    NOW,
    PATIENT_MS,
    QUICK_MS,
    Rounds,
    asked,
    broker_with,
    collect,
    config_for,
    healthy_broker,
    run,
)


async def hang(conversation: Conversation, request: RemotingCommand) -> bool:
    await conversation.hang()
    return True


async def close_in_mid_frame(conversation: Conversation, request: RemotingCommand) -> bool:
    conversation.send(answer_bytes(request, body=b"{" * 100)[:50])
    conversation.close()
    return True


async def garbage(conversation: Conversation, request: RemotingCommand) -> bool:
    conversation.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    return True


async def wrong_body(conversation: Conversation, request: RemotingCommand) -> bool:
    """Every answer is a page of a web server; any text is a broker's configuration, so that one is refused."""
    conversation.answer(request, code=1 if request.code == RequestCode.GET_BROKER_CONFIG else 0, body=b"<html>")
    return True


async def refuse_login(conversation: Conversation, request: RemotingCommand) -> bool:
    conversation.answer(request, 1, "org.apache.rocketmq.acl.common.AclException: No accessKey is configured")
    return True


Trouble = Callable[["Conversation", "RemotingCommand"], Awaitable[bool]]


@pytest.mark.parametrize(
    ("trouble", "outcome"),
    [
        (hang, "timed_out"),
        (close_in_mid_frame, "connection_lost"),
        (garbage, "undecodable"),
        (refuse_login, "refused"),
    ],
)
def test_a_broker_in_trouble_costs_only_itself(trouble: Trouble, outcome: str) -> None:
    bad = healthy_broker("broker-b")
    bad.trouble = trouble
    manifest, rows = collect(healthy_broker("broker-a"), bad, timeout_ms=QUICK_MS if trouble is hang else PATIENT_MS)
    assert len(bad.asked) <= 6, "after what is asked together nothing more is sent: one time-out, not one for each"
    assert manifest.unseen_broker_names == ("broker-b",)
    assert manifest.master_broker_names == ("broker-a", "broker-b")
    assert not manifest.complete
    assert {row["broker_name"] for row in rows[QUEUE_SNAPSHOTS.name]} == {"broker-a"}
    assert {gap.broker_name for gap in manifest.gaps} == {"broker-b"}
    assert {gap.outcome.value for gap in manifest.gaps} == {outcome}
    assert getattr(manifest.requests, outcome) >= 1
    assert manifest.requests.asked == sum(
        getattr(manifest.requests, one.name) for one in fields(manifest.requests) if one.name != "asked"
    )
    answered = {row["broker_name"]: (row["answered"], row["failure"]) for row in rows[BROKER_SNAPSHOTS.name]}
    assert answered["broker-a"] == (True, None)
    assert answered["broker-b"][0] is False
    assert answered["broker-b"][1], "the reason"


def test_a_broker_whose_bodies_are_nonsense_is_given_up() -> None:
    bad = healthy_broker("broker-b")
    bad.trouble = wrong_body
    manifest, _ = collect(healthy_broker("broker-a"), bad)
    assert manifest.unseen_broker_names == ("broker-b",)
    assert manifest.requests.undecodable >= 3


def test_a_refused_login_is_one_gap_that_names_the_connection_to_correct() -> None:
    async def run() -> Manifest:
        broker = healthy_broker()
        broker.trouble = refuse_login
        async with scripted_cluster(broker) as (name_server, _):
            config = config_for(name_server, connection="rocketmq_main")
            manifest, _ = await collect_snapshot("main", config, INTERVAL, started_at=NOW)
            return manifest

    manifest = asyncio.run(run())
    login = [gap for gap in manifest.gaps if not gap.what.endswith("not sent")]
    assert len(login) == 1
    assert "Airflow connection 'rocketmq_main'" in login[0].reason
    assert "clusters.main.connection" in login[0].reason


def test_a_broker_that_dies_in_the_middle_leaves_what_it_said_before() -> None:
    broker = healthy_broker("broker-b")
    broker.topics |= {f"topic-{number}": [(0, 1)] for number in range(50)}

    async def die_after_the_third_topic(conversation: Conversation, request: RemotingCommand) -> bool:
        if broker.asked.count(RequestCode.GET_TOPIC_STATS_INFO) > 3:
            conversation.close()
            return True
        return False

    broker.trouble = die_after_the_third_topic
    manifest, rows = collect(healthy_broker("broker-a"), broker)
    assert manifest.unseen_broker_names == (), "its committed offsets were seen"
    assert manifest.gap_count > 0
    assert any("further requests, not sent" in gap.what for gap in manifest.gaps)
    of_b = [row for row in rows[TOPIC_QUEUE_SNAPSHOTS.name] if row["broker_name"] == "broker-b"]
    assert 0 < sum(row["read_at"] is not None for row in of_b) < len(of_b) == 52


def test_a_broker_that_falls_silent_gives_a_partial_snapshot_at_the_deadline() -> None:
    broker = healthy_broker()
    broker.topics |= {f"topic-{number}": [(0, 1)] for number in range(1_000)}

    async def silent_after_the_third_topic(conversation: Conversation, request: RemotingCommand) -> bool:
        return broker.asked.count(RequestCode.GET_TOPIC_STATS_INFO) > 3

    broker.trouble = silent_after_the_third_topic
    manifest, rows = collect(broker, deadline_s=6.0)
    assert any("deadline" in gap.reason for gap in manifest.gaps)
    assert not manifest.complete
    assert rows[TOPIC_QUEUE_SNAPSHOTS.name]


def test_a_topic_with_impossible_queues_is_left_out_and_told() -> None:
    broker = healthy_broker()
    broker.read_queue_nums = {"orders": 2**40}
    manifest, rows = collect(broker)
    assert rows[TOPIC_QUEUE_SNAPSHOTS.name] == []
    assert any("1099511627776 read queues" in gap.reason for gap in manifest.gaps)


def test_what_does_not_fit_a_column_is_kept_beside_and_stops_nothing() -> None:
    broker = healthy_broker()
    broker.topics["wide"] = [(0, 1)] * 3
    broker.write_queue_nums = {"wide": 2**40}
    broker.raw_offset_keys = {"no group": {0: 1}}
    _, rows = collect(broker)
    assert {row["topic"] for row in rows["topic_settings"]} == {"orders", "OFFSET_MOVED_EVENT"}
    kept = {row["source"]: row["reason"] for row in rows["undecodable_records"]}
    assert "beyond 32 bits" in kept["topic_settings"]
    assert kept["GET_ALL_CONSUMER_OFFSET of broker-a"] == "the key is not topic@group"


def test_a_broker_that_has_just_booted_is_asked_for_its_figures_again() -> None:
    broker = healthy_broker()

    async def no_statistics_yet(conversation: Conversation, request: RemotingCommand) -> bool:
        if request.code == RequestCode.GET_BROKER_RUNTIME_INFO and broker.asked.count(RequestCode(request.code)) == 1:
            conversation.answer(request, 1, "java.util.NoSuchElementException, java.util.LinkedList.getLast")
            return True
        return False

    broker.trouble = no_statistics_yet
    manifest, rows = collect(broker)
    assert manifest.complete
    assert rows[BROKER_SNAPSHOTS.name][0]["version"] == "V4_9_7"


def test_everything_that_is_missing_is_named_one_by_one(tmp_path: Path) -> None:
    broker = broker_with(10, 10)
    broker.topics |= {f"topic-{number}": [(0, 1)] for number in range(300)}

    async def die_after_the_third_topic(conversation: Conversation, request: RemotingCommand) -> bool:
        if asked(broker, RequestCode.GET_TOPIC_STATS_INFO) > 3:
            conversation.close()
            return True
        return False

    broker.trouble = die_after_the_third_topic

    @run(tmp_path, broker)
    async def _(rounds: Rounds) -> None:
        manifest = await rounds.run()
        lines = (rounds.folder / GAPS_FILE_NAME).read_text(encoding="utf-8").splitlines()
        named = [TypeAdapter(Gap).validate_json(line) for line in lines]
        unseen = {row["topic"] for row in rounds.rows(TOPIC_QUEUE_SNAPSHOTS) if row["read_at"] is None}
        assert len(unseen) > 250
        assert all(any(f"topic={topic})" in gap.what for gap in named) for topic in unseen)
        assert len(manifest.gaps) == manifest.gap_count < 20, "the manifest sums up"
        assert sum(manifest.gap_kinds.values()) == len(named)
        assert all(gap.reason and gap.broker_name == "broker-a" for gap in named)


def test_a_broker_that_dies_early_leaves_a_list_of_everything_that_it_was_not_asked_any_more(tmp_path: Path) -> None:
    broker = broker_with(10, 10)
    broker.groups = {f"group-{number}" for number in range(40)}

    async def die_at_the_offsets(conversation: Conversation, request: RemotingCommand) -> bool:
        if asked(broker, RequestCode.GET_ALL_CONSUMER_OFFSET):
            conversation.close()
            return True
        return False

    broker.trouble = die_at_the_offsets

    @run(tmp_path, broker)
    async def _(rounds: Rounds) -> None:
        await rounds.run()
        lines = (rounds.folder / GAPS_FILE_NAME).read_text(encoding="utf-8").splitlines()
        named = [TypeAdapter(Gap).validate_json(line).what.removesuffix(", not sent") for line in lines]
        expected = {f"GET_CONSUMER_CONNECTION_LIST(consumerGroup={group})" for group in (*broker.groups, "billing")}
        assert expected | {"GET_ALL_CONSUMER_OFFSET()", "GET_TOPIC_STATS_INFO(topic=orders)"} <= set(named)
        assert len(named) == len(set(named)), "each once"


def test_a_complete_round_has_no_file_of_gaps(tmp_path: Path) -> None:
    @run(tmp_path, broker_with(10, 10))
    async def _(rounds: Rounds) -> None:
        await rounds.run()
        assert not (rounds.folder / GAPS_FILE_NAME).exists()
