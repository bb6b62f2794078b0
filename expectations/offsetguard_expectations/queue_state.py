"""Invariants of `queue_state`: what one sample cannot show, and the row of them does."""

from __future__ import annotations

from offsetguard.model.verdicts import Severity
from offsetguard.tables import QUEUE_STATE
from offsetguard_expectations.invariant import Invariant, ViolationMeans, shown

MAX_ONLY_GROWS = Invariant(
    id="OG-W01",
    title="The end of a queue never moves back, unless the queue was recreated",
    violation="The end of a queue moved back",
    table=QUEUE_STATE,
    violation_means=ViolationMeans.TROUBLE,
    severity=Severity.CRITICAL,
    applies_when="seen_at IS NOT NULL",
    holds_when="recreated_at IS NULL OR recreated_at < seen_at OR seen_min_offset = 0",
    example=(
        "consumer_group || ' in ' || topic || ' ' || broker_name || '/' || queue_id || ': max_offset '"
        f" || {shown('seen_max_offset')} || ' after ' || {shown('recreated_from')} || ', min_offset '"
        f" || {shown('seen_min_offset')}"
    ),
    meaning=(
        "The max offset of a queue is lower than in the sample before, and its oldest message is not the first one: the"
        " queue was not recreated, its newest messages are gone. The broker lost what it had not flushed, a replica"
        " that was behind was promoted, or its disk was restored. Groups that had consumed past the new end skip what"
        " is written next. A queue that begins at 0 again was recreated, which is no violation."
    ),
    do_next=(
        "Find out from the broker's `store.log` and restart time what was cut off, and whether another replica still"
        " has it. Then compare the groups' offsets with the new end (OG-Q03) before they consume further."
    ),
)

INVARIANTS = (MAX_ONLY_GROWS,)
