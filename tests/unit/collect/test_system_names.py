"""RocketMQ's own names are told from the users' by one definition."""

from __future__ import annotations

import pytest

from offsetguard.collect.system_names import TopicKind, is_lite_topic, is_system_group, topic_kind

OWN_NAMES = frozenset({"broker-a", "DefaultCluster"})


@pytest.mark.parametrize(
    ("topic", "kind"),
    [
        ("orders", TopicKind.NORMAL),
        ("%RETRY%billing", TopicKind.RETRY),
        ("%DLQ%billing", TopicKind.DEAD_LETTER),
        ("TBW102", TopicKind.SYSTEM),
        ("OFFSET_MOVED_EVENT", TopicKind.SYSTEM),
        ("RMQ_SYS_TRACE_TOPIC", TopicKind.SYSTEM),
        ("rmq_sys_wheel_timer", TopicKind.SYSTEM),
        ("RMQ_SYS_OF_MINE", TopicKind.NORMAL),
        ("broker-a", TopicKind.SYSTEM),
        ("broker-b", TopicKind.NORMAL),
        ("DefaultCluster", TopicKind.SYSTEM),
        ("DefaultCluster_REPLY_TOPIC", TopicKind.SYSTEM),
        ("MY_REPLY_TOPIC", TopicKind.NORMAL),
    ],
)
def test_topics(topic: str, kind: TopicKind) -> None:
    assert topic_kind(topic, OWN_NAMES) is kind


@pytest.mark.parametrize(
    ("group", "system"),
    [("CID_RMQ_SYS_TRANS", True), ("TOOLS_CONSUMER", True), ("OFFSETGUARD_MONITOR", True), ("CID_orders", False)],
)
def test_groups(group: str, system: bool) -> None:
    assert is_system_group(group) is system


def test_lite_topics() -> None:
    assert is_lite_topic("%LMQ%parent$chat")
    assert not is_lite_topic("%RETRY%billing")
