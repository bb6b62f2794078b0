"""A consumer group has committed offsets in a topic to which none of its clients subscribes any more.

Means: the subscription was removed, on purpose or by mistake: messages wait there that nobody will consume.
Evidence: clients are online, what they or their brokers say of their subscriptions lacks the topic, and messages wait.
Not judged: pull and POP groups (they consume without a subscription), retry topics, groups whose subscriptions were not
seen. It is INFO unless the group still committed there within the window: then a deployment may have lost it.
Do next: subscribe again, if it was not meant; no command of RocketMQ deletes a group's offsets of one topic.
Source: linkedin/Burrow issues 854 and 14: such topics stay "stopped" until somebody deletes the offsets.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.judge.evidence.judged_groups import judged_groups
from offsetguard.judge.evidence.lookups import age_of_oldest, lag_evidence, of_all_queues
from offsetguard.judge.rule import CannotTell, Config, Explains, Finding, Rule, Scope, Sentence, Severity, State, Texts
from offsetguard.judge.windows.windows import is_subscribed

_NOBODY = (
    "Consumer group {consumer_group} has {online_client_count} client{online_client_count:plural} online, and none of "
    "them subscribes to topic {topic}, where {effective_lag:messages} message{effective_lag:plural} of it wait"
)
_NOBODY_ZH = (
    "消费组 {consumer_group} 有 {online_client_count} 个客户端在线，但没有一个订阅主题 {topic}，该主题上有 "
    "{effective_lag:messages} 条它的消息等待消费"
)

RULE = Rule(
    id="unsubscribed_topic",
    severity=Severity.INFO,
    place=270,
    needs=("groups", "queues"),
    means="A consumer group has offsets in a topic to which none of its clients subscribes any more.",
    texts={
        "default": Texts(
            summary="{consumer_group} no longer subscribes to {topic}",
            summary_zh="{consumer_group} 已不再订阅 {topic}",
            cause=_NOBODY + ".",
            cause_zh=_NOBODY_ZH + "。",
            do_next="Nothing, if that is meant: nobody is told of it. If not, see which deployment lost the "
            "subscription.",
            do_next_zh="如果是有意的则无需处理，不会通知任何人。否则请查明是哪次发布丢失了订阅。",
        ),
        "just_now": Texts(
            summary="{consumer_group} has stopped subscribing to {topic}",
            summary_zh="{consumer_group} 刚刚停止订阅 {topic}",
            cause=_NOBODY + "; it committed there until {advanced_at:moment}.",
            cause_zh=_NOBODY_ZH + "；最后一次提交位点在 {advanced_at:moment}。",
            do_next="See which deployment lost the subscription to {topic}: its messages are consumed by nobody until "
            "it is back, and then from the committed offset on.",
            do_next_zh="请查明是哪次发布丢失了对 {topic} 的订阅：恢复之前其消息无人消费，恢复之后从已提交的消费位点继"
            "续。",
        ),
    },
    title="topics nobody subscribes to",
    title_zh="主题已无人订阅",
    table=("effective_lag", "lag_ms", "online_client_count", "advanced_at"),
    peak="effective_lag",
    group_needs=("effective_lag", "online_client_count"),
    recovered="over: a client subscribes to the topic, or nothing waits there any more",
    recovered_zh="已结束：有客户端订阅该主题，或不再有消息等待",
    explains=(Explains(Scope.TOPIC, ("accumulation", "never_committed")),),
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per (consumer group, topic) with unsubscribed queues."""
    for judged in judged_groups(facts, config):
        waiting = judged.in_state(State.UNSUBSCRIBED)
        if not waiting:
            continue
        group, advanced_at = judged.group, _last_advance(waiting)
        since = facts.now - timedelta(milliseconds=judged.policy.window_ms)
        just_now = advanced_at is not None and advanced_at >= since
        yield RULE.finding(
            facts,
            about=(group.consumer_group, group.topic),
            severity=Severity.WARNING if just_now and judged.above_limit else RULE.severity,
            unsure=judged.waits_unknown,
            variant="just_now" if just_now else "default",
            state=State.UNSUBSCRIBED.value,
            figures={
                "effective_lag": of_all_queues(group, group.effective_lag),
                "lag_ms": age_of_oldest(judged.queues, group),
                "online_client_count": group.online_client_count,
                "advanced_at": advanced_at,
            },
            queues=lag_evidence(waiting),
        )


def _last_advance(queues: Sequence[QueueFacts]) -> datetime | None:
    moments = (queue.window.advanced_at for queue in queues)
    return max((moment for moment in moments if moment is not None), default=None)


def cannot_tell(facts: IntervalFacts, config: Config) -> Iterator[CannotTell]:
    """Say of which groups above their limits the subscriptions were not seen."""
    for judged in judged_groups(facts, config):
        group = judged.group
        classic = group.consumption != "pop" and group.topic_kind == "normal" and bool(group.online_client_count)
        if classic and judged.above_limit and is_subscribed(group) is None:
            yield RULE.cannot_tell(Sentence("subscriptions_untold"), consumer_group=group.consumer_group)
