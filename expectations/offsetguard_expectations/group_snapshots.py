"""Invariants of `group_snapshots`: settings of consumer groups, observed and declared."""

from __future__ import annotations

from offsetguard.rebalance_lock import LOCK_INTERVALS_PER_LIFE
from offsetguard.tables import GROUP_SNAPSHOTS
from offsetguard_expectations.invariant import Invariant, ViolationMeans

LOCK_OUTLIVES_RENEWALS = Invariant(
    id="OG-L01",
    title=f"A rebalance lock lives for at least {LOCK_INTERVALS_PER_LIFE} lock intervals",
    violation="A rebalance lock expires before its third renewal",
    table=GROUP_SNAPSHOTS,
    violation_means=ViolationMeans.TROUBLE,
    applies_when="declared_orderly AND lock_interval_ms IS NOT NULL AND lock_max_live_time_ms IS NOT NULL",
    holds_when=f"lock_max_live_time_ms >= {LOCK_INTERVALS_PER_LIFE} * lock_interval_ms",
    example=(
        "consumer_group || ': lock life ' || lock_max_live_time_ms || ' ms, renewed every ' || lock_interval_ms"
        f" || ' ms: at least ' || ({LOCK_INTERVALS_PER_LIFE} * lock_interval_ms) || ' ms needed'"
    ),
    meaning=(
        "Orderly consumers renew their queue locks every `lockInterval` (default 20 s); the broker drops a lock"
        " `lockMaxLiveTime` (default 60 s) after its last renewal. With less than three intervals, one or two late"
        " renewals (a long GC, a slow network) hand the queue to another client while the first still consumes:"
        " messages are consumed twice and out of order. The figures are those declared in `config/offsetguard.yml`."
    ),
    do_next=(
        "Raise `-Drocketmq.broker.rebalance.lockMaxLiveTime` on the brokers or lower"
        " `-Drocketmq.client.rebalance.lockInterval` on the clients, together (for example 15 s and 5 s); then correct"
        " `config/offsetguard.yml`."
    ),
)

INVARIANTS = (LOCK_OUTLIVES_RENEWALS,)
