"""Name servers that are away, silent or forgetful: brokers that were there are missed, and nothing is called empty."""

from __future__ import annotations

import re
from pathlib import Path

from offsetguard.collect.manifest import Manifest
from offsetguard.facts.interval import IntervalFacts
from offsetguard.judge.rules.broker_unreachable import find
from offsetguard.model.intervals import Interval
from offsetguard.tables import BROKER_SNAPSHOTS, QUEUE_SNAPSHOTS
from offsetguard_peers.scripted.broker import name_server_of
from offsetguard_peers.scripted.peer import Conversation, ScriptedPeer, hangs
from offsetguard_peers.scripted.rounds import QUICK_MS, Rounds, collect, config_for, healthy_broker, run

NOBODY = "127.0.0.1:9"


def test_name_servers_are_tried_in_order_and_each_failure_names_its_key(tmp_path: Path) -> None:
    @run(tmp_path, healthy_broker(), request_timeout_ms=QUICK_MS)
    async def _(rounds: Rounds) -> None:
        async with ScriptedPeer(hangs) as silent, ScriptedPeer(name_server_of(rounds.listed)) as name_server:
            manifest = await rounds.run(name_servers=[NOBODY, silent.address, name_server.address])
        assert [gap.outcome.value for gap in manifest.gaps] == ["unreachable", "timed_out"]
        assert re.search(r"127\.0\.0\.1:9:.*clusters\.main\.name_servers\.0", manifest.gaps[0].reason)
        assert not manifest.cluster_unseen
        assert rounds.rows(QUEUE_SNAPSHOTS)


def test_a_name_server_that_has_just_started_does_not_hide_what_another_one_lists(tmp_path: Path) -> None:
    @run(tmp_path, healthy_broker("broker-a"), healthy_broker("broker-b"))
    async def _(rounds: Rounds) -> None:
        known = dict(rounds.listed)
        async with ScriptedPeer(name_server_of(known)) as new, ScriptedPeer(name_server_of(rounds.listed)) as old:
            for old_is_asked in (0, 1):
                manifest = await rounds.run(name_servers=[new.address, old.address])
                assert manifest.master_broker_names == ("broker-a", "broker-b")
                assert manifest.complete, manifest.gaps
                assert old.connection_count == old_is_asked, "it is asked only when it matters"
                known.pop("broker-b", None)


def test_a_name_server_that_trips_over_a_brokers_going_is_asked_once_more(tmp_path: Path) -> None:
    @run(tmp_path, healthy_broker())
    async def _(rounds: Rounds) -> None:
        async def trips_first(conversation: Conversation) -> None:
            request = await conversation.next_request()
            conversation.answer(request, code=1, remark="java.util.ConcurrentModificationException")
            await name_server_of(rounds.listed)(conversation)

        async with ScriptedPeer(trips_first) as name_server:
            manifest = await rounds.run(name_servers=[name_server.address])
        assert manifest.complete, manifest.gaps
        assert manifest.requests.refused == 1


def test_one_connection_that_takes_long_is_no_proof_that_a_name_server_is_down(tmp_path: Path) -> None:
    @run(tmp_path, healthy_broker(), request_timeout_ms=QUICK_MS)
    async def _(rounds: Rounds) -> None:
        async def slow_once(conversation: Conversation) -> None:
            await (conversation.hang() if conversation.number == 1 else name_server_of(rounds.listed)(conversation))

        async with ScriptedPeer(slow_once) as name_server:
            manifest = await rounds.run(name_servers=[name_server.address])
        assert manifest.complete, manifest.gaps
        assert not manifest.cluster_unseen
        assert manifest.requests.timed_out == 1


def test_a_name_server_without_brokers_is_not_an_empty_healthy_cluster() -> None:
    manifest, _ = collect()
    assert manifest.cluster_unseen
    assert "lists no broker at all" in manifest.gaps[0].reason


def test_without_a_name_server_the_brokers_of_the_last_round_are_listed_as_unseen(tmp_path: Path) -> None:
    @run(tmp_path, healthy_broker())
    async def _(rounds: Rounds) -> None:
        await rounds.run()
        manifest = await rounds.run(name_servers=[NOBODY])
        assert manifest.cluster_unseen
        assert manifest.unseen_broker_names == manifest.master_broker_names == ("broker-a",)
        (broker,) = rounds.rows(BROKER_SNAPSHOTS)
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
    found = list(find(facts, config_for(NOBODY)))
    assert all("1 consumer group with offsets there cannot be judged (billing)" in one.cause for one in found)
    return found[0].severity.value if found else None


def test_a_master_that_left_the_name_servers_list_is_missed_for_a_day(tmp_path: Path) -> None:
    @run(tmp_path, healthy_broker("broker-a"), healthy_broker("broker-b"))
    async def _(rounds: Rounds) -> None:
        there = await rounds.run()
        assert there.complete
        assert (there.gap_kinds_since, judged_as(there)) == ({}, None)
        del rounds.listed["broker-b"]
        since: Interval | None = None
        for severity in ("info", "info", "critical"):
            manifest = await rounds.run()
            since = since or rounds.interval
            assert manifest.unseen_broker_names == ("broker-b",)
            assert manifest.missing_masters[0].missing_since == since.start
            assert "no name server lists a master of broker-b" in manifest.gaps[0].reason
            (unseen,) = manifest.unseen_brokers
            assert (unseen.broker_name, unseen.unseen_since) == ("broker-b", since.end)
            assert (unseen.consumer_groups, unseen.consumer_group_count) == (("billing",), 1)
            assert manifest.gap_kinds_since == dict.fromkeys(manifest.gap_kinds, since.end)
            assert judged_as(manifest) == severity
        assert (await rounds.run(24 * 60 - 2)).complete
