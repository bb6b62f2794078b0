"""A rebalance lock outlived its owner, so an orderly queue stands still.

Means: the client that held the queues' locks has gone without unlocking (it was killed, or its host went away); a
broker keeps a lock for up to lockMaxLiveTime (60 s) after its last renewal, and nobody consumes the queue meanwhile.
Evidence: brokers' lock lines "locked by other client" whose holder is no longer among the group's clients, and the
takeover of the expired lock; without these logs: queues that none of the group's clients holds although all of them
told, while they hold others.
Not judged: holders that live, and queues that nobody holds while instances share a client id (see lock_contention),
retry queues, POP groups; a queue that waits for less than a lock interval, or whose topic nobody writes, is told as
INFO; without logs also what began when its broker was restarted.
Do next: stop clients so that they can unlock: SIGTERM, a shutdown hook, enough grace time.
Source: incident "orderly lock"; RebalanceLockManager, ConsumeMessageOrderlyService#shutdown (4.9.8, 5.3.3).
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.judge.evidence.lock_holders import (
    Holder,
    UnheldQueues,
    brokers_of,
    evidence_of,
    goes_on,
    holder_of,
    restart_explains,
    stood_still_ms,
    unheld_queues,
    unknown_holders,
    waits_for_messages,
)
from offsetguard.judge.evidence.lookups import queues_by_group
from offsetguard.judge.rule import CannotTell, Config, Explains, Finding, Rule, Scope, Severity, Texts
from offsetguard.model.rocketmq import REBALANCE_INTERVAL_MS
from offsetguard.tables.log_facts import LockWaitFacts

_QUEUES = "{queue_count} queue{queue_count:plural} of {on_brokers}"
_GRACE = (
    "Shut clients of {consumer_group} down gracefully: SIGTERM, a shutdown hook that calls shutdown(), and enough "
    "terminationGracePeriod; or shorten lock interval and expiry together, for example "
    "-Drocketmq.client.rebalance.lockInterval=5000 on clients and -Drocketmq.broker.rebalance.lockMaxLiveTime=15000 on "
    "brokers, never below 3 intervals."
)
_GRACE_ZH = (
    "请优雅地停止 {consumer_group} 的客户端：SIGTERM、调用 shutdown() 的 shutdown hook、足够的 "
    "terminationGracePeriod；或同时缩短加锁间隔和锁过期时间，例如客户端 -Drocketmq.client.rebalance.lockInterval="
    "5000、Broker -Drocketmq.broker.rebalance.lockMaxLiveTime=15000，过期时间不得小于 3 个间隔。"
)

RULE = Rule(
    id="lock_not_released",
    severity=Severity.WARNING,
    place=160,
    needs=("lock_waits", "groups", "queues", "topics"),
    means="A client of an orderly group has gone without giving back its queue locks, and the queues stood still.",
    texts={
        "default": Texts(
            summary="{consumer_group} stood still on " + _QUEUES + " for {stood_still_ms:duration}",
            summary_zh="{consumer_group} 在 {on_brokers} 的 {queue_count} 个队列上停滞了 {stood_still_ms:duration}",
            cause="Orderly group {consumer_group} stood still on " + _QUEUES + ", topic {topic}, for "
            "{stood_still_ms:duration} from {first_refused_at:moment} on: the lock was held by {holder_client_id}, "
            "which has disconnected without unlocking; it expired at {ended_at:moment} and {next_holder_client_id} "
            "got it.",
            cause_zh="顺序消费组 {consumer_group} 自 {first_refused_at:moment} 起在主题 {topic} 位于 {on_brokers} 的 "
            "{queue_count} 个队列上停滞了 {stood_still_ms:duration}：锁由 {holder_client_id} 持有，而它未解锁就断开了"
            "连接；锁于 {ended_at:moment} 过期，由 {next_holder_client_id} 获得。",
            do_next=_GRACE,
            do_next_zh=_GRACE_ZH,
        ),
        "waiting": Texts(
            summary="{consumer_group} stands still on " + _QUEUES + " for {stood_still_ms:duration}",
            summary_zh="{consumer_group} 在 {on_brokers} 的 {queue_count} 个队列上已停滞 {stood_still_ms:duration}",
            cause="Orderly group {consumer_group} stands still on " + _QUEUES + ", topic {topic}, for "
            "{stood_still_ms:duration} so far: the lock is held by {holder_client_id}, which has disconnected without "
            "unlocking; {waiter_client_id} gets it when it has expired, {lock_max_live_time_ms:duration} after its "
            "last renewal.",
            cause_zh="顺序消费组 {consumer_group} 在主题 {topic} 位于 {on_brokers} 的 {queue_count} 个队列上至今已停"
            "滞 {stood_still_ms:duration}：锁由 {holder_client_id} 持有，而它未解锁就断开了连接；{waiter_client_id} 要"
            "等锁过期才能获得，即最后一次续期后 {lock_max_live_time_ms:duration}。",
            do_next="It ends by itself. " + _GRACE,
            do_next_zh="会自行恢复。" + _GRACE_ZH,
        ),
        "unheld": Texts(
            summary="Nobody holds " + _QUEUES + " for {consumer_group}",
            summary_zh="{on_brokers} 的 {queue_count} 个队列没有被 {consumer_group} 的任何客户端持有",
            cause="Orderly group {consumer_group} stands still on " + _QUEUES + ", topic {topic}, for "
            "{stood_still_ms:duration}: no client holds them (clients online: {online_client_count}, queues that they "
            "hold: {held_queue_count}); so it is when a client has gone without unlocking, until its lock expires, "
            "{lock_max_live_time_ms:duration} after its last renewal.",
            cause_zh="顺序消费组 {consumer_group} 在主题 {topic} 位于 {on_brokers} 的 {queue_count} 个队列上停滞了 "
            "{stood_still_ms:duration}：没有客户端持有它们（在线客户端 {online_client_count} 个，共持有 "
            "{held_queue_count} 个队列）；客户端未解锁就退出时会这样，直到锁过期，即最后一次续期后 "
            "{lock_max_live_time_ms:duration}。",
            do_next="The brokers' lock.log (filter.log since 5.1.1) names the holder: list these logs in "
            "config/offsetguard.yml. " + _GRACE,
            do_next_zh="Broker 的 lock.log（5.1.1 起为 filter.log）会记录持锁者：请在 config/offsetguard.yml 中配置这"
            "些日志。" + _GRACE_ZH,
        ),
    },
    title="queue locks of a client that has gone",
    title_zh="已离线客户端的队列锁未释放",
    table=("stood_still_ms", "queue_count", "on_brokers", "holder_client_id", "first_refused_at", "effective_lag"),
    began="first_refused_at",
    peak="stood_still_ms",
    from_clients=True,
    recovered="over: no client waits for the lock of a client that has gone",
    recovered_zh="已结束：不再有客户端等待已离线客户端的锁",
    holds_queues=True,
    explains=(
        Explains(Scope.QUEUES, ("accumulation", "slow_consumption", "lock_contention")),
        # what stands still after the lock was had has another cause
        Explains(Scope.QUEUES, ("poison_message", "client_stands_still"), variants=("waiting", "unheld")),
    ),
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per orderly consumer group and topic."""
    suspects = queues_by_group(facts)
    found = set()
    for subject, waits in sorted(waits_for_messages(facts).items()):
        dead = [one for one in waits if _was_not_released(one, facts)]
        if dead:
            found.add(subject)
            yield _finding(facts, config, subject=subject, waits=dead, suspects=suspects.get(subject, []))
    for unheld in unheld_queues(facts, config):
        of_one_id = unheld.figures["doubled_client_ids"] is not None  # then the share is nobody's: client_id_shared
        if unheld.subject not in found and unheld.orderly and not (unheld.outlasts_any_lock or of_one_id):
            yield RULE.finding(
                facts,
                about=unheld.subject,
                severity=Severity.INFO if _is_a_rebalance(unheld, facts) else RULE.severity,
                variant="unheld",
                state="STALLED",
                figures=unheld.figures,
                queues=unheld.queues,
            )


def cannot_tell(facts: IntervalFacts, config: Config) -> Iterator[CannotTell]:
    """Name groups whose clients waited for locks of nobody knows whom."""
    yield from unknown_holders(facts, RULE.id, REBALANCE_INTERVAL_MS)


def _is_a_rebalance(unheld: UnheldQueues, facts: IntervalFacts) -> bool:
    """Whether queues may just change hands, as they do for longer when their brokers were restarted."""
    since = facts.now - timedelta(milliseconds=unheld.stood_still_ms)
    names = {one.message_queue.broker_name for one in unheld.queues}
    restarted = all(restart_explains(facts, name, since, facts.now) for name in names)
    return restarted or unheld.stood_still_ms < REBALANCE_INTERVAL_MS


def _was_not_released(wait: LockWaitFacts, facts: IntervalFacts) -> bool:
    if not wait.refusal_count or holder_of(wait) is not Holder.GONE:
        return False
    return wait.ended_by == "expired" or goes_on(wait, facts.now)


def _finding(
    facts: IntervalFacts,
    config: Config,
    *,
    subject: tuple[str, str],
    waits: Sequence[LockWaitFacts],
    suspects: Sequence[QueueFacts],
) -> Finding:
    queues = evidence_of(waits, suspects, facts.now)
    longest = max(waits, key=lambda one: (stood_still_ms(one, facts.now), one.holder_client_id or ""))
    ongoing = [one for one in waits if goes_on(one, facts.now)]
    shown = max(ongoing, key=lambda one: stood_still_ms(one, facts.now)) if ongoing else longest
    lag = sum(lag for one in queues if isinstance(lag := one.figures["effective_lag"], int))
    matters = _matters(facts, config, subject=subject, stood_still_ms=stood_still_ms(longest, facts.now), lag=lag)
    return RULE.finding(
        facts,
        about=subject,
        severity=RULE.severity if matters else Severity.INFO,
        variant="waiting" if ongoing else "default",
        last_event_at=None if ongoing else max((one.ended_at or one.last_refused_at for one in waits), default=None),
        state="STALLED",
        figures={
            "stood_still_ms": stood_still_ms(shown, facts.now),
            "queue_count": len(queues),
            "on_brokers": brokers_of(queues),
            "holder_client_id": shown.holder_client_id,
            "waiter_client_id": shown.waiter_client_id,
            "next_holder_client_id": shown.next_holder_client_id,
            "first_refused_at": shown.first_refused_at,
            "ended_at": shown.ended_at,
            "effective_lag": lag,
            "lock_max_live_time_ms": config.clusters[facts.cluster].lock_max_live_time_ms,
        },
        queues=queues,
    )


def _matters(facts: IntervalFacts, config: Config, *, subject: tuple[str, str], stood_still_ms: int, lag: int) -> bool:
    """Whether messages waited for longer than a rebalance between living clients takes; unknown traffic is traffic."""
    group, topic = subject
    if stood_still_ms < config.policy(facts.cluster, group).lock_interval_ms:
        return False
    written = next((one for one in facts.topics if one.topic == topic), None)
    silent = written is not None and 0 in (written.produce_tps, written.put_tps)
    return lag > 0 or not silent
