"""Far less was written to a topic than at the same hour of earlier weeks.

Means: nearly nothing = its producers are down or cannot reach the brokers; less than half = a quiet day, a holiday, or
a part of the producers.
Evidence: messages per second over the hour that has passed, beside the mean and spread of that hour in earlier weeks.
Not judged: topics of which fewer than judgement.traffic_weeks weeks are known, retry and system topics. Nearly nothing
is only INFO for a topic that was silent for six hours before: a nightly job that is late is no outage.
Do next: see whether the producers run.
Source: `facts/traffic_baselines.sql`.
"""

from collections.abc import Iterator
from datetime import timedelta

from offsetguard.judge.evidence import lookups
from offsetguard.judge.evidence.capacity import (
    CALM_MS,
    NEARLY_NOTHING,
    figures_of,
    is_drop,
    judged_hours,
    not_yet_usual,
)
from offsetguard.judge.rule import CannotTell, Config, Finding, IntervalFacts, Rule, Severity, Texts

WRITTEN_LATELY = timedelta(hours=6)

RULE = Rule(
    id="traffic_drop",
    severity=Severity.WARNING,
    place=440,
    needs=("traffic_hours", "topics"),
    means="Far less was written to a topic than at the same hour of earlier weeks.",
    texts={
        "default": Texts(
            summary="{topic}: nearly nothing is written, usually {usual_tps:.1f} messages/s",
            summary_zh="{topic}：几乎没有写入，平时为 {usual_tps:.1f} 条/秒",
            cause="In the hour from {hour_start_at:moment} on, {hour_tps:.2f} messages per second were written to "
            "topic {topic}; at this hour of {week_count} earlier weeks it was {usual_tps:.1f}, give or take "
            "{usual_spread_tps:.1f} (last message stored {last_update_at:moment}).",
            cause_zh="自 {hour_start_at:moment} 起的一小时内，主题 {topic} 每秒写入 {hour_tps:.2f} 条消息；此前 "
            "{week_count} 周的同一时段为 {usual_tps:.1f}，上下浮动 {usual_spread_tps:.1f}（最后写入时间 "
            "{last_update_at:moment}）。",
            do_next="See whether the producers of {topic} run and reach the brokers; on a holiday this may be as it "
            "should. Who is connected:",
            do_next_zh="请检查 {topic} 的生产者是否在运行、能否连通 Broker；节假日可能属于正常。已连接的生产者：",
            commands=(lookups.PRODUCERS_OF_EACH_BROKER,),
        ),
        "less": Texts(
            summary="{topic}: {hour_tps:.1f} messages/s written, usually {usual_tps:.1f}",
            summary_zh="{topic}：写入 {hour_tps:.1f} 条/秒，平时为 {usual_tps:.1f}",
            cause="In the hour from {hour_start_at:moment} on, {hour_tps:.2f} messages per second were written to "
            "topic {topic}, {usual_percent:.0f} % of the {usual_tps:.1f} (give or take {usual_spread_tps:.1f}) of this "
            "hour in {week_count} earlier weeks.",
            cause_zh="自 {hour_start_at:moment} 起的一小时内，主题 {topic} 每秒写入 {hour_tps:.2f} 条消息，是此前 "
            "{week_count} 周同一时段 {usual_tps:.1f}（上下浮动 {usual_spread_tps:.1f}）的 {usual_percent:.0f}%。",
            do_next="Nothing, if the reason is known (a holiday, a producer that was moved). Otherwise see whether all "
            "producers run. Who is connected:",
            do_next_zh="如果原因已知（节假日、生产者迁移）则无需处理。否则请检查是否所有生产者都在运行。已连接的生产者：",
            commands=(lookups.PRODUCERS_OF_EACH_BROKER,),
        ),
    },
    title="less traffic than usual",
    title_zh="流量低于平时",
    table=("hour_tps", "usual_tps", "usual_spread_tps", "week_count", "hour_start_at", "last_update_at"),
    recovered="traffic is as usual at this hour again",
    recovered_zh="流量已恢复到该时段的平时水平",
    calm_ms=CALM_MS,
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per topic, in the first interval after an hour."""
    written_at = {topic.topic: topic.last_update_at for topic in facts.topics}
    for hour in judged_hours(facts, config):
        if not is_drop(hour):
            continue
        last = written_at.get(hour.topic)
        lately = last is not None and last >= hour.hour_start_at - WRITTEN_LATELY
        nothing = hour.hour_tps <= NEARLY_NOTHING * hour.usual_tps
        yield RULE.finding(
            facts,
            about=(None, hour.topic),
            severity=RULE.severity if nothing and lately else Severity.INFO,
            variant="default" if nothing else "less",
            figures={
                **figures_of(hour),
                "last_update_at": last,
            },
        )


def cannot_tell(facts: IntervalFacts, config: Config) -> Iterator[CannotTell]:
    """Say so while nothing is usual yet."""
    return not_yet_usual(facts, config, RULE.id)
