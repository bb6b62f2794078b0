"""What brokers and name servers answer: for each source what is asked, and what must be in the answer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from offsetguard.collect.held_back import CHECK_GROUP, GIVEN_UP_TOPIC, HALF_TOPIC, SCHEDULE_TOPIC
from offsetguard.model.offsets import MessageQueue
from offsetguard.sources.rocketmq import requests as ask_for
from offsetguard.sources.rocketmq.requests import Request
from offsetguard.sources.rocketmq.stacks import stacks_of
from offsetguard_peers.rocketmq.extra_requests import GetAllTopicListFromNameServer, GetConsumerListByGroup
from offsetguard_peers.source_matrix.sources import MASTER, NO, NOT_IN_VERSION, OWN, REPLICAS, SLAVE, YES, sources
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
    POPPED,
    POPPER,
    PULLED_AT,
    SEEN_WITHIN_S,
    SENT,
    SILENT,
    Cells,
    Probes,
    Stage,
)

Tells = Callable[[Any], object]
QUEUE = MessageQueue(ORDERS, "broker-a", 0)


def _anything(_: object) -> bool:
    return True


def _has_messages(stats: Any) -> bool:
    return any(queue.max_offset > 0 for queue in stats.queues.values())


@dataclass(frozen=True, slots=True)
class Asked:
    """A source is there where an answer tells it, and `besides` as well; asked again for what takes a moment."""

    request: Request[Any]
    tells: Tells = _anything
    within_s: float = 0.0
    besides: tuple[Request[Any], Tells] | None = None

    async def cell(self, probes: Probes, role: str) -> str:
        """Ask one peer."""

        async def ask() -> str:
            said = await probes.cell(role, self.request, self.tells)
            return await probes.cell(role, *self.besides) if said == YES and self.besides else said

        return await probes.until(ask, lambda cell: cell == YES, within_s=self.within_s)


def asked(stage: Stage) -> dict[str, Asked]:
    """Say what is asked for each source that single requests tell."""
    client_id, is_4 = stage.client_id(ORDERLY), stage.cluster.version.startswith("4.")
    running_info = ask_for.GetConsumerRunningInfo(ORDERLY, client_id)
    listed = {broker.broker_id: broker.listed_address for broker in stage.cluster.brokers}
    silent, scheduled = (
        MessageQueue(topic, "broker-a", at) for topic, at in ((SILENT, 0), (SCHEDULE_TOPIC, LONGEST_LEVEL - 1))
    )
    level, timers = (
        f"scheduleMessageOffset_{LONGEST_LEVEL}",
        {"timerCongestNum", "timerOffsetBehind", "timerReadBehind"},
    )
    return {
        "max_and_min_offset": Asked(
            ask_for.GetTopicStatsInfo(ORDERS), lambda stats: stats.queues[QUEUE].max_offset == SENT // 2
        ),
        "consumer_offset": Asked(
            ask_for.GetAllConsumerOffset(), lambda answer: answer.offsets[ORDERS, BILLING] == {0: SENT // 4}
        ),
        "never_committed": Asked(  # 43 has no entry, although 208 says 0 as if the group had committed
            ask_for.GetConsumeStats(BILLING, SILENT),
            lambda stats: stats[silent].consumer_offset == 0,
            besides=(ask_for.GetAllConsumerOffset(), lambda answer: (SILENT, BILLING) not in answer.offsets),
        ),
        "broadcast_offset": Asked(  # 5.x writes it down every 5 s; a broker of 4.x never hears of it
            ask_for.GetAllConsumerOffset(),
            lambda answer: (ORDERS, BROADCASTING) in answer.broadcast_offsets,
            within_s=ABSENT_AFTER_S if is_4 else SEEN_WITHIN_S,
        ),
        "last_timestamp": Asked(ask_for.GetConsumeStats(BILLING, ORDERS), lambda stats: stats[QUEUE].last_timestamp),
        "oldest_unconsumed": Asked(ask_for.QueryConsumeTimeSpan(ORDERS, BILLING), lambda spans: spans[QUEUE].delay_ms),
        "put_rate": Asked(ask_for.ViewBrokerStatsData("TOPIC_PUT_NUMS", ORDERS)),
        "send_back_rate": Asked(ask_for.ViewBrokerStatsData("SNDBCK_PUT_NUMS", f"{DEAD}@{FAILING}")),
        "connections": Asked(
            ask_for.GetConsumerConnectionList(ORDERLY),
            lambda group: [one.client_id for one in group.connections] == [client_id] and ORDERS in group.subscriptions,
            SEEN_WITHIN_S,
        ),
        "member_list": Asked(GetConsumerListByGroup(ORDERLY), lambda members: client_id in members, SEEN_WITHIN_S),
        "running_info": Asked(
            running_info, lambda info: info.thread_count and info.subscriptions and info.queues, SEEN_WITHIN_S
        ),
        "thread_stacks": Asked(
            ask_for.GetConsumerRunningInfo(ORDERLY, client_id, jstack_enable=True),
            lambda info: stacks_of(info.jstack, ORDERLY, client_id, datetime.now(UTC)),
            SEEN_WITHIN_S,
        ),
        "queue_locks": Asked(
            running_info,
            lambda info: info.orderly and any(queue.locked and queue.last_lock_at for queue in info.queues.values()),
            SEEN_WITHIN_S,
        ),
        "runtime": Asked(
            ask_for.GetBrokerRuntimeInfo(),
            lambda info: info.boot_at and info.broker_version_desc and info.commit_log_max_offset,
        ),
        "settings": Asked(ask_for.GetBrokerConfig(), lambda settings: settings["brokerRole"]),
        "topics": Asked(ask_for.GetAllTopicConfig(), lambda answer: {ORDERS, DEAD} <= set(answer)),
        "groups": Asked(ask_for.GetAllSubscriptionGroupConfig(), lambda answer: BILLING in answer),
        "system_topics": Asked(
            ask_for.GetSystemTopicListFromBroker(),
            lambda answer: {"TBW102", "OFFSET_MOVED_EVENT"} <= set(answer),
        ),
        "slave_distance": Asked(ask_for.GetBrokerRuntimeInfo(), lambda info: info.commit_log_max_offset is not None),
        "dead_letters": Asked(ask_for.GetTopicStatsInfo(DEAD_LETTERS), _has_messages, SEEN_WITHIN_S),
        "half_messages": Asked(
            ask_for.GetAllConsumerOffset(),
            lambda answer: answer.offsets.get((HALF_TOPIC, CHECK_GROUP)),
            SEEN_WITHIN_S,
            besides=(ask_for.GetTopicStatsInfo(HALF_TOPIC), _has_messages),
        ),
        "given_up": Asked(ask_for.GetTopicStatsInfo(GIVEN_UP_TOPIC), _has_messages, SEEN_WITHIN_S),
        "delayed_messages": Asked(
            ask_for.GetTopicStatsInfo(SCHEDULE_TOPIC),
            lambda stats: stats.queues[scheduled].max_offset == DELAYED,
            SEEN_WITHIN_S,
            besides=(
                ask_for.GetBrokerRuntimeInfo(),
                lambda info: info.table.get(level) in (f"0,{DELAYED}", None if is_4 else ""),
            ),
        ),
        "delayed_late": Asked(  # a moment to come: 4.x gives the last message, 5.x the end
            ask_for.SearchOffsetByTimestamp(SCHEDULE_TOPIC, LONGEST_LEVEL - 1, 2**42),
            lambda offset: offset >= DELAYED - 1,
            SEEN_WITHIN_S,
        ),
        "timer_messages": Asked(ask_for.GetBrokerRuntimeInfo(), lambda info: timers <= set(info.table)),
        "oldest_dead_letter": Asked(ask_for.GetEarliestMsgStoretime(DEAD_LETTERS, 0), bool, SEEN_WITHIN_S),
        "pop_recognised": Asked(
            ask_for.ViewBrokerStatsData("GROUP_CK_NUMS", f"{POPPED}@{POPPER}"), lambda stats: stats is not None
        ),
        "pop_consumer_offset": Asked(ask_for.GetAllConsumerOffset(), lambda answer: (POPPED, POPPER) in answer.offsets),
        "listed_brokers": Asked(
            ask_for.GetBrokerClusterInfo(), lambda info: [dict(data.addresses) for data in info.brokers] == [listed]
        ),
        "route": Asked(ask_for.GetRouteInfoByTopic(ORDERS), lambda route: route.queues),
        "all_topics": Asked(GetAllTopicListFromNameServer(), lambda answer: ORDERS in answer),
    }


# what a replica may tell only of groups that pulled from itself
OF_PULLS: Mapping[str, tuple[Callable[[str], Request[Any]], Tells]] = {
    "pull_offset": (
        lambda group: ask_for.GetConsumeStats(group, ORDERS),
        lambda stats: stats[QUEUE].pull_offset,
    ),
    "get_rate": (lambda group: ask_for.ViewBrokerStatsData("GROUP_GET_NUMS", f"{ORDERS}@{group}"), _anything),
    "get_latency": (lambda group: ask_for.ViewBrokerStatsData("GROUP_GET_LATENCY", f"0@{ORDERS}@{group}"), _anything),
}


async def _own_or_all(probes: Probes, role: str, request_for: Callable[[str], Request[Any]], tells: Tells) -> str:
    """Tell replicas that know only the group that pulled from themselves from replicas that know both."""
    here, elsewhere = [
        await probes.cell(role, request_for(PULLED_AT[replica]), tells)
        for replica in (role, SLAVE if role == MASTER else MASTER)
    ]
    return OWN if here == YES != elsewhere else here


async def answers(probes: Probes) -> dict[str, Cells]:
    """Measure everything that peers say when they are asked."""
    declared, cells = asked(probes.stage), dict[str, Cells]()
    for section, source in sources():
        if one := declared.get(source.name):
            cells[source.name] = {role: await one.cell(probes, role) for role in section.roles_of(source)}
        elif of_pulls := OF_PULLS.get(source.name):
            cells[source.name] = {role: await _own_or_all(probes, role, *of_pulls) for role in REPLICAS}
    if probes.stage.cluster.version.startswith("4.") and cells["timer_messages"] == {MASTER: NO}:
        cells["timer_messages"] = {MASTER: NOT_IN_VERSION}
    stats = await probes.client.call(probes.address(MASTER), ask_for.GetConsumeStats(BILLING, ORDERS))
    if stats[QUEUE].pull_offset is None:  # 5.1 and newer say at least the consumer offset
        cells["pull_offset"] = dict.fromkeys(REPLICAS, NOT_IN_VERSION)
    if not probes.stage.pops:
        cells |= dict.fromkeys(("pop_recognised", "pop_consumer_offset"), dict.fromkeys(REPLICAS, NOT_IN_VERSION))
    return cells
