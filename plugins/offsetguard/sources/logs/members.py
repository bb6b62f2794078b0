"""broker.log: which clients belong to a consumer group, and what they subscribe to.

Source: ConsumerGroupInfo, ConsumerManager, ClientManageProcessor of 4.9.7, 4.9.8, 5.3.3 and 5.5.0.
"""

from __future__ import annotations

from offsetguard.sources.logs.pattern import ADDRESS, CLIENT, INT, NAME, REST, LogKind, Part, Pattern, integers, text

_LOGS = (LogKind.BROKER,)
_CHANNEL = Part("client_address", "channel", r"R:/?([^\] \n]{1,255})")
_CHANNEL_INFO = f"ClientChannelInfo \\[channel={CLIENT}, clientId={CLIENT}, language=([A-Z_]{{1,20}}), version={INT}"
_CHANNEL_FIELDS = (*text("channel", "client_id", "language"), *integers("client_version"))
_GROUP_INFO = "ConsumerGroupInfo 4.9.7, 4.9.8, 5.3.3, 5.5.0"
_EXPRESSION_TYPE = r"expressionType=([A-Za-z0-9_]{1,50})"
_SUBSCRIPTION = r"(SubscriptionData \[[^\n]*)"
_TOPIC_PART = r"topic=([^,\n]{1,512}), subString="
_SUB_STRING_PART = r"subString=([^\n]*), tagsSet=\["

PATTERNS = (
    Pattern(
        kind="consumer_connected",
        log_kinds=_LOGS,
        must_contain="new consumer connected, group: ",
        regex=f"^new consumer connected, group: {NAME} ([A-Z_]{{1,30}}) ([A-Z_]{{1,30}}) channel: {_CHANNEL_INFO}",
        fields=(*text("consumer_group", "consume_type", "message_model"), *_CHANNEL_FIELDS),
        parts=(_CHANNEL,),
        meaning="a client joined its group on this broker",
        source=_GROUP_INFO,
    ),
    Pattern(
        kind="consumer_unregistered",
        log_kinds=_LOGS,
        must_contain="unregister a consumer[",
        regex=f"^unregister a consumer\\[([^\\]\\n]{{1,512}})\\] from consumerGroupInfo {_CHANNEL_INFO}",
        fields=(*text("consumer_group"), *_CHANNEL_FIELDS),
        parts=(_CHANNEL,),
        meaning="a client left its group as it should: with shutdown()",
        source=_GROUP_INFO,
    ),
    Pattern(
        kind="channel_removed",
        log_kinds=_LOGS,
        must_contain="remove not active channel[",
        regex=f"^NETTY EVENT: remove not active channel\\[{_CHANNEL_INFO}"
        + r", lastUpdateTimestamp=[0-9]{1,20}\]\] from ConsumerGroupInfo groupChannelTable, consumer group: "
        + NAME,
        fields=(*_CHANNEL_FIELDS, *text("consumer_group")),
        parts=(_CHANNEL,),
        meaning="a client's connection broke: it died, or it stopped without shutdown()",
        source=_GROUP_INFO,
    ),
    Pattern(
        kind="channel_expired",
        log_kinds=_LOGS,
        must_contain="SCAN: remove expired channel from ConsumerManager consumerTable. channel=",
        regex=r"^SCAN: remove expired channel from ConsumerManager consumerTable\. "
        + f"channel={CLIENT}, consumerGroup={NAME}",
        fields=text("channel", "consumer_group"),
        parts=(_CHANNEL,),
        meaning="a client sent no heartbeat for 120 s",
        source="ConsumerManager 4.9.7, 5.5.0",
    ),
    Pattern(
        kind="group_offline",
        log_kinds=_LOGS,
        must_contain="unregister consumer ok, no any connection",
        regex=f"^unregister consumer ok, no any connection, and remove consumer group, {NAME}",
        fields=text("consumer_group"),
        meaning="the last client of the group left this broker",
        source="ConsumerManager 4.9.7, 4.9.8, 5.3.3, 5.5.0",
    ),
    Pattern(
        kind="client_id_changed",
        log_kinds=_LOGS,
        must_contain="consumer channel exist",
        regex=r"^(?:\[BUG\]|ConsumerGroupInfo:) consumer channel exists? in broker, but clientId "
        + f"(?:not equal\\. GROUP: |is not the same one, group=){NAME},? {REST}",
        fields=text("consumer_group", "detail"),
        meaning="one connection registered a second client id for the group",
        source=_GROUP_INFO,
    ),
    Pattern(
        kind="subscription_added",
        log_kinds=_LOGS,
        must_contain="subscription changed, add new topic, group: ",
        regex=f"^subscription changed, add new topic, group: {NAME} {_SUBSCRIPTION}",
        fields=text("consumer_group", "subscription"),
        parts=(
            Part("topic", "subscription", _TOPIC_PART),
            Part("sub_string", "subscription", _SUB_STRING_PART),
            Part("expression_type", "subscription", _EXPRESSION_TYPE),
        ),
        meaning="the group subscribed to a topic",
        source=_GROUP_INFO,
    ),
    Pattern(
        # `\3` and `\4` say that nothing but subVersion differs; it rises with every rebalance of a healthy group.
        kind="subscription_refreshed",
        log_kinds=_LOGS,
        must_contain="subscription changed, group: ",
        regex=f"^subscription changed, group: {NAME} OLD: SubscriptionData "
        + r"\[classFilterMode=[a-z]{4,5}, topic=([^,\n]{1,512}), ([^\n]*), subVersion=-?[0-9]{1,20}, "
        + _EXPRESSION_TYPE
        + r"\] NEW: SubscriptionData \[classFilterMode=[a-z]{4,5}, topic=\2, \3, subVersion=-?[0-9]{1,20}, "
        + r"expressionType=\4\]",
        fields=text("consumer_group", "topic", "expression", "expression_type"),
        parts=(Part("sub_string", "expression", _SUB_STRING_PART),),
        meaning="the same subscription with a newer version: printed for healthy groups at every rebalance",
        source=_GROUP_INFO,
    ),
    Pattern(
        kind="subscription_changed",
        log_kinds=_LOGS,
        must_contain="subscription changed, group: ",
        regex=f"^subscription changed, group: {NAME} OLD: {_SUBSCRIPTION} NEW: {_SUBSCRIPTION}",
        fields=text("consumer_group", "old_subscription", "new_subscription"),
        parts=(
            Part("topic", "new_subscription", _TOPIC_PART),
            Part("old_sub_string", "old_subscription", _SUB_STRING_PART),
            Part("new_sub_string", "new_subscription", _SUB_STRING_PART),
            Part("old_expression_type", "old_subscription", _EXPRESSION_TYPE),
            Part("new_expression_type", "new_subscription", _EXPRESSION_TYPE),
        ),
        meaning="the expression itself changed: a release, or two clients of one group that differ and lose messages",
        source=_GROUP_INFO,
    ),
    Pattern(
        kind="subscription_removed",
        log_kinds=_LOGS,
        must_contain=" remove topic ",
        regex=f"^subscription changed, group: {NAME} remove topic {NAME} {_SUBSCRIPTION}",
        fields=text("consumer_group", "topic", "subscription"),
        parts=(
            Part("sub_string", "subscription", _SUB_STRING_PART),
            Part("expression_type", "subscription", _EXPRESSION_TYPE),
        ),
        meaning="no client of the group subscribes to the topic any more",
        source=_GROUP_INFO,
    ),
    Pattern(
        kind="consumer_info_changed",
        log_kinds=_LOGS,
        must_contain="registerConsumer info changed",
        regex=r"^registerConsumer info changed ConsumerData \[groupName="
        + f"{NAME}, consumeType=([A-Z_]{{1,30}}), messageModel=([A-Z_]{{1,30}}), {REST}",
        fields=text("consumer_group", "consume_type", "message_model", "detail"),
        parts=(Part("client_address", "detail", r"\]\] ([^ \]\n]{1,255})(?![^\n])"),),
        meaning="a heartbeat changed what the broker knows about a group",
        source="ClientManageProcessor 4.9.7, 4.9.8",
        routine=True,
    ),
    Pattern(
        kind="consumer_info_changed",
        log_kinds=_LOGS,
        must_contain="ClientManageProcessor: registerConsumer info changed",
        regex=r"^(?:heartBeatV2 )?ClientManageProcessor: registerConsumer info changed, SDK address="
        + f"{ADDRESS}, consumerData=ConsumerData \\[groupName={NAME}, consumeType=([A-Z_]{{1,30}}), "
        + f"messageModel=([A-Z_]{{1,30}}), {REST}",
        fields=text("client_address", "consumer_group", "consume_type", "message_model", "detail"),
        meaning="a heartbeat changed what the broker knows about a group",
        source="ClientManageProcessor 5.3.3, 5.5.0",
        routine=True,
    ),
)
