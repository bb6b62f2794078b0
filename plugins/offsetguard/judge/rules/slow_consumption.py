"""Most of a group's lag is in process at its clients: consumption is slow, not stopped.

Means: the messages were handed out, and their listeners take long. The committed offset is the smallest unfinished
message of a client's cache, so one slow message holds it back although those behind it are done.
Evidence: the messages that clients say they have cached, or where not all tell inflight (pull - consumer offset, from
5.1 on), make more than half of the lag; messages were finished within the last minute. One slow message is named when
the committed offset stands for more than a minute, and its client still holds that message while some behind it are
finished: one of them lately, or the newest that it was given.
Not judged: clients that finish nothing, or for 20 s and ten times as long as their messages take nothing
(accumulation, poison_message); queues of which a full cache has begun with the
same message for ten minutes, where most of the lag lies: these have stopped, whatever others do; POP groups
(handlers_hanging); broadcasting.
Do next: find the slow message or the slow call in the listener.
Source: incident I3; ProcessQueue.removeMessage returns the smallest unfinished offset (4.9.8, 5.3.3).
"""

from collections.abc import Iterator
from datetime import timedelta

from offsetguard.config import Config, EffectivePolicy
from offsetguard.judge.evidence import lookups
from offsetguard.judge.evidence.blocked_queues import held_back_queues
from offsetguard.judge.evidence.judged_groups import (
    COMMITTED_WITHIN,
    RECENTLY,
    JudgedGroup,
    finished_at,
    finished_long_ago,
    finishes_messages,
    judged_groups,
    most_moves,
)
from offsetguard.judge.evidence.lookups import age_of_oldest, lag_evidence, master_boots, of_all_queues, queue_name
from offsetguard.judge.rule import CannotTell, Explains, Finding, IntervalFacts, Rule, Scope, Sentence, Severity, Texts
from offsetguard.judge.windows.windows import above_limit
from offsetguard.tables.group_facts import GroupFacts

_LAG = (
    "Consumer group {consumer_group} is {effective_lag:messages} message{effective_lag:plural} behind on topic "
    "{topic}, of which {in_process:messages} are in process at its clients (oldest: {lag_ms:duration}, on queue "
    "{worst_queue})"
)
_LAG_ZH = (
    "消费组 {consumer_group} 在主题 {topic} 上堆积 {effective_lag:messages} 条消息，其中 {in_process:messages} 条在客户"
    "端处理中（最早的已等待 {lag_ms:duration}，位于队列 {worst_queue}）"
)

_STOPPED = timedelta(minutes=10)

RULE = Rule(
    id="slow_consumption",
    severity=Severity.INFO,
    place=280,
    needs=("groups", "queues"),
    means="Most of a consumer group's lag was handed out and is in process at its clients: it is slow, not stopped.",
    texts={
        "default": Texts(
            summary="{consumer_group} is slow on {topic}: {in_process:messages} message{in_process:plural} are in "
            "process",
            summary_zh="{consumer_group} 消费 {topic} 缓慢：{in_process:messages} 条消息处理中",
            cause=_LAG + ": consumption is slow, not stopped.",
            cause_zh=_LAG_ZH + "：是消费缓慢，不是停止。",
            do_next="Find the slow call in the listener; more threads help a concurrent group, more queues an orderly "
            "one. " + lookups.STACKS_GO,
            do_next_zh="请找出监听器中的慢调用；并发消费组可增加线程，顺序消费组可增加队列。" + lookups.STACKS_GO_ZH,
            commands=(lookups.STACKS,),
        ),
        "held_back": Texts(
            summary="{consumer_group}: one slow message holds back {worst_queue} of {topic}",
            summary_zh="{consumer_group}：一条慢消息拖住了 {topic} 的 {worst_queue}",
            cause=_LAG + "; its committed offset {consumer_offset:messages} there has not moved for {held_ms:duration} "
            "while messages behind it are finished: one slow message holds it back, consumption is not stopped.",
            cause_zh=_LAG_ZH + "；那里的消费位点 {consumer_offset:messages} 已 {held_ms:duration} 没有推进，而其后的消"
            "息已有消费完的：是一条慢消息拖住了位点，并非停止消费。",
            do_next="Find the slow call in the listener, and see which message holds the others back (id and keys). "
            + lookups.STACKS_GO,
            do_next_zh="请找出监听器中的慢调用，并查看是哪条消息拖住了其他消息（id 和 keys）。" + lookups.STACKS_GO_ZH,
            commands=(
                lookups.SHOW_COMMITTED,
                lookups.STACKS,
            ),
        ),
    },
    title="consumption is slow",
    title_zh="消费缓慢",
    table=("effective_lag", "in_process", "available", "lag_ms", "online_client_count", "consume_rt_ms"),
    peak="in_process",
    group_needs=("effective_lag",),
    from_clients=True,
    recovered="recovered: most of what waits is no longer in process at clients",
    recovered_zh="已恢复：堆积的消息大多已不在客户端处理中",
    about_load=True,
    shows_stacks=True,
    explains=(Explains(Scope.TOPIC, ("accumulation", "flow_control")),),
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per (consumer group, topic)."""
    boots = master_boots(facts)
    for judged in judged_groups(facts, config):
        group, policy, own = judged.group, judged.policy, judged.queues
        in_process = _in_process(group)
        if in_process is None or not own or _is_little(group, policy):
            continue
        held = next(iter(held_back_queues(group, own)), None)
        # Few threads finish one queue's messages before they begin the next one's: most offsets stand meanwhile
        # ... unless all that a queue shows is that it was taken, when its master came back
        shown = finishes_messages(group) and all(one.last_consume_at == finished_at(one, boots) for one in own)
        goes_on = shown or most_moves(group, own, boots)
        # What clients say that they finish is of the last minute; who stands still by now finished it before
        stopped = judged.stands_still or finished_long_ago(group, own) or _is_quick_and_idle(judged)
        goes_on = goes_on and not (stopped or _most_has_stopped(judged))
        if held is None and not (goes_on and 2 * in_process > (group.effective_lag or 0)):
            continue
        worst = (
            held.queue if held else min(own, key=lambda one: (-(one.lag_ms or 0), -(one.offsets.effective_lag or 0)))
        )
        yield RULE.finding(
            facts,
            about=(group.consumer_group, group.topic),
            variant="held_back" if held else "default",
            state="FALLING_BEHIND" if above_limit(group, policy) else "OK",
            figures={
                "effective_lag": of_all_queues(group, group.effective_lag),
                "in_process": in_process,
                "available": group.available,
                "lag_ms": age_of_oldest([worst]),
                "worst_queue": queue_name(worst.message_queue),
                "broker_name": worst.message_queue.broker_name,
                "queue_id": worst.message_queue.queue_id,
                "consumer_offset": worst.offsets.consumer_offset,
                "held_ms": held and held.blocked_ms,
                "online_client_count": group.online_client_count,
                "consume_rt_ms": group.consume_rt_ms,
            },
            queues=lag_evidence(own),
        )


def _is_quick_and_idle(judged: JudgedGroup) -> bool:
    """Whether all its clients have finished nothing for ten times as long as a message takes them, while some wait."""
    group, finished = judged.group, [one.last_consume_at for one in judged.queues]
    if group.orderly or group.consume_rt_ms is None:
        return False
    usual = max(COMMITTED_WITHIN, 10 * timedelta(milliseconds=group.consume_rt_ms))
    return all(at is not None and judged.seen_at - at > usual for at in finished)


def _most_has_stopped(judged: JudgedGroup) -> bool:
    """Whether most of what waits lies in queues that a full cache has held at one message for long.

    What other queues finish says nothing of these.
    """
    stopped = 0
    for queue in judged.queues:
        since, finished = queue.window.advanced_at or queue.window.first_seen_at, queue.last_consume_at
        finishes = finished is not None and judged.seen_at - finished <= RECENTLY
        stands = since is not None and judged.seen_at - since >= _STOPPED
        if queue.cache_is_full and stands and not finishes:
            stopped += queue.offsets.effective_lag or 0
    return 2 * stopped > (judged.group.effective_lag or 0)


def _in_process(group: GroupFacts) -> int | None:
    """Return what clients have in hands; None where neither brokers (5.1) nor all clients tell."""
    if group.consumption == "pop" or group.message_model == "BROADCASTING" or group.topic_kind == "system":
        return None
    all_known = group.told_client_count is not None and group.told_client_count == group.online_client_count
    if not all_known or group.cached_message_count is None:
        return group.inflight
    return min(group.cached_message_count, group.effective_lag or 0)  # caches may hold what is deleted by now


def _is_little(group: GroupFacts, policy: EffectivePolicy) -> bool:
    """Whether what waits is not worth a word; unknown is neither few nor young, nor is it much."""
    if group.effective_lag is None or group.effective_lag <= 0:
        return True
    is_young = group.lag_ms is not None and group.lag_ms <= policy.lag_floor_ms
    return group.effective_lag < policy.lag_floor and is_young


def cannot_tell(facts: IntervalFacts, config: Config) -> Iterator[CannotTell]:
    """Say of which groups above their limits nobody tells what is in process."""
    for group in facts.groups:
        judged = group.consumption != "pop" and group.message_model == "CLUSTERING" and group.topic_kind == "normal"
        if (
            judged
            and _in_process(group) is None
            and above_limit(group, config.policy(facts.cluster, group.consumer_group))
        ):
            yield RULE.cannot_tell(Sentence("in_process_untold"), consumer_group=group.consumer_group)
