"""broker.log: pulls outside of the queue, offsets, slaves, the members of consumer groups and what they subscribe to.

Source: PullMessageProcessor and DefaultPullMessageResultHandler, ConsumerOffsetManager, AdminBrokerProcessor,
Broker2Client, SlaveSynchronize, BrokerController, ConsumerGroupInfo, ConsumerManager, ClientManageProcessor of 4.9.7,
4.9.8, 5.3.3 and 5.5.0.
A corrected pull prints two lines of one thread: INFO says what was wrong, WARN (PULL_OFFSET_MOVED) what became of it.
"""

from functools import partial

from offsetguard.sources.logs.pattern import LogKind, Part, forms, pattern

_line = partial(pattern, (LogKind.BROKER,))
_PULL = "PullMessageProcessor 4.9.7, 4.9.8, 5.3.3, 5.5.0"
_CHANNEL = Part("client_address", "channel", r"R:/?([^\] \n]{1,255})")
_GROUP_INFO = "ConsumerGroupInfo 4.9.7, 4.9.8, 5.3.3, 5.5.0"
_EXPRESSION_TYPE = r"expressionType=([A-Za-z0-9_]{1,50})"
_TOPIC_PART = r"topic=([^,\n]{1,512}), subString="
_SUB_STRING_PART = r"subString=([^\n]*), tagsSet=\["

_PULLS = (
    _line(
        "offset_too_small",
        r"^the request offset too small\. group=<consumer_group>, topic=<topic>, "
        "requestOffset=<requested_offset:int>, brokerMinOffset=<min_offset:int>, "
        "clientIp=<client_address:address>",
        meaning="a client asked for an offset below the oldest message: what lies between was deleted",
        source=_PULL,
    ),
    _line(
        "offset_beyond_end",
        "^the request offset: <requested_offset:int> over flow badly, (?:fix to <corrected_offset:int>, "
        ")?broker max offset: <max_offset:int>, consumer: <client_address:address>",
        meaning="a client asked for an offset beyond the end: the queue was recreated or truncated, or it was reset "
        "too far; the corrected offset stands here since 5.x",
        source=_PULL,
    ),
    _line(
        "no_queue_data",
        "^the broker stores? no queue data, fix the request offset <requested_offset:int> to "
        "<corrected_offset:int>, Topic: <topic> QueueId: <queue_id:int> Consumer Group: <consumer_group>",
        meaning="a client asked for an offset of a queue that holds nothing",
        source=_PULL,
    ),
    _line(
        "offset_corrected",
        r"^PULL_OFFSET_MOVED:correction offset\. topic=<topic>, groupId=<consumer_group>, "
        "requestOffset=<requested_offset:int>, newOffset=<corrected_offset:int>, "
        "suggestBrokerId=<suggested_broker_id:int>",
        meaning="the client was sent to another offset; 5.x prints it for a reset by an operator, too",
        source="PullMessageProcessor 4.9.7, 4.9.8; DefaultPullMessageResultHandler 5.3.3, 5.5.0",
    ),
    _line(
        "offset_not_corrected",
        r"^PULL_OFFSET_MOVED:none correction\. topic=<topic>, groupId=<consumer_group>, "
        "requestOffset=<requested_offset:int>, suggestBrokerId=<suggested_broker_id:int>",
        meaning="a slave was asked for an offset outside of its queue and left it to the master",
        source="PullMessageProcessor 4.9.7, 4.9.8; DefaultPullMessageResultHandler 5.3.3, 5.5.0",
    ),
    _line(
        "queue_was_reset",
        "^The queue under pulling was previously reset to start from <corrected_offset:int>",
        meaning="a pull met an offset that an operator had reset on the broker",
        source="PullMessageProcessor 5.3.3, 5.5.0",
    ),
    _line(
        "subscription_not_latest",
        "^The broker's subscription is not latest, group: <consumer_group> <sub_string:rest>",
        meaning="a pull came with a newer subscription than the last heartbeat: normal for seconds after a change",
        source=_PULL,
    ),
    _line(
        "group_not_online",
        "^the consumer's group info not exist, group: <consumer_group>",
        meaning="a pull of a group that no client is registered for: normal for 15 s after the last one closed",
        source=_PULL,
    ),
    _line(
        "topic_not_subscribed",
        "^the consumer's subscription not exist, group: <consumer_group>, topic:<topic>",
        meaning="a pull of a topic that the group's registered subscriptions do not hold",
        source=_PULL,
    ),
    pattern(
        (LogKind.BROKER, LogKind.POP),
        "topic_unknown",
        "^(?:the|The) topic <topic> not exist, consumer: <client_address:address>",
        meaning="a client asks for messages of a topic that the broker does not have (code 17): it was deleted, or "
        "never created there; the client asks until it is restarted (apache/rocketmq#2777)",
        source="PullMessageProcessor 4.2 to 5.x, PopMessageProcessor 5.x",
    ),
    _line(
        "queue_unknown",
        r"^queueId\[<queue_id:int>\] is illegal, topic:\[<topic:[^\]\n]{1,512}>\] "
        r"topicConfig\.readQueueNums:\[<read_queue_count:int>\] consumer:\[<client_address:address>\]",
        meaning="a client asks for a queue that the topic does not have: its read queues were made fewer",
        source="PullMessageProcessor 4.2 to 5.x",
    ),
)

_OFFSETS = (
    _line(
        "commit_moved_back",
        r"^\[NOTIFYME\]update consumer offset less than store\. clientHost=<client_address:address>, "
        r"key=<topic:[^@,\n]{1,512}>@<consumer_group>, queueId=<queue_id:int>, "
        "requestOffset=<requested_offset:int>, storeOffset=<stored_offset:int>",
        meaning="a commit below the committed offset; one less is normal now and then (commits overtake each other)",
        source="ConsumerOffsetManager 4.9.7, 4.9.8, 5.3.3, 5.5.0",
    ),
    *forms(
        (LogKind.BROKER,),
        "offsets_removed",
        "the committed offsets of a group in a topic were dropped; without a topic: those of the group in all topics, "
        "since the group was deleted with its offsets",
        (
            "ConsumerOffsetManager 4.9.7, 4.9.8, 5.3.3, 5.5.0",
            r"^(?:remove topic offset,|clean group offset) <topic:[^@,\n]{1,512}>@<consumer_group>",
        ),
        (  # false: it had none
            "ConsumerOffsetManager, develop",
            "^Consumer offset manager clean group offset, groupName=<consumer_group>, offsetTable=true,",
        ),
    ),
    _line(
        "offset_reset_started",
        r"^\[reset-offset\] reset offset started by <caller_address:address>\. topic=<topic>, "
        "group=<consumer_group>, timestamp=<target_timestamp_ms:int>, isForce=<forced:true|false>",
        meaning="an operator reset the group's offsets to a moment (-1: to the end)",
        source="AdminBrokerProcessor 4.9.7, 5.5.0",
    ),
    _line(
        "offset_reset_sent",
        r"^\[reset-offset\] reset offset success\. topic=<topic>, group=<consumer_group>, "
        "clientId=<client_id:rest>",
        meaning="the reset was sent to a client of the group",
        source="Broker2Client 4.9.7, 5.5.0",
    ),
    _line(
        "offset_reset_failed",
        "^Consumer not online, so can not reset offset, Group: <consumer_group> Topic: <topic> "
        "Timestamp: <target_timestamp_ms:int>",
        meaning="an operator's reset did nothing: no client of the group is connected (clients carry it out)",
        source="Broker2Client 4.2 to 5.x",
    ),
    _line(  # "Reset offset OK", of each queue, is DEBUG
        "offset_reset_stored",
        r"^Reset offset, topic=<topic>, group=<consumer_group>, queues=<offsets:rest>",
        meaning="the broker keeps these offsets of its queues for the next pull of each",
        source="AdminBrokerProcessor 5.3.3, 5.5.0",
    ),
)

_STATE_FILES = (
    _line(
        "state_file_not_read",
        r"^load <path:[^\n]{1,4096}?> failed, and try to load backup file",
        meaning="at its start the broker could not read one of its state files and turns to the .bak beside it, which "
        "is older: consumerOffset.json (messages are consumed again), delayOffset.json (delayed ones are sent again), "
        "topics.json, subscriptionGroup.json",
        source="ConfigManager 4.5 to 5.x; apache/rocketmq#1498, 2531",
    ),
    _line(
        "state_file_not_read",
        r"^load <path:[^\n]{1,4096}?> Failed<END>",
        meaning="the .bak could not be read either: the broker does not start",
        source="ConfigManager 4.5 to 5.x",
    ),
    _line(
        "state_file_not_written",
        r"^persist file \[?<path:[^\]\n]{1,4096}?>\]? exception",
        meaning="the broker cannot write one of its state files (a full disk, rights): after a restart it goes on with "
        "what stands there, so that offsets go back",
        source="ConfigManager 4.5 to 5.x",
    ),
    pattern(
        (LogKind.BROKER, LogKind.STORE),
        "delay_offset_invalid",
        r"^schedule CQ offset invalid\. offset=<delay_offset:int>,(?: cqMinOffset=<min_offset:int>,)?"
        "(?: cqMaxOffset=<max_offset:int>,)? queueId=<queue_id:int>",
        meaning="the broker was to go on with delayed messages at an offset outside of their queue (delay level: queue "
        "+ 1), as after a failover: some are delivered again, or left out",
        source="ScheduleMessageService 4.5 to 5.x; apache/rocketmq#1934, 7077",
    ),
    pattern(
        (LogKind.BROKER, LogKind.STORE),
        "delay_offset_corrected",
        r"^correct delay offset \[ delayLevel <delay_level:int> \] from <delay_offset:int> to <corrected_offset:int>",
        meaning="the broker goes on with the delayed messages of a level at another offset",
        source="ScheduleMessageService 4.9.2 to 5.x; apache/rocketmq#7077",
    ),
)

_SLAVES = (
    *forms(
        (LogKind.BROKER,),
        "slave_behind",
        "how far a slave's commit log is behind its master's; negative: it is ahead, and does not follow",
        (
            "BrokerController 4.9.7, 4.9.8, 5.3.3, 5.5.0",
            "^(?:CommitLog: slave|Slave) fall behind master:? <behind_bytes:int> ?bytes",
        ),
        ("BrokerController 4.2", "^slave fall behind master: ?<behind_bytes:int> bytes"),
        ("BrokerController 4.2", "^slave fall behind master, how much, <behind_bytes:int> bytes"),
        (
            "HAService 4.6: master's end - slave's",
            "^slave fall behind master: -?[0-9]{1,19} - -?[0-9]{1,19} = <behind_bytes:int> bytes",
        ),
    ),
    _line(
        "slave_diverged",
        "^master pushed offset not equal the max phy offset in slave, SLAVE: <slave_end:int> MASTER: <master_end:int>",
        meaning="a slave's commit log does not end where its master goes on: it has what the master does not have, or "
        "lacks something between; it does not follow",
        source="HAClient 4.9.7, 5.5.0",
    ),
    _line(
        "requests_dropped",
        r"^\[TIMEOUT_CLEAN_QUEUE\]broker busy, start flow control for a while, period in queue: <waited_ms:int>\s?ms, "
        "size of queue: <queue_size:int>",
        meaning="the broker threw a request away that had waited too long (200 ms by default): producers get code 2",
        source="BrokerFastFailure 4.9.7, 5.5.0",
    ),
    _line(
        "topic_deleted",
        r"^delete topic config OK, topic: TopicConfig \[topicName=<topic>, ",
        meaning="a topic is gone: by an operator's request (AdminBrokerThread), or by another thread, since the "
        "replica that is the master now does not have it",
        source="TopicConfigManager 4.9.7, 4.9.8, 5.3.3, 5.5.0",
    ),
    _line(
        "group_deleted",
        r"^delete subscription group OK, subscription group: ?SubscriptionGroupConfig ?[\[{]groupName=<consumer_group>"
        r"(?=[,}\]])",
        meaning="a consumer group's settings are gone: as of a topic",
        source="SubscriptionGroupManager 4.9.7, 4.9.8, 5.3.3, 5.5.0",
    ),
    _line(
        "role_changed",
        "^Begin to change to <role:master|slave>,? brokerName[=:]<broker_name>",
        meaning="a replica becomes the master, or a slave (DLedger, controller): offsets that the new master had not "
        "taken over yet (10 s in 4.x, 60 s in 5.x, or more) go back, and messages are consumed again",
        source="BrokerController 4.5 to 4.9, DLedgerRoleChangeHandler and ReplicasManager 5.x",
    ),
    _line(
        "slave_synchronized",
        "^Update slave <what:[A-Za-z][A-Za-z ]{1,40}> from master, <master_address:address>",
        meaning="a slave took over its master's topics, groups or offsets: every 10 s in 4.x, 60 s in 5.x",
        source="SlaveSynchronize 4.9.7, 4.9.8, 5.3.3, 5.5.0",
        routine=True,
    ),
    _line(
        "slave_not_synchronized",
        "^Sync<what:[A-Za-z]{1,40}> Exception, <master_address:address>",
        meaning="a slave could not take something over from its master: what it answers grows old",
        source="SlaveSynchronize 4.9.7, 5.5.0",
    ),
)

_MEMBERS = (
    _line(
        "consumer_connected",
        "^new consumer connected, group: <consumer_group> <consume_type:[A-Z_]{1,30}> "
        "<message_model:[A-Z_]{1,30}> channel: <CHANNEL_INFO>",
        meaning="a client joined its group on this broker",
        source=_GROUP_INFO,
        parts=(_CHANNEL,),
    ),
    _line(
        "consumer_unregistered",
        r"^unregister a consumer\[<consumer_group:[^\]\n]{1,512}>\] from consumerGroupInfo <CHANNEL_INFO>",
        meaning="a client left its group as it should: with shutdown()",
        source=_GROUP_INFO,
        parts=(_CHANNEL,),
    ),
    _line(
        "channel_removed",
        r"^NETTY EVENT: remove not active channel\[<CHANNEL_INFO>, lastUpdateTimestamp=[0-9]{1,20}\]\] from "
        "ConsumerGroupInfo groupChannelTable, consumer group: <consumer_group>",
        meaning="a client's connection broke: it died, or it stopped without shutdown()",
        source=_GROUP_INFO,
        parts=(_CHANNEL,),
    ),
    _line(
        "channel_expired",
        r"^SCAN: remove expired channel from ConsumerManager consumerTable\. channel=<channel:client>, "
        "consumerGroup=<consumer_group>",
        meaning="a client sent no heartbeat for 120 s",
        source="ConsumerManager 4.9.7, 5.5.0",
        parts=(_CHANNEL,),
    ),
    _line(
        "group_offline",
        "^unregister consumer ok, no any connection, and remove consumer group, <consumer_group>",
        meaning="the last client of the group left this broker",
        source="ConsumerManager 4.9.7, 4.9.8, 5.3.3, 5.5.0",
    ),
    _line(
        "client_id_changed",
        r"^(?:\[BUG\]|ConsumerGroupInfo:) consumer channel exists? in broker, but clientId (?:not equal\. "
        "GROUP: |is not the same one, group=)<consumer_group>,? <detail:rest>",
        meaning="one connection registered a second client id for the group",
        source=_GROUP_INFO,
    ),
    _line(
        "subscription_added",
        "^subscription changed, add new topic, group: <consumer_group> "
        r"<subscription:SubscriptionData \[[^\n]*>",
        meaning="the group subscribed to a topic",
        source=_GROUP_INFO,
        parts=(
            Part("topic", "subscription", _TOPIC_PART),
            Part("sub_string", "subscription", _SUB_STRING_PART),
            Part("expression_type", "subscription", _EXPRESSION_TYPE),
        ),
    ),
    _line(
        # `\3` and `\4` say that nothing but subVersion differs; it rises with every rebalance of a healthy group.
        "subscription_refreshed",
        r"^subscription changed, group: <consumer_group> OLD: SubscriptionData \[classFilterMode=[a-z]{4,5}, "
        r"topic=<topic:[^,\n]{1,512}>, <expression:rest>, subVersion=-?[0-9]{1,20}, "
        r"expressionType=<expression_type:[A-Za-z0-9_]{1,50}>\] NEW: SubscriptionData "
        r"\[classFilterMode=[a-z]{4,5}, topic=\2, \3, subVersion=-?[0-9]{1,20}, expressionType=\4\]",
        meaning="the same subscription with a newer version: printed for healthy groups at every rebalance",
        source=_GROUP_INFO,
        parts=(Part("sub_string", "expression", _SUB_STRING_PART),),
    ),
    _line(
        "subscription_changed",
        r"^subscription changed, group: <consumer_group> OLD: <old_subscription:SubscriptionData \[[^\n]*> "
        r"NEW: <new_subscription:SubscriptionData \[[^\n]*>",
        meaning="the expression itself changed: a release, or two clients of one group that differ and lose messages",
        source=_GROUP_INFO,
        parts=(
            Part("topic", "new_subscription", _TOPIC_PART),
            Part("old_sub_string", "old_subscription", _SUB_STRING_PART),
            Part("new_sub_string", "new_subscription", _SUB_STRING_PART),
            Part("old_expression_type", "old_subscription", _EXPRESSION_TYPE),
            Part("new_expression_type", "new_subscription", _EXPRESSION_TYPE),
        ),
    ),
    _line(
        "subscription_removed",
        "^subscription changed, group: <consumer_group> remove topic <topic> "
        r"<subscription:SubscriptionData \[[^\n]*>",
        meaning="no client of the group subscribes to the topic any more",
        source=_GROUP_INFO,
        parts=(
            Part("sub_string", "subscription", _SUB_STRING_PART),
            Part("expression_type", "subscription", _EXPRESSION_TYPE),
        ),
    ),
    _line(
        "consumer_info_changed",
        r"^registerConsumer info changed ConsumerData \[groupName=<consumer_group>, "
        "consumeType=<consume_type:[A-Z_]{1,30}>, messageModel=<message_model:[A-Z_]{1,30}>, <detail:rest>",
        meaning="a heartbeat changed what the broker knows about a group",
        source="ClientManageProcessor 4.9.7, 4.9.8",
        parts=(Part("client_address", "detail", r"\]\] ([^ \]\n]{1,255})(?![^\n])"),),
        routine=True,
    ),
    _line(
        "consumer_info_changed",
        "^(?:heartBeatV2 )?ClientManageProcessor: registerConsumer info changed, SDK "
        r"address=<client_address:address>, consumerData=ConsumerData \[groupName=<consumer_group>, "
        "consumeType=<consume_type:[A-Z_]{1,30}>, messageModel=<message_model:[A-Z_]{1,30}>, <detail:rest>",
        meaning="a heartbeat changed what the broker knows about a group",
        source="ClientManageProcessor 5.3.3, 5.5.0",
        routine=True,
    ),
)

_POP = (
    pattern(
        (LogKind.POP,),
        "flow_control_pop",
        r"^Too much msgs unacked, then stop popping\. topic=<topic>, group=<consumer_group>, queueId=<queue_id:int>",
        meaning="the broker hands out nothing more of the queue: too many of its messages are not acknowledged "
        "(popInflightMessageThreshold)",
        source="PopMessageProcessor 5.3.3, 5.5.0",
    ),
    pattern(
        (LogKind.POP,),
        "offset_corrected",
        r"^Pop initial offset, because store is no correct, <topic:[^@,\n]{1,512}>@<consumer_group>@<queue_id:int>, "
        "<requested_offset:int>->(?:null|<corrected_offset:int>)",
        meaning="a POP group was sent to another offset",
        source="PopMessageProcessor 5.3.3, 5.5.0; apache/rocketmq#3503",
    ),
)

PATTERNS = (*_PULLS, *_OFFSETS, *_STATE_FILES, *_SLAVES, *_POP, *_MEMBERS)
