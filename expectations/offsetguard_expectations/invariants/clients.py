"""Invariants of `group_snapshots`, `client_snapshots` and `client_queue_snapshots`."""

from offsetguard.model.rocketmq import LOCK_INTERVALS_PER_LIFE
from offsetguard.model.verdicts import Severity
from offsetguard.tables import CLIENT_QUEUE_SNAPSHOTS, CLIENT_SNAPSHOTS, GROUP_SNAPSHOTS
from offsetguard_expectations.invariant import SKEW_TOLERANCE_S, Invariant, ViolationMeans, shown

LOCK_OUTLIVES_RENEWALS = Invariant(
    id="OG-L01",
    title=f"A rebalance lock lives for at least {LOCK_INTERVALS_PER_LIFE} lock intervals",
    violation="A rebalance lock expires before its third renewal",
    table=GROUP_SNAPSHOTS,
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


_CLIENT = "client_id || ' of ' || consumer_group || ' on ' || broker_name"

CLOCK_NOT_AHEAD = Invariant(
    id="OG-C01",
    title="The clock of a client is not ahead of ours",
    violation="The clock of a client is ahead of ours",
    table=CLIENT_SNAPSHOTS,
    severity=Severity.INFO,
    applies_when="consumer_start_at IS NOT NULL AND running_info_read_at IS NOT NULL",
    holds_when=f"unix_seconds(consumer_start_at) <= {SKEW_TOLERANCE_S} + unix_seconds(running_info_read_at)",
    example=f"{_CLIENT} || ': started at ' || consumer_start_at || ', read at ' || running_info_read_at",
    meaning=(
        "By its own clock the client was started after we asked it. What it says of its last pull, its last message and"
        " its last lock renewal is wrong by as much, and a group that starts from a time (`consumeTimestamp`) starts"
        " elsewhere than its owner thinks."
    ),
    do_next="Correct the clock of that client's host (`chronyc tracking`).",
)
COUNTS_IN_RANGE = Invariant(
    id="OG-C13",
    title="Counts of clients are in their range",
    violation="A client reports counts that cannot be",
    table=CLIENT_SNAPSHOTS,
    violation_means=ViolationMeans.CORRUPT,
    stops_publication=False,
    holds_when=(
        "broker_id >= 0 AND COALESCE(thread_count, 0) >= 0 AND COALESCE(cached_message_count, 0) >= 0"
        " AND COALESCE(cached_message_mib, 0) >= 0 AND COALESCE(locked_queue_count, 0) >= 0"
        " AND COALESCE(locked_queue_count, 0) <= COALESCE(held_queue_count, locked_queue_count, 0)"
        " AND COALESCE(consume_ok_tps, 0) >= 0 AND COALESCE(consume_failed_tps, 0) >= 0"
    ),
    example=(
        f"{_CLIENT} || ': threads ' || {shown('thread_count')} || ', queues held ' || {shown('held_queue_count')}"
        f" || ', locked ' || {shown('locked_queue_count')} || ', cached ' || {shown('cached_message_count')}"
    ),
    meaning=(
        "A client counts fewer than 0 of something, or has locked more queues than it holds. The client counts wrongly,"
        " or its running info was misread by us."
    ),
    do_next="Look at the row in the table `quarantine` and at language and version of that client.",
)


QUEUE_COUNTS_NOT_NEGATIVE = Invariant(
    id="OG-C11",
    title="Clients count no fewer than 0 messages in their queues",
    violation="A client counts fewer than 0 messages",
    table=CLIENT_QUEUE_SNAPSHOTS,
    violation_means=ViolationMeans.CORRUPT,
    stops_publication=False,
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
