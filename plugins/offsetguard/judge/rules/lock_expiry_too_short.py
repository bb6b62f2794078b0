"""An orderly group's queue locks may expire, or did, although their owner lives.

Means: the broker forgets a rebalance lock after lockMaxLiveTime; a client renews it every lockInterval. Below three
intervals, two late renewals are enough for another client to get the lock: messages are consumed twice, out of order.
Evidence: the settings that the configuration declares for the cluster and the group (brokers do not tell them); lock
lines of brokers that hand over the expired lock of a client that lives; and clients whose locks were not renewed for
longer than half the declared expiry, by their own clocks.
Not judged: groups that are neither declared orderly nor say so, POP groups; a lock whose holder has gone; renewals and
hand-overs soon after a broker's start, when clients that know few of their siblings take locks too early.
Do next: change both settings together, expiry at least 3 x interval.
Source: RebalanceLockManager.REBALANCE_LOCK_MAX_LIVE_TIME, ConsumeMessageOrderlyService (4.9.8, 5.3.3).
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta

from offsetguard.judge.evidence.lock_holders import (
    Holder,
    brokers_of,
    by_a_restart,
    evidence_of,
    holder_of,
    waits_for_messages,
)
from offsetguard.judge.evidence.lookups import queues_by_group
from offsetguard.judge.rule import Config, Figure, Finding, IntervalFacts, QueueEvidence, Rule, Severity, Texts
from offsetguard.judge.windows.rules import POP
from offsetguard.model.rocketmq import LOCK_INTERVALS_PER_LIFE
from offsetguard.tables.group_facts import GroupFacts

_TWICE = "two clients may have consumed {queue_count:messages} queue{queue_count:plural} of {on_brokers} at once"

RULE = Rule(
    id="lock_expiry_too_short",
    severity=Severity.WARNING,
    place=250,
    needs=("groups", "lock_waits", "brokers"),
    means="The lock expiry of the brokers is shorter than three lock intervals of an orderly group's clients.",
    texts={
        "default": Texts(
            summary="{consumer_group}: queue locks expire after {lock_max_live_time_ms:duration}, "
            "renewed every {lock_interval_ms:duration}",
            summary_zh="{consumer_group}：队列锁 {lock_max_live_time_ms:duration}后过期，每 "
            "{lock_interval_ms:duration} 续期一次",
            cause="Brokers of {cluster} drop a queue lock after {lock_max_live_time_ms:duration}, but clients of the "
            "orderly group {consumer_group} renew it only every {lock_interval_ms:duration}; the expiry must be at "
            "least {least_lock_max_live_time_ms:duration} (3 intervals), or two late renewals let two clients consume "
            "one queue at once.",
            cause_zh="{cluster} 的 Broker 在 {lock_max_live_time_ms:duration} 后丢弃队列锁，而顺序消费组 "
            "{consumer_group} 的客户端每 {lock_interval_ms:duration} 才续期一次；过期时间至少应为 "
            "{least_lock_max_live_time_ms:duration}（3 个间隔），否则连续两次续期延迟就会使两个客户端同时消费一个队"
            "列。",
            do_next="Start the brokers with -Drocketmq.broker.rebalance.lockMaxLiveTime={least_lock_max_live_time_ms} "
            "or more, or the clients with -Drocketmq.client.rebalance.lockInterval={most_lock_interval_ms} or less; "
            "then write the new values to lock_max_live_time_ms (cluster) or lock_interval_ms (group) in "
            "config/offsetguard.yml.",
            do_next_zh="请以 -Drocketmq.broker.rebalance.lockMaxLiveTime={least_lock_max_live_time_ms} 或更大的值启动 "
            "Broker，或以 -Drocketmq.client.rebalance.lockInterval={most_lock_interval_ms} 或更小的值启动客户端；再把"
            "新值写入 config/offsetguard.yml 的 lock_max_live_time_ms（集群）或 lock_interval_ms（消费组）。",
        ),
        "expired": Texts(
            summary="{consumer_group}: the lock of a living client expired",
            summary_zh="{consumer_group}：在线客户端的锁过期",
            cause="At {ended_at:moment} a lock that {holder_client_id} of orderly group {consumer_group} held had "
            "expired and {next_holder_client_id} got it, although {holder_client_id} is connected: " + _TWICE + ".",
            cause_zh="{ended_at:moment}，顺序消费组 {consumer_group} 的 {holder_client_id} 持有的锁已过期，由 "
            "{next_holder_client_id} 获得，而 {holder_client_id} 仍在线：{on_brokers} 的 {queue_count:messages} 个队列"
            "可能曾被两个客户端同时消费。",
            do_next="See which settings the processes really have: brokers keep a lock for lockMaxLiveTime (declared: "
            "{lock_max_live_time_ms:duration}), clients renew it every lockInterval (declared: "
            "{lock_interval_ms:duration}), and 3 intervals must fit in. If they do, {holder_client_id} paused for so "
            "long (garbage collection, a frozen host), or held on to one message while it gave the queue up.",
            do_next_zh="请核实各进程的实际设置：Broker 保留锁 lockMaxLiveTime（声明为 "
            "{lock_max_live_time_ms:duration}），客户端每 lockInterval 续期一次（声明为 "
            "{lock_interval_ms:duration}），前者至少应为后者的 3 倍。如果符合，则 {holder_client_id} 曾停顿过久（GC、"
            "主机冻结），或在交出队列时仍停在一条消息上。",
        ),
        "renewed_late": Texts(
            summary="{consumer_group}: queue locks are renewed {renewal_gap_ms:duration} apart",
            summary_zh="{consumer_group}：队列锁续期间隔达 {renewal_gap_ms:duration}",
            cause="Clients of orderly group {consumer_group} did not renew queue locks of topic {topic} for "
            "{renewal_gap_ms:duration}, while they consumed; brokers drop a lock after "
            "{lock_max_live_time_ms:duration}, and 3 renewals must fit in.",
            cause_zh="顺序消费组 {consumer_group} 的客户端在消费期间有 {renewal_gap_ms:duration} 没有为主题 {topic} 的"
            "队列锁续期；Broker 在 {lock_max_live_time_ms:duration} 后丢弃锁，其间应能容纳 3 次续期。",
            do_next="Start the clients with -Drocketmq.client.rebalance.lockInterval={most_lock_interval_ms} or less "
            "(20000 is the default), or find out why they renew late: long pauses, or a broker that answers late.",
            do_next_zh="请以 -Drocketmq.client.rebalance.lockInterval={most_lock_interval_ms} 或更小的值启动客户端（默"
            "认 20000），或查明续期延迟的原因：长时间停顿，或 Broker 应答过慢。",
        ),
    },
    title="queue locks may expire too early",
    title_zh="队列锁可能过早过期",
    table=("lock_interval_ms", "lock_max_live_time_ms", "least_lock_max_live_time_ms", "renewal_gap_ms"),
    from_clients=True,
    recovered="the lock settings keep the rule again",
    recovered_zh="锁的设置已符合规则",
)
_BROKER_STARTS = timedelta(minutes=3)  # renewals fail while a broker is away, and go on a minute after its start


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per orderly consumer group, whatever its topics: what happened comes before what may."""
    expired = dict(_expired(facts))
    seen: set[str] = set()
    for group in facts.groups:
        name = group.consumer_group
        interval_ms, life_ms = _declared(group, facts, config)
        if name in seen or group.consumption == POP:
            continue
        figures: dict[str, Figure] = {
            "lock_interval_ms": interval_ms,
            "lock_max_live_time_ms": life_ms,
            "least_lock_max_live_time_ms": None if interval_ms is None else LOCK_INTERVALS_PER_LIFE * interval_ms,
            "most_lock_interval_ms": None if life_ms is None else life_ms // LOCK_INTERVALS_PER_LIFE,
            # below 0: renewed since it last pulled, which tells of no gap
            "renewal_gap_ms": group.renewal_gap_ms if group.orderly and (group.renewal_gap_ms or 0) > 0 else None,
        }
        if name in expired:
            found, queues = expired[name]
            yield _finding(facts, group, "expired", {**figures, **found}, queues)
        elif _is_declared_too_short(group):
            yield _finding(facts, group, "default", figures)
        elif _is_renewed_late(group, facts, life_ms):
            yield _finding(facts, group, "renewed_late", figures)
        else:
            continue
        seen.add(name)


def _finding(
    facts: IntervalFacts,
    group: GroupFacts,
    variant: str,
    figures: Mapping[str, Figure],
    queues: tuple[QueueEvidence, ...] = (),
) -> Finding:
    return RULE.finding(
        facts,
        about=(group.consumer_group, group.topic if variant == "renewed_late" else None),
        variant=variant,
        state="AT_RISK",
        figures=figures,
        queues=queues,
    )


def _declared(group: GroupFacts, facts: IntervalFacts, config: Config) -> tuple[int | None, int | None]:
    """Return lock interval and expiry: those of the facts; the configuration's where none stand there."""
    interval_ms, life_ms = group.lock_interval_ms, group.lock_max_live_time_ms
    if group.declared_orderly or facts.cluster not in config.clusters:
        return interval_ms, life_ms
    policy = config.policy(facts.cluster, group.consumer_group)
    return interval_ms or policy.lock_interval_ms, life_ms or config.clusters[facts.cluster].lock_max_live_time_ms


def _is_declared_too_short(group: GroupFacts) -> bool:
    interval_ms, life_ms = group.lock_interval_ms, group.lock_max_live_time_ms
    if not group.declared_orderly or interval_ms is None or life_ms is None:
        return False
    return life_ms < LOCK_INTERVALS_PER_LIFE * interval_ms


def _is_renewed_late(group: GroupFacts, facts: IntervalFacts, life_ms: int | None) -> bool:
    """Whether a renewal was missed for certain: the gap is longer than half a life, one and a half intervals."""
    if not group.orderly or group.renewal_gap_ms is None or life_ms is None:
        return False
    started = any(one.boot_at is not None and facts.now - one.boot_at < _BROKER_STARTS for one in facts.brokers)
    unseen = bool(facts.unseen_broker_names) or any(not one.answered for one in facts.brokers)
    return 2 * group.renewal_gap_ms > life_ms and not started and not unseen


def _expired(facts: IntervalFacts) -> Iterator[tuple[str, tuple[dict[str, Figure], tuple[QueueEvidence, ...]]]]:
    """Yield for each group whose living clients' locks expired the newest takeover, and the queues."""
    suspects = queues_by_group(facts)
    for (group, topic), waits in sorted(waits_for_messages(facts).items(), reverse=True):
        taken = [one for one in waits if one.ended_by == "expired" and holder_of(one) is Holder.ALIVE]
        taken = [one for one in taken if one.next_holder_client_id != one.holder_client_id]
        taken = [one for one in taken if not by_a_restart(one, facts)]
        if taken:
            newest = max(taken, key=lambda one: (one.ended_at, one.holder_client_id))
            queues = evidence_of(taken, suspects.get((group, topic), []), facts.now)
            figures: dict[str, Figure] = {
                "ended_at": newest.ended_at,
                "holder_client_id": newest.holder_client_id,
                "next_holder_client_id": newest.next_holder_client_id,
                "queue_count": len(queues),
                "on_brokers": brokers_of(queues),
            }
            yield group, (figures, queues)
