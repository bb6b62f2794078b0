"""Invariants of `topic_settings` and `topic_queue_snapshots`."""

from offsetguard.model.verdicts import Severity
from offsetguard.tables import TOPIC_QUEUE_SNAPSHOTS, TOPIC_SETTINGS
from offsetguard_expectations.invariant import (
    CLOCK_TOLERANCE_S,
    CORRECT_THE_CLOCKS,
    SKEW_TOLERANCE_S,
    Invariant,
    ViolationMeans,
    shown,
)

SETTINGS_IN_RANGE = Invariant(
    id="OG-A11",
    title="Queue numbers and permissions of topics are in their range",
    violation="A topic has settings that cannot be",
    table=TOPIC_SETTINGS,
    violation_means=ViolationMeans.CORRUPT,
    holds_when="read_queue_nums >= 0 AND write_queue_nums >= 0 AND perm BETWEEN 0 AND 15",
    example=(
        "topic || ' on ' || broker_name || ': ' || read_queue_nums || ' read queues, ' || write_queue_nums"
        " || ' write queues, permission ' || perm"
    ),
    meaning=(
        "A topic has fewer than 0 queues, or a permission that is no sum of 8 (priority), 4 (read), 2 (write) and 1"
        " (inherit). `topics.json` of the broker was edited by hand or is damaged, or the answer was misread by us."
    ),
    do_next="Look at the row in the table `quarantine` and at `config/topics.json` of that broker.",
)


_QUEUE = "topic || ' ' || broker_name || '/' || queue_id"

EVERY_QUEUE_ANSWERED = Invariant(
    id="OG-S02",
    title="Every queue of every topic was seen",
    violation="Queues could not be seen",
    table=TOPIC_QUEUE_SNAPSHOTS,
    holds_when="read_at IS NOT NULL",
    example=f"{_QUEUE} || ': the broker did not give its offsets'",
    meaning=(
        "The topic has this queue, and its broker gave no offsets for it in this interval: it is down, hangs, or"
        " refused the request. What happens in the queue is unknown, and so is the state of the groups that read it:"
        " they are reported as unknown, never as healthy. RocketMQ's own topics are left out."
    ),
    do_next=(
        "Look at OG-S01 first: one silent master explains all its queues. If the master answers, look in the manifest"
        " of the snapshot for the request that failed (often a missing permission)."
    ),
)
MIN_NOT_ABOVE_MAX = Invariant(
    id="OG-T01",
    title="The oldest message of a topic's queue is not beyond its end (min <= max)",
    violation="The oldest message of a queue lies beyond its end",
    table=TOPIC_QUEUE_SNAPSHOTS,
    severity=Severity.CRITICAL,
    applies_when="min_offset IS NOT NULL AND max_offset IS NOT NULL",
    holds_when="min_offset <= max_offset",
    example=f"{_QUEUE} || ': min_offset ' || min_offset || ' > max_offset ' || max_offset",
    meaning=(
        "As OG-Q05, for every queue of every topic, also those that no group reads: the consume queue files of the"
        " broker are damaged or half-deleted. Both offsets come in one answer, so our reading cannot cause this."
    ),
    do_next=(
        "Look into the broker's `store.log` for consume queue errors and check its disk, before restarting anything."
    ),
)
CLOCKS_AGREE = Invariant(
    id="OG-T02",
    title="The clock of a broker is not ahead of ours",
    violation="The clock of a broker is ahead of ours",
    table=TOPIC_QUEUE_SNAPSHOTS,
    applies_when="last_update_at IS NOT NULL AND read_at IS NOT NULL",
    holds_when=f"unix_seconds(last_update_at) <= {SKEW_TOLERANCE_S} + unix_seconds(read_at)",
    example=(
        f"{_QUEUE} || ': newest message ' || (unix_seconds(last_update_at) - unix_seconds(read_at))"
        " || ' s after our reading'"
    ),
    meaning=(
        "The newest message of the queue was stored more than 10 s after we read about it, by the broker's own clock."
        " Lags in time and ages of messages on this broker are too small by as much. Beyond 5 minutes the row is of no"
        " use at all (OG-T13). A clock that is behind cannot be told by this: the newest message may simply be old."
    ),
    do_next=CORRECT_THE_CLOCKS,
)
OFFSETS_NOT_NEGATIVE = Invariant(
    id="OG-T11",
    title="Offsets and queue numbers of topics are not negative",
    violation="The broker reports negative offsets",
    table=TOPIC_QUEUE_SNAPSHOTS,
    violation_means=ViolationMeans.CORRUPT,
    holds_when="queue_id >= 0 AND COALESCE(min_offset, 0) >= 0 AND COALESCE(max_offset, 0) >= 0",
    example=f"{_QUEUE} || ': min ' || {shown('min_offset')} || ', max ' || {shown('max_offset')}",
    meaning=(
        "Offsets count messages from 0; a negative one is a damaged queue on the broker or an answer misread by us."
    ),
    do_next="Look at the row in the table `quarantine` and at `store.log` of that broker.",
)
ANSWER_IS_WHOLE = Invariant(
    id="OG-T12",
    title="A queue that answered has a min and a max offset",
    violation="The broker left out the offsets of a queue",
    table=TOPIC_QUEUE_SNAPSHOTS,
    violation_means=ViolationMeans.CORRUPT,
    applies_when="read_at IS NOT NULL",
    holds_when="min_offset IS NOT NULL AND max_offset IS NOT NULL",
    example=f"{_QUEUE} || ': min ' || {shown('min_offset')} || ', max ' || {shown('max_offset')}",
    meaning=(
        "The broker answered for the topic but left out the offsets of a queue that the topic's settings promise."
        " The settings and the queues of the broker disagree, or the topic was changed while we were reading."
    ),
    do_next="If it lasts: compare the topic's settings on all brokers, as mqadmin's `topicRoute` has them.",
)
TIME_NOT_IN_THE_FUTURE = Invariant(
    id="OG-T13",
    title="The newest message of a queue is not from the future",
    violation="A message was stored in the future",
    table=TOPIC_QUEUE_SNAPSHOTS,
    violation_means=ViolationMeans.CORRUPT,
    applies_when="last_update_at IS NOT NULL",
    holds_when=(
        f"unix_seconds(last_update_at) <= {CLOCK_TOLERANCE_S} + unix_seconds(COALESCE(read_at, interval_start))"
    ),
    example=f"{_QUEUE} || ': newest message ' || last_update_at || ', read at ' || {shown('read_at')}",
    meaning=(
        "The newest message was stored more than 5 minutes after we asked about it: the clock of the broker (or ours)"
        " is wrong, and every age made from it would be too."
    ),
    do_next=CORRECT_THE_CLOCKS,
)
