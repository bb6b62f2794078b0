"""Invariants of `group_snapshots`: settings of consumer groups, observed and declared."""

from __future__ import annotations

from offsetguard.model.rocketmq import LOCK_INTERVALS_PER_LIFE
from offsetguard.model.verdicts import Severity
from offsetguard.tables import GROUP_SNAPSHOTS
from offsetguard_expectations.invariant import Invariant, ViolationMeans, shown

LOCK_OUTLIVES_RENEWALS = Invariant(
    id="OG-L01",
    title=f"A rebalance lock lives for at least {LOCK_INTERVALS_PER_LIFE} lock intervals",
    violation="A rebalance lock expires before its third renewal",
    table=GROUP_SNAPSHOTS,
    violation_means=ViolationMeans.TROUBLE,
    severity=Severity.WARNING,
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

COUNTS_NOT_NEGATIVE = Invariant(
    id="OG-G11",
    title="Counts of groups are not negative",
    violation="A group has a negative count",
    table=GROUP_SNAPSHOTS,
    violation_means=ViolationMeans.CORRUPT,
    severity=Severity.WARNING,
    applies_when="TRUE",
    holds_when=(
        "COALESCE(online_client_count, 0) >= 0 AND COALESCE(retry_message_count, 0) >= 0"
        " AND COALESCE(dead_letter_message_count, 0) >= 0 AND COALESCE(retry_max_offset, 0) >= 0"
        " AND COALESCE(dead_letter_max_offset, 0) >= 0 AND COALESCE(retry_growth, 0) >= 0"
        " AND COALESCE(dead_letter_growth, 0) >= 0"
    ),
    example=(
        f"consumer_group || ': clients ' || {shown('online_client_count')} || ', to be retried '"
        f" || {shown('retry_message_count')} || ' (grown by ' || {shown('retry_growth')} || '), dead letters '"
        f" || {shown('dead_letter_message_count')} || ' (grown by ' || {shown('dead_letter_growth')} || ')'"
    ),
    meaning=(
        "Clients and messages are counted from 0, and growth is not told where a topic was recreated. A negative count"
        " is an answer that we misread, or a defect in how we add up."
    ),
    do_next="Look at the row in the table `quarantine`, and report a defect of OffsetGuard with it.",
)

INVARIANTS = (LOCK_OUTLIVES_RENEWALS, COUNTS_NOT_NEGATIVE)
