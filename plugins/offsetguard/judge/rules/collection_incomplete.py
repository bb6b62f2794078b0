"""Something of a cluster could not be seen although its brokers answer: the snapshot is half read.

Means: a broker refused, was too slow, or answered what is not RocketMQ's protocol.
Evidence: the gaps that the collector counted, with their reasons; masters that answer and gave no offsets.
Not judged: brokers and name servers that do not answer at all (broker_unreachable, name_server_unreachable). Gaps of
a kind that the rounds before did not have are INFO for a minute: one late answer is no trouble.
Do next: by reason; mostly a login, or a broker that is too busy.
Source: the manifest of the landed snapshot (`collect/manifest.py`).
"""

from collections.abc import Iterator

from offsetguard.judge.evidence.unseen import is_new, names, reasons, unanswered
from offsetguard.judge.rule import Config, Finding, IntervalFacts, Mutes, Rule, Scope, Severity, Texts

RULE = Rule(
    id="collection_incomplete",
    severity=Severity.WARNING,
    place=50,
    needs=("gaps", "unseen_broker_names"),
    means="Brokers that answer left something unanswered: what it would have told is unknown, not healthy.",
    texts={
        "default": Texts(
            summary="{gap_count} request{gap_count:plural} to {cluster} unanswered",
            summary_zh="{cluster} 有 {gap_count} 个请求未得到应答",
            cause="{gap_count} request{gap_count:plural} to cluster {cluster} gave no usable answer: {reasons}; every "
            "master gave its offsets, what those requests would have told is unknown.",
            cause_zh="对集群 {cluster} 的 {gap_count} 个请求没有得到可用的应答：{reasons}；所有主节点都返回了位点，但这"
            "些请求本应提供的信息未知。",
            do_next="Look at the broker's log around the interval; if it only times out, raise request_timeout_ms of "
            "{cluster} in config/offsetguard.yml.",
            do_next_zh="请查看该时段的 Broker 日志；如果只是超时，请调大 config/offsetguard.yml 中 {cluster} 的 "
            "request_timeout_ms。",
        ),
        "brokers_unseen": Texts(
            summary="{broker_count} broker{broker_count:plural} of {cluster} gave no offsets: {brokers}",
            summary_zh="{cluster} 有 {broker_count} 个 Broker 没有返回位点：{brokers}",
            cause="{brokers} of cluster {cluster} answered, but gave no offsets ({reasons}): consumer groups with "
            "queues there are unknown, and no warning about them can come.",
            cause_zh="集群 {cluster} 的 {brokers} 有应答，但没有返回位点（{reasons}）：在其上有队列的消费组状态未知，也"
            "无法发出相关告警。",
            do_next="If it refuses, give OffsetGuard a login that may read (connection of {cluster} in "
            "config/offsetguard.yml; OFFSETGUARD_ACCESS_KEY and OFFSETGUARD_SECRET_KEY where a command asks); if it "
            "times out, see whether it is too busy, then raise request_timeout_ms.",
            do_next_zh="如果是被拒绝，请为 OffsetGuard 配置有读权限的账号（config/offsetguard.yml 中 {cluster} 的 "
            "connection；由命令行查询时为 OFFSETGUARD_ACCESS_KEY 和 OFFSETGUARD_SECRET_KEY）；如果是超时，请检查 "
            "Broker 是否过于繁忙，再调大 request_timeout_ms。",
        ),
    },
    title="collection is incomplete",
    title_zh="采集不完整",
    table=("brokers", "gap_count", "reasons"),
    peak="gap_count",
    recovered="everything that was asked for answered again",
    recovered_zh="所有请求均已恢复应答",
    # single unanswered requests hide little; brokers without offsets hide every group on them
    mutes=Mutes(Scope.BROKER, variants=("brokers_unseen",)),
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """At most one finding: whatever is missing, it concerns the cluster."""
    missing = unanswered(facts, config)
    brokers = missing.mute_masters
    if facts.cluster_unseen or not (missing.rest or brokers):
        return
    behind = [gap for gap in missing.rest if gap.broker_name in brokers]
    new = is_new(behind if brokers else missing.rest, facts)
    severity = Severity.CRITICAL if brokers else RULE.severity
    yield RULE.finding(
        facts,
        severity=Severity.INFO if new else severity,
        variant="brokers_unseen" if brokers else "default",
        state="UNKNOWN",
        figures={
            "brokers": names(brokers) or None,
            "broker_count": len(brokers),
            "gap_count": len(missing.rest),
            "reasons": reasons(behind or missing.rest),
        },
        broker_names=frozenset(brokers),
    )
