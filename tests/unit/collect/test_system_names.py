"""RocketMQ's own names are told from the users' by one definition."""

import pytest

from offsetguard.collect.system_names import is_lite_topic, is_system_group, topic_kind

OWN_NAMES = frozenset({"broker-a", "DefaultCluster"})
SYSTEM = ["TBW102", "OFFSET_MOVED_EVENT", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_wheel_timer", "broker-a", "DefaultCluster"]
KINDS = {
    "%RETRY%billing": "retry",
    "%DLQ%billing": "dead_letter",
    **dict.fromkeys([*SYSTEM, "DefaultCluster_REPLY_TOPIC"], "system"),
    **dict.fromkeys(["orders", "RMQ_SYS_OF_MINE", "broker-b", "MY_REPLY_TOPIC"], "normal"),
}


@pytest.mark.parametrize("topic", KINDS)
def test_topics(topic: str) -> None:
    assert topic_kind(topic, OWN_NAMES) == KINDS[topic]


def test_groups() -> None:
    assert all(map(is_system_group, ("CID_RMQ_SYS_TRANS", "TOOLS_CONSUMER", "OFFSETGUARD_MONITOR")))
    assert not is_system_group("CID_orders")


def test_lite_topics() -> None:
    assert is_lite_topic("%LMQ%parent$chat")
    assert not is_lite_topic("%RETRY%billing")
