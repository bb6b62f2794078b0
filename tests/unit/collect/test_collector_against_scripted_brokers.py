"""One round against brokers on real sockets that hang, die, lie and refuse: half a snapshot that says so."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from offsetguard.collect.collector import collect_cluster, collect_snapshot
from offsetguard.collect.landing import read_manifest, read_table, snapshot_folder
from offsetguard.config import Config
from offsetguard.errors import SnapshotError
from offsetguard.facts import IntervalFacts
from offsetguard.intervals import Interval
from offsetguard.rocketmq.codes import RequestCode
from offsetguard.rules.broker_unreachable import find
from offsetguard.tables import BROKER_SNAPSHOTS, QUEUE_SNAPSHOTS, TOPIC_QUEUE_SNAPSHOTS
from offsetguard_peers.scripted_broker import ScriptedBroker, name_server_of, scripted_cluster
from offsetguard_peers.scripted_peer import ScriptedPeer, answer_bytes
from offsetguard_peers.snapshot_rows import as_rows

if TYPE_CHECKING:
    from pathlib import Path

    from offsetguard.collect.landing import Row
    from offsetguard.collect.manifest import Manifest
    from offsetguard.rocketmq.header import RemotingCommand
    from offsetguard_peers.scripted_peer import Conversation

QUICK_MS = 2_000  # where a time-out must pass, and others answer in time
PATIENT_MS = 30_000  # where none may pass, however busy the machine is
NOW = datetime(2026, 11, 21, 10, 39, 30, tzinfo=UTC)
INTERVAL = Interval.containing(NOW)


def config_for(*name_servers: str, **cluster: object) -> Config:
    return Config.from_values(
        {
            "clusters": {"main": {"name_servers": list(name_servers), "request_timeout_ms": PATIENT_MS, **cluster}},
            "groups": [{"match": "orderly-*", "orderly": True, "lock_interval_ms": 30_000}],
            "teams": {"operators": {"mail": ["operators@example.com"]}},
            "default_team": "operators",
        }
    )


def healthy_broker(name: str = "broker-a") -> ScriptedBroker:
    return ScriptedBroker(
        name,
        topics={"orders": [(0, 10), (0, 20)]},
        committed={("orders", "billing"): {0: 10, 1: 15}},
        pulled={("orders", "billing"): {0: 10, 1: 18}},
    )


def collect(
    *brokers: ScriptedBroker, deadline_s: float = 120.0, timeout_ms: int = PATIENT_MS
) -> tuple[Manifest, dict[str, list[Row]]]:
    async def run() -> tuple[Manifest, dict[str, list[Row]]]:
        async with scripted_cluster(*brokers) as (name_server, _):
            manifest, tables = await collect_snapshot(
                "main",
                config_for(name_server, request_timeout_ms=timeout_ms),
                INTERVAL,
                started_at=NOW,
                deadline_s=deadline_s,
            )
            return manifest, as_rows(tables)

    return asyncio.run(run())


def by_queue(rows: dict[str, list[Row]], group: str = "billing") -> dict[tuple[str, str, int], Row]:
    return {
        (row["broker_name"], row["topic"], row["queue_id"]): row
        for row in rows[QUEUE_SNAPSHOTS.name]
        if row["consumer_group"] == group
    }


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
    assert by_queue(rows)["broker-a", "orders", 1]["pull_offset"] is None
    assert by_queue(rows)["broker-a", "orders", 1]["pull_offset_read_at"] is None


def test_an_online_group_has_all_read_queues_of_its_topics_and_never_committed_is_not_zero() -> None:
    broker = healthy_broker()
    broker.subscriptions = {"billing": ["orders", "refunds", "TBW102"]}
    broker.topics |= {"refunds": [(0, 3)], "TBW102": [(0, 0)]}
    broker.committed["orders", "billing"] = {0: 0}
    _, rows = collect(broker)
    offsets = {key: row["consumer_offset"] for key, row in by_queue(rows).items()}
    assert offsets == {
        ("broker-a", "orders", 0): 0,
        ("broker-a", "orders", 1): None,
        ("broker-a", "refunds", 0): None,
    }
    assert all(row["consumer_offset_read_at"] for row in by_queue(rows).values()), "seen, and not there"


def test_a_group_that_only_one_master_sees_gets_its_queues_on_every_master() -> None:
    first, second = healthy_broker("broker-a"), healthy_broker("broker-b")
    first.subscriptions = {"audit": ["orders"]}
    _, rows = collect(first, second)
    assert by_queue(rows, "audit").keys() == {
        ("broker-a", "orders", 0),
        ("broker-a", "orders", 1),
        ("broker-b", "orders", 0),
        ("broker-b", "orders", 1),
    }
    (group,) = [row for row in rows["group_snapshots"] if row["consumer_group"] == "audit"]
    assert (group["online_client_count"], group["message_model"]) == (1, "CLUSTERING")


def test_an_offline_group_has_no_client_and_one_behind_a_refusal_is_unknown() -> None:
    async def refuse_billing(conversation: Conversation, request: RemotingCommand) -> bool:
        if request.ext_fields.get("consumerGroup") == "billing" and request.code == 203:
            conversation.answer(request, 1, "no memory")
            return True
        return False

    broker = healthy_broker()
    broker.groups = {"idle"}
    broker.trouble = refuse_billing
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
    assert system["TOOLS_CONSUMER"]
    assert not system["billing"]


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
    assert len(bad.asked) <= 4, "after a few failures nothing more is sent: one time-out, not one for each request"
    assert manifest.unseen_broker_names == ("broker-b",)
    assert manifest.master_broker_names == ("broker-a", "broker-b")
    assert not manifest.complete
    assert {row["broker_name"] for row in rows[QUEUE_SNAPSHOTS.name]} == {"broker-a"}
    assert {gap.broker_name for gap in manifest.gaps} == {"broker-b"}
    assert {gap.outcome.value for gap in manifest.gaps} == {outcome}
    assert getattr(manifest.requests, outcome) >= 1
    assert manifest.requests.asked == sum(
        getattr(manifest.requests, name) for name in vars(manifest.requests) if name != "asked"
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


def test_a_slow_broker_gives_a_partial_snapshot_at_the_deadline() -> None:
    broker = healthy_broker()
    broker.topics |= {f"topic-{number}": [(0, 1)] for number in range(1_000)}

    async def slow(conversation: Conversation, request: RemotingCommand) -> bool:
        await asyncio.sleep(0.2)
        return False

    broker.trouble = slow
    manifest, rows = collect(broker, deadline_s=6.0)
    assert any("deadline" in gap.reason for gap in manifest.gaps)
    assert not manifest.complete
    assert rows[TOPIC_QUEUE_SNAPSHOTS.name]


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
            for minutes in (0, 1, 2, 24 * 60 + 1):
                interval = following(minutes)
                if minutes:
                    listed.pop("broker-b", None)
                manifests.append(
                    await collect_cluster("main", config_for(name_server), interval, tmp_path, started_at=interval.end)
                )
        return manifests

    there, gone, still_gone, a_day_later = asyncio.run(run())
    assert there.complete
    for manifest in (gone, still_gone):
        assert manifest.unseen_broker_names == ("broker-b",)
        assert manifest.missing_masters[0].missing_since == following(1).start
        assert "no name server lists a master of broker-b" in manifest.gaps[0].reason
        (unseen,) = manifest.unseen_brokers
        assert (unseen.broker_name, unseen.unseen_since) == ("broker-b", following(1).end)
        assert (unseen.consumer_groups, unseen.consumer_group_count) == (("billing",), 1)
    assert gone.gap_kinds_since == still_gone.gap_kinds_since == dict.fromkeys(gone.gap_kinds, following(1).end)
    assert there.gap_kinds_since == {}
    assert [judged_as(one) for one in (there, gone, still_gone)] == [None, "info", "critical"]
    assert a_day_later.complete


def test_a_landed_interval_is_not_asked_for_again(tmp_path: Path) -> None:
    async def run() -> tuple[Manifest, Manifest]:
        async with scripted_cluster(healthy_broker()) as (name_server, _):
            first = await collect_cluster("main", config_for(name_server), INTERVAL, tmp_path, started_at=NOW)
        dead = config_for("127.0.0.1:9")
        return first, await collect_cluster("main", dead, INTERVAL, tmp_path, started_at=NOW + timedelta(days=3))

    first, second = asyncio.run(run())
    assert first == second == read_manifest(snapshot_folder(tmp_path, "main", INTERVAL))


@pytest.mark.parametrize(
    ("started_at", "words"),
    [
        (INTERVAL.end + timedelta(minutes=2, seconds=1), "cannot look into the past"),
        (INTERVAL.start - timedelta(seconds=1), "lies in the future"),
    ],
)
def test_only_the_present_can_be_collected(tmp_path: Path, started_at: datetime, words: str) -> None:
    with pytest.raises(SnapshotError, match=words):
        asyncio.run(collect_cluster("main", config_for("127.0.0.1:9"), INTERVAL, tmp_path, started_at=started_at))


def test_declared_lock_settings_stand_beside_the_group() -> None:
    broker = healthy_broker()
    broker.groups = {"orderly-1"}
    _, rows = collect(broker)
    settings = {row["consumer_group"]: row for row in rows["group_snapshots"]}
    assert settings["orderly-1"]["declared_orderly"]
    assert (settings["orderly-1"]["lock_interval_ms"], settings["orderly-1"]["lock_max_live_time_ms"]) == (
        30_000,
        60_000,
    )
    assert not settings["billing"]["declared_orderly"]


def following(minutes: int) -> Interval:
    return Interval(INTERVAL.start + timedelta(minutes=minutes))


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
