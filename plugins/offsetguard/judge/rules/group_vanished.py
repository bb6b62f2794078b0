"""A consumer group whose settings a broker had is there no longer.

Means: a replica with an older state became the master, and its configuration won (controller mode, 5.x); or somebody
deleted the group. Where autoCreateSubscriptionGroup is off its clients get code 26 and consume nothing there.
Evidence: the groups that a master lists (GET_ALL_SUBSCRIPTIONGROUP_CONFIG), compared with those of the newest round
that saw it, in the round after; the thread of "delete subscription group OK" in broker.log.
Not judged: RocketMQ's own groups. What an operator deleted, and what nobody used, is INFO. After a day it is taken for
removed on purpose.
Do next: find out which replica took over; create the group again.
Source: apache/rocketmq#9984, #9879; SubscriptionGroupManager (4.9.7, 5.5.0).
"""

from collections.abc import Iterator

from offsetguard.judge.evidence.unseen import vanished
from offsetguard.judge.rule import Config, Explains, Finding, IntervalFacts, Rule, Scope, Severity, Texts

RULE = Rule(
    id="group_vanished",
    severity=Severity.WARNING,
    place=86,
    never_muted=True,
    needs=("vanished",),
    means="A consumer group whose settings a broker had is there no longer.",
    texts={
        "default": Texts(
            summary="consumer group {consumer_group} is no longer on {on_brokers}",
            summary_zh="消费组 {consumer_group} 已不在 {on_brokers} 上",
            cause="Consumer group {consumer_group} was on {on_brokers} until {last_seen_at:moment} and is no longer, "
            "since {gone_at:moment}; messages that waited there for it: {waiting_count:messages}. Deleted by: "
            "{thread}; an operator's request would be an AdminBrokerThread. A replica with an older state that became "
            "the master looks like this.",
            cause_zh="消费组 {consumer_group} 直到 {last_seen_at:moment} 还在 {on_brokers} 上，自 {gone_at:moment} 起已"
            "不存在；当时的堆积：{waiting_count:messages} 条消息。删除者：{thread}；运维操作的线程名为 "
            "AdminBrokerThread。状态较旧的副本成为主节点时会出现这种情况。",
            do_next="Find out which replica became the master of {on_brokers}, and with what state. If nobody did this "
            "on purpose, create the group again, and compare its committed offsets with what "
            "it had consumed.",
            do_next_zh="请查明哪个副本成为了 {on_brokers} 的主节点、其状态如何。如果不是有意删除，请重新创建该消费组"
            "，并核对其消费位点与实际消费进度。",
        ),
        "by_hand": Texts(
            summary="consumer group {consumer_group} was deleted on {on_brokers}",
            summary_zh="消费组 {consumer_group} 已在 {on_brokers} 上被删除",
            cause="Consumer group {consumer_group} was deleted on {on_brokers} at {gone_at:moment} by an operator's "
            "request ({thread}); messages that waited there for it: {waiting_count:messages}.",
            cause_zh="消费组 {consumer_group} 于 {gone_at:moment} 在 {on_brokers} 上被运维操作（{thread}）删除；当时的"
            "堆积：{waiting_count:messages} 条消息。",
            do_next="Nothing, if it was meant.",
            do_next_zh="如果是有意删除，则无需处理。",
        ),
        "unused": Texts(
            summary="consumer group {consumer_group} is no longer on {on_brokers}; it had no clients",
            summary_zh="消费组 {consumer_group} 已不在 {on_brokers} 上；当时没有客户端",
            cause="Consumer group {consumer_group} was on {on_brokers} until {last_seen_at:moment} and is no longer, "
            "since {gone_at:moment}. No client of it was online, and nothing waited for it.",
            cause_zh="消费组 {consumer_group} 直到 {last_seen_at:moment} 还在 {on_brokers} 上，自 {gone_at:moment} 起已"
            "不存在。当时没有客户端在线，也没有堆积。",
            do_next="Nothing, if it was deleted on purpose.",
            do_next_zh="如果是有意删除，则无需处理。",
        ),
    },
    title="a consumer group is no longer on its broker",
    title_zh="消费组已不在其 Broker 上",
    table=("on_brokers", "last_seen_at", "gone_at", "waiting_count", "thread"),
    began="gone_at",
    recovered="it is there again, or has been gone for a day",
    recovered_zh="已重新出现，或已消失满一天",
    explains=(Explains(Scope.GROUP, ("membership_disagrees", "group_not_created"), variants=("default",)),),
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per consumer group, with all brokers that lost it."""
    yield from vanished(RULE, facts, groups=True)
