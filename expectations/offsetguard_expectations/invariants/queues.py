"""Invariants of `queue_snapshots` and `queue_state`: the offsets of one consumer group in one queue.

The order invariants are min <= consumer <= pull <= max, pair by pair: two unknown positions cannot be compared, and a
position is unknown for good reasons (never committed; a broker before 5.1 keeps no pull offset; no answer). What one
sample cannot show, the row of them does: that is `queue_state`.
"""

from offsetguard.model.offsets import OffsetOrderViolation
from offsetguard.model.verdicts import Severity
from offsetguard.tables import QUEUE_SNAPSHOTS, QUEUE_STATE
from offsetguard_expectations.invariant import CLOCK_TOLERANCE_S, CORRECT_THE_CLOCKS, Invariant, ViolationMeans, shown

_QUEUE = "consumer_group || ' in ' || topic || ' ' || broker_name || '/' || queue_id"


def _order(
    kind: OffsetOrderViolation,
    low: str,
    high: str,
    *,
    severity: Severity = Severity.WARNING,
    title: str,
    violation: str,
    meaning: str,
    do_next: str,
) -> Invariant:
    return Invariant(
        id=kind.value,
        title=title,
        violation=violation,
        table=QUEUE_SNAPSHOTS,
        severity=severity,
        applies_when=f"{low} IS NOT NULL AND {high} IS NOT NULL",
        holds_when=f"{low} <= {high}",
        example=f"{_QUEUE} || ': {low} ' || {low} || ' > {high} ' || {high} || ' (by ' || ({low} - {high}) || ')'",
        meaning=meaning,
        do_next=do_next,
    )


CONSUMER_NOT_BELOW_MIN = _order(
    OffsetOrderViolation.CONSUMER_BELOW_MIN,
    "min_offset",
    "consumer_offset",
    severity=Severity.CRITICAL,
    title="No message was deleted before it was consumed (min <= consumer)",
    violation="Messages were deleted before they were consumed",
    meaning=(
        "The group's committed offset lies below the oldest message that the broker still keeps: the messages between"
        " them were deleted by retention before the group consumed them. They are gone for this group. A broadcasting"
        " group commits nothing to the broker and is not checked here. What looks broken is read again, min offset"
        " first, so a commit between two readings cannot cause this."
    ),
    do_next=(
        "Find out whether the messages matter (the difference is their number); replay them from the source if so."
        " Start or speed up the group, and lengthen `fileReservedTime` until it has caught up."
    ),
)
CONSUMER_NOT_ABOVE_PULL = _order(
    OffsetOrderViolation.CONSUMER_ABOVE_PULL,
    "consumer_offset",
    "pull_offset",
    title="Nothing is committed before it was pulled (consumer <= pull)",
    violation="An offset was committed that nobody pulled",
    meaning=(
        "The group has committed an offset that no client has pulled up to. Somebody set the offset (a reset, a skip),"
        " or the queue was recreated. The consumer offset is read before the pull offset, so a commit between the two"
        " readings cannot cause this. Brokers before 5.1 keep no pull offset: nothing is checked there."
    ),
    do_next=(
        "Ask who reset the group's offset. If nobody did, compare the topic's creation and the broker's restart times"
        " with the first interval that shows this."
    ),
)
CONSUMER_NOT_ABOVE_MAX = _order(
    OffsetOrderViolation.CONSUMER_ABOVE_MAX,
    "consumer_offset",
    "max_offset",
    severity=Severity.CRITICAL,
    title="Nothing is committed beyond the end of the queue (consumer <= max)",
    violation="An offset was committed beyond the end of the queue",
    meaning=(
        "The committed offset lies beyond the newest message. Messages written from now on are skipped until the queue"
        " has grown past it, or the clients are sent back and consume again. Causes: an offset was set beyond the end,"
        " the topic or queue was recreated, or the broker lost its newest messages (a crash, a switch to a replica that"
        " was behind). The consumer offset is read before the max offset, so new messages or commits between the two"
        " readings cannot cause this."
    ),
    do_next=(
        "Find out whether the queue shrank (topic recreated, broker restored, replica promoted) or the offset was set."
        " Then reset the group's offset to a time it has really consumed: the finding of the rule offset_reset has the"
        " command."
    ),
)
PULL_NOT_ABOVE_MAX = _order(
    OffsetOrderViolation.PULL_ABOVE_MAX,
    "pull_offset",
    "max_offset",
    title="Nothing is pulled beyond the end of the queue (pull <= max)",
    violation="Clients pull beyond the end of the queue",
    meaning=(
        "Clients pull from an offset that the queue does not have: the queue was recreated or truncated while they kept"
        " their position. They get nothing until the broker corrects them. The pull offset is read before the max"
        " offset, so new messages between the two readings cannot cause this."
    ),
    do_next=(
        "Look for a recreated topic or a restored broker. Clients correct themselves at their next rebalance;"
        " restart the group if it still gets no messages after a minute."
    ),
)
MIN_NOT_ABOVE_MAX = _order(
    OffsetOrderViolation.MIN_ABOVE_MAX,
    "min_offset",
    "max_offset",
    severity=Severity.CRITICAL,
    title="The oldest message is not beyond the end of the queue (min <= max)",
    violation="The oldest message lies beyond the end of the queue",
    meaning=(
        "The broker says that its oldest message is newer than its end: its consume queue files are damaged or"
        " half-deleted. The min offset is never read after the max offset, so our reading cannot cause this."
    ),
    do_next=(
        "Look into the broker's `store.log` for consume queue errors and check its disk, before restarting anything."
    ),
)

OFFSETS_NOT_NEGATIVE = Invariant(
    id="OG-Q11",
    title="Offsets and queue numbers are not negative",
    violation="An offset is negative",
    table=QUEUE_SNAPSHOTS,
    violation_means=ViolationMeans.CORRUPT,
    holds_when=(
        "queue_id >= 0 AND COALESCE(min_offset, 0) >= 0 AND COALESCE(max_offset, 0) >= 0"
        " AND COALESCE(consumer_offset, 0) >= 0 AND COALESCE(pull_offset, 0) >= 0"
    ),
    example=(
        f"{_QUEUE} || ': min ' || {shown('min_offset')} || ', consumer ' || {shown('consumer_offset')}"
        f" || ', pull ' || {shown('pull_offset')} || ', max ' || {shown('max_offset')}"
    ),
    meaning=(
        "Offsets count messages from 0. `-1` for `never committed` is turned into unknown when it is read, so a"
        " negative number is a damaged state file on the broker or an answer that we misread."
    ),
    do_next=(
        "Look at the row in the table `quarantine` and at `consumerOffset.json` of that broker. If the file is right,"
        " report a defect of OffsetGuard with the row."
    ),
)
QUEUE_IS_KNOWN = Invariant(
    id="OG-Q12",
    title="The group's queue exists on the broker",
    violation="A group has an offset in a queue that does not exist",
    table=QUEUE_SNAPSHOTS,
    violation_means=ViolationMeans.CORRUPT,
    severity=Severity.INFO,
    stops_publication=False,
    applies_when="max_offset_read_at IS NOT NULL",
    holds_when="min_offset IS NOT NULL AND max_offset IS NOT NULL",
    example=(f"{_QUEUE} || ': the broker has no such queue; committed ' || {shown('consumer_offset')}"),
    meaning=(
        "The group has an offset in a queue of which the broker, although it answered, knows no min and max offset."
        " Usually the topic was deleted or shrunk and the committed offset was left behind. No lag can be told from"
        " such a row. A broker that did not answer is no violation here: OG-S01 and OG-S02 report it."
    ),
    do_next=(
        "If the topic was shrunk or deleted on purpose, the left-over offset is harmless; the broker keeps it for as"
        " long as the group exists. Otherwise compare the topic's queues on all brokers, as mqadmin's"
        " `topicRoute` has them."
    ),
)
TIMES_NOT_IN_THE_FUTURE = Invariant(
    id="OG-Q13",
    title="Message times are not in the future",
    violation="Messages carry a time in the future",
    table=QUEUE_SNAPSHOTS,
    violation_means=ViolationMeans.CORRUPT,
    applies_when="last_timestamp IS NOT NULL OR oldest_unconsumed_at IS NOT NULL",
    holds_when=" AND ".join(
        f"unix_seconds(COALESCE({column}, interval_start)) <= {CLOCK_TOLERANCE_S}"
        " + unix_seconds(COALESCE(max_offset_read_at, pull_offset_read_at, consumer_offset_read_at, interval_start))"
        for column in ("last_timestamp", "oldest_unconsumed_at")
    ),
    example=(
        f"{_QUEUE} || ': last consumed ' || {shown('last_timestamp')} || ', oldest unconsumed '"
        f" || {shown('oldest_unconsumed_at')} || ', read at ' || {shown('max_offset_read_at')}"
    ),
    meaning=(
        "The broker stored a message more than 5 minutes after we asked about it: its clock (or ours) is wrong. Ages"
        " and lags in time from such a row would be wrong or negative. Compared with the moment of our reading, so a"
        " late or repeated run cannot cause this."
    ),
    do_next=CORRECT_THE_CLOCKS,
)


MAX_ONLY_GROWS = Invariant(
    id="OG-W01",
    title="The end of a queue never moves back, unless the queue was recreated",
    violation="The end of a queue moved back",
    table=QUEUE_STATE,
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
