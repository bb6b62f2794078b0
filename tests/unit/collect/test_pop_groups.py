"""POP groups are recognised, and what waits and what is in flight is told as it was on live brokers, or not at all."""

import re
from array import array
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.collect.broker_reading import BrokerReading, ClientAnswer, QueueEnds, StatsItem
from offsetguard.collect.metrics_endpoint import BrokerMetrics
from offsetguard.collect.pop import Consumption, Evidence, GroupSigns, pop_retry_topics, progress, recognise
from offsetguard.collect.pop_figures import COUNTER_SETTLES, GroupConsumption, consumption_of
from offsetguard.collect.replica import Answer, Replica
from offsetguard.model.offsets import MessageQueue
from offsetguard.sources.rocketmq.brokers import BrokerRuntimeInfo, BrokerStats, StatsSnapshot, TopicConfig
from offsetguard.sources.rocketmq.consumers import (
    ConsumerRunningInfo,
    PopProcessQueueInfo,
    consumer_connections,
    consumer_running_info,
)
from offsetguard.sources.rocketmq.offset_table import all_consumer_offsets
from offsetguard_peers.cases.running import for_each, read_cases

CASES = Path(__file__).parent / "pop_cases"
NOW = datetime(2026, 11, 21, 9, 12, tzinfo=UTC)
GROUPS = ("pop-simple", "pop-push", "pop-remote")
COUNTED = BrokerStats(*[StatsSnapshot(0, 0.0, 0.0)] * 3)  # exists, although nothing was counted lately
TOPICS = {"jobs": [25] * 4, "mails": [30] * 2, "tasks": [50] * 2}


def queue_ends(max_offsets: list[int], min_offset: int = 0) -> QueueEnds:
    count = len(max_offsets)
    low, high, updated = array("q", [min_offset] * count), array("q", max_offsets), array("q", [0] * count)
    return QueueEnds(NOW, array("i", range(count)), low, high, updated)


def master_of(case: dict[str, Any]) -> BrokerReading:
    ends = TOPICS | {topic: [end] for topic, end in case.get("retry", {}).items()}
    boot_at = NOW - timedelta(minutes=1) if case.get("restarted") else NOW - timedelta(minutes=30)
    earliest_ms = int((NOW - timedelta(minutes=20)).timestamp() * 1000)
    reading = BrokerReading(Replica("broker-a", 0, "127.0.0.1:10911"), answered_at=NOW)
    reading.runtime = BrokerRuntimeInfo(
        {
            "brokerVersionDesc": "V5_5_1",
            "bootTimestamp": str(int(boot_at.timestamp() * 1000)),
            "earliestMessageTimeStamp": str(earliest_ms),
        }
    )
    reading.topics = {topic: TopicConfig(topic, len(ids), len(ids), 6, order=False) for topic, ids in ends.items()}
    reading.queue_ends = {topic: queue_ends(queues) for topic, queues in ends.items()}
    reading.committed = Answer(all_consumer_offsets((CASES / f"43_{case['step']}.json").read_bytes()), NOW)
    reading.connections = dict.fromkeys(GROUPS)
    for group in case.get("clients", ()):
        reading.connections[group] = consumer_connections((CASES / f"203_{case['step']}.json").read_bytes())
    return reading


def told_of(case: dict[str, Any], *readings: BrokerReading) -> dict[str, GroupConsumption]:
    """Return what a round says: `readings` beside what the case says of clients and the round before."""
    master = readings[0]
    for group in (group for group, told in case.get("clients", {}).items() if told):
        info = consumer_running_info((CASES / f"307_{case['step']}.json").read_bytes())
        for client in master.connections[group].connections:
            master.running_info.setdefault((group, client.client_id), ClientAnswer(info, None, NOW))
    for group, popped in case.get("popped", {}).items():
        item = StatsItem("GROUP_CK_NUMS", f"jobs@{group}", "jobs", group)
        master.broker_stats[item] = Answer(COUNTED if popped else None, NOW)
    return consumption_of(
        readings,
        case["expect"],
        groups_before={group: {"consumption": value} for group, value in case.get("remembered", {}).items()},
        metrics={"broker-a": metrics_of(case["step"])} if case.get("metrics") else {},
        proxy_members={group: frozenset(ids) for group, ids in case.get("proxies", {}).items()},
        waiting_groups=case.get("waiting", ()),
    )


def metrics_of(step: str) -> BrokerMetrics:
    metrics = BrokerMetrics()
    for line in (CASES / f"metrics_{step}.txt").read_bytes().split(b"\n"):
        metrics.add_line(line, "broker-a")
    assert metrics.unreadable_count == 0
    return metrics


@for_each("case", read_cases(CASES / "cases.yml"), lambda case: f"{case['step']}: {case['why']}")
def test_what_is_said_is_what_was_true(case: dict[str, Any]) -> None:
    columns = ("consumption", "pop_available", "pop_inflight", "pop_inflight_origin", "online_client_count")
    for group, one in told_of(case, master_of(case)).items():
        expected = case["expect"][group]
        told = [one.columns()[column] for column in columns] + [one.finished]
        assert told[: len(expected)] == expected


GRPC = {"step": "s1", "metrics": True, "expect": ["pop-simple"]}


def told_of_simple(*readings: BrokerReading, **others: Any) -> GroupConsumption:
    return told_of({**GRPC, **others}, *readings)["pop-simple"]


def other_broker(case: dict[str, Any]) -> BrokerReading:
    reading = master_of(case)
    reading.replica = Replica("broker-b", 0, "127.0.0.1:10921")
    return reading


def test_a_part_that_was_not_seen_makes_the_whole_sum_unknown() -> None:
    blind, half = other_broker(GRPC), other_broker(GRPC)
    blind.committed = None
    del half.queue_ends["jobs"]
    for second in (blind, half):
        told = told_of_simple(master_of(GRPC), second)
        assert (told.is_pop, told.available, told.inflight) == (True, None, None)


def test_a_broker_that_never_handed_out_anything_counts_with_all_that_it_has_and_needs_no_metrics() -> None:
    told = told_of_simple(master_of(GRPC), other_broker({"step": "s0"}))
    assert (told.available, told.inflight) == (60 + 100, 40)


def test_no_committed_topic_is_no_proof_that_nothing_is_in_flight() -> None:
    told = told_of_simple(master_of({"step": "s0"}), step="s0", metrics=False, remembered={"pop-simple": "pop"})
    assert (told.is_pop, told.inflight, told.inflight_origin) == (True, None, None)


@pytest.mark.parametrize("said", [-1, 2**63])
def test_a_client_that_says_what_cannot_be_is_not_believed(said: int) -> None:
    case = {"step": "s5", "clients": {"pop-remote": True}, "retry": {"%RETRY%pop-remote": 0}, "expect": ["pop-remote"]}
    reading = master_of(case)
    (client,) = reading.connections["pop-remote"].connections
    popped = {MessageQueue("tasks", "broker-a", -1): PopProcessQueueInfo(said, None, None)}
    info = ConsumerRunningInfo({}, (), {}, pop_queues=popped)
    reading.running_info["pop-remote", client.client_id] = ClientAnswer(info, None, NOW)
    told = told_of(case, reading)["pop-remote"]
    assert (told.is_pop, told.inflight, told.inflight_origin) == (True, None, None)


def test_deleted_messages_are_not_available_and_unreadable_queues_are_not_either() -> None:
    reading = master_of(GRPC)
    reading.queue_ends["jobs"] = queue_ends([25, 25, 25, 25, 99], min_offset=10)  # committed: 8, 7, 25, 0
    assert told_of_simple(reading).available == 15 + 15 + 0 + 15


def test_the_counter_of_a_fresh_broker_is_believed_and_that_of_a_restarted_one_after_a_while() -> None:
    reading = master_of({**GRPC, "restarted": True})
    assert told_of_simple(reading).inflight is None
    reading.answered_at = NOW + COUNTER_SETTLES
    assert told_of_simple(reading).inflight == 40
    reading.answered_at = NOW
    for earliest, inflight in ((NOW.timestamp(), None), (int(NOW.timestamp() * 1000), 40)):  # no number is no proof
        reading.runtime = BrokerRuntimeInfo({**reading.runtime.table, "earliestMessageTimeStamp": str(earliest)})
        assert told_of_simple(reading).inflight == inflight


def test_what_a_slave_counted_tells_as_well() -> None:
    master, slave = master_of({"step": "s0"}), master_of({"step": "s0"})
    slave.replica = Replica("broker-a", 1, "127.0.0.1:10921")
    for reading, name, counted in ((master, "GROUP_CK_NUMS", None), (slave, "GROUP_ACK_NUMS", COUNTED)):
        reading.broker_stats[StatsItem(name, "jobs@pop-simple", "jobs", "pop-simple")] = Answer(counted, NOW)
    assert told_of({"step": "s0", "expect": GROUPS}, master, slave)["pop-simple"].evidence is Evidence.POP_STATISTICS


@for_each(
    "retry_topic, group, topics, groups, topic",
    [
        ("%RETRY%pop_tasks", "pop", {"tasks"}, set(), "tasks"),
        ("%RETRY%pop+tasks", "pop", set(), set(), "tasks"),
        ("%RETRY%pop", "pop", {"tasks"}, set(), None),
        ("%RETRY%pop_", "pop", set(), set(), None),
        ("%RETRY%pop_push_big_tasks", "pop_push", {"big_tasks"}, set(), "big_tasks"),
        ("%RETRY%pop_push_big_tasks", "pop", {"push_big_tasks", "big_tasks"}, set(), "push_big_tasks"),
        ("%RETRY%pop_tasks", "pop", set(), {"pop", "pop_tasks"}, None),
        ("%RETRY%pop_tasks", "pop", {"tasks"}, {"pop", "pop_tasks"}, "tasks"),
        ("%RETRY%pop_gone", "pop", set(), {"pop"}, "gone"),
        ("tasks", "pop", {"tasks"}, set(), None),
    ],
)
def test_the_key_names_the_group_so_that_underscores_do_not_mislead(
    retry_topic: str, group: str, topics: set[str], groups: set[str], topic: str | None
) -> None:
    assert pop_retry_topics(group, [retry_topic], topics, groups) == ({retry_topic: topic} if topic else {})


POP, CLASSIC = Consumption.POP, Consumption.CLASSIC
V5 = GroupSigns(broker_versions=("V5_5_0",))


@for_each(
    "signs, consumption, evidence",
    [
        (V5, None, None),
        (replace(V5, pop_table=True), POP, Evidence.POP_TABLE),
        (replace(V5, consume_types=frozenset({"CONSUME_POP"})), POP, Evidence.CONSUME_TYPE),
        (replace(V5, consume_types=frozenset({"CONSUME_PASSIVELY"})), None, None),
        (replace(V5, counted_as_pop=True), POP, Evidence.BROKER_METRICS),
        (replace(V5, pop_statistics=True), POP, Evidence.POP_STATISTICS),
        (replace(V5, pop_statistics=False), None, None),
        (replace(V5, retry_topics=frozenset({"%RETRY%pop_tasks"})), POP, Evidence.RETRY_TOPIC),
        (replace(V5, lite_topics=True), POP, Evidence.LITE_TOPICS),
        (replace(V5, message_model="BROADCASTING"), CLASSIC, Evidence.BROADCASTING),
        (replace(V5, client_versions=(409, 407)), CLASSIC, Evidence.OLD_CLIENTS),
        (replace(V5, client_versions=(409, 413)), None, None),
        (replace(V5, every_client_answered=True), CLASSIC, Evidence.RUNNING_INFO),
        (replace(V5, every_client_answered=True, remembered=POP), CLASSIC, Evidence.RUNNING_INFO),
        (replace(V5, every_client_answered=True, pop_statistics=True), POP, Evidence.POP_STATISTICS),
        (replace(V5, remembered=POP), POP, Evidence.REMEMBERED),
        (replace(V5, remembered=CLASSIC), CLASSIC, Evidence.REMEMBERED),
        (replace(V5, remembered=CLASSIC, pop_statistics=True), POP, Evidence.POP_STATISTICS),
        (GroupSigns(broker_versions=("V4_9_7", "V4_9_8")), CLASSIC, Evidence.OLD_BROKERS),
        (GroupSigns(broker_versions=("V4_9_7",), retry_topics=frozenset({"x"})), CLASSIC, Evidence.OLD_BROKERS),
        (GroupSigns(broker_versions=("V4_9_7", "V5_5_0")), None, None),
        (GroupSigns(broker_versions=("V4_9_7", None)), None, None),
        (GroupSigns(), None, None),
    ],
)
def test_the_most_certain_sign_decides(
    signs: GroupSigns, consumption: Consumption | None, evidence: Evidence | None
) -> None:
    assert recognise(signs) == (consumption, evidence)


def test_the_page_for_operators_lists_every_sign_in_the_order_in_which_they_count() -> None:
    page = (Path(__file__).parents[3] / "docs" / "pop-groups.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+)` \| (?:pop|classic|as before) \|", page, flags=re.MULTILINE)
    assert listed == [evidence.value for evidence in Evidence]
    assert f"{COUNTER_SETTLES // timedelta(minutes=1)} minutes after a restart" in page


START = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)


def after(rounds: list[tuple[int | None, int | None]]) -> tuple[int | None, int | None]:
    """Return (finished, minute since which nothing was) after one round a minute, given as (finished, in flight)."""
    known: dict[str, Any] = {}
    for minute, (finished, inflight) in enumerate(rounds):
        known = progress(known, finished, inflight, START + timedelta(minutes=minute))
    since = known["pop_unfinished_since"]
    return known["pop_finished"], None if since is None else (since - START) // timedelta(minutes=1)


@pytest.mark.parametrize(
    ("why", "rounds", "expected"),
    [
        ("60 messages hang from the first look on", [(0, 60), (0, 60), (0, 60)], (0, 0)),
        ("nothing is in flight", [(10, 60), (70, 0)], (70, None)),
        ("in flight again: the time begins anew", [(70, 0), (70, 5), (70, 5)], (70, 1)),
        ("one was finished in between", [(0, 60), (1, 59), (1, 59)], (1, 1)),
        ("a round that could not see says nothing", [(0, 60), (None, None), (None, 60), (0, 60)], (0, 0)),
        ("what was handed out while we read counts twice for a moment", [(100, 5), (92, 8), (100, 8)], (100, 0)),
        ("a topic was recreated", [(1000, 5), (3, 5), (3, 5)], (3, 1)),
        ("never seen", [(None, None)], (None, None)),
    ],
)
def test_the_time_begins_with_the_first_look_that_saw_nothing_finished(why: str, rounds, expected) -> None:
    assert after(rounds) == expected, why


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 20)), min_size=2, max_size=20))
def test_a_group_that_finishes_something_between_all_looks_never_hangs(rounds: list[tuple[int, int]]) -> None:
    """Whatever is handed out while the figures are read, as long as more is finished than that."""
    finished, seen = 0, []
    for doubled, inflight in rounds:
        finished += doubled + 1
        seen.append((finished - doubled, inflight + doubled))
    assert after(seen)[1] in (None, len(seen) - 1)
