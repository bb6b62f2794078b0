"""Queues of an orderly group that none of its clients holds although all told: what is seen without brokers' logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from offsetguard.config import Config
from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.judge.evidence.lock_holders import POP, brokers_of
from offsetguard.judge.evidence.lookups import queues_by_group
from offsetguard.model.rocketmq import REBALANCE_INTERVAL_MS
from offsetguard.model.verdicts import Figure, QueueEvidence
from offsetguard.tables.group_facts import GroupFacts

_JOINING = timedelta(minutes=1)  # three rebalances: who starts takes over queues within


@dataclass(frozen=True, slots=True)
class UnheldQueues:
    """The queues of one (consumer group, topic)."""

    subject: tuple[str, str]
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
                "effective_lag": sum(queue.offsets.effective_lag or 0 for queue, _ in waiting.values()),
                "lock_max_live_time_ms": life_ms,
                "doubled_client_ids": ", ".join(group.doubled_client_ids or ()) or None,
            },
            queues,
        )


def _tells_who_holds(group: GroupFacts, facts: IntervalFacts) -> bool:
    """Whether every client of an orderly group told what it holds, and none has just joined."""
    joins = group.newest_client_start_at is None or facts.now - group.newest_client_start_at < _JOINING
    everybody = bool(group.online_client_count) and group.told_client_count == group.online_client_count
    holds = bool(group.orderly) and bool(group.held_queue_count)
    return holds and everybody and not joins and not group.members_differ and group.consumption != POP


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
