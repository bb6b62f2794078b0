"""A consumer group reads from a slave: dashboards that ask masters only show TPS 0 while its backlog falls.

Means: it reads further behind the end than accessMessageInMemoryMaxRatio (40 %) of the master's memory, so the master
sends it to the slave (slaveReadEnable); nearer than 30 % it comes back. If the lag does not fall meanwhile although
clients wait for messages, the slave is the bottleneck, or is itself behind.
Evidence: GROUP_GET_NUMS of every replica: a slave hands out more than its master, which lives; the lag over the window;
what clients have in process: who has a batch for each queue waits for no slave, nor does a queue whose committed offset
one message holds back. Where nobody tells what is in process, nobody can say that the slave is what is slow.
Not judged: reads from a slave whose master is gone (broker_unreachable); POP groups.
Do next: nothing while the lag falls.
Source: incident I1; PullMessageProcessor, suggestWhichBrokerId (4.9.8, 5.3.3).
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from offsetguard.facts.filter_estimate import PULL_BATCH_SIZE
from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.judge.evidence.blocked_queues import blocked_queues, held_back_queues
from offsetguard.judge.evidence.judged_groups import LagTrend, lag_trend, waits_unknown
from offsetguard.judge.evidence.lookups import (
    lag_evidence,
    of_all_queues,
    queues_by_group,
    rounded_rate,
    slave_behind_bytes,
)
from offsetguard.judge.forecasts import forecasts
from offsetguard.judge.rule import CannotTell, Config, Explains, Finding, Rule, Scope, Sentence, Severity, Texts
from offsetguard.judge.windows.windows import above_limit
from offsetguard.model.verdicts import Forecast
from offsetguard.tables.group_facts import GroupFacts

LEAST_SERVED = timedelta(minutes=2)  # before that a growing lag may be a producer's burst
LONGEST_DRAIN_MS = 24 * 3_600_000  # a lag that needs longer does not fall to speak of

_READS = (
    "Consumer group {consumer_group} reads topic {topic} from the slave of {brokers} since {slave_read_since:moment} "
    "or earlier: TPS {slave_get_tps:messages}/s on slaves, {master_get_tps:messages}/s on masters"
)
_READS_ZH = (
    "消费组 {consumer_group} 自 {slave_read_since:moment} 或更早起从 {brokers} 的从节点读取主题 {topic}：从节点 TPS "
    "{slave_get_tps:messages}/s，主节点 TPS {master_get_tps:messages}/s"
)
_SUMMARY = "{consumer_group} reads {topic} from the slave of {brokers}"
_SUMMARY_ZH = "{consumer_group} 从 {brokers} 的从节点读取 {topic}"
_SUM = "Its TPS is the sum over masters and slaves, {get_tps:messages}/s"
_ADD_UP = (
    "Nothing to do: near the end of the queues the group returns to the master by itself. "
    + _SUM
    + "; dashboards that ask masters only show less, or 0."
)

RULE = Rule(
    id="reads_moved_to_slave",
    severity=Severity.INFO,
    place=290,
    needs=("groups", "queues", "brokers"),
    means="A consumer group reads from a slave, so that its master counts no reads.",
    texts={
        "default": Texts(
            summary=_SUMMARY + ", and its lag falls",
            summary_zh=_SUMMARY_ZH + "，堆积在减少",
            cause=_READS + "; the lag falls, {effective_lag:messages} message{effective_lag:plural} are left, drained "
            "in {drain_low_ms:duration} to {drain_high_ms:duration}.",
            cause_zh=_READS_ZH + "；堆积在减少，还剩 {effective_lag:messages} 条消息，预计 {drain_low_ms:duration} 至 "
            "{drain_high_ms:duration} 后消费完。",
            do_next=_ADD_UP,
            do_next_zh="无需处理：接近队列末尾时消费组会自行回到主节点。它的 TPS 是主从之和，即 {get_tps:messages}/s；"
            "只查询主节点的控制台会显示偏低甚至 0。",
        ),
        "falls": Texts(
            cause=_READS + "; the lag falls, {effective_lag:messages} message{effective_lag:plural} are left.",
            cause_zh=_READS_ZH + "；堆积在减少，还剩 {effective_lag:messages} 条消息。",
        ),
        "keeps_up": Texts(
            summary=_SUMMARY,
            summary_zh=_SUMMARY_ZH,
            cause=_READS + "; {effective_lag:messages} message{effective_lag:plural} wait.",
            cause_zh=_READS_ZH + "；{effective_lag:messages} 条消息等待消费。",
        ),
        "too_early": Texts(
            summary=_SUMMARY,
            summary_zh=_SUMMARY_ZH,
            cause=_READS + "; {effective_lag:messages} message{effective_lag:plural} wait, and whether they become "
            "fewer cannot be said yet.",
            cause_zh=_READS_ZH + "；{effective_lag:messages} 条消息等待消费，是否在减少尚无法判断。",
            do_next="Look again in two minutes: while the lag falls there is nothing to do. " + _SUM + ".",
            do_next_zh="请两分钟后再看：只要堆积在减少就无需处理。它的 TPS 是主从之和，即 {get_tps:messages}/s。",
        ),
        "not_falling": Texts(
            summary=_SUMMARY + ", and its lag does not fall",
            summary_zh=_SUMMARY_ZH + "，堆积没有减少",
            cause=_READS + ", but the lag of {effective_lag:messages} message{effective_lag:plural} does not fall: the "
            "slave is the bottleneck, or is behind itself (its commit log by {slave_behind_bytes:messages} bytes).",
            cause_zh=_READS_ZH + "，但 {effective_lag:messages} 条消息的堆积没有减少：从节点是瓶颈，或自身落后"
            "（CommitLog 落后 {slave_behind_bytes:messages} 字节）。",
            do_next="Look at the slave's disk, load and distance to its master; slaveReadEnable=false on the master "
            "brings the reads back there.",
            do_next_zh="请检查从节点的磁盘、负载以及与主节点的差距；在主节点设置 slaveReadEnable=false 可使读取回到主"
            "节点。",
        ),
    },
    title="groups read from a slave",
    title_zh="消费组从从节点读取",
    table=("effective_lag", "get_tps", "slave_get_tps", "master_get_tps", "slave_read_since", "slave_behind_bytes"),
    counted=True,
    recovered="it reads from the masters again",
    recovered_zh="已恢复从主节点读取",
    explains=(
        Explains(
            Scope.TOPIC,
            ("accumulation", "slow_consumption", "flow_control"),
            variants=("default", "falls"),
            quiets=True,
        ),
        Explains(Scope.TOPIC, ("accumulation",), variants=("not_falling",)),
    ),
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per (consumer group, topic) that reads from a slave."""
    queues = queues_by_group(facts)
    for group in facts.groups:
        if not group.reads_moved_to_slave or group.topic_kind == "system" or group.consumption == "pop":
            continue
        brokers = group.slave_read_broker_names or ()
        own = queues.get((group.consumer_group, group.topic), [])
        there = [queue for queue in own if not brokers or queue.message_queue.broker_name in brokers]
        drain = forecasts.group_drain([queue.verdict for queue in there if queue.verdict])
        policy = config.policy(facts.cluster, group.consumer_group)
        trend, since = lag_trend(there, group.slave_read_since), group.slave_read_since
        early = trend is None or since is None or facts.now - since < LEAST_SERVED
        waits = _waits_for_brokers(group, own, facts) if above_limit(group, policy) else False
        variant = _variant(group, trend, drain, early=early, waits=waits)
        yield RULE.finding(
            facts,
            about=(group.consumer_group, group.topic),
            severity=Severity.WARNING if variant == "not_falling" else RULE.severity,
            unsure=None in (since, waits) or waits_unknown(group),
            variant=variant,
            state="FALLING_BEHIND" if variant == "not_falling" else "OK",
            figures={
                "brokers": ", ".join(brokers) or None,
                "slave_read_since": group.slave_read_since,
                "slave_get_tps": rounded_rate(group.slave_get_tps),
                "master_get_tps": rounded_rate(group.master_get_tps),
                "get_tps": rounded_rate(group.get_tps),
                "effective_lag": of_all_queues(group, group.effective_lag),
                "drain_low_ms": None if drain is None else drain.low_ms,
                "drain_high_ms": None if drain is None else drain.high_ms,
                "slave_behind_bytes": slave_behind_bytes(facts, brokers),
            },
            queues=lag_evidence(there),
            broker_names=frozenset(brokers),
        )


def _variant(
    group: GroupFacts, trend: LagTrend | None, drain: Forecast | None, *, early: bool, waits: bool | None
) -> str:
    waiting = group.effective_lag
    if waiting is not None and waiting > 0 and trend is not None and _falls(trend, waiting, drain):
        return "falls" if drain is None else "default"
    if waits is False:
        return "keeps_up"
    if early:
        return "too_early"
    return "not_falling" if waits else "keeps_up"


def _waits_for_brokers(group: GroupFacts, queues: Sequence[QueueFacts], facts: IntervalFacts) -> bool | None:
    """Whether clients wait for messages: else they are slow, or one message is, and no slave; None = nobody tells."""
    held = [*blocked_queues(group, queues, facts), *held_back_queues(group, queues)]
    waiting, inflight = group.effective_lag, group.inflight
    if waiting is None:
        return None
    most_are_held = 2 * sum(one.queue.offsets.effective_lag or 0 for one in held) > waiting
    if most_are_held or (inflight is not None and 2 * inflight > waiting):
        return False
    enough = _have_enough(group)
    return None if enough is None and inflight is None else not enough


def _falls(trend: LagTrend, waiting: int, drain: Forecast | None) -> bool:
    """Whether the lag falls so fast that it will be gone some day; a step up and down is no fall."""
    if not trend.falls:
        return False
    if drain is not None:
        return drain.low_ms <= LONGEST_DRAIN_MS
    return waiting * (trend.span / timedelta(milliseconds=1)) <= LONGEST_DRAIN_MS * -trend.growth


def _have_enough(group: GroupFacts) -> bool | None:
    """Whether clients have a batch in process for each queue that they hold; None = not all of them tell."""
    told = group.told_client_count is not None and group.told_client_count == group.online_client_count
    if group.held_queue_count is None or group.cached_message_count is None:
        return None
    enough = group.held_queue_count > 0 and group.cached_message_count >= PULL_BATCH_SIZE * group.held_queue_count
    return enough if told or enough else None


def cannot_tell(facts: IntervalFacts, config: Config) -> Iterator[CannotTell]:
    """Say of which groups with a backlog a replica's rate is missing."""
    for group in facts.groups:
        unseen = group.in_detail and group.reads_moved_to_slave is None and group.unseen_rate_count
        if unseen and above_limit(group, config.policy(facts.cluster, group.consumer_group)):
            yield RULE.cannot_tell(Sentence("slave_rates_not_seen"), consumer_group=group.consumer_group)
