"""Invariants of `client_queue_snapshots`: what clients say of the queues that they hold."""

from __future__ import annotations

from offsetguard.model.verdicts import Severity
from offsetguard.tables import CLIENT_QUEUE_SNAPSHOTS
from offsetguard_expectations.invariant import Invariant, ViolationMeans, shown

COUNTS_NOT_NEGATIVE = Invariant(
    id="OG-C11",
    title="Clients count no fewer than 0 messages in their queues",
    violation="A client counts fewer than 0 messages",
    table=CLIENT_QUEUE_SNAPSHOTS,
    violation_means=ViolationMeans.CORRUPT,
    severity=Severity.WARNING,
    stops_publication=False,
    applies_when="TRUE",
    holds_when=(
        "queue_id >= -1 AND COALESCE(cached_message_count, 0) >= 0 AND COALESCE(cached_message_mib, 0) >= 0"
        " AND COALESCE(transaction_message_count, 0) >= 0 AND COALESCE(pop_wait_ack_count, 0) >= 0"
    ),
    example=(
        "consumer_group || ' in ' || topic || ' ' || broker_name || '/' || queue_id || ': ' || client_id"
        f" || ': cached ' || {shown('cached_message_count')} || ' (' || {shown('cached_message_mib')}"
        f" || ' MiB), in work ' || {shown('transaction_message_count')}"
        f" || ', to be acknowledged ' || {shown('pop_wait_ack_count')}"
    ),
    meaning=(
        "The running info of a client holds a negative count: the client counts wrongly, or its answer was misread."
        " Queue -1 stands for all queues of a broker (pop) and is right."
    ),
    do_next="Look at the row in the table `quarantine` and at the version of that client.",
)

CACHE_IN_ORDER = Invariant(
    id="OG-C12",
    title="The cache of a client begins before it ends",
    violation="The oldest message in a client's cache is newer than its newest",
    table=CLIENT_QUEUE_SNAPSHOTS,
    violation_means=ViolationMeans.CORRUPT,
    severity=Severity.WARNING,
    stops_publication=False,
    applies_when="cached_message_count > 0 AND cached_min_offset IS NOT NULL AND cached_max_offset IS NOT NULL",
    holds_when="cached_min_offset <= cached_max_offset",
    example=(
        "consumer_group || ' in ' || topic || ' ' || broker_name || '/' || queue_id || ': ' || client_id"
        " || ': from ' || cached_min_offset || ' to ' || cached_max_offset"
    ),
    meaning=(
        "The running info of a client says that it holds messages from an offset beyond the last one that it holds."
        " Clients make this report under their queue's lock, so no race explains it: the answer was misread, or a"
        " client in another language counts in another way."
    ),
    do_next="Look at the row in the table `quarantine` and at language and version of that client.",
)

INVARIANTS = (COUNTS_NOT_NEGATIVE, CACHE_IN_ORDER)
