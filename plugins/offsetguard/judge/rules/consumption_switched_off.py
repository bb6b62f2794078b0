"""A setting of the cluster forbids a consumer group to read a topic, or a broadcasting group to read at all.

Means: somebody switched consumption off, or a group was made again without its settings; its clients run and get
nothing, which looks like a listener that hangs, or like consumers that are offline.
Evidence: consumeEnable=false of the group, a topic that is forbidden to it (forbiddenTable, 5.x), or a permission
without read of the topic or of the whole broker (brokerPermission), on a master that has queues of the group;
consumeBroadcastEnable=false of a group that broadcasts.
Settings are read in every round: the first one that shows it tells.
Not judged: masters that did not give their settings; a topic to which no client subscribes. It is INFO while no message
waits there, or while nobody is online and what waits is within the limits.
Do next: allow it again, unless that is meant; the command keeps the group's other settings, which updateSubGroup makes
defaults where it is not given them, and names those for which it has no option.
Source: PullMessageProcessor answers code 16; clients leave out the queues of a topic that they may not read
(MQClientInstance#topicRouteData2TopicSubscribeInfo). UpdateSubGroupSubCommand (4.9.7, 5.3.3, 5.5.0).
"""

from collections.abc import Iterator

from offsetguard.judge.evidence import lookups
from offsetguard.judge.evidence.refused_pulls import EXPLAINED, addresses, other_settings, refused_pulls
from offsetguard.judge.evidence.unseen import names
from offsetguard.judge.rule import Config, Finding, IntervalFacts, OnlineGroupFacts, Rule, Severity, Texts

_WAIT = " {waiting:messages} message{waiting:plural} of topic {topic} wait in {queue_count} queue{queue_count:plural}"
_WAIT_ZH = "主题 {topic} 的 {queue_count} 个队列中有 {waiting:messages} 条消息等待消费"
_CLIENTS = "; clients that are online and get nothing there: {online_client_count}."
_CLIENTS_ZH = "；在线却拉取不到消息的客户端：{online_client_count} 个。"
_MEANT = "If that is not meant, allow it again{meaning}; clients go on by themselves within a minute"
_MEANT_ZH = "如果不是有意为之，请重新允许{meaning}；客户端会在一分钟内自行恢复"
_DO_NEXT = _MEANT.replace("{meaning}", "") + ". The command {other_settings}:"
_DO_NEXT_ZH = _MEANT_ZH.replace("{meaning}", "") + "。该命令{other_settings}："
_PERMIT = _MEANT.replace("{meaning}", " (6 is read and write, 4 read alone)") + ":"
_PERMIT_ZH = _MEANT_ZH.replace("{meaning}", "（6 为可读可写，4 为只读）") + "："

RULE = Rule(
    id="consumption_switched_off",
    severity=Severity.WARNING,
    place=142,
    needs=("groups", "queues", "brokers", "online_groups"),
    means="A setting of the group, the topic or the broker forbids a consumer group to read.",
    texts={
        "default": Texts(
            summary="consumption of {consumer_group} is switched off on {on_brokers}",
            summary_zh="{consumer_group} 在 {on_brokers} 上的消费已被关闭",
            cause="Consumption of consumer group {consumer_group} is switched off on {on_brokers} "
            "(consumeEnable=false), which refuses its pulls with code 16:" + _WAIT + _CLIENTS,
            cause_zh="消费组 {consumer_group} 在 {on_brokers} 上的消费已被关闭（consumeEnable=false），其拉取以 code "
            "16 被拒绝：" + _WAIT_ZH + _CLIENTS_ZH,
            do_next=_DO_NEXT,
            do_next_zh=_DO_NEXT_ZH,
            commands=(lookups.LET_CONSUME,),
        ),
        "topic": Texts(
            summary="{topic} may not be read on {on_brokers}: {consumer_group} gets none of its messages",
            summary_zh="{topic} 在 {on_brokers} 上没有读权限：{consumer_group} 拉取不到消息",
            cause="Topic {topic} has no read permission on {on_brokers} (perm), so that consumer group "
            "{consumer_group} gets none of its queues there:" + _WAIT + _CLIENTS,
            cause_zh="主题 {topic} 在 {on_brokers} 上没有读权限，因此消费组 {consumer_group} 分配不到那里的队列："
            + _WAIT_ZH
            + _CLIENTS_ZH,
            do_next=_PERMIT,
            do_next_zh=_PERMIT_ZH,
            commands=(lookups.LET_READ_TOPIC,),
        ),
        "broker": Texts(
            summary="{on_brokers} may not be read: {consumer_group} gets no message of {topic} there",
            summary_zh="{on_brokers} 没有读权限：{consumer_group} 从那里拉取不到 {topic} 的消息",
            cause="Nothing may be read from {on_brokers} (brokerPermission), so that consumer group {consumer_group} "
            "gets none of its queues there:" + _WAIT + _CLIENTS,
            cause_zh="{on_brokers} 没有读权限（brokerPermission），因此消费组 {consumer_group} 分配不到那里的队列："
            + _WAIT_ZH
            + _CLIENTS_ZH,
            do_next=_PERMIT,
            do_next_zh=_PERMIT_ZH,
            commands=(lookups.LET_READ_BROKER,),
        ),
        "forbidden": Texts(
            summary="{consumer_group} is forbidden to read {topic} on {on_brokers}",
            summary_zh="{on_brokers} 禁止 {consumer_group} 读取 {topic}",
            cause="Consumer group {consumer_group} is forbidden to read topic {topic} on {on_brokers} "
            "(forbiddenTable), which refuses its pulls with code 16:" + _WAIT + _CLIENTS,
            cause_zh="{on_brokers} 禁止消费组 {consumer_group} 读取主题 {topic}（forbiddenTable），其拉取以 code 16 "
            "被拒绝：" + _WAIT_ZH + _CLIENTS_ZH,
            do_next="If that is not meant, allow it again with what forbade it: only RocketMQ's admin API does "
            "that (DefaultMQAdminExt.updateAndGetGroupReadForbidden).",
            do_next_zh="如果不是有意为之，请用当初设置它的工具重新允许：只有 RocketMQ 的管理 API 能做到"
            "（DefaultMQAdminExt.updateAndGetGroupReadForbidden）。",
        ),
        "broadcast": Texts(
            summary="{consumer_group} may not broadcast on {on_brokers}",
            summary_zh="{consumer_group} 在 {on_brokers} 上不允许广播消费",
            cause="Consumer group {consumer_group} broadcasts, and {on_brokers} refuses its pulls with code 16 "
            "({forbidding})" + _CLIENTS,
            cause_zh="消费组 {consumer_group} 使用广播模式，而 {on_brokers} 以 code 16 拒绝其拉取（{forbidding}）"
            + _CLIENTS_ZH,
        ),
    },
    title="consumption is switched off",
    title_zh="消费已被关闭",
    table=("waiting", "queue_count", "on_brokers", "online_client_count"),
    peak="waiting",
    recovered="over: it may be read again, or nothing of the group is there any more",
    recovered_zh="已结束：已重新允许读取，或该消费组在那里已没有消息",
    holds_queues=True,
    explains=EXPLAINED,
)
_VARIANTS = {"disabled": "default", "topic": "topic", "broker": "broker", "forbidden": "forbidden"}


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per (consumer group, topic) that may not be read, and one per group that may not broadcast."""
    for refused in refused_pulls(facts, config, tuple(_VARIANTS)):
        group = refused.judged.group
        yield RULE.finding(
            facts,
            about=(group.consumer_group, group.topic),
            severity=RULE.severity if refused.is_missed else Severity.INFO,
            unsure=refused.unsure,
            variant=_VARIANTS[refused.why],
            state="STALLED",
            figures=refused.figures(facts),
            queues=refused.evidence,
            broker_names=frozenset(refused.broker_names),
        )
    for online in facts.online_groups:
        if online.message_model == "BROADCASTING" and (refusing := _refusing_broadcasts(online)):
            yield _broadcast(facts, online, refusing)


def _refusing_broadcasts(group: OnlineGroupFacts) -> dict[str, str]:
    """Return by master the setting that forbids a broadcasting group to read there."""
    broadcasts = dict.fromkeys(group.no_broadcast_broker_names or (), "consumeBroadcastEnable=false")
    return broadcasts | dict.fromkeys(group.disabled_broker_names or (), "consumeEnable=false")


def _broadcast(facts: IntervalFacts, group: OnlineGroupFacts, refusing: dict[str, str]) -> Finding:
    return RULE.finding(
        facts,
        about=(group.consumer_group, None),
        variant="broadcast",
        state="STALLED",
        figures={
            "forbidding": ", ".join(sorted(set(refusing.values()))),
            "on_brokers": names(sorted(refusing)),
            "refusing_addresses": addresses(facts, refusing),
            "enabling_options": group.enabling_options,
            "other_settings": other_settings(group.reset_settings),
            "online_client_count": group.online_client_count,
        },
        broker_names=frozenset(refusing),
    )
