"""rocketmq_client.log: what a consumer says about locks, rebalances, pulls and its offsets.

Source: RebalanceImpl, RebalancePushImpl, ConsumeMessageOrderlyService, DefaultMQPushConsumerImpl, MQClientInstance,
RemoteBrokerOffsetStore, LocalFileOffsetStore, AbstractAllocateMessageQueueStrategy of 4.9.7, 4.9.8, 5.3.3 and 5.5.0.
With rocketmq-tools on the application's class path (5.x) the lines stand in tools_default.log, in the brokers' layout.
"""

from functools import partial

from offsetguard.sources.logs.pattern import FieldType, LogKind, Part, forms, pattern

_line, _forms = partial(pattern, (LogKind.CLIENT,)), partial(forms, (LogKind.CLIENT,))
_PUSH = "DefaultMQPushConsumerImpl 4.9.7, 4.9.8, 5.3.3, 5.5.0"
_REBALANCE = "RebalanceImpl 4.9.7, 4.9.8, 5.3.3, 5.5.0"
_ORDERLY = "ConsumeMessageOrderlyService 4.9.7, 4.9.8, 5.3.3, 5.5.0"

_LITE = "DefaultLitePullConsumerImpl 4.9.4, 5.5.0"
_REFUSAL = (
    r"org\.apache\.rocketmq\.client\.exception\.MQBrokerException: "
    r"CODE: <response_code:int>  ?DESC: <description:[^\n]*?>"
    r"(?:(?: ?\nSee [^\n]{1,200}?)? BROKER: <broker_address:address>)?<END>"
)

_PULLS = (
    _line(
        "pull_refused",
        "^execute the pull request exception, group=<consumer_group>, messageQueue=<MESSAGE_QUEUE><END>\n" + _REFUSAL,
        meaning="a broker refused a pull; code 25 (subscription not latest) is normal for seconds at a join or leave",
        source="DefaultMQPushConsumerImpl 5.3.3, 5.5.0",
        spans_lines=True,
    ),
    _line(
        "pull_refused",
        "^execute the pull request exception<END>\n" + _REFUSAL,
        meaning="as before; the group or the topic stands in the description, where anywhere (codes 1, 16, 17, 26)",
        source="DefaultMQPushConsumerImpl 4.9.7, 4.9.8; PullMessageProcessor",
        spans_lines=True,
        parts=(
            Part(
                "consumer_group",
                "description",
                r"(?:subscription group \[|subscription group no permission, |consumer group\[)([^\] ,\n]{1,512})",
            ),
            Part("topic", "description", r"topic:?\[([^\]\n]{1,512})\]"),
        ),
    ),
    _line(
        "pull_failed",
        "^execute the pull request exception(?:, group=<consumer_group>, "
        r"messageQueue=<MESSAGE_QUEUE>)?<END>\n<exception:[A-Za-z0-9_.$]{1,300}(?:Exception|Error)>: "
        "<description:rest>",
        meaning="a pull found no broker, or no answer",
        source=_PUSH + "; group and queue stand here since 5.x",
        spans_lines=True,
    ),
    _line(
        "client_subscription_not_latest",
        "^the subscription is not latest, group=<consumer_group>, messageQueue=<MESSAGE_QUEUE>",
        meaning="code 25, as 5.x prints it: the broker has an older subscription; normal for seconds after a change",
        source="DefaultMQPushConsumerImpl 5.3.3, 5.5.0",
    ),
    _line(
        "client_offset_query_failed",
        "^fetchConsumeOffsetFromBroker exception, <MESSAGE_QUEUE>",
        meaning="the client could not read its committed offset; before 4.9.1 it may ask for -1 then",
        source="RemoteBrokerOffsetStore 4.9.7, 5.5.0",
    ),
    _line(
        "client_offset_illegal",
        r"^the pull request offset illegal, <PULL_REQUEST><requested_offset:int>\] PullResult "
        r"\[pullStatus=<pull_status:[A-Z_]{1,40}>, nextBeginOffset=<corrected_offset:int>, "
        "minOffset=<min_offset:int>, maxOffset=<max_offset:int>",
        meaning="the client was told that its offset is outside of the queue",
        source=_PUSH,
    ),
    _line(
        "client_offset_fixed",
        r"^fix the pull request offset, <PULL_REQUEST><corrected_offset:int>\]",
        meaning="the client goes on at another offset",
        source=_PUSH,
    ),
    _line(
        "flow_control_count",
        "^the cached message count exceeds the threshold <threshold_count:int>, so do flow control, "
        "minOffset=<cached_min_offset:int>, maxOffset=<cached_max_offset:int>, count=<cached_count:int>, "
        r"size=<cached_mib:int> MiB, pullRequest=<PULL_REQUEST><next_offset:int>\], "
        "flowControlTimes=<flow_control_times:int>",
        meaning="the client stopped pulling: it holds that many messages of the queue; one line in 1,000 hits",
        source=_PUSH,
    ),
    _line(
        "flow_control_size",
        "^the cached message size exceeds the threshold <threshold_mib:int> MiB, so do flow control, "
        "minOffset=<cached_min_offset:int>, maxOffset=<cached_max_offset:int>, count=<cached_count:int>, "
        r"size=<cached_mib:int> MiB, pullRequest=<PULL_REQUEST><next_offset:int>\], "
        "flowControlTimes=<flow_control_times:int>",
        meaning="the client stopped pulling: it holds that much of the queue; one line in 1,000 hits",
        source=_PUSH,
    ),
    _line(
        "flow_control_span",
        "^the queue's messages, span too long, so do flow control, minOffset=<cached_min_offset:int>, "
        "maxOffset=<cached_max_offset:int>, maxSpan=<span:int>, "
        r"pullRequest=<PULL_REQUEST><next_offset:int>\], flowControlTimes=<flow_control_times:int>",
        meaning="one message holds the queue back: those behind it are consumed, it is not",
        source=_PUSH,
    ),
    _line(
        "flow_control_count",
        "^The cached message count exceeds the threshold <threshold_count:int>, so do flow control, "
        "minOffset=<cached_min_offset:int>, maxOffset=<cached_max_offset:int>, count=<cached_count:int>, "
        "size=<cached_mib:int> MiB, flowControlTimes=<flow_control_times:int>",
        meaning="a lite pull consumer stopped pulling, as a push consumer does; the line names no queue",
        source=_LITE,
    ),
    _line(
        "flow_control_size",
        "^The cached message size exceeds the threshold <threshold_mib:int> MiB, so do flow control, "
        "minOffset=<cached_min_offset:int>, maxOffset=<cached_max_offset:int>, count=<cached_count:int>, "
        "size=<cached_mib:int> MiB, flowControlTimes=<flow_control_times:int>",
        meaning="likewise, by the size of what it holds",
        source=_LITE,
    ),
    _line(
        "flow_control_span",
        "^The queue's messages, span too long, so do flow control, minOffset=<cached_min_offset:int>, "
        "maxOffset=<cached_max_offset:int>, maxSpan=<span:int>, flowControlTimes=<flow_control_times:int>",
        meaning="likewise: one message holds the queue back",
        source=_LITE,
    ),
    _line(
        "flow_control_requests",
        "^The consume request count exceeds threshold <threshold_count:int>, so do flow control, "
        "consume request count=<request_count:int>, flowControlTimes=<flow_control_times:int>",
        meaning="a lite pull consumer stopped pulling: its application polls more slowly than it pulls",
        source=_LITE,
    ),
    _line(
        "flow_control_pop",
        "^the messages waiting to ack exceeds the threshold <threshold_count:int>, so do flow control, "
        r"popRequest=PopRequest \[topic=<topic>, consumerGroup=<consumer_group:[^,\]\n]{1,512}>[^\n]{0,2000}"
        "flowControlTimes=<flow_control_times:int>, wait count=<waiting_count:int>",
        meaning="a POP client stopped popping: so many messages wait for their acknowledgement",
        source="DefaultMQPushConsumerImpl.popMessage 5.5.0",
    ),
    _line(
        "client_offset_illegal",
        r"^The pull request offset illegal, PullResult \[pullStatus=<pull_status:[A-Z_]{1,40}>, "
        "nextBeginOffset=<corrected_offset:int>, minOffset=<min_offset:int>, maxOffset=<max_offset:int>",
        meaning="a lite pull consumer was told so; the line names neither queue nor what it asked for",
        source=_LITE,
    ),
    _line(
        "pull_stuck",
        r"^\[BUG\]doRebalance, <consumer_group>, (?:try )?remove unnecessary (?:pop )?mq, <MESSAGE_QUEUE>, "
        "because ",
        meaning="the client has not pulled the queue for 120 s and takes it anew",
        source=_REBALANCE,
    ),
    _line(
        "pull_loop_failed",
        "^Pull Message Service Run Method exception",
        meaning="a pull broke in the client, which does not pull that queue any more: it stands until a rebalance "
        "finds it after 120 s, or until a restart (apache/rocketmq#7538)",
        source="PullMessageService 4.2 to 5.x",
    ),
    _line(
        "consume_failed",
        r"^consumeMessage exception: <exception:[^\n]{1,300}?> Group: <consumer_group> Msgs: <detail:rest>",
        meaning="the listener threw an exception: a message is sent again later, or an orderly queue waits",
        source="ConsumeMessageConcurrentlyService, ConsumeMessageOrderlyService 4.2 to 5.x; apache/rocketmq#2447",
        routine=True,
        parts=(
            Part("topic", "detail", r" MQ: MessageQueue \[topic=([^,\n]{1,512})"),
            Part("broker_name", "detail", r" MQ: MessageQueue \[topic=[^,\n]{1,512}, brokerName=([^,\n]{1,512})"),
            Part(
                "queue_id", "detail", r" MQ: MessageQueue \[[^\]\n]{1,1100}, queueId=(-?[0-9]{1,10})\]", FieldType.INT
            ),
        ),
    ),
)

_LOCKS = (
    _line(
        "client_lock_result",
        "^(?:the )?message queue lock <outcome:OK|Failed>, <consumer_group> <MESSAGE_QUEUE>",
        meaning="a broker granted or refused the lock of a queue that the client wants",
        source=_REBALANCE,
    ),
    _line(
        "client_lock_renewal",
        "^the message queue locked <outcome:OK|Failed>, Group: <consumer_group> <MESSAGE_QUEUE>",
        meaning="a broker granted or refused the lock when all locks were renewed",
        source=_REBALANCE,
    ),
    _line(
        "queue_not_taken",
        "^doRebalance, <consumer_group>, add a new mq failed, <MESSAGE_QUEUE>, because lock failed",
        meaning="an orderly client does not get its queue: another one holds the lock",
        source=_REBALANCE,
    ),
    _line(
        "consume_later",
        "^the message queue <why:not locked|lock expired>, so consume later, <MESSAGE_QUEUE>",
        meaning="an orderly client waits for its lock",
        source=_ORDERLY,
    ),
    _line(
        "pull_later",
        r"^pull message later because not locked in broker, <PULL_REQUEST><next_offset:int>\]",
        meaning="an orderly client does not pull: it has no lock",
        source=_PUSH,
    ),
    _line(
        "unlock_delayed",
        r"^\[WRONG\]mq is consuming, so can not unlock it, <MESSAGE_QUEUE>\. maybe hanged for a while, "
        "<attempts:int>",
        meaning="the client keeps a lock that it should give back: its listener has not returned",
        source="RebalancePushImpl 4.9.7, 4.9.8",
    ),
)

_MEMBERS = (
    _line(
        "client_not_in_members",
        r"^\[BUG\] ConsumerGroup: <consumer_group> The consumerId: <client_id:client> not in cidAll: "
        "<members:rest>",
        meaning="the broker's list of members lacks the client itself: normal for 15 s after a start",
        source="AbstractAllocateMessageQueueStrategy 4.9.7, 4.9.8, 5.3.3, 5.5.0",
    ),
    _line(
        "member_list_failed",
        "^doRebalance, <consumer_group> <topic>, get consumer id list failed",
        meaning="no broker named the group's members: it is down, or has no heartbeat of the group yet",
        source=_REBALANCE,
    ),
    _line(
        "heartbeat_collided",
        r"^(?:sendHeartbeatToAllBrokerWithLockV2 )?lock heartBeat, but failed\.(?: \[<client_id:client>\])?",
        meaning="two heartbeats met, one was left out: pulls may be refused with code 25 for 20 to 30 s",
        source="MQClientInstance 4.9.7, 4.9.8, 5.3.3, 5.5.0; without the client since 5.1 (apache/rocketmq#7570)",
    ),
    _line(
        "members_changed",
        r"^receive broker's notification\[<broker_address:[^\]\n]{1,255}>\], the consumer group: "
        "<consumer_group> changed, ",
        meaning="a broker told the client that members of its group came or went",
        source="ClientRemotingProcessor 4.9.7, 4.9.8, 5.3.3, 5.5.0",
    ),
    *_forms(
        "rebalanced",
        "the client holds other queues than before",
        (
            "RebalanceImpl 4.9.7, 4.9.8; with `client` before it 5.3.3, 5.5.0",
            r"^(?:client )?rebalanced result changed\. allocateMessageQueueStrategyName=<strategy>, "
            "group=<consumer_group>, topic=<topic>, clientId=<client_id:client>, mqAllSize=<queue_count:int>, "
            "cidAllSize=<member_count:int>, rebalanceResultSize=<own_queue_count:int>, "
            "rebalanceResultSet=<message_queues:rest>",
        ),
        (
            "RebalanceImpl 5.3.3, 5.5.0 (clientRebalance=false)",
            r"^broker rebalanced result changed\. allocateMessageQueueStrategyName=<strategy>, "
            "group=<consumer_group>, topic=<topic>, clientId=<client_id:client>, "
            "assignmentSet=<message_queues:rest>",
        ),
    ),
    _line(
        "consumer_started",
        r"^the consumer \[<consumer_group:[^\]\n]{1,512}>\] start beginning\. "
        "messageModel=<message_model:[A-Z_]{1,30}>, ",
        meaning="a consumer starts",
        source=_PUSH,
    ),
    _line(
        "consumer_stopped",
        r"^the consumer \[<consumer_group:[^\]\n]{1,512}>\] shutdown OK",
        meaning="a consumer was shut down as it should be",
        source=_PUSH,
    ),
)

_OFFSETS = (
    _line(
        "offset_committed",
        r"^\[persist(?:All)?\] Group: <consumer_group> ClientId: <client_id:client> "
        "updateConsumeOffsetToBroker <MESSAGE_QUEUE> <consumer_offset:int>",
        meaning="the client committed an offset (every 5 s for each queue)",
        source="RemoteBrokerOffsetStore 4.9.7, 4.9.8, 5.3.3, 5.5.0",
        routine=True,
    ),
    _line(
        "offset_commit_failed",
        "^updateConsumeOffsetToBroker exception, <MESSAGE_QUEUE>",
        meaning="the client could not commit its offset: what came since is consumed again after a restart",
        source="RemoteBrokerOffsetStore 4.2 to 5.x",
    ),
    _line(
        "offset_file_not_written",
        "^(?:persistAll|persist) consumer offset [Ee]xception, <path:rest>",
        meaning="a broadcasting client cannot write its local offsets: it will ask for the same old offset again",
        source="LocalFileOffsetStore 4.9.7, 4.9.8, 5.3.3, 5.5.0",
    ),
    _line(
        "offset_reset_failed",
        r"^\[reset-offset\] consumer dose not exist\. group=<consumer_group>",
        meaning="an operator's reset reached a client that has no push consumer of the group, and did nothing: lite "
        "pull consumers cannot be reset so (apache/rocketmq#5318)",
        source="MQClientInstance 4.2 to 5.x",
    ),
    _line(
        "client_offset_reset",
        r"^invoke reset offset operation from broker\. brokerAddr=<broker_address:address>, topic=<topic>, "
        "group=<consumer_group>, timestamp=<target_timestamp_ms:int>",
        meaning="an operator's reset reached the client",
        source="ClientRemotingProcessor 4.9.7, 4.9.8, 5.3.3, 5.5.0",
    ),
)

PATTERNS = (*_PULLS, *_LOCKS, *_MEMBERS, *_OFFSETS)
