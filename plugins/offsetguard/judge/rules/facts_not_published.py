"""No facts were published for minutes, so everything is judged by what has landed, which nobody has audited.

Means: Spark is late, hangs or refuses; collecting, judging and telling go on without it.
Evidence: the end of the newest published interval, beside that of the interval that is judged. Where its publication
ended within these minutes, publishing goes on and is behind (variant `slow`): each takes longer than a minute, or many
wait. Where nothing of the cluster was ever published, the first round that has landed (variant `never`).
Not judged: why. A first start, which loads Spark's jars, may take minutes.
Do next: look at what the task publish_interval says.
Source: `facts/published.py`.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

from offsetguard.judge.rule import Config, Figure, Finding, IntervalFacts, Rule, Severity, Texts
from offsetguard.model.offsets import milliseconds_between

OLD_AFTER = timedelta(minutes=3)

RULE = Rule(
    id="facts_not_published",
    severity=Severity.WARNING,
    place=11,
    never_muted=True,
    needs=("audited", "unpublished_since", "first_landed_at", "publication_ended_at", "publication_ms"),
    means="No facts were published for three minutes or longer; what is told meanwhile is not audited.",
    texts={
        "default": Texts(
            summary="no facts were published for {unpublished_ms:duration}",
            summary_zh="已有 {unpublished_ms:duration} 没有发布新的指标数据",
            cause="Nothing of cluster {cluster} was published since {unpublished_since:moment}: Spark is late, hangs "
            "or refuses. Groups are judged all the same, by what the collector has landed: no invariant was checked on "
            "it, and nothing is compared with the usual traffic of earlier weeks. History, reports and Data Docs "
            "stand still.",
            cause_zh="自 {unpublished_since:moment} 起，集群 {cluster} 没有发布任何指标数据：Spark 延迟、挂起或拒绝发"
            "布。消费组仍按采集器已落地的数据判定，但未校验不变式，也不与往周的常规流量比较；历史、报告和 Data Docs "
            "暂停更新。",
            do_next="Read the last lines of the task publish_interval in Airflow, or run offsetguard cycles, which "
            "says what failed. Once Spark keeps up again, published facts confirm or close what was told "
            "meanwhile.",
            do_next_zh="请查看 Airflow 中任务 publish_interval 的最后几行日志，或运行 offsetguard cycles 查看失败原因。"
            "待 Spark 重新及时发布后，期间的告警会得到确认或关闭。",
        ),
        "never": Texts(
            summary="no facts were published yet, {unpublished_ms:duration} after the first round",
            summary_zh="首次采集已过去 {unpublished_ms:duration}，尚未发布过指标数据",
            cause="Nothing of cluster {cluster} was ever published, and its first round was collected at "
            "{first_landed_at:moment}: Spark is still starting, hangs or refuses. Groups are judged all the same, by "
            "what the collector has landed: no invariant was checked on it.",
            cause_zh="集群 {cluster} 从未发布过指标数据，而首次采集在 {first_landed_at:moment}：Spark 仍在启动、挂起"
            "或拒绝发布。消费组仍按采集器已落地的数据判定，但未校验不变式。",
            do_next="A first start loads Spark's jars, which may take minutes. If it goes on, read the last lines of "
            "the task publish_interval in Airflow, or run offsetguard cycles, which says what failed.",
            do_next_zh="首次启动需要加载 Spark 的依赖包，可能要几分钟。若持续，请查看 Airflow 中任务 publish_interval "
            "的最后几行日志，或运行 offsetguard cycles 查看失败原因。",
        ),
        "slow": Texts(
            summary="facts are published {unpublished_ms:duration} late",
            summary_zh="指标数据发布延迟 {unpublished_ms:duration}",
            cause="Publishing goes on and is behind: the newest published minute of cluster {cluster} ended at "
            "{unpublished_since:moment}, and its publication took {publication_ms:duration}. Groups are judged all "
            "the same, by what the collector has landed: no invariant was checked on it, and nothing is compared with "
            "the usual traffic of earlier weeks.",
            cause_zh="发布仍在进行但已落后：集群 {cluster} 最近发布的分钟结束于 {unpublished_since:moment}，其发布耗时 "
            "{publication_ms:duration}。消费组仍按采集器已落地的数据判定，但未校验不变式，也不与往周的常规流量比较。",
            do_next="Run offsetguard cycles, which says how long each took and, if asked for details, each step of "
            "it. Where each takes longer than a minute, give Spark more cores or memory, or keep it warm; otherwise "
            "wait: one session publishes all minutes that wait, until the newest one is.",
            do_next_zh="请运行 offsetguard cycles 查看每次发布及其各步骤的耗时。若每次发布都超过一分钟，请为 Spark 增加"
            "核数或内存，或使用常驻的 Spark 服务；否则等待即可：同一次会话会发布所有等待中的分钟，直至最新一分钟。",
        ),
    },
    title="facts are not published",
    title_zh="指标数据未发布",
    table=("unpublished_since", "first_landed_at", "unpublished_ms", "publication_ms"),
    peak="unpublished_ms",
    recovered="facts are published again",
    recovered_zh="指标数据已恢复发布",
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """At most one finding for the cluster."""
    since = facts.unpublished_since or facts.first_landed_at
    if since is None or facts.interval.end - since < OLD_AFTER:
        return
    figures: dict[str, Figure] = {
        "unpublished_since": facts.unpublished_since,
        "first_landed_at": facts.first_landed_at,
        "unpublished_ms": milliseconds_between(since, facts.interval.end),
    }
    ended_at, took_ms = facts.publication_ended_at, facts.publication_ms
    variant = "never" if facts.unpublished_since is None else "default"
    if ended_at is not None and took_ms is not None and facts.interval.end - ended_at < OLD_AFTER:
        figures["publication_ms"], variant = took_ms, "slow"
    finding = RULE.finding(facts, figures, variant=variant, state="UNKNOWN")
    yield replace(finding, audited=True)  # by what was published
