"""Far more was written to a topic than at the same hour of earlier weeks.

Means: a campaign, a batch, a producer that sends twice, or one in a loop.
Evidence: messages per second over the hour that has passed, beside the mean and spread of that hour in earlier weeks.
Not judged: topics of which fewer than judgement.traffic_weeks weeks are known, retry and system topics.
Do next: nothing, if the reason is known; otherwise see who writes.
Source: `facts/traffic_baselines.sql`.
"""

from collections.abc import Iterator

from offsetguard.judge.evidence import lookups
from offsetguard.judge.evidence.capacity import CALM_MS, figures_of, is_surge, judged_hours, not_yet_usual
from offsetguard.judge.rule import CannotTell, Config, Finding, IntervalFacts, Rule, Severity, Texts

RULE = Rule(
    id="traffic_surge",
    severity=Severity.INFO,
    place=450,
    needs=("traffic_hours", "topics"),
    means="Far more was written to a topic than at the same hour of earlier weeks.",
    texts={
        "default": Texts(
            summary="{topic}: {hour_tps:.1f} messages/s written, usually {usual_tps:.1f}",
            summary_zh="{topic}：写入 {hour_tps:.1f} 条/秒，平时为 {usual_tps:.1f}",
            cause="In the hour from {hour_start_at:moment} on, {hour_tps:.1f} messages per second were written to "
            "topic {topic}; at this hour of {week_count} earlier weeks it was {usual_tps:.1f}, give or take "
            "{usual_spread_tps:.1f}.",
            cause_zh="自 {hour_start_at:moment} 起的一小时内，主题 {topic} 每秒写入 {hour_tps:.1f} 条消息；此前 "
            "{week_count} 周的同一时段为 {usual_tps:.1f}，上下浮动 {usual_spread_tps:.1f}。",
            do_next="Nothing, if the reason is known (a campaign, a batch). Otherwise see who writes, and whether the "
            "groups of the topic keep up. Which producers are connected:",
            do_next_zh="如果原因已知（营销活动、批处理）则无需处理。否则请查看由谁写入，以及该主题的消费组是否跟得上。"
            "已连接的生产者：",
            commands=(lookups.PRODUCERS_OF_EACH_BROKER,),
        ),
    },
    title="more traffic than usual",
    title_zh="流量高于平时",
    table=("hour_tps", "usual_tps", "usual_spread_tps", "week_count", "hour_start_at"),
    recovered="traffic is as usual at this hour again",
    recovered_zh="流量已恢复到该时段的平时水平",
    calm_ms=CALM_MS,
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per topic, in the first interval after an hour."""
    for hour in judged_hours(facts, config):
        if is_surge(hour):
            yield RULE.finding(
                facts,
                about=(None, hour.topic),
                figures=figures_of(hour),
            )


def cannot_tell(facts: IntervalFacts, config: Config) -> Iterator[CannotTell]:
    """Say so while nothing is usual yet."""
    return not_yet_usual(facts, config, RULE.id)
