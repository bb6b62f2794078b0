"""A filtered group's lag counts messages that will never be delivered to it: the real backlog is smaller.

Means: tags and SQL expressions filter when messages are read, so everything written counts as lag. The share that
matches is measured queue by queue on what its clients have cached, or of the last minute, on what they finished and
hold, or on what all replicas handed out, where the lag lies on the queues that were counted.
Evidence: clients subscribe to a part of the topic; hit ratio and its error range (95 %), and the lag times it.
Not judged: a share above one half, which hides little; lags too small to speak of; POP groups.
Do next: judge the group by the real backlog; nothing to do while that is within its limits.
Source: incident I3; ConsumerLagCalculator (5.1 and later) estimates likewise, for its metrics only.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from offsetguard.config import Config, EffectivePolicy
from offsetguard.facts.filter_estimate import FilterEstimate, estimate_for
from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.judge.evidence.lookups import age_of_oldest, lag_evidence, of_all_queues, queues_by_group
from offsetguard.judge.rule import CannotTell, Explains, Finding, Rule, Scope, Sentence, Severity, State, Texts
from offsetguard.judge.windows.windows import above_limit
from offsetguard.tables.group_facts import GroupFacts

HIDES_LITTLE = 0.5
_BEHIND = (State.STOPPED, State.STALLED, State.AT_RISK, State.FALLING_BEHIND)

_MATCH = (
    "About {hit_percent:.3g} % of topic {topic} match the filter of consumer group {consumer_group}, so its lag of "
    "{effective_lag:messages} is about {matching:messages} real message{matching:plural} ({matching_low:messages} to "
    "{matching_high:messages})"
)
_MATCH_ZH = (
    "主题 {topic} 约有 {hit_percent:.3g}% 的消息匹配消费组 {consumer_group} 的过滤条件，因此 {effective_lag:messages} "
    "条堆积中实际约有 {matching:messages} 条（{matching_low:messages} 至 {matching_high:messages}）"
)
_JUDGE = "Judge how much there is to do by the real backlog; what else is said of the group stands."
_JUDGE_ZH = "请以实际堆积判断剩余工作量；关于该消费组的其他告警仍然有效。"

RULE = Rule(
    id="filter_hides_lag",
    severity=Severity.INFO,
    place=275,  # before those of slow clients: that nothing is wrong outweighs why messages wait
    needs=("groups", "queues"),
    means="Most of a filtered group's lag are messages that do not match its filter.",
    texts={
        "default": Texts(
            summary="about {matching:messages} of {consumer_group}'s lag on {topic} match its filter",
            summary_zh="{consumer_group} 在 {topic} 上的堆积中约有 {matching:messages} 条匹配其过滤条件",
            cause=_MATCH + ": within its limits.",
            cause_zh=_MATCH_ZH + "：在允许范围内。",
            do_next="Nothing to do. The lag that brokers count contains what the group will never get; judge it by "
            "the real backlog.",
            do_next_zh="无需处理。Broker 统计的堆积包含消费组永远不会收到的消息，请以实际堆积为准。",
        ),
        "age_unknown": Texts(
            cause=_MATCH + "; how long the oldest has waited is not known.",
            cause_zh=_MATCH_ZH + "；最早的消息已等待多久未知。",
            do_next=_JUDGE,
            do_next_zh=_JUDGE_ZH,
        ),
        "behind": Texts(
            cause=_MATCH + "; it is behind all the same.",
            cause_zh=_MATCH_ZH + "；即便如此仍有堆积。",
            do_next=_JUDGE + " Reading past what does not match takes the broker's time: a topic of its own costs less "
            "than a rare tag.",
            do_next_zh=_JUDGE_ZH + "跳过不匹配的消息会消耗 Broker 的时间：与其使用少见的 tag，不如使用单独的主题。",
        ),
    },
    title="filters hide how much waits",
    title_zh="过滤掩盖了实际堆积",
    table=("effective_lag", "matching", "matching_low", "matching_high", "hit_percent", "lag_ms"),
    peak="matching",
    group_needs=("effective_lag",),
    from_clients=True,
    recovered="its lag is small again, or the share that matches is no longer known",
    recovered_zh="堆积已变小，或匹配比例已无法得知",
    explains=(Explains(Scope.TOPIC, ("accumulation",), variants=("default",), quiets=True),),
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per (consumer group, topic) of which less than half matches."""
    queues, topics = queues_by_group(facts), _topic_counts(facts)
    for group in facts.groups:
        policy = config.policy(facts.cluster, group.consumer_group)
        own = queues.get((group.consumer_group, group.topic), [])
        estimate = _estimate(group, own, topics)
        if estimate is None or estimate.hit_ratio > HIDES_LITTLE or (group.effective_lag or 0) < policy.lag_floor:
            continue
        yield RULE.finding(
            facts,
            about=(group.consumer_group, group.topic),
            variant=_variant(group, own, estimate, policy),
            figures={
                "effective_lag": of_all_queues(group, group.effective_lag),
                "lag_ms": age_of_oldest(own, group),
                "hit_percent": 100 * estimate.hit_ratio,
                "matching": estimate.matching,
                "matching_low": estimate.low,
                "matching_high": estimate.high,
            },
            queues=lag_evidence(own),
        )


def _estimate(group: GroupFacts, queues: Sequence[QueueFacts], topics: Mapping[str, int]) -> FilterEstimate | None:
    if group.topic_kind == "system":
        return None
    return estimate_for(group, queues, topic_count=topics[group.consumer_group])


def _topic_counts(facts: IntervalFacts) -> Counter[str]:
    """Count the topics of each group, besides its retry topic."""
    return Counter(one.consumer_group for one in facts.groups if not one.topic.startswith("%RETRY%"))


def _variant(group: GroupFacts, queues: Sequence[QueueFacts], estimate: FilterEstimate, policy: EffectivePolicy) -> str:
    """Say whether the group is in trouble however few match: too many do, they are too old, or it stands still."""
    standing = any(queue.verdict is not None and queue.verdict.state in _BEHIND for queue in queues)
    too_old = group.lag_ms is not None and group.lag_ms > policy.max_lag_ms
    if estimate.high > policy.max_lag_messages or too_old or standing:
        return "behind"
    return "default" if group.lag_ms is not None else "age_unknown"


def cannot_tell(facts: IntervalFacts, config: Config) -> Iterator[CannotTell]:
    """Say of which filtered groups above their limits the share that matches is not known."""
    queues, topics = queues_by_group(facts), _topic_counts(facts)
    for group in facts.groups:
        if not group.filtered or group.consumption == "pop":
            continue
        own = queues.get((group.consumer_group, group.topic), [])
        unknown = _estimate(group, own, topics) is None
        if unknown and above_limit(group, config.policy(facts.cluster, group.consumer_group)):
            yield RULE.cannot_tell(Sentence("hit_ratio_unknown"), consumer_group=group.consumer_group)
