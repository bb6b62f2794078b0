"""rocketmq_client.log: what a consumer says about locks, rebalances, pulls and its offsets.

Source: RebalanceImpl, RebalancePushImpl, ConsumeMessageOrderlyService, DefaultMQPushConsumerImpl, MQClientInstance,
RemoteBrokerOffsetStore, LocalFileOffsetStore, AbstractAllocateMessageQueueStrategy of 4.9.7, 4.9.8, 5.3.3 and 5.5.0.
With rocketmq-tools on the application's class path (5.x) the lines stand in tools_default.log, in the brokers' layout.
"""

from __future__ import annotations

from offsetguard.sources.logs.pattern import (
    ADDRESS,
    CLIENT,
    END,
    INT,
    MESSAGE_QUEUE,
    MESSAGE_QUEUE_FIELDS,
    NAME,
    REST,
    LogKind,
    Pattern,
    integers,
    text,
)

_LOGS = (LogKind.CLIENT,)
_PUSH = "DefaultMQPushConsumerImpl 4.9.7, 4.9.8, 5.3.3, 5.5.0"
_REBALANCE = "RebalanceImpl 4.9.7, 4.9.8, 5.3.3, 5.5.0"
_ORDERLY = "ConsumeMessageOrderlyService 4.9.7, 4.9.8, 5.3.3, 5.5.0"
_PULL_REQUEST = f"PullRequest \\[consumerGroup={NAME}, messageQueue={MESSAGE_QUEUE}, nextOffset={INT}\\]"
_PULL_REQUEST_FIELDS = (*text("consumer_group"), *MESSAGE_QUEUE_FIELDS)
_CACHED = f"so do flow control, minOffset={INT}, maxOffset={INT}, count={INT}, size={INT} MiB, "
_CACHED_FIELDS = integers("cached_min_offset", "cached_max_offset", "cached_count", "cached_mib")
_PULL_FAILED = f"^execute the pull request exception(?:, group={NAME}, messageQueue={MESSAGE_QUEUE})?{END}\\n"

_PULLS = (
    Pattern(
        kind="pull_refused",
        log_kinds=_LOGS,
        must_contain="execute the pull request exception",
        regex=_PULL_FAILED
        + r"org\.apache\.rocketmq\.client\.exception\.MQBrokerException: CODE: "
        + f"{INT}  DESC: ([^\\n]*?)(?: BROKER: {ADDRESS})?{END}",
        fields=(
            *_PULL_REQUEST_FIELDS,
            *integers("response_code"),
            *text("description", "broker_address"),
        ),
        meaning="a broker refused a pull; code 25 (subscription not latest) is normal for seconds at a join or leave",
        source=_PUSH + "; group and queue stand here since 5.x",
        spans_lines=True,
    ),
    Pattern(
        kind="pull_failed",
        log_kinds=_LOGS,
        must_contain="execute the pull request exception",
        regex=_PULL_FAILED + r"([A-Za-z0-9_.$]{1,300}(?:Exception|Error)): " + REST,
        fields=(*_PULL_REQUEST_FIELDS, *text("exception", "description")),
        meaning="a pull found no broker, or no answer",
        source=_PUSH + "; group and queue stand here since 5.x",
        spans_lines=True,
    ),
    Pattern(
        kind="client_subscription_not_latest",
        log_kinds=_LOGS,
        must_contain="the subscription is not latest, group=",
        regex=f"^the subscription is not latest, group={NAME}, messageQueue={MESSAGE_QUEUE}",
        fields=(*text("consumer_group"), *MESSAGE_QUEUE_FIELDS),
        meaning="code 25, as 5.x prints it: the broker has an older subscription; normal for seconds after a change",
        source="DefaultMQPushConsumerImpl 5.3.3, 5.5.0",
    ),
    Pattern(
        kind="client_offset_illegal",
        log_kinds=_LOGS,
        must_contain="the pull request offset illegal",
        regex=f"^the pull request offset illegal, {_PULL_REQUEST} PullResult \\[pullStatus=([A-Z_]{{1,40}}), "
        + f"nextBeginOffset={INT}, minOffset={INT}, maxOffset={INT}",
        fields=(
            *_PULL_REQUEST_FIELDS,
            *integers("requested_offset"),
            *text("pull_status"),
            *integers("corrected_offset", "min_offset", "max_offset"),
        ),
        meaning="the client was told that its offset is outside of the queue",
        source=_PUSH,
    ),
    Pattern(
        kind="client_offset_fixed",
        log_kinds=_LOGS,
        must_contain="fix the pull request offset",
        regex=f"^fix the pull request offset, {_PULL_REQUEST}",
        fields=(*_PULL_REQUEST_FIELDS, *integers("corrected_offset")),
        meaning="the client goes on at another offset",
        source=_PUSH,
    ),
    Pattern(
        kind="flow_control_count",
        log_kinds=_LOGS,
        must_contain="the cached message count exceeds the threshold",
        regex=f"^the cached message count exceeds the threshold {INT}, {_CACHED}pullRequest={_PULL_REQUEST}, "
        + f"flowControlTimes={INT}",
        fields=(
            *integers("threshold_count"),
            *_CACHED_FIELDS,
            *_PULL_REQUEST_FIELDS,
            *integers("next_offset", "flow_control_times"),
        ),
        meaning="the client stopped pulling: it holds that many messages of the queue; one line in 1,000 hits",
        source=_PUSH,
    ),
    Pattern(
        kind="flow_control_size",
        log_kinds=_LOGS,
        must_contain="the cached message size exceeds the threshold",
        regex=f"^the cached message size exceeds the threshold {INT} MiB, {_CACHED}pullRequest={_PULL_REQUEST}, "
        + f"flowControlTimes={INT}",
        fields=(
            *integers("threshold_mib"),
            *_CACHED_FIELDS,
            *_PULL_REQUEST_FIELDS,
            *integers("next_offset", "flow_control_times"),
        ),
        meaning="the client stopped pulling: it holds that much of the queue; one line in 1,000 hits",
        source=_PUSH,
    ),
    Pattern(
        kind="flow_control_span",
        log_kinds=_LOGS,
        must_contain="span too long, so do flow control",
        regex=f"^the queue's messages, span too long, so do flow control, minOffset={INT}, maxOffset={INT}, "
        + f"maxSpan={INT}, pullRequest={_PULL_REQUEST}, flowControlTimes={INT}",
        fields=(
            *integers("cached_min_offset", "cached_max_offset", "span"),
            *_PULL_REQUEST_FIELDS,
            *integers("next_offset", "flow_control_times"),
        ),
        meaning="one message holds the queue back: those behind it are consumed, it is not",
        source=_PUSH,
    ),
    Pattern(
        kind="pull_stuck",
        log_kinds=_LOGS,
        must_contain="is pause, so try to fixed it",
        regex=f"^\\[BUG\\]doRebalance, {NAME}, (?:try )?remove unnecessary (?:pop )?mq, {MESSAGE_QUEUE}, because ",
        fields=(*text("consumer_group"), *MESSAGE_QUEUE_FIELDS),
        meaning="the client has not pulled the queue for 120 s and takes it anew",
        source=_REBALANCE,
    ),
)

_LOCKS = (
    Pattern(
        kind="client_lock_result",
        log_kinds=_LOGS,
        must_contain="message queue lock ",
        regex=f"^(?:the )?message queue lock (OK|Failed), {NAME} {MESSAGE_QUEUE}",
        fields=(*text("outcome", "consumer_group"), *MESSAGE_QUEUE_FIELDS),
        meaning="a broker granted or refused the lock of a queue that the client wants",
        source=_REBALANCE,
    ),
    Pattern(
        kind="client_lock_renewal",
        log_kinds=_LOGS,
        must_contain="the message queue locked ",
        regex=f"^the message queue locked (OK|Failed), Group: {NAME} {MESSAGE_QUEUE}",
        fields=(*text("outcome", "consumer_group"), *MESSAGE_QUEUE_FIELDS),
        meaning="a broker granted or refused the lock when all locks were renewed",
        source=_REBALANCE,
    ),
    Pattern(
        kind="queue_not_taken",
        log_kinds=_LOGS,
        must_contain="because lock failed",
        regex=f"^doRebalance, {NAME}, add a new mq failed, {MESSAGE_QUEUE}, because lock failed",
        fields=(*text("consumer_group"), *MESSAGE_QUEUE_FIELDS),
        meaning="an orderly client does not get its queue: another one holds the lock",
        source=_REBALANCE,
    ),
    Pattern(
        kind="consume_later",
        log_kinds=_LOGS,
        must_contain="so consume later, ",
        regex=f"^the message queue (not locked|lock expired), so consume later, {MESSAGE_QUEUE}",
        fields=(*text("why"), *MESSAGE_QUEUE_FIELDS),
        meaning="an orderly client waits for its lock",
        source=_ORDERLY,
    ),
    Pattern(
        kind="pull_later",
        log_kinds=_LOGS,
        must_contain="pull message later because not locked in broker",
        regex=f"^pull message later because not locked in broker, {_PULL_REQUEST}",
        fields=(*_PULL_REQUEST_FIELDS, *integers("next_offset")),
        meaning="an orderly client does not pull: it has no lock",
        source=_PUSH,
    ),
    Pattern(
        kind="unlock_delayed",
        log_kinds=_LOGS,
        must_contain="[WRONG]mq is consuming, so can not unlock it",
        regex=f"^\\[WRONG\\]mq is consuming, so can not unlock it, {MESSAGE_QUEUE}\\. maybe hanged for a while, {INT}",
        fields=(*MESSAGE_QUEUE_FIELDS, *integers("attempts")),
        meaning="the client keeps a lock that it should give back: its listener has not returned",
        source="RebalancePushImpl 4.9.7, 4.9.8",
    ),
)

_MEMBERS = (
    Pattern(
        kind="client_not_in_members",
        log_kinds=_LOGS,
        must_contain="not in cidAll: ",
        regex=f"^\\[BUG\\] ConsumerGroup: {NAME} The consumerId: {CLIENT} not in cidAll: {REST}",
        fields=text("consumer_group", "client_id", "members"),
        meaning="the broker's list of members lacks the client itself: normal for 15 s after a start",
        source="AbstractAllocateMessageQueueStrategy 4.9.7, 4.9.8, 5.3.3, 5.5.0",
    ),
    Pattern(
        kind="member_list_failed",
        log_kinds=_LOGS,
        must_contain="get consumer id list failed",
        regex=f"^doRebalance, {NAME} {NAME}, get consumer id list failed",
        fields=text("consumer_group", "topic"),
        meaning="no broker named the group's members: it is down, or has no heartbeat of the group yet",
        source=_REBALANCE,
    ),
    Pattern(
        kind="heartbeat_collided",
        log_kinds=_LOGS,
        must_contain="lock heartBeat, but failed",
        regex=f"^lock heartBeat, but failed\\. \\[{CLIENT}\\]",
        fields=text("client_id"),
        meaning="two heartbeats met, one was left out: pulls may be refused with code 25 for 20 to 30 s",
        source="MQClientInstance 4.9.7, 4.9.8, 5.3.3, 5.5.0",
    ),
    Pattern(
        kind="members_changed",
        log_kinds=_LOGS,
        must_contain="receive broker's notification[",
        regex=f"^receive broker's notification\\[([^\\]\\n]{{1,255}})\\], the consumer group: {NAME} changed, ",
        fields=text("broker_address", "consumer_group"),
        meaning="a broker told the client that members of its group came or went",
        source="ClientRemotingProcessor 4.9.7, 4.9.8, 5.3.3, 5.5.0",
    ),
    Pattern(
        kind="rebalanced",
        log_kinds=_LOGS,
        must_contain="rebalanced result changed. allocateMessageQueueStrategyName=",
        regex=r"^(?:client )?rebalanced result changed\. allocateMessageQueueStrategyName="
        + f"{NAME}, group={NAME}, topic={NAME}, clientId={CLIENT}, mqAllSize={INT}, cidAllSize={INT}, "
        + f"rebalanceResultSize={INT}, rebalanceResultSet={REST}",
        fields=(
            *text("strategy", "consumer_group", "topic", "client_id"),
            *integers("queue_count", "member_count", "own_queue_count"),
            *text("message_queues"),
        ),
        meaning="the client holds other queues than before",
        source="RebalanceImpl 4.9.7, 4.9.8; with `client` before it 5.3.3, 5.5.0",
    ),
    Pattern(
        kind="rebalanced",
        log_kinds=_LOGS,
        must_contain="broker rebalanced result changed. allocateMessageQueueStrategyName=",
        regex=r"^broker rebalanced result changed\. allocateMessageQueueStrategyName="
        + f"{NAME}, group={NAME}, topic={NAME}, clientId={CLIENT}, assignmentSet={REST}",
        fields=text("strategy", "consumer_group", "topic", "client_id", "message_queues"),
        meaning="the client holds other queues than before",
        source="RebalanceImpl 5.3.3, 5.5.0 (clientRebalance=false)",
    ),
    Pattern(
        kind="consumer_started",
        log_kinds=_LOGS,
        must_contain="] start beginning. messageModel=",
        regex=r"^the consumer \[([^\]\n]{1,512})\] start beginning\. messageModel=([A-Z_]{1,30}), ",
        fields=text("consumer_group", "message_model"),
        meaning="a consumer starts",
        source=_PUSH,
    ),
    Pattern(
        kind="consumer_stopped",
        log_kinds=_LOGS,
        must_contain="] shutdown OK",
        regex=r"^the consumer \[([^\]\n]{1,512})\] shutdown OK",
        fields=text("consumer_group"),
        meaning="a consumer was shut down as it should be",
        source=_PUSH,
    ),
)

_OFFSETS = (
    Pattern(
        kind="offset_committed",
        log_kinds=_LOGS,
        must_contain="] Group: ",
        regex=f"^\\[persist(?:All)?\\] Group: {NAME} ClientId: {CLIENT} updateConsumeOffsetToBroker "
        + f"{MESSAGE_QUEUE} {INT}",
        fields=(*text("consumer_group", "client_id"), *MESSAGE_QUEUE_FIELDS, *integers("consumer_offset")),
        meaning="the client committed an offset (every 5 s for each queue)",
        source="RemoteBrokerOffsetStore 4.9.7, 4.9.8, 5.3.3, 5.5.0",
        routine=True,
    ),
    Pattern(
        kind="offset_file_not_written",
        log_kinds=_LOGS,
        must_contain="consumer offset ",
        regex=f"^(?:persistAll|persist) consumer offset [Ee]xception, {REST}",
        fields=text("path"),
        meaning="a broadcasting client cannot write its local offsets: it will ask for the same old offset again",
        source="LocalFileOffsetStore 4.9.7, 4.9.8, 5.3.3, 5.5.0",
    ),
    Pattern(
        kind="client_offset_reset",
        log_kinds=_LOGS,
        must_contain="invoke reset offset operation from broker",
        regex=r"^invoke reset offset operation from broker\. brokerAddr="
        + f"{ADDRESS}, topic={NAME}, group={NAME}, timestamp={INT}",
        fields=(*text("broker_address", "topic", "consumer_group"), *integers("target_timestamp_ms")),
        meaning="an operator's reset reached the client",
        source="ClientRemotingProcessor 4.9.7, 4.9.8, 5.3.3, 5.5.0",
    ),
)

PATTERNS = (*_PULLS, *_LOCKS, *_MEMBERS, *_OFFSETS)
