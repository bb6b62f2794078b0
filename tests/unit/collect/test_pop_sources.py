"""What tells of POP groups is brought together: details of readings, members that proxies see, the round before."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from offsetguard.collect.broker_reading import BrokerReading, ClientAnswer, ConsumeQueues, StatsItem
from offsetguard.collect.group_members import MAX_GROUPS, groups_for_proxies, read_proxy_members
from offsetguard.collect.group_rows import lite_columns, lite_lag, offsets_out_of_sight
from offsetguard.collect.manifest import Outcome, RequestLedger
from offsetguard.collect.pop import Consumption
from offsetguard.collect.pop_figures import pop_sources
from offsetguard.collect.replica import Answer, Replica
from offsetguard.model.errors import RequestTimedOut, RocketMQError
from offsetguard.model.offsets import MessageQueue
from offsetguard.sources.rocketmq.broker_figures import BrokerStats, StatsSnapshot
from offsetguard.sources.rocketmq.consumers import Connection, ConsumerConnections, consumer_running_info
from offsetguard.sources.rocketmq.offset_table import AllConsumerOffsets, all_consumer_offsets
from offsetguard.sources.rocketmq.offsets import ConsumeOffsets, consume_stats
from offsetguard.sources.rocketmq.refusals import refusal
from offsetguard.sources.rocketmq.requests import GetConsumerConnectionList, Request

CASES = Path(__file__).parent / "pop_cases"
NOW = datetime(2026, 11, 21, 9, 12, tzinfo=UTC)
COUNTED = BrokerStats(*[StatsSnapshot(0, 0.0, 0.0)] * 3)  # exists, although nothing was counted lately
OFFLINE = 206


def connections(*client_ids: str) -> ConsumerConnections:
    clients = tuple(Connection(client_id, "127.0.0.1:1", "JAVA", 513) for client_id in client_ids)
    return ConsumerConnections(clients, "CONSUME_ACTIVELY", "CLUSTERING", None, {})


class Proxies:
    """Answers 203 from a table: address -> group -> client ids; a missing group is offline, a missing proxy hangs."""

    def __init__(self, members: dict[str, dict[str, list[str]]]) -> None:
        self.members = members

    def now(self, address: str) -> datetime:
        return NOW

    async def call(self, address: str, request: Request[Any]) -> Any:
        raise NotImplementedError

    async def call_many(
        self, address: str, requests: Sequence[GetConsumerConnectionList]
    ) -> list[ConsumerConnections | RocketMQError]:
        return [self._answer(address, request.consumer_group) for request in requests]

    def _answer(self, address: str, group: str) -> ConsumerConnections | RocketMQError:
        if address not in self.members:
            return RequestTimedOut(address, "no answer")
        if group not in self.members[address]:
            return refusal(address, OFFLINE, f"the consumer group[{group}] not online")
        return connections(*self.members[address][group])


TWO = {"p1:8080": {"jobs-workers": ["a", "b"]}, "p2:8080": {"jobs-workers": ["b", "c"], "mailers": ["d"]}}
ASKED = [
    ([], {}, 0),
    (["p1:8080"], {"jobs-workers": {"a", "b"}, "mailers": set()}, 0),
    (["p1:8080", "p2:8080"], {"jobs-workers": {"a", "b", "c"}, "mailers": {"d"}}, 0),
    (["p1:8080", "gone:8080"], {}, 1),
]


@pytest.mark.parametrize(("proxies", "members", "gap_count"), ASKED)
def test_only_what_all_proxies_said_counts(proxies: list[str], members: dict[str, set[str]], gap_count: int) -> None:
    ledger = RequestLedger()
    asking = read_proxy_members(Proxies(TWO), proxies, ["jobs-workers", "mailers"], ledger)  # type: ignore[arg-type]
    assert asyncio.run(asking) == members
    assert ledger.gap_count == gap_count
    assert ledger.counts.asked == 2 * len(proxies)


def test_a_proxy_that_hangs_is_one_gap_that_says_what_to_do() -> None:
    ledger = RequestLedger()
    asyncio.run(read_proxy_members(Proxies({}), ["gone:8080"], ["one", "two"], ledger))  # type: ignore[arg-type]
    (gap,) = ledger.gaps
    assert (gap.address, gap.outcome, gap.broker_name) == ("gone:8080", Outcome.TIMED_OUT, None)
    assert "2 groups" in gap.what
    assert "check proxies in the configuration" in gap.reason


def reading(broker_name: str = "broker-a", **groups: ConsumerConnections | None) -> BrokerReading:
    made = BrokerReading(Replica(broker_name, 0, "127.0.0.1:10911"))
    made.connections.update(groups)
    return made


def test_proxies_are_asked_about_groups_that_no_broker_sees() -> None:
    first = reading(seen=connections("a"), unseen=None, CID_RMQ_SYS_TRANS=None)
    second = reading("broker-b", seen=None, unseen=None)
    assert groups_for_proxies([first, second]) == ["unseen"]


def test_suspects_come_first_when_there_is_no_place_for_all() -> None:
    many = reading(**{f"group-{number:05}": None for number in range(MAX_GROUPS)}, the_suspect=None)
    groups = groups_for_proxies([many], {"the_suspect"})
    ledger = RequestLedger()
    asking = read_proxy_members(Proxies(TWO), ["p1:8080"], groups, ledger)  # type: ignore[arg-type]
    assert next(iter(asyncio.run(asking))) == "the_suspect"
    assert (ledger.counts.asked, [one.count for one in ledger.not_asked]) == (MAX_GROUPS, [1])


def test_running_info_and_statistics_of_all_replicas_are_used() -> None:
    master, slave = reading(), reading()
    slave.replica = Replica("broker-a", 1, "127.0.0.1:10921")
    info = consumer_running_info((CASES / "307_s5.json").read_bytes())
    master.running_info["pop-remote", "pr1"] = ClientAnswer(info, None, NOW)
    master.running_info["pop-remote", "pr2"] = ClientAnswer(None, "it did not answer", None)
    master.broker_stats[StatsItem("GROUP_CK_NUMS", "jobs@pop-simple")] = Answer(None, NOW)
    slave.broker_stats[StatsItem("GROUP_ACK_NUMS", "jobs@pop-simple")] = Answer(COUNTED, NOW)
    master.broker_stats[StatsItem("GROUP_CK_NUMS", "orders@billing")] = Answer(None, NOW)
    master.broker_stats[StatsItem("GROUP_GET_NUMS", "orders@shipping")] = Answer(COUNTED, NOW)
    sources = pop_sources([master, slave], {})
    assert sources.running_info == {("pop-remote", "pr1"): info}
    assert sources.popped == {"pop-simple": True, "billing": False}


def test_the_round_before_is_remembered_as_far_as_it_knew() -> None:
    before = {"a": {"consumption": "pop"}, "b": {"consumption": None}, "c": {"consumption": "?"}, "d": {}}
    assert pop_sources([], before).remembered == {"a": Consumption.POP}


BODIES = Path(__file__).parents[1] / "sources" / "rocketmq" / "bodies"
COMMITTED = all_consumer_offsets((BODIES / "43_5.5.1-lite.json").read_bytes())
SWITCHED = all_consumer_offsets(
    b'{"offsetTable":{"rmq_sys_REVIVE@CID_RMQ_SYS_REVIVE_GROUP":{0:1},"%LMQ%$a$b@g":{0:1}}}'
)
CLASSIC = all_consumer_offsets((BODIES / "43_5.5.1.json").read_bytes())
STATS = ConsumeQueues(consume_stats((Path(__file__).parent / "pop_cases" / "208_lite.json").read_bytes()).queues)


def stats(**lags: int) -> ConsumeQueues:
    queues = {
        MessageQueue(f"%LMQ%$chat${name}", "broker-a", 0): ConsumeOffsets(10, 10 - lag, 10, None)
        for name, lag in lags.items()
    }
    return ConsumeQueues({**queues, MessageQueue("orders", "broker-a", 0): ConsumeOffsets(99, 0, 0, None)})


def lite_figures(*masters: tuple[AllConsumerOffsets, ConsumeQueues | None]) -> dict[str, tuple[int, int | None]]:
    """Return (lite topics, lag) of each group; given what each master said of offsets, and of `lite-readers` (208)."""
    readings = [reading(f"broker-{number}") for number in range(len(masters))]
    for one, (committed, queues) in zip(readings, masters, strict=True):
        one.committed = Answer(committed, NOW)
        if queues is not None:
            one.consume_stats["lite-readers"] = Answer(queues, NOW)
    return {group: (row["lite_topic_count"], row["lite_lag"]) for group, row in lite_columns(readings).items()}


def test_a_real_group_has_consumed_its_twelve_sessions() -> None:
    assert lite_figures((COMMITTED, STATS)) == {"lite-readers": (12, 0)}


def test_a_group_that_was_not_asked_has_an_unknown_lag() -> None:
    assert lite_figures((COMMITTED, None)) == {"lite-readers": (12, None)}


def test_the_lag_of_one_of_two_brokers_is_no_lag() -> None:
    assert lite_figures((COMMITTED, STATS), (COMMITTED, None)) == {"lite-readers": (12, None)}
    assert lite_figures((COMMITTED, STATS), (CLASSIC, None)) == {"lite-readers": (12, 0)}


def test_a_lag_that_no_column_holds_is_unknown() -> None:
    huge = ConsumeQueues({MessageQueue("%LMQ%$a$b", "broker-a", 0): ConsumeOffsets(2**63 - 1, -1, 0, None)})
    assert lite_figures((COMMITTED, huge)) == {"lite-readers": (12, None)}


def test_only_light_queues_count_and_none_of_them_less_than_nothing() -> None:
    assert lite_lag(stats(a=3, b=4, c=-5)) == 7
    assert lite_lag(ConsumeQueues({})) is None


def test_groups_without_lite_topics_have_no_figures() -> None:
    assert lite_figures((CLASSIC, STATS)) == {}


SWITCHES = [
    ({"enableLmq": "true"}, SWITCHED, 12, True),
    ({"enableLmq": "false"}, SWITCHED, 12, False),
    ({}, SWITCHED, 12, False),
    (None, SWITCHED, 12, False),
    ({"enableLmq": "true"}, CLASSIC, 12, False),
    ({"enableLmq": "true"}, None, 12, False),
    ({"enableLmq": "true"}, SWITCHED, 0, False),
]


@pytest.mark.parametrize(("settings", "committed", "before", "explained"), SWITCHES)
def test_offsets_that_vanish_with_the_switch_are_explained(
    settings: dict[str, str] | None, committed: AllConsumerOffsets | None, before: int, explained: bool
) -> None:
    master = BrokerReading(Replica("broker-a", 0, "127.0.0.1:10911"), settings=settings)
    master.committed = Answer(committed, datetime.now(UTC)) if committed else None
    gap = offsets_out_of_sight(master, {"broker-a": before}.__getitem__)
    assert (gap is not None and gap.reason.startswith("all 12") and "lmqConsumerOffset.json" in gap.reason) == explained
