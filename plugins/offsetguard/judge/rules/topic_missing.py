"""Clients of a consumer group subscribe to a topic that no broker of the cluster has.

Means: the topic was deleted, or is gone with the state of a broker; or its name is wrong, or nobody has written to it
yet. Clients are answered with code 17 and ask on until they are restarted; producers get the same code, or make the
topic again, empty.
Evidence: the topics that all masters list (GET_ALL_TOPIC_CONFIG), and what they say of clients' subscriptions; whether
a master keeps committed offsets of the group in the topic, which it had then. Both are read in every round: the first
one that shows it tells.
Not judged: while a master is not seen, since the topic may be there; RocketMQ's own, retry, dead-letter, lite topics;
what was seen to vanish within a day (topic_vanished). It is INFO where nobody ever committed, or where the group
consumes other topics.
Do next: create the topic again, or correct its name in the clients.
Source: PullMessageProcessor (4.9.7, 5.5.0); apache/rocketmq#2777.
"""

from collections.abc import Iterator

from offsetguard.judge.rule import Config, Finding, IntervalFacts, Rule, Severity, Texts

_CODE_17 = "clients are answered with code 17 (topic not exist) and ask on"
_CODE_17_ZH = "客户端收到 code 17 并不断重试"

RULE = Rule(
    id="topic_missing",
    severity=Severity.WARNING,
    place=87,
    needs=("online_groups", "groups", "vanished"),
    means="Clients subscribe to a topic that no broker has.",
    texts={
        "default": Texts(
            summary="{consumer_group} subscribes to {topic}, which no broker has any more",
            summary_zh="{consumer_group} 订阅的 {topic} 已不在任何 Broker 上",
            cause="Consumer group {consumer_group} has {online_client_count} client{online_client_count:plural} "
            "online that subscribe to topic {topic}, and no broker of the cluster has it, although commits of the "
            "group in it are kept: it was deleted, or is gone with a broker's state; " + _CODE_17 + ".",
            cause_zh="消费组 {consumer_group} 有 {online_client_count} 个在线客户端订阅主题 {topic}，但集群中没有任何 "
            "Broker 拥有它，而该组在其中的消费位点仍被保留：该主题已被删除，或随某个 Broker 的状态一起丢失；"
            + _CODE_17_ZH
            + "。",
            do_next="If it was not meant, find out who deleted it, or which broker is missing or started without its "
            "state, before anything is written again; then create the topic again. If it was meant, take the "
            "subscription out of the clients.",
            do_next_zh="如果不是有意为之，请在写入新数据之前查明是谁删除了它，或哪个 Broker 缺失、启动时丢失了状态，"
            "然后重新创建该主题。如果是有意删除，请从客户端中移除该订阅。",
        ),
        "never_consumed": Texts(
            summary="{consumer_group} subscribes to {topic}, which no broker has",
            summary_zh="{consumer_group} 订阅的 {topic} 不在任何 Broker 上",
            cause="Consumer group {consumer_group} has {online_client_count} client{online_client_count:plural} "
            "online that subscribe to topic {topic}, and no broker of the cluster has it, nor commits of the group in "
            "it: nobody has written to it yet, or its name is wrong; " + _CODE_17 + ".",
            cause_zh="消费组 {consumer_group} 有 {online_client_count} 个在线客户端订阅主题 {topic}，但集群中没有任何 "
            "Broker 拥有它，也没有该组的消费位点：尚未有人写入，或名称有误；" + _CODE_17_ZH + "。",
            do_next="Nothing, if producers are still to come. If not, compare the name with that of the producers' "
            "topic, or create the topic.",
            do_next_zh="如果生产者尚未启动则无需处理。否则请核对名称与生产者的主题是否一致，或创建该主题。",
        ),
    },
    title="a topic that clients subscribe to does not exist",
    title_zh="客户端订阅的主题不存在",
    table=("online_client_count",),
    recovered="over: a broker has the topic, or nobody subscribes to it any more",
    recovered_zh="已结束：已有 Broker 拥有该主题，或不再有客户端订阅它",
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per (consumer group, topic) that does not exist."""
    if facts.unseen_broker_names or facts.cluster_unseen:
        return
    vanished = {one.name for one in facts.vanished if not one.is_group}
    consuming = {one.consumer_group for one in facts.groups if one.topic_kind == "normal"}
    for group in facts.online_groups:
        for state, _, topic in (one.partition(" ") for one in group.missing_topics or ()):
            if topic in vanished:
                continue
            variant = "default" if state == "committed" else "never_consumed"
            is_loud = variant == "default" and group.consumer_group not in consuming
            yield RULE.finding(
                facts,
                about=(group.consumer_group, topic),
                severity=RULE.severity if is_loud else Severity.INFO,
                variant=variant,
                state="LOST" if variant == "default" else "OK",
                figures={"online_client_count": group.online_client_count},
            )
