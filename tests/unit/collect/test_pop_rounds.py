"""Whole rounds with POP groups and lite topics, and what only proxies tell of groups that no broker sees."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from offsetguard.collect.broker_reading import BrokerReading, ConsumeQueues
from offsetguard.collect.group_members import MAX_GROUPS, groups_for_proxies, read_proxy_members
from offsetguard.collect.group_rows import lite_columns, lite_lag, offsets_out_of_sight
from offsetguard.collect.manifest import Manifest, Outcome, RequestLedger
from offsetguard.collect.replica import Answer, Replica
from offsetguard.facts.interval import IntervalFacts
from offsetguard.facts.rounds import facts_from_snapshot
from offsetguard.judge.rules import consumer_offline
from offsetguard.judge.rules.accumulation import find
from offsetguard.judge.windows.windows import judge_queues
from offsetguard.model.errors import RequestTimedOut, RocketMQError
from offsetguard.model.offsets import MessageQueue
from offsetguard.sources.rocketmq.codes import RequestCode, ResponseCode, refusal
from offsetguard.sources.rocketmq.consumers import Connection, ConsumerConnections
from offsetguard.sources.rocketmq.offset_table import AllConsumerOffsets, all_consumer_offsets
from offsetguard.sources.rocketmq.offsets import ConsumeOffsets, consume_stats
from offsetguard.sources.rocketmq.requests import GetConsumerConnectionList
from offsetguard.tables import LANDED, QUEUE_SNAPSHOTS
from offsetguard_peers.scripted.broker import ScriptedBroker
from offsetguard_peers.scripted.rounds import Play, Rounds, config_for

CONFIG = config_for("127.0.0.1:9")
POPS = {("GROUP_CK_NUMS", "jobs@workers"): 0.0}
EVERYBODY = {"share_rounds": 1}


def new_broker(**others: Any) -> ScriptedBroker:
    """Make a broker of 5.5.0."""
    return ScriptedBroker(
        "broker-a", runtime={"brokerVersionDesc": "V5_5_0", "earliestMessageTimeStamp": "-1"}, **others
    )


def popping_broker(**others: Any) -> ScriptedBroker:
    topics = {"jobs": [(0, 25), (0, 25)], "%RETRY%workers_jobs": [(0, 5)]}
    return new_broker(topics=topics, committed={("jobs", "workers"): {0: 20, 1: 25}}, **others)


def facts_of(rounds: Rounds, manifest: Manifest) -> IntervalFacts:
    rows = {table.name: rounds.rows(table) for table in LANDED}
    return facts_from_snapshot(manifest, rows, CONFIG, rounds.interval)


def told(rounds: Rounds, *names: str, group: str = "workers") -> tuple[object, ...]:
    return tuple(rounds.group(group)[name] for name in names)


def test_statistics_of_a_suspect_tell_that_it_pops_and_nobody_calls_it_offline(play: Play) -> None:
    rounds = play(popping_broker(stats=POPS))
    manifest = rounds.run()
    assert told(rounds, "consumption", "consumption_evidence") == ("pop", "pop_statistics")
    assert told(rounds, "pop_available", "pop_inflight", "online_client_count") == (5 + 5, None, None)
    assert {queue["pull_offset"] for queue in rounds.rows(QUEUE_SNAPSHOTS)} == {None}
    (finding,) = find(facts_of(rounds, manifest), CONFIG)
    assert (finding.variant, finding.figures["inflight"]) == ("clients_unknown", None)


def test_a_suspect_that_never_popped_may_be_called_offline(play: Play) -> None:
    rounds = play(popping_broker())
    manifest = rounds.run()
    assert told(rounds, "consumption", "online_client_count") == (None, 0)
    (finding,) = consumer_offline.find(judge_queues(facts_of(rounds, manifest), CONFIG), CONFIG)
    assert finding.consumer_group == "workers"


def test_a_suspect_for_whose_statistics_there_was_no_place_is_not_called_offline(play: Play) -> None:
    rounds = play(popping_broker())
    rounds.run(collection={"detail_groups": 0, "share_rounds": 1_000_000_000})
    assert told(rounds, "consumption", "online_client_count", "in_detail") == (None, None, False)


def test_what_was_recognised_is_remembered_and_asked_about_in_detail_although_nothing_waits(play: Play) -> None:
    broker = popping_broker(stats=dict(POPS))
    rounds = play(broker)
    rounds.run()
    broker.committed["jobs", "workers"] = {0: 25, 1: 25}  # everything is handed out
    broker.committed["%RETRY%other", "other"] = {0: 0}
    broker.stats.clear()  # the broker was restarted
    rounds.run()
    assert told(rounds, "consumption", "consumption_evidence") == ("pop", "remembered")
    assert told(rounds, "pop_available", "pop_inflight") == (0 + 5, None)
    assert told(rounds, "suspect_reason", "in_detail") == ("pop", True)


def test_members_come_from_the_proxy_that_the_configuration_names(play: Play) -> None:
    behind = ScriptedBroker("proxy", subscriptions={"workers": ["jobs"]})
    rounds = play(popping_broker())
    manifest = rounds.run(proxies=[rounds.serve(behind.play).address])
    assert manifest.gaps == ()
    assert told(rounds, "online_client_count") == (1,)
    assert set(behind.asked) == {RequestCode.GET_CONSUMER_CONNECTION_LIST}


def test_a_metrics_page_that_nobody_serves_is_a_gap_and_the_figure_unknown(play: Play) -> None:
    rounds = play(popping_broker(stats=POPS), metrics_urls={"broker-a": "http://127.0.0.1:1/metrics"})
    manifest = rounds.run()
    (gap,) = manifest.gaps
    assert (gap.broker_name, gap.address) == ("broker-a", "127.0.0.1:1")
    assert "check metrics_urls in the configuration" in gap.reason
    assert manifest.unseen_broker_names == ()
    assert told(rounds, "pop_inflight") == (None,)


def test_lite_topics_are_folded_into_their_group(play: Play) -> None:
    lite_topics = [f"%LMQ%$chat$session-{number}" for number in range(7)]
    topics = {"chat": [(0, 24), (0, 36)], **{topic: [(0, 5)] for topic in lite_topics}}
    broker = new_broker(topics=topics, committed={(topic, "readers"): {0: 3} for topic in lite_topics})
    rounds = play(broker)
    rounds.run()
    names = ("lite_topic_count", "lite_lag", "consumption", "consumption_evidence")
    assert told(rounds, *names, group="readers") == (7, None, "pop", "lite_topics")
    names = ("pop_available", "pop_inflight", "online_client_count")
    assert told(rounds, *names, group="readers") == (None, None, None)
    assert rounds.rows(QUEUE_SNAPSHOTS) == []
    rounds.run(collection=EVERYBODY)
    assert told(rounds, "lite_lag", group="readers") == (7 * 2,)


def test_offsets_that_vanish_with_a_switch_of_files_are_explained_once(play: Play) -> None:
    broker = popping_broker()
    rounds = play(broker)
    rounds.run()
    broker.settings, broker.committed = b"enableLmq=true\n", {}
    (gap,) = rounds.run().gaps
    assert (gap.broker_name, gap.what) == ("broker-a", "committed offsets")
    assert gap.reason.startswith("all 2 committed offsets are gone, and enableLmq is on")
    assert "lmqConsumerOffset.json" in gap.reason
    assert rounds.run().gaps == ()


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
