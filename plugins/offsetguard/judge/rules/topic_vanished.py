"""A topic that a broker had is there no longer, with what waited in it.

Means: a replica with an older state became the master, and its configuration won (controller mode, 5.x); or somebody
deleted the topic. Producers get code 17, or create it again, empty.
Evidence: the topics that a master lists (GET_ALL_TOPIC_CONFIG), compared with those of the newest round that saw it, in
the round after; the thread of "delete topic config OK" in broker.log: AdminBrokerThread is an operator's request.
Not judged: RocketMQ's own, retry and dead-letter topics. What an operator deleted, and what nobody used, is INFO. After
a day it is taken for removed on purpose.
Do next: find out which replica took over; create the topic again; its messages are in the former master's store.
Source: apache/rocketmq#9984, #9879; TopicConfigManager (4.9.7, 5.5.0).
"""

from collections.abc import Iterator

from offsetguard.judge.evidence.unseen import vanished
from offsetguard.judge.rule import Config, Explains, Finding, IntervalFacts, Rule, Scope, Severity, Texts

RULE = Rule(
    id="topic_vanished",
    severity=Severity.WARNING,
    place=85,
    never_muted=True,
    needs=("vanished",),
    means="A topic that a broker had is there no longer.",
    texts={
        "default": Texts(
            summary="topic {topic} is no longer on {on_brokers}",
            summary_zh="主题 {topic} 已不在 {on_brokers} 上",
            cause="Topic {topic} was on {on_brokers} until {last_seen_at:moment} and is no longer, since "
            "{gone_at:moment}; messages that waited there for its groups: {waiting_count:messages}. Deleted by: "
            "{thread}; an operator's request would be an AdminBrokerThread. A replica with an older state that became "
            "the master looks like this.",
            cause_zh="主题 {topic} 直到 {last_seen_at:moment} 还在 {on_brokers} 上，自 {gone_at:moment} 起已不存在；"
            "其消费组当时的堆积：{waiting_count:messages} 条消息。删除者：{thread}；运维操作的线程名为 "
            "AdminBrokerThread。状态较旧的副本成为主节点时会出现这种情况。",
            do_next="Find out which replica became the master of {on_brokers}, and with what state, before anything is "
            "written again; the former master's store still has the messages. If nobody did this on purpose, create "
            "the topic again.",
            do_next_zh="在写入新数据之前，请查明哪个副本成为了 {on_brokers} 的主节点、其状态如何；原主节点的存储中仍有"
            "这些消息。如果不是有意删除，请重新创建该主题。",
        ),
        "by_hand": Texts(
            summary="topic {topic} was deleted on {on_brokers}",
            summary_zh="主题 {topic} 已在 {on_brokers} 上被删除",
            cause="Topic {topic} was deleted on {on_brokers} at {gone_at:moment} by an operator's request ({thread}); "
            "messages that waited there for its groups: {waiting_count:messages}.",
            cause_zh="主题 {topic} 于 {gone_at:moment} 在 {on_brokers} 上被运维操作（{thread}）删除；其消费组当时的"
            "堆积：{waiting_count:messages} 条消息。",
            do_next="Nothing, if it was meant.",
            do_next_zh="如果是有意删除，则无需处理。",
        ),
        "unused": Texts(
            summary="topic {topic} is no longer on {on_brokers}; nobody consumed it",
            summary_zh="主题 {topic} 已不在 {on_brokers} 上；当时无人消费",
            cause="Topic {topic} was on {on_brokers} until {last_seen_at:moment} and is no longer, since "
            "{gone_at:moment}. No client that consumes it was online, and nothing waited for a group.",
            cause_zh="主题 {topic} 直到 {last_seen_at:moment} 还在 {on_brokers} 上，自 {gone_at:moment} 起已不存在。"
            "当时没有消费它的客户端在线，也没有堆积。",
            do_next="Nothing, if it was deleted on purpose.",
            do_next_zh="如果是有意删除，则无需处理。",
        ),
    },
    title="a topic is no longer on its broker",
    title_zh="主题已不在其 Broker 上",
    table=("on_brokers", "last_seen_at", "gone_at", "waiting_count", "thread"),
    began="gone_at",
    recovered="it is there again, or has been gone for a day",
    recovered_zh="已重新出现，或已消失满一天",
    explains=(Explains(Scope.TOPIC, ("consumer_offline", "accumulation", "never_committed", "unsubscribed_topic")),),
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per topic, with all brokers that lost it."""
    yield from vanished(RULE, facts, groups=False)
