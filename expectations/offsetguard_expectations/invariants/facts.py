"""Invariants of the fact tables: what Spark made of the rows. A figure that cannot be is a defect of our own.

Nothing is published with one: readers keep the last good interval, and the Data Docs say why. The exception is what a
fact shows of the cluster by being incomplete.
"""

from offsetguard import tables
from offsetguard.model.verdicts import Severity
from offsetguard_expectations.invariant import REPORT_IT, Invariant, ViolationMeans, shown

_NOT_NEGATIVE = (  # of sums: a queue beyond its end does not make the lag of others less
    "COALESCE(effective_lag, 0) >= 0 AND COALESCE(beyond_end, 0) >= 0 AND COALESCE(lost, 0) >= 0"
    " AND COALESCE(lag_ms, 0) >= 0"
)


def _figures_possible(
    id_: str, table: tables.Table, of: str, *, holds_when: str, example: str, meaning: str
) -> Invariant:
    return Invariant(
        id=id_,
        title=f"Figures of {of} are possible",
        violation=f"A figure of {of} is impossible",
        table=table,
        violation_means=ViolationMeans.DEFECT,
        severity=Severity.CRITICAL,
        holds_when=holds_when,
        example=example,
        meaning=meaning,
        do_next=REPORT_IT,
    )


QUEUES_POSSIBLE = _figures_possible(
    "OG-F01",
    tables.QUEUE_FACTS,
    "queues",
    holds_when=(
        "queue_id >= 0 AND COALESCE(lost, 0) >= 0 AND COALESCE(beyond_end, 0) >= 0 AND COALESCE(lag_ms, 0) >= 0"
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
    tables.GROUP_FACTS,
    "groups",
    holds_when=(
        "queue_count > 0 AND unknown_queue_count BETWEEN 0 AND queue_count"
        " AND never_committed_queue_count BETWEEN 0 AND queue_count"
        f" AND {_NOT_NEGATIVE}"
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
        " than it has; lags, losses and ages are not below 0. Only a wrong sum or a wrong join gives such a row."
    ),
)
TOPICS_POSSIBLE = _figures_possible(
    "OG-F03",
    tables.TOPIC_FACTS,
    "topics",
    holds_when=(
        f"COALESCE(queue_count, 0) >= 0 AND consumer_group_count >= 0"
        f" AND COALESCE(queue_count, 0) + consumer_group_count > 0 AND {_NOT_NEGATIVE}"
    ),
    example=(
        "topic || ': ' || COALESCE(queue_count, 0) || ' queues, ' || consumer_group_count || ' groups, messages '"
        f" || {shown('message_count')} || ', lost ' || {shown('lost')} || ', lag ' || {shown('lag_ms')} || ' ms'"
    ),
    meaning=(
        "A topic has a row because it has a queue or because a group reads it; counts, lags, losses and ages are not"
        " below 0. Only a wrong sum or a wrong join gives such a row."
    ),
)
MOVES_POSSIBLE = _figures_possible(
    "OG-F04",
    tables.OFFSET_MOVE_FACTS,
    "offset moves",
    holds_when="move_count > 0 AND first_moved_at <= last_moved_at",
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
    table=tables.GROUP_FACTS,
    severity=Severity.INFO,
    applies_when="unknown_queue_count < queue_count",
    holds_when="topic_kind IS NOT NULL",
    example="consumer_group || ' in ' || topic || ': ' || queue_count || ' queues'",
    meaning=(
        "A group has offsets in queues that exist, and no master that answered listed the topic: the answer with the"
        " topics' settings was not whole, or the topic was deleted while we were reading."
    ),
    do_next="Compare mqadmin's `topicList` with the topics of the group; look at OG-I04 for refused requests.",
)

GROUP_WAS_ASKED_ABOUT = Invariant(
    id="OG-G02",
    title="Every group that has offsets was asked about",
    violation="Groups have offsets and were not asked about",
    table=tables.GROUP_FACTS,
    holds_when="system_group IS NOT NULL",
    example="consumer_group || ' in ' || topic || ': ' || queue_count || ' queues'",
    meaning=(
        "The group has offsets, and the round has no row about the group itself: its settings, clients and model are"
        " unknown, and rules that need them say so. A request for the groups was refused or came back half."
    ),
    do_next="Look at OG-I04 and `gaps.jsonl` for the request that failed.",
)
BROKER_IS_LISTED = Invariant(
    id="OG-B01",
    title="Queues lie on brokers that the name server lists",
    violation="Queues lie on an unknown broker",
    table=tables.BROKER_FACTS,
    holds_when="listed",
    example=(
        f"broker_name || ': ' || {shown('consumed_queue_count')} || ' queues of groups, '"
        f" || {shown('topic_queue_count')} || ' of topics'"
    ),
    meaning=(
        "Offsets name a broker that the name server did not list in this round: it was renamed or taken away within the"
        " round, a broker of another cluster registered here, or its own row is in quarantine (OG-S11)."
    ),
    do_next="Compare what mqadmin's `clusterList` names with it, and look for a `brokerName` that was changed.",
)
QUEUE_NUMBERS_AGREE = Invariant(
    id="OG-A01",
    title="Topics have as many read queues as write queues",
    violation="Topics have other read queues than write queues",
    table=tables.TOPIC_FACTS,
    applies_when="read_write_differ IS NOT NULL",
    holds_when="NOT read_write_differ",
    example=(
        f"topic || ': read ' || {shown('read_queue_count')} || ', write ' || {shown('write_queue_count')}"
        f" || ', messages that nobody can read ' || {shown('unreadable_message_count')}"
    ),
    meaning=(
        "With fewer read than write queues, messages in the queues beyond are written and never consumed. With more,"
        " consumers are given queues that stay empty, and others do the work. Only while a topic is being shrunk the"
        " two differ on purpose."
    ),
    do_next="Make both equal on all brokers, unless the topic is just being shrunk: the finding of the rule"
    " read_write_queues_differ has the command.",
)


def _rates_possible(id_: str, table: tables.Table, of: str, *, holds_when: str, example: str) -> Invariant:
    return Invariant(
        id=id_,
        title=f"Rates of {of} are not negative",
        violation=f"A rate of {of} is negative",
        table=table,
        holds_when=holds_when,
        example=example,
        meaning=(
            "Messages per second are never fewer than none, and no more of them match a filter than there are. Rates"
            " come from two readings or from a replica's own counters: a clock that was set back between them gives"
            " such a figure. It is shown as it is; rules do not use it."
        ),
        do_next="Look at OG-T02 and OG-S06 for clocks; if they are right, report a defect with the line above.",
    )


RATES_OF_GROUPS = _rates_possible(
    "OG-R01",
    tables.GROUP_FACTS,
    "groups",
    holds_when=(
        "COALESCE(produce_tps, 0) >= 0 AND COALESCE(consume_tps, 0) >= 0 AND COALESCE(get_tps, 0) >= 0"
        " AND COALESCE(master_get_tps, 0) >= 0 AND COALESCE(slave_get_tps, 0) >= 0"
        " AND COALESCE(send_back_tps, 0) >= 0 AND COALESCE(hit_ratio, 0) BETWEEN 0 AND 1"
    ),
    example=(
        f"consumer_group || ' in ' || topic || ': produced ' || {shown('produce_tps')} || ', consumed '"
        f" || {shown('consume_tps')} || ', handed out ' || {shown('get_tps')} || ', sent back '"
        f" || {shown('send_back_tps')} || ' per second, hit ratio ' || {shown('hit_ratio')}"
    ),
)
RATES_OF_TOPICS = _rates_possible(
    "OG-R02",
    tables.TOPIC_FACTS,
    "topics",
    holds_when="COALESCE(produce_tps, 0) >= 0 AND COALESCE(put_tps, 0) >= 0",
    example=f"topic || ': grew by ' || {shown('produce_tps')} || ', put ' || {shown('put_tps')} || ' per second'",
)
RATES_OF_BROKERS = _rates_possible(
    "OG-R03",
    tables.BROKER_FACTS,
    "brokers",
    holds_when="COALESCE(put_tps, 0) >= 0 AND COALESCE(get_tps, 0) >= 0",
    example=(
        "broker_name || ' (broker id ' || broker_id || '): put ' || "
        f"{shown('put_tps')} || ', handed out ' || {shown('get_tps')} || ' per second'"
    ),
)
_COUNTS_POSSIBLE = (
    "COALESCE(unknown_queue_count, 0) BETWEEN 0 AND COALESCE(consumed_queue_count, 0)"
    " AND COALESCE(suspect_queue_count, 0) BETWEEN 0 AND COALESCE(consumed_queue_count, 0)"
    f" AND {_NOT_NEGATIVE} AND COALESCE(topic_queue_count, 0) >= 0"
)
_COUNTS_SHOWN = (
    f"{shown('consumed_queue_count')} || ' queues of groups, unknown ' || {shown('unknown_queue_count')}"
    f" || ', suspect ' || {shown('suspect_queue_count')} || ', lost ' || {shown('lost')}"
)
BROKERS_POSSIBLE = _figures_possible(
    "OG-F05",
    tables.BROKER_FACTS,
    "brokers",
    holds_when=_COUNTS_POSSIBLE,
    example=f"broker_name || ' (broker id ' || broker_id || '): ' || {_COUNTS_SHOWN}",
    meaning=(
        "A broker has no more unknown or suspect queues than groups have queues on it; lags, losses and ages are not"
        " below 0. Only a wrong sum or a wrong join gives such a row."
    ),
)
CLUSTER_POSSIBLE = _figures_possible(
    "OG-F06",
    tables.CLUSTER_FACTS,
    "the cluster",
    holds_when=(f"{_COUNTS_POSSIBLE} AND COALESCE(answered_replica_count, 0) BETWEEN 0 AND COALESCE(replica_count, 0)"),
    example=(
        f"cluster || ': replicas ' || {shown('replica_count')} || ', answered '"
        f" || {shown('answered_replica_count')} || ', ' || {_COUNTS_SHOWN}"
    ),
    meaning=(
        "No more replicas answer than there are, and no more queues are unknown or suspect than groups have; lags,"
        " losses and ages are not below 0. Only a wrong sum gives such a row."
    ),
)
LOCK_WAITS_POSSIBLE = _figures_possible(
    "OG-F07",
    tables.LOCK_WAIT_FACTS,
    "waits for locks",
    holds_when="refusal_count > 0 AND waited_ms >= 0 AND first_refused_at <= last_refused_at",
    example=(
        "consumer_group || ' in ' || topic || ' ' || broker_name || '/' || queue_id || ': ' || refusal_count"
        " || ' refusals from ' || first_refused_at || ' to ' || last_refused_at || ', waited ' || waited_ms || ' ms'"
    ),
    meaning=(
        "A wait has at least one refusal, and the first of them is not after the last. Only a wrong aggregation of the"
        " log lines gives such a row."
    ),
)
