"""What only proxies and lite topics tell of groups: clients that no broker sees, lags that no table shows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from offsetguard.collect.broker_reading import BrokerReading, ConsumeQueues
from offsetguard.collect.group_members import MAX_GROUPS, groups_for_proxies, read_proxy_members
from offsetguard.collect.group_rows import lite_columns, lite_lag, offsets_out_of_sight
from offsetguard.collect.manifest import Outcome, RequestLedger
from offsetguard.collect.replica import Answer, Replica
from offsetguard.model.errors import RequestTimedOut, RocketMQError
from offsetguard.model.offsets import MessageQueue
from offsetguard.sources.rocketmq.codes import ResponseCode
from offsetguard.sources.rocketmq.consumers import Connection, ConsumerConnections
from offsetguard.sources.rocketmq.offset_table import AllConsumerOffsets, all_consumer_offsets
from offsetguard.sources.rocketmq.offsets import ConsumeOffsets, consume_stats
from offsetguard.sources.rocketmq.refusals import refusal
from offsetguard.sources.rocketmq.requests import GetConsumerConnectionList

NOW = datetime(2026, 11, 21, 9, 12, tzinfo=UTC)


def connections(*client_ids: str) -> ConsumerConnections:
    clients = tuple(Connection(client_id, "127.0.0.1:1", "JAVA", 513) for client_id in client_ids)
    return ConsumerConnections(clients, "CONSUME_ACTIVELY", "CLUSTERING", {})


class Proxies:
    """Answers 203 from a table: address -> group -> client ids; a missing group is offline, a missing proxy hangs."""

    def __init__(self, members: dict[str, dict[str, list[str]]]) -> None:
        self.members = members

    async def call_many(
        self, address: str, requests: Sequence[GetConsumerConnectionList]
    ) -> list[ConsumerConnections | RocketMQError]:
        if address not in self.members:
            return [RequestTimedOut(address, "no answer")] * len(requests)
        offline = refusal(address, ResponseCode.CONSUMER_NOT_ONLINE, "not online")
        known = self.members[address]
        groups = (request.consumer_group for request in requests)
        return [connections(*known[group]) if group in known else offline for group in groups]


TWO = {"p1:8080": {"jobs-workers": ["a", "b"]}, "p2:8080": {"jobs-workers": ["b", "c"], "mailers": ["d"]}}


def ask(proxies: list[str], groups: list[str]) -> tuple[dict[str, frozenset[str]], RequestLedger]:
    ledger = RequestLedger()
    return asyncio.run(read_proxy_members(Proxies(TWO), proxies, groups, ledger)), ledger  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("proxies", "members"),
    [
        ([], {}),
        (["p1:8080"], {"jobs-workers": {"a", "b"}, "mailers": set()}),
        (["p1:8080", "p2:8080"], {"jobs-workers": {"a", "b", "c"}, "mailers": {"d"}}),
        (["p1:8080", "gone:8080"], {}),
    ],
)
def test_only_what_all_proxies_said_counts(proxies: list[str], members: dict[str, set[str]]) -> None:
    found, ledger = ask(proxies, ["jobs-workers", "mailers"])
    assert found == members
    assert ledger.counts.asked == 2 * len(proxies)
    assert [gap.address for gap in ledger.gaps] == [one for one in proxies if one == "gone:8080"]


def test_a_proxy_that_hangs_is_one_gap_that_says_what_to_do() -> None:
    (gap,) = ask(["gone:8080"], ["one", "two"])[1].gaps
    assert (gap.address, gap.outcome, gap.broker_name) == ("gone:8080", Outcome.TIMED_OUT, None)
    assert "2 groups" in gap.what
    assert "check proxies in the configuration" in gap.reason


def reading(broker_name: str = "broker-a", **groups: ConsumerConnections | None) -> BrokerReading:
    made = BrokerReading(Replica(broker_name, 0, "127.0.0.1:10911"))
    made.connections.update(groups)
    return made


def test_proxies_are_asked_about_groups_that_no_broker_sees_suspects_first() -> None:
    first = reading(seen=connections("a"), unseen=None, CID_RMQ_SYS_TRANS=None)
    assert groups_for_proxies([first, reading("broker-b", seen=None, unseen=None)]) == ["unseen"]
    many = reading(**{f"group-{number:05}": None for number in range(MAX_GROUPS)}, the_suspect=None)
    members, ledger = ask(["p1:8080"], groups_for_proxies([many], {"the_suspect"}))
    assert next(iter(members)) == "the_suspect"
    assert (ledger.counts.asked, [one.count for one in ledger.not_asked]) == (MAX_GROUPS, [1])


BODIES = Path(__file__).parents[1] / "sources" / "rocketmq" / "bodies"
COMMITTED = all_consumer_offsets((BODIES / "43_5.5.1-lite.json").read_bytes())
SWITCHED = all_consumer_offsets(
    b'{"offsetTable":{"rmq_sys_REVIVE@CID_RMQ_SYS_REVIVE_GROUP":{0:1},"%LMQ%$a$b@g":{0:1}}}'
)
CLASSIC = all_consumer_offsets((BODIES / "43_5.5.1.json").read_bytes())
STATS = ConsumeQueues(consume_stats((Path(__file__).parent / "pop_cases" / "208_lite.json").read_bytes()))
HUGE = ConsumeQueues({MessageQueue("%LMQ%$a$b", "broker-a", 0): ConsumeOffsets(2**63 - 1, -1, 0, None)})


@pytest.mark.parametrize(
    ("masters", "expected"),
    [
        ([(COMMITTED, STATS)], {"lite-readers": (12, 0)}),  # a real group has consumed its twelve sessions
        ([(COMMITTED, None)], {"lite-readers": (12, None)}),  # it was not asked
        ([(COMMITTED, STATS), (COMMITTED, None)], {"lite-readers": (12, None)}),  # the lag of one of two is no lag
        ([(COMMITTED, STATS), (CLASSIC, None)], {"lite-readers": (12, 0)}),
        ([(COMMITTED, HUGE)], {"lite-readers": (12, None)}),  # no column holds it
        ([(CLASSIC, STATS)], {}),
    ],
)
def test_lite_topics_of_a_group_are_counted_and_their_lag_is_all_or_nothing(
    masters: list[tuple[AllConsumerOffsets, ConsumeQueues | None]], expected: dict[str, Any]
) -> None:
    """Given what each master said of offsets, and of `lite-readers` (208)."""
    readings = [reading(f"broker-{number}") for number in range(len(masters))]
    for one, (committed, queues) in zip(readings, masters, strict=True):
        one.committed = Answer(committed, NOW)
        if queues is not None:
            one.consume_stats["lite-readers"] = Answer(queues, NOW)
    found = lite_columns(readings)
    assert {group: (row["lite_topic_count"], row["lite_lag"]) for group, row in found.items()} == expected


def test_only_light_queues_count_and_none_of_them_less_than_nothing() -> None:
    lags = {"%LMQ%$chat$a": 3, "%LMQ%$chat$b": 4, "%LMQ%$chat$c": -5, "orders": 99}
    queues = {MessageQueue(name, "broker-a", 0): ConsumeOffsets(10, 10 - lag, 10, None) for name, lag in lags.items()}
    assert lite_lag(ConsumeQueues(queues)) == 7
    assert lite_lag(ConsumeQueues({})) is None


@pytest.mark.parametrize(
    ("settings", "committed", "before", "explained"),
    [
        ({"enableLmq": "true"}, SWITCHED, 12, True),
        ({"enableLmq": "false"}, SWITCHED, 12, False),
        (None, SWITCHED, 12, False),
        ({"enableLmq": "true"}, CLASSIC, 12, False),
        ({"enableLmq": "true"}, None, 12, False),
        ({"enableLmq": "true"}, SWITCHED, 0, False),
    ],
)
def test_offsets_that_vanish_with_the_switch_are_explained(
    settings: dict[str, str] | None, committed: AllConsumerOffsets | None, before: int, explained: bool
) -> None:
    master = reading()
    master.settings, master.committed = settings, Answer(committed, NOW)
    gap = offsets_out_of_sight(master, {"broker-a": before}.__getitem__)
    assert (gap is not None and gap.reason.startswith("all 12")) == explained
