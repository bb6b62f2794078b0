"""A consumer group was overtaken by retention: it asked for messages that its broker had deleted.

Means: the group was off or slow for longer than messages are kept; what lies between the offset asked for and the
oldest message kept is lost for it. It moves once per queue (twice where the oldest moves on meanwhile) and goes on.
Evidence: offsets corrected upwards, each counted once, from OFFSET_MOVED_EVENT (4.x), broker.log, the client's log, or
else the difference of two snapshots. 5.x log lines do not name the queue. While it deletes, 5.x lets pulls skip
what is gone without a line, until the queue's min offset follows: of that only what two snapshots show is counted,
as a bound: a group that comes back to a backlog may have consumed it before it was deleted.
Not judged: differences of snapshots where the broker has a tiered storage, from which messages may have been read. A
request for offset 0 that is corrected upwards once; so starts a new group that consumes from the first
offset on a topic whose first messages are deleted already. Nor what an operator's reset moved (offset_reset).
Do next: send the messages again if they matter; speed up the group, or keep messages longer.
Source: incident "broadcasting", tell apart; PullMessageProcessor (4.9.8, 5.3.3): PULL_OFFSET_MOVED.
"""

from collections.abc import Iterator

from offsetguard.facts.interval import IntervalFacts
from offsetguard.judge.evidence.move_causes import BROADCASTING, CLUSTERING, causes
from offsetguard.judge.evidence.move_figures import lost_of, moment, move_evidence, move_figures
from offsetguard.judge.evidence.unseen import silent_about_corrections, tell_corrections, unread_events
from offsetguard.judge.rule import CannotTell, Config, Explains, Finding, Rule, Scope, Sentence, Severity, Stage, Texts

_WORST = (
    "(worst: queue {worst_queue}, asked for {requested_offset:messages}, oldest kept {corrected_offset:messages}; "
    "last at {last_moved_at:moment})"
)
_WORST_ZH = (
    "（最严重：队列 {worst_queue}，请求位点 {requested_offset:messages}，最小位点 {corrected_offset:messages}；最近一"
    "次在 {last_moved_at:moment}）。"
)

RULE = Rule(
    id="offset_moved_by_retention",
    severity=Severity.WARNING,
    place=120,
    never_muted=True,
    needs=("offset_moves", "log_lines", "groups"),
    means="A consumer group asked for messages that its broker had deleted already: they are lost for it.",
    texts={
        "default": Texts(
            summary="{consumer_group} lost {lost:messages} message{lost:plural} of {topic} to retention",
            summary_zh="{consumer_group} 因过期清理丢失了 {topic} 的 {lost:messages} 条消息",
            cause="Consumer group {consumer_group} was overtaken by retention on topic {topic}: the broker had deleted "
            "{lost:messages} message{lost:plural} before the group asked for them " + _WORST + ".",
            cause_zh="消费组 {consumer_group} 在主题 {topic} 上的消费被过期清理追上：Broker 在消费组请求之前已删除 "
            "{lost:messages} 条消息" + _WORST_ZH,
            do_next="These messages are gone from the broker; if they matter, send them again from their source. So "
            "that it does not happen again: speed up the group, or keep messages longer (fileReservedTime, disk).",
            do_next_zh="这些消息在 Broker 上已不存在；如果重要，请从源头补发。为避免再次发生：提高消费速度，或延长消息"
            "保留时间（fileReservedTime、磁盘）。",
        ),
        "uncertain": Texts(
            summary="{consumer_group} may have lost up to {lost_at_most:messages} message{lost_at_most:plural} of "
            "{topic} to retention",
            summary_zh="{consumer_group} 可能因过期清理丢失了 {topic} 的至多 {lost_at_most:messages} 条消息",
            cause="Consumer group {consumer_group} was overtaken by retention on topic {topic}: of what the broker "
            "deleted, at least {lost_at_least:messages} and at most {lost_at_most:messages} were gone before the group "
            "asked for them; between two rounds it went on past the rest, consumed or deleted " + _WORST + ".",
            cause_zh="消费组 {consumer_group} 在主题 {topic} 上的消费被过期清理追上：在 Broker 已删除的消息中，至少 "
            "{lost_at_least:messages} 条、至多 {lost_at_most:messages} 条在消费组请求之前已不存在；其余的在两轮采集之间"
            "已越过，是消费还是被删除无法得知" + _WORST_ZH,
            do_next="See in the group's own records whether it processed what it had not committed before. What is "
            "missing is gone from the broker; if it matters, send it again from its source. So that it does not happen "
            "again: speed up the group, or keep messages longer (fileReservedTime, disk).",
            do_next_zh="请在消费组自己的记录中核对此前未提交的消息是否已处理。缺失的消息在 Broker 上已不存在；"
            "如果重要，请从源头补发。为避免再次发生：提高消费速度，或延长消息保留时间（fileReservedTime、磁盘）。",
        ),
        "broadcasting": Texts(
            summary="{consumer_group} skipped {lost:messages} deleted message{lost:plural} of {topic}",
            summary_zh="{consumer_group} 跳过了 {topic} 上 {lost:messages} 条已删除的消息",
            cause="Client {clients} of the broadcasting group {consumer_group} asked for deleted messages of topic "
            "{topic}: {lost:messages} message{lost:plural} were gone before it asked for them " + _WORST + ".",
            cause_zh="广播消费组 {consumer_group} 的客户端 {clients} 请求了主题 {topic} 上已被删除的消息：请求之前已"
            "有 {lost:messages} 条消息不存在" + _WORST_ZH,
            do_next="See which client was away or slow; each keeps its own offsets in localOffsetStoreDir, which must "
            "outlive a restart (in Docker: a persistent path).",
            do_next_zh="请检查哪个客户端曾离线或过慢；每个客户端把位点保存在各自的 localOffsetStoreDir 中，该目录必须"
            "在重启后保留（在 Docker 中请使用持久化路径）。",
        ),
    },
    title="messages were deleted before they were consumed",
    title_zh="消息未及消费就被删除",
    table=(
        "lost",
        "lost_at_least",
        "lost_at_most",
        "requested_offset",
        "corrected_offset",
        "queue_count",
        "first_moved_at",
        "last_moved_at",
    ),
    peak="lost",
    recovered="over: no offset of it was moved by retention since; what was lost stays lost",
    recovered_zh="已结束：此后没有位点因过期清理而移动；丢失的消息无法找回",
    stage=Stage("loss", 2),
    explains=(
        Explains(Scope.TOPIC, ("loss_ahead", "consumer_offline")),
        # what a group without clients has lost, it has lost since: nobody asked for it
        Explains(Scope.TOPIC, ("messages_lost",), explained_variants=("default", "partly", "uncertain", "in_process")),
    ),
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per (consumer group, topic) that was overtaken within the look-back window."""
    told_of = tell_corrections(facts, config)
    for (consumer_group, topic), one in causes(facts, config).items():
        if one.overtaken:
            figures, variant, may_be_none = move_figures(one.overtaken), "default", False
            told = [move for move in one.overtaken if move.origin != "snapshot" or move.broker_name not in told_of]
            if one.model == BROADCASTING:
                variant = "broadcasting"
            elif len(told) < len(one.overtaken):  # no correction tells of the rest: it may have been consumed
                variant, certain = "uncertain", {"lost_at_least": lost_of(told), "lost_at_most": figures["lost"]}
                figures |= {**certain, "lost": None}
                may_be_none = not certain["lost_at_least"]
            yield RULE.finding(
                facts,
                about=(consumer_group, topic),
                severity=Severity.CRITICAL if one.model == CLUSTERING and not may_be_none else RULE.severity,
                unsure=one.model is None or may_be_none,
                variant=variant,
                state="LOST",
                figures=figures,
                last_event_at=moment(figures["last_moved_at"]),
                queues=move_evidence(one.overtaken),
                broker_names=frozenset(move.broker_name for move in one.overtaken),
            )


def cannot_tell(facts: IntervalFacts, config: Config) -> Iterator[CannotTell]:
    """Name brokers of whose corrections nobody was told; a clustering group's show between two samples as well."""
    if unread := unread_events(facts):
        yield RULE.cannot_tell(Sentence("events_not_read"), brokers=unread)
    if silent := silent_about_corrections(facts, config):
        yield RULE.cannot_tell(Sentence("overtaken_not_logged"), brokers=silent)
