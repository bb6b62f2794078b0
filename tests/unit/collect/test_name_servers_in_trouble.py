"""Name servers that are away, silent or forgetful: brokers that were there are missed, and nothing is called empty."""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack
from pathlib import Path

from offsetguard.collect.collector import collect_cluster
from offsetguard.collect.landing import Row, read_table, snapshot_folder
from offsetguard.collect.manifest import Manifest
from offsetguard.facts.interval import IntervalFacts
from offsetguard.judge.rules.broker_unreachable import find
from offsetguard.model.intervals import Interval
from offsetguard.tables import BROKER_SNAPSHOTS, QUEUE_SNAPSHOTS
from offsetguard_peers.collecting import as_rows, collect_snapshot
from offsetguard_peers.scripted.broker import name_server_of, scripted_cluster
from offsetguard_peers.scripted.peer import Conversation, ScriptedPeer
from offsetguard_peers.scripted.rounds import (
    INTERVAL,
    NOW,
    QUICK_MS,
    collect,
    config_for,
    following,
    healthy_broker,
)


def test_name_servers_are_tried_in_order_and_each_failure_names_its_key() -> None:
    async def run() -> tuple[Manifest, dict[str, list[Row]]]:
        async with scripted_cluster(healthy_broker()) as (name_server, _), ScriptedPeer(silence) as silent:
            config = config_for("127.0.0.1:9", silent.address, name_server, request_timeout_ms=QUICK_MS)
            manifest, tables = await collect_snapshot("main", config, INTERVAL, started_at=NOW)
            return manifest, as_rows(tables)

    manifest, rows = asyncio.run(run())
    assert [gap.outcome.value for gap in manifest.gaps] == ["unreachable", "timed_out"]
    assert re.search(r"127\.0\.0\.1:9:.*clusters\.main\.name_servers\.0", manifest.gaps[0].reason)
    assert not manifest.cluster_unseen
    assert rows[QUEUE_SNAPSHOTS.name]


def test_a_name_server_that_has_just_started_does_not_hide_what_another_one_lists(tmp_path: Path) -> None:
    async def run() -> tuple[Manifest, Manifest]:
        brokers = (healthy_broker("broker-a"), healthy_broker("broker-b"))
        async with scripted_cluster(*brokers) as (_, listed), AsyncExitStack() as stack:
            known = dict(listed)
            name_servers = [
                await stack.enter_async_context(ScriptedPeer(name_server_of(addresses)))
                for addresses in (known, dict(listed))
            ]
            config = config_for(*(name_server.address for name_server in name_servers))
            before = await collect_cluster("main", config, INTERVAL, tmp_path, started_at=NOW)
            assert name_servers[1].connection_count == 0, "it is asked only when it matters"
            del known["broker-b"]
            after = await collect_cluster("main", config, following(1), tmp_path, started_at=following(1).end)
            assert name_servers[1].connection_count == 1
            return before, after

    before, after = asyncio.run(run())
    assert before.master_broker_names == after.master_broker_names == ("broker-a", "broker-b")
    assert before.complete
    assert after.complete, after.gaps


def test_a_name_server_that_trips_over_a_brokers_going_is_asked_once_more() -> None:
    async def run() -> Manifest:
        async with scripted_cluster(healthy_broker()) as (_, listed):

            async def trips_first(conversation: Conversation) -> None:
                request = await conversation.next_request()
                conversation.answer(request, code=1, remark="java.util.ConcurrentModificationException")
                await name_server_of(listed)(conversation)

            async with ScriptedPeer(trips_first) as name_server:
                config = config_for(name_server.address)
                return (await collect_snapshot("main", config, INTERVAL, started_at=NOW))[0]

    manifest = asyncio.run(run())
    assert manifest.complete, manifest.gaps
    assert manifest.requests.refused == 1


def test_one_connection_that_takes_long_is_no_proof_that_a_name_server_is_down() -> None:
    async def run() -> Manifest:
        async with scripted_cluster(healthy_broker()) as (_, listed):
            asked = 0

            async def slow_once(conversation: Conversation) -> None:
                nonlocal asked
                asked += 1
                await (conversation.hang() if asked == 1 else name_server_of(listed)(conversation))

            async with ScriptedPeer(slow_once) as name_server:
                config = config_for(name_server.address, request_timeout_ms=QUICK_MS)
                return (await collect_snapshot("main", config, INTERVAL, started_at=NOW))[0]

    manifest = asyncio.run(run())
    assert manifest.complete, manifest.gaps
    assert not manifest.cluster_unseen
    assert manifest.requests.timed_out == 1


async def silence(conversation: Conversation) -> None:
    await conversation.hang()


def test_a_name_server_without_brokers_is_not_an_empty_healthy_cluster() -> None:
    manifest, _ = collect()
    assert manifest.cluster_unseen
    assert "lists no broker at all" in manifest.gaps[0].reason


def test_without_a_name_server_the_brokers_of_the_last_round_are_listed_as_unseen(tmp_path: Path) -> None:
    async def run() -> Manifest:
        async with scripted_cluster(healthy_broker()) as (name_server, _):
            await collect_cluster("main", config_for(name_server), INTERVAL, tmp_path, started_at=NOW)
        return await collect_cluster(
            "main", config_for("127.0.0.1:9"), following(1), tmp_path, started_at=following(1).end
        )

    manifest = asyncio.run(run())
    assert manifest.cluster_unseen
    assert manifest.unseen_broker_names == manifest.master_broker_names == ("broker-a",)
    (broker,) = read_table(snapshot_folder(tmp_path, "main", following(1)), BROKER_SNAPSHOTS).to_pylist()
    assert (broker["answered"], broker["failure"]) == (False, "no name server answered, so it was not asked")


def judged_as(manifest: Manifest) -> str | None:
    """Return how bad a broker that cannot be reached is; the first minute may be a restart."""
    interval = Interval(manifest.interval_start)
    facts = IntervalFacts(
        cluster="main",
        interval=interval,
        now=interval.end,
        gaps=manifest.gap_facts(),
        unseen_broker_names=frozenset(manifest.unseen_broker_names),
        unseen_brokers=tuple(one.as_fact() for one in manifest.unseen_brokers),
    )
    found = list(find(facts, config_for("127.0.0.1:9")))
    assert all("1 consumer group with offsets there cannot be judged (billing)" in one.cause for one in found)
    return found[0].severity.value if found else None


def test_a_master_that_left_the_name_servers_list_is_missed_for_a_day(tmp_path: Path) -> None:
    async def run() -> list[Manifest]:
        manifests = []
        async with scripted_cluster(healthy_broker("broker-a"), healthy_broker("broker-b")) as (name_server, listed):
            for minutes in (0, 1, 2, 3, 24 * 60 + 1):
                interval = following(minutes)
                if minutes:
                    listed.pop("broker-b", None)
                manifests.append(
                    await collect_cluster("main", config_for(name_server), interval, tmp_path, started_at=interval.end)
                )
        return manifests

    there, gone, still_gone, long_gone, a_day_later = asyncio.run(run())
    assert there.complete
    for manifest in (gone, still_gone, long_gone):
        assert manifest.unseen_broker_names == ("broker-b",)
        assert manifest.missing_masters[0].missing_since == following(1).start
        assert "no name server lists a master of broker-b" in manifest.gaps[0].reason
        (unseen,) = manifest.unseen_brokers
        assert (unseen.broker_name, unseen.unseen_since) == ("broker-b", following(1).end)
        assert (unseen.consumer_groups, unseen.consumer_group_count) == (("billing",), 1)
    assert gone.gap_kinds_since == still_gone.gap_kinds_since == dict.fromkeys(gone.gap_kinds, following(1).end)
    assert there.gap_kinds_since == {}
    assert [judged_as(one) for one in (there, gone, still_gone, long_gone)] == [None, "info", "info", "critical"]
    assert a_day_later.complete
