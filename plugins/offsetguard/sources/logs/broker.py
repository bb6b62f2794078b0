"""broker.log: pulls outside of the queue, offsets, slaves. What it says about the members of groups is in `members.py`.

Source: PullMessageProcessor and DefaultPullMessageResultHandler, ConsumerOffsetManager, AdminBrokerProcessor,
Broker2Client, SlaveSynchronize, BrokerController of 4.9.7, 4.9.8, 5.3.3 and 5.5.0.
A corrected pull prints two lines of one thread: INFO says what was wrong, WARN (PULL_OFFSET_MOVED) what became of it.
"""

from __future__ import annotations

from offsetguard.sources.logs.pattern import ADDRESS, INT, NAME, REST, LogKind, Pattern, integers, text

_LOGS = (LogKind.BROKER,)
_PULL = "PullMessageProcessor 4.9.7, 4.9.8, 5.3.3, 5.5.0"

_PULLS = (
    Pattern(
        kind="offset_too_small",
        log_kinds=_LOGS,
        must_contain="the request offset too small",
        regex=f"^the request offset too small\\. group={NAME}, topic={NAME}, requestOffset={INT}, "
        + f"brokerMinOffset={INT}, clientIp={ADDRESS}",
        fields=(
            *text("consumer_group", "topic"),
            *integers("requested_offset", "min_offset"),
            *text("client_address"),
        ),
        meaning="a client asked for an offset below the oldest message: what lies between was deleted",
        source=_PULL,
    ),
    Pattern(
        kind="offset_beyond_end",
        log_kinds=_LOGS,
        must_contain="over flow badly",
        regex=f"^the request offset: {INT} over flow badly, (?:fix to {INT}, )?broker max offset: {INT}, "
        + f"consumer: {ADDRESS}",
        fields=(
            *integers("requested_offset", "corrected_offset", "max_offset"),
            *text("client_address"),
        ),
        meaning="a client asked for an offset beyond the end: the queue was recreated or truncated, or it was reset "
        "too far; the corrected offset stands here since 5.x",
        source=_PULL,
    ),
    Pattern(
        kind="no_queue_data",
        log_kinds=_LOGS,
        must_contain="no queue data, fix the request offset",
        regex=f"^the broker stores? no queue data, fix the request offset {INT} to {INT}, "
        + f"Topic: {NAME} QueueId: {INT} Consumer Group: {NAME}",
        fields=(
            *integers("requested_offset", "corrected_offset"),
            *text("topic"),
            *integers("queue_id"),
            *text("consumer_group"),
        ),
        meaning="a client asked for an offset of a queue that holds nothing",
        source=_PULL,
    ),
    Pattern(
        kind="offset_corrected",
        log_kinds=_LOGS,
        must_contain="PULL_OFFSET_MOVED:correction offset",
        regex=f"^PULL_OFFSET_MOVED:correction offset\\. topic={NAME}, groupId={NAME}, requestOffset={INT}, "
        + f"newOffset={INT}, suggestBrokerId={INT}",
        fields=(
            *text("topic", "consumer_group"),
            *integers("requested_offset", "corrected_offset", "suggested_broker_id"),
        ),
        meaning="the client was sent to another offset; 5.x prints it for a reset by an operator, too",
        source="PullMessageProcessor 4.9.7, 4.9.8; DefaultPullMessageResultHandler 5.3.3, 5.5.0",
    ),
    Pattern(
        kind="offset_not_corrected",
        log_kinds=_LOGS,
        must_contain="PULL_OFFSET_MOVED:none correction",
        regex=f"^PULL_OFFSET_MOVED:none correction\\. topic={NAME}, groupId={NAME}, requestOffset={INT}, "
        + f"suggestBrokerId={INT}",
        fields=(*text("topic", "consumer_group"), *integers("requested_offset", "suggested_broker_id")),
        meaning="a slave was asked for an offset outside of its queue and left it to the master",
        source="PullMessageProcessor 4.9.7, 4.9.8; DefaultPullMessageResultHandler 5.3.3, 5.5.0",
    ),
    Pattern(
        kind="queue_was_reset",
        log_kinds=_LOGS,
        must_contain="The queue under pulling was previously reset",
        regex=f"^The queue under pulling was previously reset to start from {INT}",
        fields=integers("corrected_offset"),
        meaning="a pull met an offset that an operator had reset on the broker",
        source="PullMessageProcessor 5.3.3, 5.5.0",
    ),
    Pattern(
        kind="subscription_not_latest",
        log_kinds=_LOGS,
        must_contain="The broker's subscription is not latest",
        regex=f"^The broker's subscription is not latest, group: {NAME} {REST}",
        fields=text("consumer_group", "sub_string"),
        meaning="a pull came with a newer subscription than the last heartbeat: normal for seconds after a change",
        source=_PULL,
    ),
    Pattern(
        kind="group_not_online",
        log_kinds=_LOGS,
        must_contain="the consumer's group info not exist",
        regex=f"^the consumer's group info not exist, group: {NAME}",
        fields=text("consumer_group"),
        meaning="a pull of a group that no client is registered for: normal for 15 s after the last one closed",
        source=_PULL,
    ),
    Pattern(
        kind="topic_not_subscribed",
        log_kinds=_LOGS,
        must_contain="the consumer's subscription not exist",
        regex=f"^the consumer's subscription not exist, group: {NAME}, topic:{NAME}",
        fields=text("consumer_group", "topic"),
        meaning="a pull of a topic that the group's registered subscriptions do not hold",
        source=_PULL,
    ),
)

_OFFSETS = (
    Pattern(
        kind="commit_moved_back",
        log_kinds=_LOGS,
        must_contain="[NOTIFYME]update consumer offset less than store",
        regex=r"^\[NOTIFYME\]update consumer offset less than store\. "
        + f"clientHost={ADDRESS}, key=([^@,\\n]{{1,512}})@{NAME}, queueId={INT}, "
        + f"requestOffset={INT}, storeOffset={INT}",
        fields=(
            *text("client_address", "topic", "consumer_group"),
            *integers("queue_id", "requested_offset", "stored_offset"),
        ),
        meaning="a commit below the committed offset; one less is normal now and then (commits overtake each other)",
        source="ConsumerOffsetManager 4.9.7, 4.9.8, 5.3.3, 5.5.0",
    ),
    Pattern(
        kind="offsets_removed",
        log_kinds=_LOGS,
        must_contain="remove topic offset, ",
        regex=f"^remove topic offset, ([^@,\\n]{{1,512}})@{NAME}",
        fields=text("topic", "consumer_group"),
        meaning="the committed offsets of a group in a topic were dropped",
        source="ConsumerOffsetManager 4.9.7, 4.9.8, 5.3.3, 5.5.0",
    ),
    Pattern(
        kind="offset_reset_started",
        log_kinds=_LOGS,
        must_contain="[reset-offset] reset offset started by",
        regex=r"^\[reset-offset\] reset offset started by "
        + f"{ADDRESS}\\. topic={NAME}, group={NAME}, timestamp={INT}, isForce=(true|false)",
        fields=(
            *text("caller_address", "topic", "consumer_group"),
            *integers("target_timestamp_ms"),
            *text("forced"),
        ),
        meaning="an operator reset the group's offsets to a moment (-1: to the end)",
        source="AdminBrokerProcessor 4.9.7, 5.5.0",
    ),
    Pattern(
        kind="offset_reset_sent",
        log_kinds=_LOGS,
        must_contain="[reset-offset] reset offset success",
        regex=f"^\\[reset-offset\\] reset offset success\\. topic={NAME}, group={NAME}, clientId={REST}",
        fields=text("topic", "consumer_group", "client_id"),
        meaning="the reset was sent to a client of the group",
        source="Broker2Client 4.9.7, 5.5.0",
    ),
    Pattern(
        kind="offset_reset_stored",
        log_kinds=_LOGS,
        must_contain="Reset offset OK. Topic=",
        regex=f"^Reset offset OK\\. Topic={NAME}, group={NAME}, queueId={INT}, resetOffset={INT}",
        fields=(*text("topic", "consumer_group"), *integers("queue_id", "corrected_offset")),
        meaning="the broker itself keeps the reset for the next pull of the queue",
        source="ConsumerOffsetManager 5.3.3, 5.5.0",
    ),
)

_SLAVES = (
    Pattern(
        kind="slave_behind",
        log_kinds=_LOGS,
        must_contain="lave fall behind master",
        regex=f"^(?:CommitLog: slave|Slave) fall behind master:? {INT} ?bytes",
        fields=integers("behind_bytes"),
        meaning="how far a slave's commit log is behind its master's",
        source="BrokerController 4.9.7, 4.9.8, 5.3.3, 5.5.0",
        routine=True,
    ),
    Pattern(
        kind="slave_synchronized",
        log_kinds=_LOGS,
        must_contain="Update slave ",
        regex=f"^Update slave ([A-Za-z][A-Za-z ]{{1,40}}) from master, {ADDRESS}",
        fields=text("what", "master_address"),
        meaning="a slave took over its master's topics, groups or offsets: every 10 s in 4.x, 60 s in 5.x",
        source="SlaveSynchronize 4.9.7, 4.9.8, 5.3.3, 5.5.0",
        routine=True,
    ),
    Pattern(
        kind="slave_not_synchronized",
        log_kinds=_LOGS,
        must_contain="Exception, ",
        regex=f"^Sync([A-Za-z]{{1,40}}) Exception, {ADDRESS}",
        fields=text("what", "master_address"),
        meaning="a slave could not take something over from its master: what it answers grows old",
        source="SlaveSynchronize 4.9.7, 5.5.0",
    ),
)

PATTERNS = (*_PULLS, *_OFFSETS, *_SLAVES)
