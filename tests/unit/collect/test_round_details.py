"""What a round asks beyond the base, of whom, and what it compares with the round before; against scripted brokers."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from offsetguard.collect.collector import collect_cluster
from offsetguard.collect.landing import read_table, snapshot_folder
from offsetguard.collect.manifest import GAPS_FILE_NAME, Gap, Manifest
from offsetguard.config import Config
from offsetguard.constraints import read_json
from offsetguard.intervals import Interval
from offsetguard.rocketmq.codes import RequestCode
from offsetguard.tables import (
    BROKER_SNAPSHOTS,
    BROKER_STATS,
    CLIENT_QUEUE_SNAPSHOTS,
    CLIENT_SNAPSHOTS,
    GROUP_SNAPSHOTS,
    LOG_EVENTS,
    OFFSET_MOVES,
    QUEUE_SNAPSHOTS,
    TOPIC_QUEUE_SNAPSHOTS,
    TOPIC_SETTINGS,
)
from offsetguard_peers.scripted_broker import ScriptedBroker, scripted_cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from offsetguard.collect.landing import Row
    from offsetguard.rocketmq.header import RemotingCommand
    from offsetguard.tables import Table
    from offsetguard_peers.scripted_peer import Conversation

START = datetime(2026, 11, 21, 10, 39, tzinfo=UTC)
NO_SHARE = {"share_rounds": 10**9}  # no group has its turn in these rounds: only suspects are asked


class Rounds:
    """Landed rounds of one scripted cluster, one minute after the other."""

    def __init__(self, landing: Path, name_server: str, listed: dict[str, str], cluster: dict[str, object]) -> None:
        self.landing = landing
        self.listed = listed
        self.count = 0
        self._config = {"name_servers": [name_server], "request_timeout_ms": 20_000, "collection": NO_SHARE, **cluster}

    async def run(self, **cluster: object) -> Manifest:
        config = Config.from_values(
            {
                "clusters": {"main": {**self._config, **cluster}},
                "teams": {"operators": {"mail": ["operators@example.com"]}},
                "default_team": "operators",
            }
        )
        self.count += 1
        return await collect_cluster("main", config, self.interval, self.landing, started_at=self.interval.end)

    @property
    def interval(self) -> Interval:
        return Interval(START + timedelta(minutes=self.count))

    @property
    def folder(self) -> Path:
        return snapshot_folder(self.landing, "main", self.interval)

    def rows(self, table: Table) -> list[Row]:
        """Rows of the newest round."""
        rows: list[Row] = read_table(self.folder, table).to_pylist()
        return rows

    def group(self, name: str) -> Row:
        return next(row for row in self.rows(GROUP_SNAPSHOTS) if row["consumer_group"] == name)

    def queue(self, group: str, topic: str = "orders", queue_id: int = 0) -> Row:
        wanted = (group, topic, queue_id)
        found = (row for row in self.rows(QUEUE_SNAPSHOTS))
        return next(row for row in found if (row["consumer_group"], row["topic"], row["queue_id"]) == wanted)


def run(
    landing: Path, *brokers: ScriptedBroker, cluster: dict[str, object] | None = None
) -> Callable[[Callable[[Rounds], Awaitable[None]]], None]:
    """Run a test's rounds against brokers: `@run(tmp_path, broker)` above an async function."""

    @asynccontextmanager
    async def rounds() -> AsyncIterator[Rounds]:
        async with scripted_cluster(*brokers) as (name_server, listed):
            yield Rounds(landing, name_server, listed, cluster or {})

    def play(test: Callable[[Rounds], Awaitable[None]]) -> None:
        async def in_loop() -> None:
            async with rounds() as given:
                await test(given)

        asyncio.run(in_loop())

    return play


def broker_with(committed: int, end: int, *, name: str = "broker-a", group: str = "billing") -> ScriptedBroker:
    return ScriptedBroker(
        name,
        topics={"orders": [(0, end)]},
        committed={("orders", group): {0: committed}},
        pulled={("orders", group): {0: committed}},
    )


def asked(broker: ScriptedBroker, code: RequestCode) -> int:
    return broker.asked.count(code)


def test_a_healthy_group_costs_nothing_but_the_base_and_says_that_it_was_not_looked_at(tmp_path: Path) -> None:
    broker = broker_with(10, 10)
    broker.stats = {("GROUP_GET_NUMS", "orders@billing"): 1.0}

    @run(tmp_path, broker)
    async def _(rounds: Rounds) -> None:
        await rounds.run()
        assert (rounds.group("billing")["in_detail"], rounds.group("billing")["suspect_reason"]) == (False, None)
        row = rounds.queue("billing")
        assert (row["consumer_offset"], row["max_offset"]) == (10, 10)
        assert (row["pull_offset"], row["pull_offset_read_at"], row["last_timestamp"]) == (None, None, None)
        assert rounds.rows(BROKER_STATS) == []
        for code in (
            RequestCode.GET_CONSUME_STATS,
            RequestCode.QUERY_CONSUME_TIME_SPAN,
            RequestCode.GET_CONSUMER_RUNNING_INFO,
        ):
            assert asked(broker, code) == 0


def test_a_group_in_trouble_is_asked_for_everything(tmp_path: Path) -> None:
    broker = broker_with(4, 10)
    broker.subscriptions = {"billing": ["orders"]}
    broker.stats = {("GROUP_GET_NUMS", "orders@billing"): 2.5, ("TOPIC_PUT_NUMS", "orders"): 7.0}
    broker.running_info = {
        "10.0.0.9@billing": (
            b'{"mqTable":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:{"cachedMsgCount":6,"commitOffset":4,'
            b'"locked":true,"droped":false,"lastPullTimestamp":1795214822995}},"properties":{"PROP_CONSUMEORDERLY":"true"},'
            b'"statusTable":{},"subscriptionSet":[{"topic":"orders","subString":"*","subVersion":1,"tagsSet":[],"codeSet":[]}]}'
        )
    }

    @run(tmp_path, broker)
    async def _(rounds: Rounds) -> None:
        manifest = await rounds.run()
        group = rounds.group("billing")
        assert (group["in_detail"], group["suspect_reason"]) == (True, "waiting")
        assert rounds.queue("billing")["pull_offset"] == 4
        rates = {
            (row["stats_name"], row["stats_key"]): (row["counted"], row["tps"]) for row in rounds.rows(BROKER_STATS)
        }
        assert rates["GROUP_GET_NUMS", "orders@billing"] == (True, 2.5)
        assert rates["TOPIC_PUT_NUMS", "orders"] == (True, 7.0)
        assert rates["SNDBCK_PUT_NUMS", "orders@billing"] == (False, 0.0), "nothing counted yet is an answer"
        (client,) = rounds.rows(CLIENT_SNAPSHOTS)
        assert (client["orderly"], client["cached_message_count"], client["own_subscriptions"]) == (
            True,
            6,
            ["orders *"],
        )
        (held,) = rounds.rows(CLIENT_QUEUE_SNAPSHOTS)
        assert (held["topic"], held["queue_id"], held["locked"], held["commit_offset"]) == ("orders", 0, True, 4)
        assert manifest.complete


def test_a_client_that_does_not_answer_says_so_and_is_no_gap_of_the_broker(tmp_path: Path) -> None:
    broker = broker_with(4, 10)
    broker.subscriptions = {"billing": ["orders"]}

    @run(tmp_path, broker)
    async def _(rounds: Rounds) -> None:
        manifest = await rounds.run()
        (client,) = rounds.rows(CLIENT_SNAPSHOTS)
        assert client["running_info_read_at"] is None
        assert "not online" in client["running_info_failure"]
        assert manifest.complete


def test_a_client_that_hangs_is_not_waited_for(tmp_path: Path) -> None:
    broker = broker_with(4, 10)
    broker.subscriptions = {"billing": ["orders"]}

    async def never_answer_for_clients(conversation: Conversation, request: RemotingCommand) -> bool:
        return request.code == RequestCode.GET_CONSUMER_RUNNING_INFO

    broker.trouble = never_answer_for_clients

    @run(tmp_path, broker, cluster={"request_timeout_ms": 60_000})
    async def _(rounds: Rounds) -> None:
        manifest = await rounds.run()
        (client,) = rounds.rows(CLIENT_SNAPSHOTS)
        assert "no answer within 0.5 s" in client["running_info_failure"]
        assert rounds.group("billing")["in_detail"]
        assert manifest.complete, "the client's failure, not the broker's"


def test_what_came_since_the_round_before_makes_nobody_suspect(tmp_path: Path) -> None:
    """A busy group always has something waiting: what was there a minute ago is consumed, so it keeps up."""
    broker = broker_with(100, 100)

    @run(tmp_path, broker)
    async def _(rounds: Rounds) -> None:
        await rounds.run()
        broker.topics["orders"] = [(0, 250)]
        broker.committed["orders", "billing"] = {0: 240}
        await rounds.run()
        assert rounds.group("billing")["suspect_reason"] is None
        assert not rounds.group("billing")["in_detail"]
        await rounds.run()
        assert rounds.group("billing")["suspect_reason"] == "waiting", "the same ten messages, one round later"


def test_the_age_of_what_waits_is_asked_once_and_kept_while_the_offset_stays(tmp_path: Path) -> None:
    broker = broker_with(4, 10)

    @run(tmp_path, broker)
    async def _(rounds: Rounds) -> None:
        await rounds.run()
        first = rounds.queue("billing")["oldest_unconsumed_at"]
        assert first is not None
        await rounds.run()
        assert rounds.queue("billing")["oldest_unconsumed_at"] == first
        assert asked(broker, RequestCode.QUERY_CONSUME_TIME_SPAN) == 1
        broker.committed["orders", "billing"] = {0: 5}
        await rounds.run()
        assert asked(broker, RequestCode.QUERY_CONSUME_TIME_SPAN) == 2
        assert rounds.queue("billing")["oldest_unconsumed_at"] > first


def test_more_suspects_than_places_take_turns_and_are_counted(tmp_path: Path) -> None:
    broker = ScriptedBroker("broker-a", topics={"orders": [(0, 100)]}, pulled={})
    broker.committed = {("orders", f"group-{number:02}"): {0: number} for number in range(20)}

    @run(tmp_path, broker, cluster={"collection": {**NO_SHARE, "detail_groups": 4}})
    async def _(rounds: Rounds) -> None:
        looked_at = set()
        for _ in range(20):
            manifest = await rounds.run()
            groups = rounds.rows(GROUP_SNAPSHOTS)
            detailed = {row["consumer_group"] for row in groups if row["in_detail"]}
            assert len(detailed) == 4
            assert {"group-00", "group-01", "group-02"} <= detailed, "the worst are looked at in every round"
            assert all(row["suspect_reason"] == "waiting" for row in groups if not row["system_group"])
            (left_out,) = [one for one in manifest.not_asked if one.what == "details of suspect groups"]
            assert left_out.count == 16
            assert "detail_groups allows 4" in left_out.reason
            looked_at |= detailed
        assert len(looked_at) == 20
        assert manifest.complete, "what is left out on purpose is no gap"


def test_every_healthy_group_has_its_turn(tmp_path: Path) -> None:
    broker = ScriptedBroker("broker-a", topics={"orders": [(0, 5)]}, pulled={})
    broker.committed = {("orders", f"group-{number:02}"): {0: 5} for number in range(12)}

    @run(tmp_path, broker, cluster={"collection": {"share_rounds": 3}})
    async def _(rounds: Rounds) -> None:
        seen: list[str] = []
        for _ in range(3):
            await rounds.run()
            seen += [row["consumer_group"] for row in rounds.rows(GROUP_SNAPSHOTS) if row["in_detail"]]
        assert sorted(seen) == sorted(f"group-{number:02}" for number in range(12))


def test_retry_and_dead_letter_topics_are_counted_and_compared_with_the_round_before(tmp_path: Path) -> None:
    broker = broker_with(10, 10)
    broker.topics |= {"%RETRY%billing": [(5, 9)], "%DLQ%billing": [(0, 2)], "%RETRY%billing_orders": [(0, 30)]}
    broker.committed["%RETRY%billing_orders", "billing"] = {0: 30}

    @run(tmp_path, broker)
    async def _(rounds: Rounds) -> None:
        await rounds.run()
        group = rounds.group("billing")
        assert (group["retry_message_count"], group["retry_max_offset"], group["retry_growth"]) == (34, 39, None)
        assert (group["dead_letter_message_count"], group["dead_letter_growth"]) == (2, None)
        assert rounds.group("TOOLS_CONSUMER")["retry_message_count"] == 0, "nothing was ever sent back"
        broker.topics |= {"%RETRY%billing": [(9, 16)], "%DLQ%billing": [(0, 2)]}
        await rounds.run()
        group = rounds.group("billing")
        assert (group["retry_message_count"], group["retry_growth"], group["dead_letter_growth"]) == (37, 7, 0)
        broker.topics |= {"%RETRY%billing": [(0, 1)]}  # recreated
        await rounds.run()
        assert rounds.group("billing")["retry_growth"] is None


def test_a_backlog_of_which_a_broker_was_not_seen_is_unknown_and_not_less(tmp_path: Path) -> None:
    first, second = broker_with(10, 10), broker_with(10, 10, name="broker-b")
    for broker in (first, second):
        broker.topics["%DLQ%billing"] = [(0, 3)]

    @run(tmp_path, first, second)
    async def _(rounds: Rounds) -> None:
        await rounds.run()
        assert rounds.group("billing")["dead_letter_message_count"] == 6

        async def refuse(conversation: Conversation, request: RemotingCommand) -> bool:
            if request.ext_fields.get("topic") == "%DLQ%billing":
                conversation.answer(request, 1, "no memory")
                return True
            return False

        second.trouble = refuse
        await rounds.run()
        assert rounds.group("billing")["dead_letter_message_count"] is None
        assert rounds.group("billing")["dead_letter_growth"] is None


def test_masters_that_list_other_clients_are_told_unless_they_need_not_know_them(tmp_path: Path) -> None:
    """A client sends heartbeats to the brokers that have its topics, and to no others."""
    first, second, third = (broker_with(10, 10, name=f"broker-{letter}") for letter in "abc")
    for broker in (first, second):
        broker.subscriptions = {"billing": ["orders"], "audit": ["orders"], "report": ["reports"]}
    first.topics["reports"] = [(0, 1)]
    third.subscriptions = {"billing": ["orders"]}
    del second.subscriptions["report"]

    @run(tmp_path, first, second, third)
    async def _(rounds: Rounds) -> None:
        await rounds.run()
        differ = {row["consumer_group"]: row["members_differ"] for row in rounds.rows(GROUP_SNAPSHOTS)}
        assert differ["billing"] is False
        assert differ["audit"] is True, "broker-c has the topic and does not know the client"
        assert differ["report"] is None, "only broker-a has the topic"
        assert rounds.group("billing")["members_differ_since"] is None
        first_seen = rounds.group("audit")["members_differ_since"]
        assert [one.rpartition(" ")[2] for one in rounds.group("audit")["missing_members"]] == ["broker-c"]
        await rounds.run()
        assert rounds.group("audit")["members_differ_since"] == first_seen
        third.subscriptions = {"billing": ["orders"], "audit": ["orders"]}
        await rounds.run()
        assert rounds.group("audit")["members_differ_since"] is None


def test_a_broker_that_is_listed_under_another_address_is_reached_through_the_map(tmp_path: Path) -> None:
    @run(tmp_path, broker_with(10, 10))
    async def _(rounds: Rounds) -> None:
        reachable, rounds.listed["broker-a"] = rounds.listed["broker-a"], "172.17.0.3:10911"
        manifest = await rounds.run(address_map={"172.17.0.3:10911": reachable, "172.17.0.4:10911": "10.0.0.1:10911"})
        assert manifest.complete
        (broker,) = rounds.rows(BROKER_SNAPSHOTS)
        assert (broker["address"], broker["answered"]) == ("172.17.0.3:10911", True)
        (unmatched,) = [one for one in manifest.not_asked if "address_map" in one.what]
        assert "172.17.0.4:10911" in unmatched.what
        manifest = await rounds.run(address_map={"172.17.0.3:10911": "127.0.0.1:9"})
        (gap,) = [gap for gap in manifest.gaps if not gap.what.endswith("not sent")]
        assert gap.address == "172.17.0.3:10911"
        for words in ("127.0.0.1:9: connection refused", "listed as 172.17.0.3:10911", "clusters.main.address_map"):
            assert words in gap.reason


def test_topics_that_the_broker_calls_its_own_are_told_apart(tmp_path: Path) -> None:
    broker = broker_with(10, 10)
    broker.topics["FUTURE_SYSTEM_TOPIC"] = [(0, 9)]
    broker.committed["FUTURE_SYSTEM_TOPIC", "billing"] = {0: 1}
    broker.system_topics.add("FUTURE_SYSTEM_TOPIC")

    @run(tmp_path, broker)
    async def _(rounds: Rounds) -> None:
        await rounds.run()
        kinds = {row["topic"]: row["topic_kind"] for row in rounds.rows(TOPIC_SETTINGS)}
        assert (kinds["FUTURE_SYSTEM_TOPIC"], kinds["orders"]) == ("system", "normal")
        assert {row["topic"] for row in rounds.rows(QUEUE_SNAPSHOTS)} == {"orders"}


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
        named = [read_json(Gap, line) for line in lines]
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
        named = [read_json(Gap, line).what.removesuffix(", not sent") for line in lines]
        expected = {f"GET_CONSUMER_CONNECTION_LIST(consumerGroup={group})" for group in (*broker.groups, "billing")}
        assert expected | {"GET_ALL_CONSUMER_OFFSET()", "GET_TOPIC_STATS_INFO(topic=orders)"} <= set(named)
        assert len(named) == len(set(named)), "each once"


def test_a_complete_round_has_no_file_of_gaps(tmp_path: Path) -> None:
    @run(tmp_path, broker_with(10, 10))
    async def _(rounds: Rounds) -> None:
        await rounds.run()
        assert not (rounds.folder / GAPS_FILE_NAME).exists()


def test_logs_land_with_the_round_and_are_read_once(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    line = (
        "2026-11-21 18:38:00 WARN PullMessageThread_1 - PULL_OFFSET_MOVED:correction offset. topic=orders,"
        " groupId=billing, requestOffset=1, newOffset=500, suggestBrokerId=0\n"
    )
    log.write_text(line)
    sources = [{"name": "broker-a", "files": [str(log)], "broker_name": "broker-a"}]
    gone = {"name": "gone", "files": [str(tmp_path / "nowhere" / "*.log")], "broker_name": "broker-a"}

    @run(tmp_path / "landing", broker_with(10, 10), cluster={"logs": sources})
    async def _(rounds: Rounds) -> None:
        manifest = await rounds.run()
        (event,) = rounds.rows(LOG_EVENTS)
        assert (event["topic"], event["consumer_group"], event["broker_name"]) == ("orders", "billing", "broker-a")
        (move,) = rounds.rows(OFFSET_MOVES)
        assert (move["origin"], move["requested_offset"], move["corrected_offset"]) == ("log", 1, 500)
        assert move["moved_at"] == datetime(2026, 11, 21, 10, 38, tzinfo=UTC), "brokers write GMT+8"
        assert manifest.log_cursors[0].next_position == len(line)
        with log.open("a") as appended:
            appended.write(line.replace("=500", "=600"))
        manifest = await rounds.run()
        assert [row["corrected_offset"] for row in rounds.rows(OFFSET_MOVES)] == [600]
        assert manifest.log_cursors[0].next_position == 2 * len(line)
        manifest = await rounds.run(logs=[gone])
        assert any(gap.what == "log gone" for gap in manifest.gaps)


def test_an_offset_that_went_back_between_two_rounds_is_a_move(tmp_path: Path) -> None:
    broker = broker_with(900, 1_000)

    @run(tmp_path, broker)
    async def _(rounds: Rounds) -> None:
        await rounds.run()
        assert rounds.rows(OFFSET_MOVES) == [], "nothing to compare with"
        broker.committed["orders", "billing"] = {0: 100}
        await rounds.run()
        (move,) = rounds.rows(OFFSET_MOVES)
        assert (move["origin"], move["requested_offset"], move["corrected_offset"]) == ("snapshot", 900, 100)
        assert move["source"] == "broker-a/orders/0/billing"
        await rounds.run()
        assert rounds.rows(OFFSET_MOVES) == []


@pytest.mark.parametrize("name", ["\u202ebilling", "=HYPERLINK(1)", "../../etc/passwd", "a" * 255, "<b>&", "%s{0}\n"])
def test_hostile_names_come_back_as_they_are(tmp_path: Path, name: str) -> None:
    broker = broker_with(4, 10, group=name)
    broker.subscriptions = {name: ["orders"]}

    @run(tmp_path, broker)
    async def _(rounds: Rounds) -> None:
        await rounds.run()
        assert rounds.queue(name)["consumer_offset"] == 4
        assert rounds.group(name)["suspect_reason"] == "waiting"
        manifest = json.loads((rounds.folder / "manifest.json").read_text())
        assert manifest["cluster"] == "main"
        assert {path.name for path in tmp_path.iterdir()} == {"main"}
