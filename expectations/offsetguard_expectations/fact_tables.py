"""Invariants of the fact tables: what Spark made of the rows. A figure that cannot be is a defect of our own.

Nothing is published with one: readers keep the last good interval, and the Data Docs say why. The exception is what a
fact shows of the cluster by being incomplete.
"""

from __future__ import annotations

from offsetguard.rules.rule import Severity
from offsetguard.tables import GROUP_FACTS, OFFSET_MOVE_FACTS, QUEUE_FACTS, TOPIC_FACTS, Table
from offsetguard_expectations.invariant import Invariant, ViolationMeans, shown

REPORT_IT = (
    "Readers keep the last good interval. Report a defect of OffsetGuard with the line above and the landed snapshot"
    " of this interval (its folder below `OFFSETGUARD_HOME/landing`)."
)


def _figures_possible(id_: str, table: Table, of: str, *, holds_when: str, example: str, meaning: str) -> Invariant:
    return Invariant(
        id=id_,
        title=f"Figures of {of} are possible",
        violation=f"A figure of {of} is impossible",
        table=table,
        violation_means=ViolationMeans.DEFECT,
        severity=Severity.CRITICAL,
        applies_when="TRUE",
        holds_when=holds_when,
        example=example,
        meaning=meaning,
        do_next=REPORT_IT,
    )


QUEUES_POSSIBLE = _figures_possible(
    "OG-F01",
    QUEUE_FACTS,
    "queues",
    holds_when=(
        "queue_id >= 0 AND COALESCE(lost, 0) >= 0 AND COALESCE(lag_ms, 0) >= 0"
        " AND COALESCE(effective_lag, 0) <= COALESCE(lag, effective_lag, 0)"
    ),
    example=(
        "consumer_group || ' in ' || topic || ' ' || broker_name || '/' || queue_id"
        f" || ': lag ' || {shown('lag')} || ', effective ' || {shown('effective_lag')}"
        f" || ', lost ' || {shown('lost')} || ', lag ' || {shown('lag_ms')} || ' ms'"
    ),
    meaning=(
        "Lost messages and ages are never below 0, and what can still be read of a lag is never more than the lag."
        " Offsets of sound rows are not negative, so only a wrong formula gives such a figure."
    ),
)
GROUPS_POSSIBLE = _figures_possible(
    "OG-F02",
    GROUP_FACTS,
    "groups",
    holds_when=(
        "queue_count > 0 AND unknown_queue_count BETWEEN 0 AND queue_count"
        " AND never_committed_queue_count BETWEEN 0 AND queue_count"
        " AND COALESCE(lost, 0) >= 0 AND COALESCE(lag_ms, 0) >= 0"
        " AND COALESCE(effective_lag, 0) <= COALESCE(lag, effective_lag, 0)"
    ),
    example=(
        "consumer_group || ' in ' || topic || ': ' || queue_count || ' queues, unknown ' || unknown_queue_count"
        f" || ', never committed ' || never_committed_queue_count || ', lag ' || {shown('lag')}"
        f" || ', effective ' || {shown('effective_lag')} || ', lost ' || {shown('lost')}"
        f" || ', lag ' || {shown('lag_ms')} || ' ms'"
    ),
    meaning=(
        "A group has at least one queue in a topic that it has a row for, and no more unknown or never committed ones"
        " than it has; losses and ages are not below 0. Only a wrong sum or a wrong join gives such a row."
    ),
)
TOPICS_POSSIBLE = _figures_possible(
    "OG-F03",
    TOPIC_FACTS,
    "topics",
    holds_when=(
        "queue_count >= 0 AND consumer_group_count >= 0 AND queue_count + consumer_group_count > 0"
        " AND COALESCE(lost, 0) >= 0 AND COALESCE(lag_ms, 0) >= 0"
    ),
    example=(
        "topic || ': ' || queue_count || ' queues, ' || consumer_group_count || ' groups, messages '"
        f" || {shown('message_count')} || ', lost ' || {shown('lost')} || ', lag ' || {shown('lag_ms')} || ' ms'"
    ),
    meaning=(
        "A topic has a row because it has a queue or because a group reads it; counts, losses and ages are not below 0."
        " Only a wrong sum or a wrong join gives such a row."
    ),
)
MOVES_POSSIBLE = _figures_possible(
    "OG-F04",
    OFFSET_MOVE_FACTS,
    "offset moves",
    holds_when="move_count > 0 AND unix_seconds(first_moved_at) <= unix_seconds(last_moved_at)",
    example=(
        "consumer_group || ' in ' || topic || ' ' || broker_name || ': ' || move_count || ' moves from '"
        " || first_moved_at || ' to ' || last_moved_at"
    ),
    meaning=(
        "Moves that are counted have happened at least once, and the first of them not after the last. Only a wrong"
        " aggregation gives such a row."
    ),
)
TOPIC_OF_GROUP_IS_KNOWN = Invariant(
    id="OG-G01",
    title="The topics that groups read have settings",
    violation="Groups have offsets in topics that no broker knows",
    table=GROUP_FACTS,
    violation_means=ViolationMeans.TROUBLE,
    severity=Severity.INFO,
    applies_when="unknown_queue_count < queue_count",
    holds_when="topic_kind IS NOT NULL",
    example="consumer_group || ' in ' || topic || ': ' || queue_count || ' queues'",
    meaning=(
        "A group has offsets in queues that exist, and no master that answered listed the topic: the answer with the"
        " topics' settings was not whole, or the topic was deleted while we were reading."
    ),
    do_next="Compare `mqadmin topicList` with the topics of the group; look at OG-I04 for refused requests.",
)

INVARIANTS = (TOPIC_OF_GROUP_IS_KNOWN, QUEUES_POSSIBLE, GROUPS_POSSIBLE, TOPICS_POSSIBLE, MOVES_POSSIBLE)
