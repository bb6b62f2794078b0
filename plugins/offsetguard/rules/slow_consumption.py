"""Most of a group's lag is in process at its clients: consumption is slow, not stopped.

Means: the messages were handed out, and their listeners take long. The committed offset is the smallest unfinished
message of a client's cache, so one slow message holds it back although those behind it are done.
Evidence: inflight (pull - consumer offset, 5.1 and later) or the messages that clients say they have cached make more
than half of the lag; messages were finished within the last minute. One slow message is named when the committed
offset stands for more than a minute, and its client still holds that message while some behind it are finished.
Not judged: clients that finish nothing (accumulation, poison_message); POP groups (handlers_hanging); broadcasting.
Do next: find the slow message or the slow call in the listener.
Source: incident I3; ProcessQueue.removeMessage returns the smallest unfinished offset (4.9.8, 5.3.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetguard.catalogue import Sentence
from offsetguard.rules.evidence import lag_evidence, name_servers_of, queues_by_group
from offsetguard.rules.rule import CannotTell, Finding, Rule, Severity, Texts
from offsetguard.rules.window_progress import RECENTLY, finishes_messages, most_moves
from offsetguard.windows import above_limit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from offsetguard.config import Config, EffectivePolicy
    from offsetguard.facts import GroupFacts, IntervalFacts, QueueFacts

_LAG = (
    "Consumer group {consumer_group} is {effective_lag:messages} message{effective_lag:plural} behind on topic "
    "{topic}, of which {in_process:messages} are in process at its clients (oldest: {lag_ms:duration}, on queue "
    "{worst_queue})"
)
_FIND = (
    "Find the slow call in the listener: mqadmin consumerStatus -n {name_servers:shell} -g {consumer_group:shell} -s "
    "shows what its threads do"
)

RULE = Rule(
    id="slow_consumption",
    severity=Severity.INFO,
    needs=("groups", "queues"),
    means="Most of a consumer group's lag was handed out and is in process at its clients: it is slow, not stopped.",
    texts={
        "default": Texts(
            summary="{consumer_group} is slow on {topic}: {in_process:messages} messages are in process",
            cause=_LAG + ": consumption is slow, not stopped.",
            do_next=_FIND + "; more threads help a concurrent group, more queues an orderly one.",
        ),
        "held_back": Texts(
            summary="{consumer_group}: one slow message holds back {worst_queue} of {topic}",
            cause=_LAG + "; its committed offset {consumer_offset:messages} there has not moved for "
            "{held_ms:duration} while messages behind it are finished: one slow message holds it back, consumption is "
            "not stopped.",
            do_next="Look at the message at offset {consumer_offset:messages} of queue {worst_queue} (id and keys: "
            "mqadmin queryMsgByOffset). " + _FIND + ".",
        ),
    },
    title="consumption is slow",
    table=("effective_lag", "in_process", "available", "lag_ms", "online_client_count", "consume_rt_ms"),
    peak="in_process",
    group_needs=("effective_lag",),
    recovered="recovered: most of what waits is no longer in process at clients",
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per (consumer group, topic)."""
    queues = queues_by_group(facts)
    for group in facts.groups:
        own = queues.get((group.consumer_group, group.topic), [])
        in_process, policy = _in_process(group), config.policy(facts.cluster, group.consumer_group)
        if in_process is None or not own or not _counts(group, in_process, policy):
            continue
        # Few threads finish one queue's messages before they begin the next one's: most offsets stand meanwhile
        finishes = finishes_messages(group)
        if not finishes and not most_moves(group, own, facts.now):
            continue
        held = _held_back(own, facts.now) if finishes else None
        worst = held or min(own, key=lambda one: (-(one.lag_ms or 0), -(one.offsets.effective_lag or 0)))
        advanced_at = worst.window.advanced_at or worst.window.first_seen_at if worst.window else None
        yield Finding(
            rule=RULE,
            cluster=facts.cluster,
            consumer_group=group.consumer_group,
            topic=group.topic,
            severity=RULE.severity,
            variant="held_back" if held else "default",
            state="FALLING_BEHIND" if above_limit(group, policy) else "OK",
            figures={
                "effective_lag": group.effective_lag,
                "in_process": in_process,
                "available": group.available,
                "lag_ms": worst.lag_ms,
                "worst_queue": f"{worst.message_queue.broker_name}/{worst.message_queue.queue_id}",
                "consumer_offset": worst.offsets.consumer_offset,
                "held_ms": advanced_at and round((facts.now - advanced_at).total_seconds() * 1000),
                "online_client_count": group.online_client_count,
                "consume_rt_ms": group.consume_rt_ms,
                "name_servers": name_servers_of(config, facts.cluster),
            },
            queues=lag_evidence(own),
        )


def _in_process(group: GroupFacts) -> int | None:
    """Return what clients have in hands; None where neither brokers (5.1) nor all clients tell."""
    if group.consumption == "pop" or group.message_model == "BROADCASTING" or group.topic_kind == "system":
        return None
    if group.inflight is not None:
        return group.inflight
    all_told = group.told_client_count is not None and group.told_client_count == group.online_client_count
    if not all_told or group.cached_message_count is None:
        return None
    return min(group.cached_message_count, group.effective_lag or 0)  # caches may hold what is deleted by now


def _counts(group: GroupFacts, in_process: int, policy: EffectivePolicy) -> bool:
    """Whether what waits is worth a word, and more than half of it is handed out."""
    waiting = group.effective_lag or 0
    is_little = waiting < policy.lag_floor and (group.lag_ms or 0) <= policy.lag_floor_ms
    return waiting > 0 and not is_little and 2 * in_process > waiting


def _held_back(queues: Sequence[QueueFacts], now: datetime) -> QueueFacts | None:
    """Return the queue whose offset has stood longest while its client finishes messages behind it."""
    stuck = []
    for queue in queues:
        window = queue.window
        since = (window.advanced_at or window.first_seen_at) if window else None
        finishes = queue.last_consume_at is not None and now - queue.last_consume_at <= RECENTLY
        if since is not None and now - since > RECENTLY and finishes and _first_is_unfinished(queue):
            stuck.append((since, queue.message_queue, queue))
    return min(stuck)[2] if stuck else None


def _first_is_unfinished(queue: QueueFacts) -> bool:
    """Whether a client has the committed message still in hands, and no longer all that it pulled behind it.

    A client that is ahead of the committed offset has finished that message, and commits within seconds. A cache
    without gaps is a queue whose turn has not come; a filter makes gaps as well, of messages that were never sent.
    """
    first, last, cached = queue.cached_min_offset, queue.cached_max_offset, queue.cached_message_count
    if first is None or last is None or cached is None or first != queue.offsets.consumer_offset:
        return False
    return 1 < cached < last - first + 1


def cannot_tell(facts: IntervalFacts, config: Config) -> Iterator[CannotTell]:
    """Say of which groups above their limits nobody tells what is in process."""
    for group in facts.groups:
        judged = group.consumption != "pop" and group.message_model == "CLUSTERING" and group.topic_kind == "normal"
        if (
            judged
            and _in_process(group) is None
            and above_limit(group, config.policy(facts.cluster, group.consumer_group))
        ):
            because = Sentence("in_process_untold")
            yield CannotTell(RULE.id, group.consumer_group, frozenset(), because)
