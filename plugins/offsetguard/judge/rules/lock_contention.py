"""Living clients of an orderly group want the same queue for longer than a rebalance takes.

Means: two clients believe that a queue is theirs, since instances share a client id (client_id_shared) or see different
members of the group; or its holder gives it up late, because its listener is in one message for so long.
Evidence: brokers' lock lines "locked by other client" over more than a minute whose holder is connected; clients that
hold a queue without its lock.
Not judged: a rebalance in progress (queues change hands within two rounds of 20 s), retry queues, POP groups, holders
that have gone (see lock_not_released). INFO is what began within 90 s after the broker's start, and ends within 3 min;
and a lock that was given back before a fourth round: who waits asks every 20 s, so three may be little more than two.
Do next: compare what each client and each broker take for the group's members.
Source: RebalanceLockManager, AllocateMessageQueueAveragely, ConsumerGroupInfo#getAllClientId (4.9.8, 5.3.3).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from offsetguard.config import Config
from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.judge.evidence import lookups
from offsetguard.judge.evidence.judged_groups import longest_ms
from offsetguard.judge.evidence.lock_holders import (
    Holder,
    brokers_of,
    by_a_restart,
    evidence_of,
    goes_on,
    holder_of,
    stood_still_ms,
    unknown_holders,
    waits_for_messages,
)
from offsetguard.judge.evidence.lookups import queues_by_group, sum_at_least
from offsetguard.judge.rule import CannotTell, Explains, Figure, Finding, QueueEvidence, Rule, Scope, Severity, Texts
from offsetguard.judge.windows.rules import POP
from offsetguard.model.rocketmq import REBALANCE_INTERVAL_MS
from offsetguard.tables.group_facts import GroupFacts
from offsetguard.tables.log_facts import LockWaitFacts

LONG_MS = 3 * REBALANCE_INTERVAL_MS  # a queue changes hands within one round, at worst within two

_QUEUES = "{queue_count} queue{queue_count:plural} of {on_brokers}"
_QUEUES_ZH = "{consumer_group}：{on_brokers} 的 {queue_count} 个队列"
_STANDS = "Orderly group {consumer_group} stood still on " + _QUEUES + ", topic {topic}, for {stood_still_ms:duration}"
_STANDS_ZH = (
    "顺序消费组 {consumer_group} 在主题 {topic} 位于 {on_brokers} 的 {queue_count} 个队列上停滞了 "
    "{stood_still_ms:duration}："
)
_SUMMARY = "{consumer_group}: clients contend for " + _QUEUES
_MEMBERS = "The members that each broker lists should be the same:"
_MEMBERS_ZH = "各 Broker 列出的成员应当一致："

RULE = Rule(
    id="lock_contention",
    severity=Severity.WARNING,
    place=190,
    needs=("lock_waits", "groups", "queues"),
    means="Living clients of an orderly group contend for a queue's lock for longer than a rebalance takes.",
    texts={
        "default": Texts(
            summary=_SUMMARY,
            summary_zh="{consumer_group}：客户端争抢 {on_brokers} 的 {queue_count} 个队列",
            cause=_STANDS + ": {waiter_client_id} asks for the lock and {holder_client_id}, which is connected, holds "
            "it: the two see different members of the group, or instances share a client id.",
            cause_zh=_STANDS_ZH + "{waiter_client_id} 申请锁，而在线的 {holder_client_id} 持有锁：两者看到的消费组成员"
            "不同，或多个实例使用同一个客户端 ID。",
            do_next="Give every instance a client id of its own (instanceName, or distinct host names), and restart "
            "the client whose list is wrong. " + _MEMBERS,
            do_next_zh="请让每个实例使用不同的客户端 ID（instanceName，或不同的主机名），并重启成员列表有误的客户端。"
            + _MEMBERS_ZH,
            commands=(lookups.MEMBERS_OF_EACH_BROKER,),
        ),
        "members_differ": Texts(
            cause=_STANDS + ": {waiter_client_id} asks for the lock and {holder_client_id}, which is connected, holds "
            "it: the brokers list different members of the group, so each client counts on another share of queues.",
            cause_zh=_STANDS_ZH + "{waiter_client_id} 申请锁，而在线的 {holder_client_id} 持有锁：各 Broker 列出的消费"
            "组成员不同，因此客户端各自算出的队列分配不同。",
            do_next="Find out why a client's heartbeat does not reach all brokers. " + _MEMBERS,
            do_next_zh="请查明客户端的心跳为何没有到达所有 Broker。" + _MEMBERS_ZH,
            commands=(lookups.MEMBERS_OF_EACH_BROKER,),
        ),
        "late_hand_over": Texts(
            summary="{consumer_group}: " + _QUEUES + " changed hands late",
            summary_zh=_QUEUES_ZH + "交接过晚",
            cause=_STANDS + ": {holder_client_id} was to hand over to {waiter_client_id}, and gave the lock back only "
            "then; its listener was in one message for so long, or it saw the new member late.",
            cause_zh=_STANDS_ZH + "{holder_client_id} 应把队列交给 {waiter_client_id}，却迟迟才释放锁；它的监听器一直停"
            "在一条消息上，或较晚才看到新成员。",
            do_next="Look for slow messages in the listener of {consumer_group}: a queue changes hands only between "
            "two messages.",
            do_next_zh="请检查 {consumer_group} 的监听器中的慢消息：队列只在两条消息之间交接。",
        ),
        "not_locked": Texts(
            summary="{consumer_group}: " + _QUEUES + " held without the lock",
            summary_zh=_QUEUES_ZH + "被持有但没有拿到锁",
            cause=_STANDS + ": {holder_client_id} holds them and does not get their locks, so it may not consume: "
            "another client has the locks, or the brokers do not answer it.",
            cause_zh=_STANDS_ZH + "{holder_client_id} 持有它们却拿不到锁，因此不能消费：锁在另一个客户端手中，或 "
            "Broker 没有应答。",
            do_next="The brokers' lock.log (filter.log since 5.1.1) names the client that has the locks. " + _MEMBERS,
            do_next_zh="Broker 的 lock.log（5.1.1 起为 filter.log）会记录持锁的客户端。" + _MEMBERS_ZH,
            commands=(lookups.MEMBERS_OF_EACH_BROKER,),
        ),
    },
    title="clients contend for queue locks",
    title_zh="客户端争抢队列锁",
    table=("stood_still_ms", "queue_count", "on_brokers", "holder_client_id", "waiter_client_id", "effective_lag"),
    peak="stood_still_ms",
    from_clients=True,
    recovered="over: no clients contend for a queue's lock",
    recovered_zh="已结束：不再有客户端争抢队列锁",
    holds_queues=True,
    explains=(Explains(Scope.QUEUES, ("accumulation", "slow_consumption")),),
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per orderly consumer group and topic: what logs tell comes before what clients tell."""
    suspects = queues_by_group(facts)
    groups = {(group.consumer_group, group.topic): group for group in facts.groups}
    found = set()
    for subject, waits in sorted(waits_for_messages(facts).items()):
        long = [one for one in waits if _is_contended(one, facts)]
        if long:
            found.add(subject)
            longest = max(long, key=lambda one: (stood_still_ms(one, facts.now), one.holder_client_id or ""))
            queues = evidence_of(long, suspects.get(subject, []), facts.now)
            figures = _of_wait(longest, facts)
            variant = _variant(longest, groups.get(subject))
            is_quiet = all(by_a_restart(one, facts) or _was_brief(one, facts) for one in long)
            severity = Severity.INFO if is_quiet else RULE.severity
            ended = [one.ended_at for one in long if one.ended_at is not None]
            over_at = max(ended) if len(ended) == len(long) else None
            finding = _finding(facts, subject, variant, figures, queues)
            yield replace(finding, severity=severity, last_event_at=over_at)
    for subject, group in groups.items():
        queues = () if subject in found else _not_locked(group, suspects.get(subject, ()))
        if queues:
            yield _finding(facts, subject, "not_locked", queues[0].figures, queues)


def cannot_tell(facts: IntervalFacts, config: Config) -> Iterator[CannotTell]:
    """Name groups whose clients waited long for locks of nobody knows whom."""
    yield from unknown_holders(facts, RULE.id, LONG_MS)


def _is_contended(wait: LockWaitFacts, facts: IntervalFacts) -> bool:
    alive = holder_of(wait) is Holder.ALIVE or wait.ended_by == "released"
    settled = wait.ended_at is not None or goes_on(wait, facts.now)
    return alive and settled and wait.refusal_count > 0 and stood_still_ms(wait, facts.now) >= LONG_MS


def _was_brief(wait: LockWaitFacts, facts: IntervalFacts) -> bool:
    return wait.ended_by == "released" and stood_still_ms(wait, facts.now) < LONG_MS + REBALANCE_INTERVAL_MS


def _variant(wait: LockWaitFacts, group: GroupFacts | None) -> str:
    if group is not None and group.members_differ:
        return "members_differ"
    return "late_hand_over" if wait.ended_by == "released" else "default"


def _of_wait(wait: LockWaitFacts, facts: IntervalFacts) -> dict[str, Figure]:
    return {
        "stood_still_ms": stood_still_ms(wait, facts.now),
        "holder_client_id": wait.holder_client_id,
        "waiter_client_id": wait.waiter_client_id,
        "first_refused_at": wait.first_refused_at,
    }


def _not_locked(group: GroupFacts, suspects: Sequence[QueueFacts]) -> tuple[QueueEvidence, ...]:
    """Return the queues that a client of an orderly group holds without their locks, and that wait for long.

    Of messages whose age is not known the silence of their queue counts.
    """
    if not group.orderly or group.consumption == POP:
        return ()
    stood_ms = {
        queue.message_queue: longest_ms([queue], "silence_ms") if queue.lag_ms is None else queue.lag_ms
        for queue in suspects
    }
    long = [queue for queue in suspects if (stood_ms[queue.message_queue] or 0) >= LONG_MS]
    return tuple(
        QueueEvidence(
            queue.message_queue,
            {
                "stood_still_ms": stood_ms[queue.message_queue],
                "holder_client_id": queue.holder_client_id,
                "effective_lag": queue.offsets.effective_lag,
            },
        )
        for queue in sorted(long, key=lambda one: (-(stood_ms[one.message_queue] or 0), one.message_queue))
        if queue.holder_client_id is not None
        and queue.locked is False
        and (queue.offsets.effective_lag or 0) > 0
        and not queue.consume_tps
    )


def _finding(
    facts: IntervalFacts,
    subject: tuple[str, str],
    variant: str,
    figures: Mapping[str, Figure],
    queues: tuple[QueueEvidence, ...],
) -> Finding:
    return RULE.finding(
        facts,
        about=subject,
        variant=variant,
        state="STALLED",
        figures={
            "waiter_client_id": None,
            **figures,
            "queue_count": len(queues),
            "on_brokers": brokers_of(queues),
            "effective_lag": sum_at_least(one.figures["effective_lag"] for one in queues),
        },
        queues=queues,
    )
