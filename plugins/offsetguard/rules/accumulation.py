"""Messages pile up: a consumer group is behind by more messages, or for longer, than its policy allows.

Means: consumers are off, or slower than producers.
Evidence: effective lag (deleted messages do not count) and the age of the oldest unconsumed message, per queue.
Not judged: broadcasting groups (they keep their offsets on the client), system topics, a lag that is not known. Of a
POP group (gRPC) the lag is what waits to be handed out; it is not called offline when brokers do not see its clients.
Do next: start the consumers, or find what slows them; on 5.x, inflight tells slow consumption from missing pulls.
Source: ConsumeStats.computeTotalDiff (4.9.8, 5.3.3), which counts deleted messages; we do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetguard.rules.evidence import name_servers_of, queues_by_group
from offsetguard.rules.rule import Finding, QueueEvidence, Rule, Severity, Texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from offsetguard.config import Config, EffectivePolicy
    from offsetguard.facts import GroupFacts, IntervalFacts, QueueFacts

_MESSAGES = "{effective_lag:messages} message{effective_lag:plural}"
_BEHIND = "Consumer group {consumer_group} is " + _MESSAGES + " behind on topic {topic}"
_ALLOWED = (
    "(age of the oldest: {lag_ms:duration}; allowed: {max_lag_messages:messages} messages, {max_lag_ms:duration})"
)

RULE = Rule(
    id="accumulation",
    severity=Severity.WARNING,
    needs=("groups", "queues"),
    means="A consumer group is behind by more messages, or for longer, than its policy allows.",
    texts={
        "default": Texts(
            summary="{consumer_group} is " + _MESSAGES + " behind on {topic}",
            cause=_BEHIND + " with {online_client_count} client{online_client_count:plural} online: it consumes more "
            "slowly than producers write, or not at all " + _ALLOWED + ".",
            do_next="Look at the worst queues first: if their consumer offsets move, add clients (or queues, for an "
            "orderly group) or speed up the listener; if they stand still, take a stack of a client: "
            "mqadmin consumerStatus -n {name_servers:shell} -g {consumer_group:shell} -s.",
        ),
        "in_process": Texts(
            summary="{consumer_group} is slow on {topic}: {inflight:messages} messages in process",
            cause=_BEHIND + ", of which {inflight:messages} are handed out and in process at its clients: "
            "consumption is slow, not stopped " + _ALLOWED + ".",
            do_next="Find the slow message or the slow call in the listener: mqadmin consumerStatus "
            "-n {name_servers:shell} -g {consumer_group:shell} -s shows what the threads do; one slow message holds "
            "back the committed offset of its whole queue.",
        ),
        "offline": Texts(
            summary="{consumer_group} is offline and " + _MESSAGES + " behind on {topic}",
            cause=_BEHIND + " and no client of it is online " + _ALLOWED + ".",
            do_next="Start the consumers of {consumer_group}. If the group is retired, delete it so that it is no "
            "longer judged: mqadmin deleteSubGroup -n {name_servers:shell} -c CLUSTER -g {consumer_group:shell}.",
        ),
        "clients_unknown": Texts(
            summary="{consumer_group} is " + _MESSAGES + " behind on {topic}",
            cause=_BEHIND + "; whether clients of it are online could not be seen " + _ALLOWED + ".",
            do_next="See whether the consumers run: mqadmin consumerConnection -n {name_servers:shell} "
            "-g {consumer_group:shell}; start them, or find what slows them. Brokers do not see gRPC clients behind a "
            "proxy: list its remoting port under proxies of the cluster in config/offsetguard.yml.",
        ),
    },
    title="messages pile up",
    table=("effective_lag", "lag_ms", "inflight", "available", "online_client_count", "max_lag_messages", "max_lag_ms"),
    peak="effective_lag",
    group_needs=("effective_lag", "lag_ms"),
    recovered="recovered: the lag is within its limits again",
)

_STATES = {
    "default": "FALLING_BEHIND",
    "in_process": "FALLING_BEHIND",
    "offline": "STOPPED",
    "clients_unknown": "UNKNOWN",
}


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per (consumer group, topic) above one of its two limits."""
    queues = queues_by_group(facts)
    for group in facts.groups:
        policy = config.policy(facts.cluster, group.consumer_group)
        if not _judged(group) or not _above_a_limit(group, policy):
            continue
        variant = _variant(group)
        yield Finding(
            rule=RULE,
            cluster=facts.cluster,
            consumer_group=group.consumer_group,
            topic=group.topic,
            severity=Severity.CRITICAL if variant == "offline" else RULE.severity,
            variant=variant,
            state=_STATES[variant],
            figures={
                "effective_lag": group.effective_lag,
                "lag_ms": group.lag_ms,
                "inflight": group.inflight,
                "available": group.available,
                "online_client_count": group.online_client_count,
                "max_lag_messages": policy.max_lag_messages,
                "max_lag_ms": policy.max_lag_ms,
                "name_servers": name_servers_of(config, facts.cluster),
            },
            queues=_evidence(queues.get((group.consumer_group, group.topic), ())),
        )


def _judged(group: GroupFacts) -> bool:
    return group.topic_kind != "system" and group.message_model != "BROADCASTING"


def _above_a_limit(group: GroupFacts, policy: EffectivePolicy) -> bool:
    waiting = group.effective_lag
    if waiting is None or waiting <= 0:  # unknown is not zero, and an old time stamp without a message is no backlog
        return False
    return waiting > policy.max_lag_messages or (group.lag_ms is not None and group.lag_ms > policy.max_lag_ms)


def _variant(group: GroupFacts) -> str:
    if group.online_client_count is None:
        return "clients_unknown"
    if group.online_client_count == 0:
        return "offline"
    # more than half is handed out: what is slow is the listener, not the pulling
    if group.inflight is not None and group.effective_lag is not None and 2 * group.inflight > group.effective_lag:
        return "in_process"
    return "default"


def _evidence(queues: Iterable[QueueFacts]) -> tuple[QueueEvidence, ...]:
    behind = [queue for queue in queues if (queue.offsets.effective_lag or 0) > 0]
    behind.sort(key=lambda queue: (-(queue.offsets.effective_lag or 0), -(queue.lag_ms or 0), queue.message_queue))
    return tuple(
        QueueEvidence(
            queue.message_queue,
            {
                "effective_lag": queue.offsets.effective_lag,
                "lag_ms": queue.lag_ms,
                "inflight": queue.offsets.inflight,
                "consumer_offset": queue.offsets.consumer_offset,
                "max_offset": queue.offsets.max_offset,
                "last_timestamp": queue.last_timestamp,
            },
        )
        for queue in behind
    )
