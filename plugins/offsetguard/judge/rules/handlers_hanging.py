"""Clients of a POP or gRPC group have messages in process and finish none.

Means: the handlers hang, or forget to acknowledge; the committed offset does not show it, since it moves when messages
are handed out: lag is 0 meanwhile.
Evidence: messages in flight at every look for longer than the group's allowed age, and none that was finished: what was
written, minus what is available and what is in flight, has not grown.
Not judged: classic groups; a group of which nobody tells what is in flight (see the brokers' metrics page).
Do next: take a stack of the clients.
Source: PopMessageProcessor, ConsumerLagCalculator (5.3.3, 5.5.0).
"""

from collections.abc import Iterator
from datetime import timedelta

from offsetguard.facts.interval import IntervalFacts
from offsetguard.judge.evidence.lookups import each_group
from offsetguard.judge.rule import CannotTell, Config, Explains, Finding, Rule, Scope, Sentence, Severity, Texts
from offsetguard.judge.windows.rules import POP
from offsetguard.tables.group_facts import GroupFacts

RULE = Rule(
    id="handlers_hanging",
    severity=Severity.WARNING,
    place=180,
    needs=("groups",),
    means="A POP or gRPC group has messages in process for longer than allowed, and finishes none.",
    texts={
        "default": Texts(
            summary="{consumer_group} has {pop_inflight:messages} message{pop_inflight:plural} in process and finishes "
            "none",
            summary_zh="{consumer_group} 有 {pop_inflight:messages} 条消息处理中，但没有一条完成",
            cause="{pop_inflight:messages} message{pop_inflight:plural} of consumer group {consumer_group} "
            "(POP) are handed out to its clients, and none was finished for {unfinished_ms:duration} (allowed: "
            "{max_lag_ms:duration}): their handlers hang, or do not acknowledge; {pop_available:messages} more wait.",
            cause_zh="消费组 {consumer_group}（POP）有 {pop_inflight:messages} 条消息已分发给客户端，"
            "{unfinished_ms:duration} 内没有一条完成（允许：{max_lag_ms:duration}）：处理逻辑挂起，或没有 ACK；另有 "
            "{pop_available:messages} 条等待分发。",
            do_next="Take a stack of the clients of {consumer_group} and see what the handlers wait for; what is not "
            "acknowledged is delivered again after its invisible time. If the handlers may take so long, raise "
            "max_lag_ms of the group in config/offsetguard.yml.",
            do_next_zh="请抓取 {consumer_group} 客户端的线程堆栈，查看处理逻辑在等待什么；未 ACK 的消息在不可见时间之"
            "后会重新投递。如果处理确实需要这么久，请调大 config/offsetguard.yml 中该消费组的 max_lag_ms。",
        ),
    },
    title="handlers hang",
    title_zh="消费处理挂起",
    table=("pop_inflight", "pop_available", "unfinished_ms", "max_lag_ms", "online_client_count"),
    peak="pop_inflight",
    group_needs=("pop_inflight",),
    recovered="the group finishes messages again, or has none in process",
    recovered_zh="消费组已恢复完成消息，或没有处理中的消息",
    shows_stacks=True,
    explains=(Explains(Scope.TOPIC, ("accumulation", "slow_consumption")),),
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per POP group, whatever its topics."""
    for group in _pop_groups(facts):
        if group.pop_unfinished_since is None or not group.pop_inflight:
            continue
        unfinished = facts.now - group.pop_unfinished_since
        allowed_ms = config.policy(facts.cluster, group.consumer_group).max_lag_ms
        if unfinished >= timedelta(milliseconds=allowed_ms):
            yield RULE.finding(
                facts,
                about=(group.consumer_group, _topic(facts, group)),
                state="STALLED",
                figures={
                    "pop_inflight": group.pop_inflight,
                    "pop_available": group.pop_available,
                    "unfinished_ms": unfinished // timedelta(milliseconds=1),
                    "max_lag_ms": allowed_ms,
                    "online_client_count": group.online_client_count,
                },
            )


def cannot_tell(facts: IntervalFacts, config: Config) -> Iterator[CannotTell]:
    """Name POP groups of which nobody tells how much is in process; without clients there is nothing to process."""
    for group in _pop_groups(facts):
        if group.pop_inflight is None and group.online_client_count != 0:
            yield RULE.cannot_tell(Sentence("pop_in_process_untold"), consumer_group=group.consumer_group)


def _pop_groups(facts: IntervalFacts) -> Iterator[GroupFacts]:
    return (group for group in each_group(facts) if group.consumption == POP)


def _topic(facts: IntervalFacts, group: GroupFacts) -> str | None:
    """Return the topic of a group that consumes one only."""
    topics = {
        one.topic
        for one in facts.groups
        if one.consumer_group == group.consumer_group and one.topic_kind not in ("retry", "dead_letter")
    }
    return topics.pop() if len(topics) == 1 else None
