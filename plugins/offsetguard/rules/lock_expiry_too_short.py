"""An orderly group's queue locks may expire although their owner lives.

Means: the broker forgets a rebalance lock after lockMaxLiveTime; a client renews it every lockInterval. Below three
intervals, two late renewals are enough for another client to get the lock: messages are consumed twice, out of order.
Evidence: the settings that the configuration declares for the cluster and the group (brokers do not tell them).
Not judged: groups that are not declared orderly.
Do next: change both settings together, expiry at least 3 x interval.
Source: RebalanceLockManager.REBALANCE_LOCK_MAX_LIVE_TIME, ConsumeMessageOrderlyService (4.9.8, 5.3.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetguard.rebalance_lock import LOCK_INTERVALS_PER_LIFE
from offsetguard.rules.rule import Finding, Rule, Severity, Texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetguard.config import Config
    from offsetguard.facts import IntervalFacts

RULE = Rule(
    id="lock_expiry_too_short",
    severity=Severity.WARNING,
    needs=("groups",),
    means="The declared lock expiry of the brokers is shorter than three lock intervals of an orderly group's clients.",
    texts={
        "default": Texts(
            summary="{consumer_group}: queue locks expire after {lock_max_live_time_ms:duration}, "
            "renewed every {lock_interval_ms:duration}",
            cause="Brokers of {cluster} drop a queue lock after {lock_max_live_time_ms:duration}, but clients of the "
            "orderly group {consumer_group} renew it only every {lock_interval_ms:duration}; the expiry must be at "
            "least {least_lock_max_live_time_ms:duration} (3 intervals), or two late renewals let two clients consume "
            "one queue at once.",
            do_next="Start the brokers with -Drocketmq.broker.rebalance.lockMaxLiveTime={least_lock_max_live_time_ms} "
            "or more, or the clients with -Drocketmq.client.rebalance.lockInterval={most_lock_interval_ms} or less; "
            "then write the new values to lock_max_live_time_ms (cluster) or lock_interval_ms (group) in "
            "config/offsetguard.yml.",
        ),
    },
    title="queue locks may expire too early",
    table=("lock_interval_ms", "lock_max_live_time_ms", "least_lock_max_live_time_ms"),
    recovered="the declared settings keep the rule again",
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per orderly consumer group, whatever its topics."""
    del config  # the declared values are part of the facts
    seen: set[str] = set()
    for group in facts.groups:
        interval_ms, life_ms = group.lock_interval_ms, group.lock_max_live_time_ms
        if not group.declared_orderly or interval_ms is None or life_ms is None or group.consumer_group in seen:
            continue
        seen.add(group.consumer_group)
        if life_ms < LOCK_INTERVALS_PER_LIFE * interval_ms:
            yield Finding(
                rule=RULE,
                cluster=facts.cluster,
                consumer_group=group.consumer_group,
                topic=None,
                severity=RULE.severity,
                state="AT_RISK",
                figures={
                    "lock_interval_ms": interval_ms,
                    "lock_max_live_time_ms": life_ms,
                    "least_lock_max_live_time_ms": LOCK_INTERVALS_PER_LIFE * interval_ms,
                    "most_lock_interval_ms": life_ms // LOCK_INTERVALS_PER_LIFE,
                },
            )
