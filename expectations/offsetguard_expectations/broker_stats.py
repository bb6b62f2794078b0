"""Invariants of `broker_stats`: what replicas count themselves."""

from __future__ import annotations

from offsetguard.model.verdicts import Severity
from offsetguard.tables import BROKER_STATS
from offsetguard_expectations.invariant import Invariant, ViolationMeans

RATES_NOT_NEGATIVE = Invariant(
    id="OG-R11",
    title="Rates and sums of replicas are not negative",
    violation="A replica reports a negative rate",
    table=BROKER_STATS,
    violation_means=ViolationMeans.CORRUPT,
    severity=Severity.WARNING,
    stops_publication=False,
    applies_when="TRUE",
    holds_when="tps >= 0 AND minute_sum >= 0 AND average >= 0 AND hour_sum >= 0 AND day_sum >= 0",
    example=(
        "stats_name || ' ' || stats_key || ' on ' || broker_name || ' (broker id ' || broker_id || '): ' || tps"
        " || ' per second, sums ' || minute_sum || ', ' || hour_sum || ', ' || day_sum || ', average ' || average"
    ),
    meaning=(
        "Replicas count what they were asked for and add it up, so nothing below 0 can be right. A counter that ran"
        " over, a clock of the replica that was set back within the last minute, or an answer that we misread."
    ),
    do_next="Look at the row in the table `quarantine`, and at the clock of that replica around that time.",
)

INVARIANTS = (RATES_NOT_NEGATIVE,)
