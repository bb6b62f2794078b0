"""What brokers answer: offsets, rates, members, and figures of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from offsetguard.collect.held_back import CHECK_GROUP, GIVEN_UP_TOPIC, HALF_TOPIC, SCHEDULE_TOPIC
from offsetguard.model.offsets import MessageQueue
from offsetguard.sources.rocketmq.requests import (
    GetAllConsumerOffset,
    GetAllSubscriptionGroupConfig,
    GetAllTopicConfig,
    GetBrokerConfig,
    GetBrokerRuntimeInfo,
    GetConsumerConnectionList,
    GetConsumerRunningInfo,
    GetConsumeStats,
    GetEarliestMsgStoretime,
    GetSystemTopicListFromBroker,
    GetTopicStatsInfo,
    QueryConsumeTimeSpan,
    Request,
    SearchOffsetByTimestamp,
    ViewBrokerStatsData,
)
from offsetguard_peers.rocketmq.extra_requests import GetConsumerListByGroup
from offsetguard_peers.source_matrix.sources import MASTER, NO, NOT_IN_VERSION, REPLICAS, SLAVE, YES
from offsetguard_peers.source_matrix.stage import (
    ABSENT_AFTER_S,
    BILLING,
    BROADCASTING,
    DEAD,
    DEAD_LETTERS,
    DELAYED,
    FAILING,
    LONGEST_LEVEL,
    ORDERLY,
    ORDERS,
    SEEN_WITHIN_S,
    SENT,
    SILENT,
    Cells,
    Probes,
)

AnswerT = TypeVar("AnswerT")


async def offsets(probes: Probes) -> dict[str, Cells]:
    """Measure the section."""
    queue, silent = MessageQueue(ORDERS, "broker-a", 0), MessageQueue(SILENT, "broker-a", 0)

    async def never_committed(role: str) -> str:
        """43 has no entry, although 208 says 0 as if the group had committed."""
        said = await probes.cell(
            role, GetConsumeStats(BILLING, SILENT), lambda stats: stats.queues[silent].consumer_offset == 0
        )
        committed = await probes.cell(
            role, GetAllConsumerOffset(), lambda all_of_them: (SILENT, BILLING) in all_of_them.offsets
        )
        return YES if (said, committed) == (YES, NO) else NO

    is_4 = probes.stage.cluster.version.startswith("4.")  # where a broker never hears of it
    broadcast_offset = await probes.until_yes(  # 5.x writes it down every 5 s
        lambda: probes.cell(
            MASTER, GetAllConsumerOffset(), lambda answer: (ORDERS, BROADCASTING) in answer.broadcast_offsets
        ),
        within_s=ABSENT_AFTER_S if is_4 else SEEN_WITHIN_S,
    )
    pull_offset = await probes.own_or_all(
        lambda group: GetConsumeStats(group, ORDERS), lambda stats: stats.queues[queue].pull_offset
    )
    stats = await probes.client.call(probes.address(MASTER), GetConsumeStats(BILLING, ORDERS))
    if stats.queues[queue].pull_offset is None:  # 5.1 and newer say at least the consumer offset
        pull_offset = dict.fromkeys(REPLICAS, NOT_IN_VERSION)
    return {
        "max_and_min_offset": await probes.both(
            GetTopicStatsInfo(ORDERS), lambda stats: stats.queues[queue].max_offset == SENT // 2
        ),
        "consumer_offset": await probes.both(
            GetAllConsumerOffset(), lambda answer: answer.offsets[ORDERS, BILLING] == {0: SENT // 4}
        ),
        "never_committed": {role: await never_committed(role) for role in REPLICAS},
        "pull_offset": pull_offset,
        "broadcast_offset": {MASTER: broadcast_offset},
        "last_timestamp": await probes.both(
            GetConsumeStats(BILLING, ORDERS), lambda stats: stats.queues[queue].last_timestamp
        ),
        "oldest_unconsumed": await probes.both(
            QueryConsumeTimeSpan(ORDERS, BILLING), lambda spans: spans.queues[queue].delay_ms
        ),
    }


async def rates(probes: Probes) -> dict[str, Cells]:
    """Measure the section."""

    def counted(_: object) -> bool:
        return True

    return {
        "put_rate": await probes.both(ViewBrokerStatsData("TOPIC_PUT_NUMS", ORDERS), counted),
        "get_rate": await probes.own_or_all(
            lambda group: ViewBrokerStatsData("GROUP_GET_NUMS", f"{ORDERS}@{group}"), counted
        ),
        "get_latency": await probes.own_or_all(
            lambda group: ViewBrokerStatsData("GROUP_GET_LATENCY", f"0@{ORDERS}@{group}"), counted
        ),
        "send_back_rate": await probes.both(ViewBrokerStatsData("SNDBCK_PUT_NUMS", f"{DEAD}@{FAILING}"), counted),
    }


async def members(probes: Probes) -> dict[str, Cells]:
    """Measure the section."""
    client_id = probes.stage.client_id(ORDERLY)
    running_info = GetConsumerRunningInfo(ORDERLY, client_id)

    return {
        "connections": await probes.both_in_time(
            GetConsumerConnectionList(ORDERLY),
            lambda group: [one.client_id for one in group.connections] == [client_id] and ORDERS in group.subscriptions,
        ),
        "member_list": await probes.both_in_time(GetConsumerListByGroup(ORDERLY), lambda members: client_id in members),
        "running_info": await probes.both_in_time(
            running_info, lambda info: info.thread_count and info.subscriptions and info.queues
        ),
        "queue_locks": await probes.both_in_time(
            running_info,
            lambda info: info.orderly and any(queue.locked and queue.last_lock_at for queue in info.queues.values()),
        ),
    }


async def brokers(probes: Probes) -> dict[str, Cells]:
    """Measure the section."""
    ends = [
        (await probes.client.call(probes.address(role), GetBrokerRuntimeInfo())).commit_log_max_offset
        for role in REPLICAS
    ]
    return {
        "runtime": await probes.both(
            GetBrokerRuntimeInfo(),
            lambda info: info.boot_at and info.broker_version_desc and info.commit_log_max_offset,
        ),
        "settings": await probes.both(GetBrokerConfig(), lambda settings: settings["brokerRole"]),
        "topics": await probes.both(GetAllTopicConfig(), lambda answer: {ORDERS, DEAD} <= set(answer.topics)),
        "groups": await probes.both(GetAllSubscriptionGroupConfig(), lambda answer: BILLING in answer.groups),
        "system_topics": await probes.both(
            GetSystemTopicListFromBroker(), lambda answer: {"TBW102", "OFFSET_MOVED_EVENT"} <= set(answer.topics)
        ),
        "slave_distance": {MASTER: YES if ends[0] is not None else NO, SLAVE: YES if ends[1] is not None else NO},
        "dead_letters": await probes.both_in_time(GetTopicStatsInfo(DEAD_LETTERS), _has_messages),
    }


async def held_back(probes: Probes) -> dict[str, Cells]:
    """Measure the section."""
    level = f"scheduleMessageOffset_{LONGEST_LEVEL}"
    scheduled = MessageQueue(SCHEDULE_TOPIC, "broker-a", LONGEST_LEVEL - 1)
    is_4 = probes.stage.cluster.version.startswith("4.")
    timers = ("timerCongestNum", "timerOffsetBehind", "timerReadBehind")

    async def cell(request: Request[AnswerT], tells: Callable[[AnswerT], object]) -> str:
        return await probes.until_yes(lambda: probes.cell(MASTER, request, tells))

    checked = await cell(GetAllConsumerOffset(), lambda answer: answer.offsets.get((HALF_TOPIC, CHECK_GROUP)))
    halves = await cell(GetTopicStatsInfo(HALF_TOPIC), _has_messages)
    told = await probes.cell(MASTER, GetBrokerRuntimeInfo(), lambda info: set(timers) <= set(info.table))
    delayed = await cell(GetTopicStatsInfo(SCHEDULE_TOPIC), lambda stats: stats.queues[scheduled].max_offset == DELAYED)
    told_of_level = await probes.cell(
        MASTER, GetBrokerRuntimeInfo(), lambda info: info.table.get(level) in (f"0,{DELAYED}", None if is_4 else "")
    )
    cells = {
        "half_messages": YES if checked == halves == YES else NO,
        "given_up": await cell(GetTopicStatsInfo(GIVEN_UP_TOPIC), _has_messages),
        "delayed_messages": YES if delayed == told_of_level == YES else NO,
        "delayed_late": await cell(  # a moment to come: 4.x gives the last message, 5.x the end
            SearchOffsetByTimestamp(SCHEDULE_TOPIC, LONGEST_LEVEL - 1, 2**42), lambda offset: offset >= DELAYED - 1
        ),
        "timer_messages": NOT_IN_VERSION if is_4 and told == NO else told,
        "oldest_dead_letter": await cell(GetEarliestMsgStoretime(DEAD_LETTERS, 0), bool),
    }
    return {source: {MASTER: said} for source, said in cells.items()}


def _has_messages(stats: Any) -> bool:
    return any(queue.max_offset > 0 for queue in stats.queues.values())
