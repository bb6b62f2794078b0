"""Messages will be deleted before a consumer group has consumed them.

Means: the oldest message that the group has not consumed is about to reach the age, or the place in the commit log, at
which its broker deletes; the group will not be there in time.
Evidence: the broker's cleaner run ahead, as early and as late as may be: fileReservedTime and deleteWhen, the disk's
use and how fast the commit log grows, the age at which messages last went; when the oldest unconsumed message was
stored, and how fast the group goes on.
Not judged: a group that is through before the earliest loss; one that has lost messages already (messages_lost);
broadcasting and POP groups; a loss further away than loss_horizon_ms of the group's policy; deletion by force where a
broker does not tell how full its disk is. Brokers with a tiered storage: a group reads there what is deleted locally
(5.3.3, live).
Do next: start or speed up the consumers before the earlier of the two times, or keep messages longer.
Source: DefaultMessageStore.CleanCommitLogService, MappedFileQueue.deleteExpiredFileByTime (4.9.8, 5.3.3).
"""

from collections.abc import Iterator

from offsetguard.config import Config
from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.judge.evidence import lookups
from offsetguard.judge.evidence.judged_groups import JudgedGroup, judged_groups, tiered_brokers
from offsetguard.judge.evidence.lookups import age_of_oldest, of_all_queues, queue_name
from offsetguard.judge.forecasts import forecasts
from offsetguard.judge.forecasts.broker_retentions import forced_ratio
from offsetguard.judge.rule import (
    CannotTell,
    Explains,
    Finding,
    QueueEvidence,
    Rule,
    Scope,
    Sentence,
    Severity,
    Stage,
    State,
    Texts,
)
from offsetguard.model.offsets import MASTER_ID
from offsetguard.model.verdicts import Basis, Forecast

_SUMMARY = "{consumer_group} will lose messages of {topic} in {loss_low_ms:duration} to {loss_high_ms:duration}"
_SUMMARY_ZH = "{consumer_group} 将在 {loss_low_ms:duration} 至 {loss_high_ms:duration} 后丢失 {topic} 的消息"
_WHAT = (
    "Consumer group {consumer_group} ({online_client_count} client{online_client_count:plural} online) will lose "
    "messages of topic {topic} on {risk_queue_count} of {queue_count} queue{queue_count:plural}, the first in "
    "{loss_low_ms:duration} to "
    "{loss_high_ms:duration}, "
)
_WHAT_ZH = (
    "消费组 {consumer_group}（{online_client_count} 个客户端在线）将在主题 {topic} 的 {queue_count} 个队列中的 "
    "{risk_queue_count} 个上丢失消息，最早在 {loss_low_ms:duration} 至 {loss_high_ms:duration} 后，"
)
_DO = (
    "Start or speed up the consumers of {consumer_group} within {loss_low_ms:duration}: {effective_lag:messages} "
    "message{effective_lag:plural} wait. If that takes longer, keep messages longer on {brokers} "
)
_DO_ZH = (
    "请在 {loss_low_ms:duration} 内启动 {consumer_group} 的消费者或提高消费速度：还有 {effective_lag:messages} 条消息等"
    "待消费。如果来不及，请"
)

RULE = Rule(
    id="loss_ahead",
    severity=Severity.CRITICAL,
    place=110,
    never_muted=True,
    needs=("groups", "queues", "brokers"),
    unseen="offsets_not_seen",
    means="Brokers will delete messages that a consumer group has not consumed, and will not have consumed by then.",
    texts={
        "default": Texts(
            summary=_SUMMARY,
            summary_zh=_SUMMARY_ZH,
            cause=_WHAT + "when the commit-log file with the oldest of them has passed fileReservedTime (worst: "
            "{worst_queue}, oldest unconsumed {lag_ms:duration}).",
            cause_zh=_WHAT_ZH + "届时最早消息所在的 CommitLog 文件将超过 fileReservedTime（最严重：{worst_queue}，最早"
            "未消费消息已等待 {lag_ms:duration}）。",
            do_next=_DO + "(fileReservedTime), which holds at once:",
            do_next_zh=_DO_ZH + "延长 {brokers} 上的消息保留时间（fileReservedTime），立即生效：",
            commands=(lookups.RETAIN_LONGER,),
        ),
        "disk": Texts(
            summary=_SUMMARY + ": the disk fills up",
            summary_zh=_SUMMARY_ZH + "：磁盘将满",
            cause=_WHAT + "because the disk fills up and the oldest commit-log files go whatever their age (worst: "
            "{worst_queue}, oldest unconsumed {lag_ms:duration}).",
            cause_zh=_WHAT_ZH + "因为磁盘将满，最早的 CommitLog 文件不论保留时间都会被删除（最严重：{worst_queue}，最早"
            "未消费消息已等待 {lag_ms:duration}）。",
            do_next=_DO + "by making room on the disk; the topic that writes most pushes the others out.",
            do_next_zh=_DO_ZH + "在 {brokers} 上清理磁盘以延长消息保留时间；写入最多的主题会挤掉其他主题的消息。",
        ),
        "observed": Texts(
            cause=_WHAT + "if the broker goes on deleting as it last did, earlier than its settings say (worst: "
            "{worst_queue}, oldest unconsumed {lag_ms:duration}).",
            cause_zh=_WHAT_ZH + "前提是 Broker 继续像最近一次那样删除，即早于其配置（最严重：{worst_queue}，最早未消费"
            "消息已等待 {lag_ms:duration}）。",
            do_next=_DO + "and find out why they go early: a full disk, or files deleted by hand.",
            do_next_zh=_DO_ZH + "延长 {brokers} 上的消息保留时间，并查明文件为何被提前删除：磁盘已满，或被人工删除。",
        ),
    },
    title="messages will be lost",
    title_zh="消息即将丢失",
    table=("loss_low_ms", "loss_high_ms", "effective_lag", "lag_ms", "online_client_count", "risk_queue_count"),
    peak="effective_lag",
    group_needs=("effective_lag",),
    recovered="no message is about to be lost any more",
    recovered_zh="不再有消息即将丢失",
    shows_stacks=True,
    calm_ms=15 * 60_000,  # how old the oldest message is, is not asked in every round
    stage=Stage("loss", 1),
    explains=(
        # the more urgent news, not the cause: what will be lost, and until when it can be prevented
        Explains(Scope.TOPIC, ("accumulation", "consumer_offline")),
    ),
)
_AT_ONCE_MS = 60_000  # "in 1 min" is what people are told of a loss that may come at any moment
_VARIANTS = {Basis.RESERVED_TIME: "default", Basis.DISK: "disk"}


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per (consumer group, topic) that loses messages within the horizon of its policy."""
    for judged in judged_groups(facts, config):
        risks = sorted(_risks(judged), key=lambda one: (one[0].low_ms, one[1].message_queue))
        if not risks:
            continue
        first, worst = risks[0]
        brokers = frozenset(queue.message_queue.broker_name for _, queue in risks)
        yield RULE.finding(
            facts,
            about=(judged.group.consumer_group, judged.group.topic),
            variant=_VARIANTS.get(first.basis, "observed"),
            state=State.AT_RISK,
            figures={
                "loss_low_ms": max(first.low_ms, _AT_ONCE_MS),
                "loss_high_ms": max(min(forecast.high_ms for forecast, _ in risks), _AT_ONCE_MS),
                "loss_basis": str(first.basis),
                "risk_queue_count": len(risks),
                "queue_count": judged.group.queue_count,
                "effective_lag": of_all_queues(judged.group, judged.group.effective_lag),
                "lag_ms": age_of_oldest([worst]),
                "online_client_count": judged.client_count,
                "worst_queue": queue_name(worst.message_queue),
                "brokers": ", ".join(sorted(brokers)),
                "longer_hours": _longer_hours(facts),
            },
            queues=tuple(_evidence(queue, forecast) for forecast, queue in risks),
        )


def _longer_hours(facts: IntervalFacts) -> int | None:
    """Return twice the retention of the master that keeps messages longest; None = not known of all masters.

    The command sets all masters of a cluster: one that keeps its messages longer would delete them.
    """
    kept = [one.file_reserved_time_hours for one in facts.brokers if one.broker_id == MASTER_ID]
    known = [hours for hours in kept if hours is not None]
    return 2 * max(known) if known and len(known) == len(kept) else None


def cannot_tell(facts: IntervalFacts, config: Config) -> Iterator[CannotTell]:
    """Give the brokers that keep messages elsewhere, and masters that did not tell of their commit log or disk."""
    yield from tiered_brokers(RULE.id, facts)
    for broker in facts.brokers:
        if broker.broker_id != MASTER_ID or not broker.answered:
            continue
        name = broker.broker_name
        if broker.commit_log_max_offset is None:
            yield RULE.cannot_tell(Sentence("commit_log_untold", broker=name), brokers={name})
        elif broker.commit_log_disk_ratio is None and forced_ratio(broker) is not None:
            yield RULE.cannot_tell(Sentence("disk_untold", broker=name), brokers={name})


def _risks(judged: JudgedGroup) -> Iterator[tuple[Forecast, QueueFacts]]:
    for queue in judged.queues:
        if queue.verdict is None or queue.verdict.state is State.LOST:
            continue
        loss, drain = queue.verdict.loss, queue.verdict.drain
        near = loss is not None and loss.low_ms <= judged.policy.loss_horizon_ms
        if loss is not None and near and not forecasts.drained_before(drain, loss):
            yield loss, queue


def _evidence(queue: QueueFacts, forecast: Forecast) -> QueueEvidence:
    figures = {
        "loss_low_ms": forecast.low_ms,
        "loss_high_ms": forecast.high_ms,
        "effective_lag": queue.offsets.effective_lag,
        "lag_ms": age_of_oldest([queue]),
        "consumer_offset": queue.offsets.consumer_offset,
        "min_offset": queue.offsets.min_offset,
    }
    return QueueEvidence(queue.message_queue, figures)
