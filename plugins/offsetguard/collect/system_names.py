"""Which topics and groups are RocketMQ's own: the only definition.

Source: TopicValidator and MixAll, 4.9.8, 5.3.3 and 5.5.1. System topics and groups are recorded and never judged.
"""

from collections.abc import Collection
from enum import StrEnum
from functools import lru_cache

from offsetguard.sources.rocketmq.requests import MONITOR_GROUP

RETRY_PREFIX = "%RETRY%"
DEAD_LETTER_PREFIX = "%DLQ%"
LITE_PREFIX = "%LMQ%"  # lite topics (5.5): one per chat session, thousands of them, listed in no topic table
OFFSET_MOVED_EVENT = "OFFSET_MOVED_EVENT"
TOOLS_CONSUMER = "TOOLS_CONSUMER"

# `RMQ_SYS_...` names are listed one by one; the prefix rule is lower case only (TopicValidator.isSystemTopic).
_SYSTEM_TOPIC_PREFIX = "rmq_sys_"
_SYSTEM_TOPICS = frozenset(
    {
        "TBW102",
        "SCHEDULE_TOPIC_XXXX",
        "BenchmarkTest",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
        "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
        "RMQ_SYS_TRACE_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "CHECKPOINT_TOPIC",
        "DefaultHeartBeatSyncerTopic",
        OFFSET_MOVED_EVENT,
    }
)
_REPLY_TOPIC_SUFFIX = "_REPLY_TOPIC"
_SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
_SYSTEM_GROUPS = frozenset(
    {
        TOOLS_CONSUMER,
        "SCHEDULE_CONSUMER",
        "FILTERSRV_CONSUMER",
        "__MONITOR_CONSUMER",
        "SELF_TEST_C_GROUP",
        "DEFAULT_CONSUMER",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PULL",
        "CID_DefaultHeartBeatSyncerTopic",
        "DEFAULT_PRODUCER",
        "CLIENT_INNER_PRODUCER",
        "SELF_TEST_P_GROUP",
        MONITOR_GROUP,
    }
)


class TopicKind(StrEnum):
    """What a topic is for; the values of the column `topic_kind`."""

    NORMAL = "normal"
    RETRY = "retry"
    DEAD_LETTER = "dead_letter"
    SYSTEM = "system"


def topic_kind(topic: str, own_names: Collection[str] = ()) -> TopicKind:
    """Classify a topic.

    `own_names` are the names of the brokers and of the RocketMQ clusters (`brokerClusterName`, not the names in our
    configuration): each broker makes topics called like itself, like its cluster, and `<cluster>_REPLY_TOPIC`.
    """
    if topic.startswith(RETRY_PREFIX):
        return TopicKind.RETRY
    if topic.startswith(DEAD_LETTER_PREFIX):
        return TopicKind.DEAD_LETTER
    own = topic.removesuffix(_REPLY_TOPIC_SUFFIX) in own_names
    return (
        TopicKind.SYSTEM
        if own or topic in _SYSTEM_TOPICS or topic.startswith(_SYSTEM_TOPIC_PREFIX)
        else TopicKind.NORMAL
    )


@lru_cache(maxsize=16_384)  # a round asks for each group a dozen times
def is_system_group(consumer_group: str) -> bool:
    """Return True for RocketMQ's own groups."""
    return consumer_group in _SYSTEM_GROUPS or consumer_group.startswith(_SYSTEM_GROUP_PREFIX)


def is_lite_topic(topic: str) -> bool:
    """Return True for lite topics, whose offsets would flood every table: they get no queue rows."""
    return topic.startswith(LITE_PREFIX)
