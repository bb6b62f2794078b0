"""Rebalance locks as the rules look at them: whether a holder lives, how long queues stood still, which nobody holds.

Waits for locks are what brokers' logs tell. Without them, queues that none of a group's clients holds, though all told,
are what is seen (`unheld_queues`).
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from offsetguard.catalogue import Sentence
from offsetguard.collect.system_names import RETRY_PREFIX
from offsetguard.config import Config
from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.judge.evidence.lookups import master_boots, queues_by_group, sum_at_least
from offsetguard.judge.windows.pace import paces
from offsetguard.judge.windows.rules import POP
from offsetguard.model.offsets import MessageQueue
from offsetguard.model.rocketmq import LOCK_LIFE, LOCK_SILENCE, REBALANCE_INTERVAL_MS
from offsetguard.model.verdicts import CannotTell, Figure, QueueEvidence
from offsetguard.tables.group_facts import GroupFacts
from offsetguard.tables.log_facts import LockWaitFacts
from offsetguard.tables.queue_state import QueueState

MEMBERS_COME_BACK = timedelta(seconds=90)
"""After a broker's start: 30 s until the heartbeats of all clients reach it, and as long until all have rebalanced."""

RESTART_SETTLES = timedelta(minutes=3)
"""As long, and the longest life of a lock that one of them took too early."""

Subject = tuple[str, str]  # (consumer group, topic)
_MS = timedelta(milliseconds=1)
_REBALANCE = REBALANCE_INTERVAL_MS * _MS
_JOINING = timedelta(minutes=1)  # three rebalances: who starts takes over queues within


class Holder(StrEnum):
    """What is known of the client that held a lock."""

    GONE = "gone"  # not among the group's clients, or its id belongs to a process that was started later
    ALIVE = "alive"
    UNKNOWN = "unknown"


def holder_of(wait: LockWaitFacts) -> Holder:
    """Tell whether the holder that refused the lock is the client that is online under its id now."""
    if wait.holder_online is None:
        return Holder.UNKNOWN
    if not wait.holder_online:
        return Holder.UNKNOWN if _let_it_lapse(wait) else Holder.GONE
    if wait.holder_start_at is not None:
        return Holder.GONE if wait.holder_start_at > wait.first_refused_at else Holder.ALIVE
    # `ip@pid#nanoseconds`, made by clients since 4.9, never comes back; a fixed instance name does, after a restart
    return Holder.ALIVE if wait.holder_client_id and "#" in wait.holder_client_id else Holder.UNKNOWN


def _let_it_lapse(wait: LockWaitFacts) -> bool:
    """Whether the holder lived when its lock expired, and left later: it had asked for another one meanwhile.

    Clients do so after a broker's start, when they count on fewer members. Why, no line says.
    """
    if wait.ended_at is None or wait.holder_asked_at is None or "#" not in (wait.holder_client_id or ""):
        return False
    return wait.holder_asked_at > max(wait.first_refused_at, wait.ended_at - LOCK_LIFE)


def waits_for_messages(facts: IntervalFacts) -> Mapping[Subject, list[LockWaitFacts]]:
    """Return the waits of each (group, topic), but for retry topics and POP groups.

    An orderly group sends nothing back, so its retry queues are empty; their locks change hands late in any join.
    A wait whose end no log tells is over with the queue's next commit: somebody consumes it.
    """
    pop = {group.consumer_group for group in facts.groups if group.consumption == POP}
    windows = {(one.consumer_group, one.message_queue): one.window for one in facts.queues}
    found: defaultdict[Subject, list[LockWaitFacts]] = defaultdict(list)
    for wait in facts.lock_waits:
        if not wait.topic.startswith(RETRY_PREFIX) and wait.consumer_group not in pop:
            window = windows.get((wait.consumer_group, queue_of(wait)))
            found[wait.consumer_group, wait.topic].append(_until_a_commit(wait, window) if window else wait)
    return found


def _until_a_commit(wait: LockWaitFacts, window: QueueState) -> LockWaitFacts:
    """Return the wait, ended if the queue was committed since. Who still waited then was refused at each rebalance.

    Between two samples the commit may be older than the refusal; of a holder that lives, it tells that it consumes.
    """
    if wait.ended_at is not None or window.advanced_at is None or window.advanced_at <= wait.first_refused_at:
        return wait
    alive = holder_of(wait) is Holder.ALIVE
    moving = [pace for pace in paces(window) if (pace.consumed or 0) > 0]
    commits = [pace.until for pace in moving if (pace.until if alive else pace.since) > wait.first_refused_at]
    if not commits:
        return wait
    ended_at = min(*commits, wait.last_refused_at + _REBALANCE)
    return replace(wait, ended_at=ended_at, waited_ms=(ended_at - wait.first_refused_at) // _MS)


def goes_on(wait: LockWaitFacts, now: datetime) -> bool:
    """Whether the client still waits; one that was silent for longer than LOCK_SILENCE has given up."""
    return wait.ended_at is None and now - wait.last_refused_at <= LOCK_SILENCE


def stood_still_ms(wait: LockWaitFacts, now: datetime) -> int:
    """Return how long the queue had nobody to consume it, until now if it still has not."""
    return (now - wait.first_refused_at) // _MS if goes_on(wait, now) else wait.waited_ms


def by_a_restart(wait: LockWaitFacts, facts: IntervalFacts) -> bool:
    """Whether the broker's start explains the wait, or has ended it: a lock from before is forgotten.

    So is the lock of a broker that is away now, and when it was started before is not known.
    """
    if wait.broker_name in facts.unseen_broker_names:
        return True
    boot_at = master_boots(facts).get(wait.broker_name)
    if boot_at is not None and wait.ended_at is not None and wait.ended_at <= boot_at:
        return True
    until = facts.now if goes_on(wait, facts.now) else wait.ended_at or wait.last_refused_at
    return restart_explains(facts, wait.broker_name, wait.first_refused_at, until)


def restart_explains(facts: IntervalFacts, broker_name: str, since: datetime, until: datetime) -> bool:
    """Whether queues of a broker stood still because it was started: it keeps locks and members in memory.

    After its start each client counts on the members whose heartbeats have come already, until all have.
    """
    boot_at = master_boots(facts).get(broker_name)
    return (
        boot_at is not None
        and since - boot_at <= MEMBERS_COME_BACK
        and timedelta(0) <= until - boot_at <= RESTART_SETTLES
    )


def queue_of(wait: LockWaitFacts) -> MessageQueue:
    """Return the queue that was waited for."""
    return MessageQueue(wait.topic, wait.broker_name, wait.queue_id)


def evidence_of(
    waits: Collection[LockWaitFacts], suspects: Sequence[QueueFacts], now: datetime
) -> tuple[QueueEvidence, ...]:
    """Return one entry per queue, longest wait first, with the lag that it has now."""
    lags = {queue.message_queue: queue.offsets.effective_lag for queue in suspects}
    longest: dict[MessageQueue, LockWaitFacts] = {}
    for wait in sorted(waits, key=lambda one: (-stood_still_ms(one, now), queue_of(one), one.waiter_client_id or "")):
        longest.setdefault(queue_of(wait), wait)
    return tuple(
        QueueEvidence(
            queue,
            {
                "stood_still_ms": stood_still_ms(wait, now),
                "holder_client_id": wait.holder_client_id,
                "waiter_client_id": wait.waiter_client_id,
                "first_refused_at": wait.first_refused_at,
                "refusal_count": wait.refusal_count,
                "effective_lag": lags.get(queue, 0),  # a queue that is no suspect has nothing that waits for long
            },
        )
        for queue, wait in longest.items()
    )


def brokers_of(queues: Collection[QueueEvidence]) -> str:
    """Return the brokers of some queues as text."""
    return ", ".join(sorted({one.message_queue.broker_name for one in queues}))


def unknown_holders(facts: IntervalFacts, rule_id: str, at_least_ms: int) -> Iterator[CannotTell]:
    """Say which groups waited for locks of which nobody knows whether the holder lives."""
    for (group, _), waits in sorted(waits_for_messages(facts).items()):
        unknown = [
            one
            for one in waits
            if holder_of(one) is Holder.UNKNOWN
            and one.ended_by != "released"
            and stood_still_ms(one, facts.now) >= at_least_ms
        ]
        if unknown:
            named = any(one.holder_client_id for one in unknown)
            brokers = frozenset(one.broker_name for one in unknown)
            because = Sentence("lock_holders_not_seen" if named else "lock_holders_not_named")
            yield CannotTell(rule_id, group, brokers, because)


@dataclass(frozen=True, slots=True)
class UnheldQueues:
    """The queues of one (consumer group, topic)."""

    subject: tuple[str, str]
    orderly: bool | None
    stood_still_ms: int
    outlasts_any_lock: bool  # it cannot be the lock of a client that has gone: that would have expired
    figures: Mapping[str, Figure]
    queues: tuple[QueueEvidence, ...]


def unheld_queues(facts: IntervalFacts, config: Config) -> Iterator[UnheldQueues]:
    """Yield those where messages have waited for longer than queues take to change hands."""
    suspects = queues_by_group(facts)
    uneven = {topic.topic for topic in facts.topics if topic.read_write_differ}  # leftovers that nobody can read
    life_ms = config.clusters[facts.cluster].lock_max_live_time_ms
    for group in facts.groups:
        if group.topic_kind != "normal" or group.topic in uneven or not _tells_who_holds(group, facts):
            continue
        waiting = {
            queue.message_queue: (queue, since_ms)
            for queue in suspects.get((group.consumer_group, group.topic), ())
            if queue.holder_client_id is None and (since_ms := _stood_still_ms(queue)) is not None
        }
        if not waiting:
            continue
        queues = tuple(_evidence(queue, since_ms) for queue, since_ms in waiting.values())
        longest = max(since_ms for _, since_ms in waiting.values())
        yield UnheldQueues(
            (group.consumer_group, group.topic),
            group.orderly,
            longest,
            longest > life_ms + 2 * REBALANCE_INTERVAL_MS,
            {
                "stood_still_ms": longest,
                "queue_count": len(queues),
                "on_brokers": brokers_of(queues),
                "online_client_count": group.online_client_count,
                "held_queue_count": group.held_queue_count,
                "holder_client_id": None,
                "first_refused_at": None,
                "effective_lag": sum_at_least(queue.offsets.effective_lag for queue, _ in waiting.values()),
                "lock_max_live_time_ms": life_ms,
                "doubled_client_ids": ", ".join(group.doubled_client_ids or ()) or None,
            },
            queues,
        )


def _tells_who_holds(group: GroupFacts, facts: IntervalFacts) -> bool:
    """Whether every client of a group told what it holds, and none has just joined."""
    joins = group.newest_client_start_at is None or facts.now - group.newest_client_start_at < _JOINING
    everybody = bool(group.online_client_count) and group.told_client_count == group.online_client_count
    return (
        bool(group.held_queue_count)
        and everybody
        and not joins
        and not group.members_differ
        and group.consumption != POP
    )


def _stood_still_ms(queue: QueueFacts) -> int | None:
    """Return how long the oldest message has waited; None = nothing waits, or not long enough, or not known."""
    if (queue.offsets.effective_lag or 0) <= 0 or queue.lag_ms is None or queue.lag_ms < REBALANCE_INTERVAL_MS:
        return None
    moves = queue.consume_tps is not None and queue.consume_tps > 0
    return None if moves else queue.lag_ms


def _evidence(queue: QueueFacts, since_ms: int) -> QueueEvidence:
    figures: dict[str, Figure] = {
        "stood_still_ms": since_ms,
        "effective_lag": queue.offsets.effective_lag,
        "consumer_offset": queue.offsets.consumer_offset,
    }
    return QueueEvidence(queue.message_queue, figures)
