"""Running info of real clients, rates and lists of names, 4.9.x, 5.3.3 and 5.5.1, as records."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from offsetguard.model.offsets import MessageQueue
from offsetguard.sources.rocketmq import broker_figures, broker_settings, consumers
from offsetguard.sources.rocketmq.json_fields import MalformedBytes

BODIES = Path(__file__).parent / "bodies"


def running_info(name: str) -> consumers.ConsumerRunningInfo:
    return consumers.consumer_running_info((BODIES / f"307_{name}.json").read_bytes())


def utc(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def test_an_orderly_client_of_4_9_says_what_it_holds() -> None:
    info = running_info("4.9.8")
    assert (info.orderly, info.client_version_name, info.thread_count) == (True, "V4_9_8", 20)
    assert (info.max_reconsume_times, info.pull_threshold_for_queue, info.pull_threshold_size_for_queue_mib) == (
        -1,
        1000,
        100,
    )
    assert info.consumer_start_at == utc(1795247596929)
    assert len(info.queues) == 10
    assert info.queues[MessageQueue("OrderPay", "broker-a", 0)] == consumers.ProcessQueueInfo(
        commit_offset=673,
        cached_message_count=0,
        cached_message_mib=0,
        cached_min_offset=None,
        cached_max_offset=None,
        transaction_message_count=0,
        locked=True,
        dropped=False,
        last_lock_at=utc(1795247718265),
        last_pull_at=utc(1795247733955),
        last_consume_at=utc(1795247733960),
    )
    assert [(one.topic, one.sub_string) for one in info.subscriptions] == [
        ("%RETRY%G_ORDER_PAY", "*"),
        ("OrderPay", "*"),
    ]
    assert info.statuses["OrderPay"].consume_ok_tps > 0
    assert info.pop_queues == {}


def test_a_concurrent_client_of_5_x_is_not_orderly_and_says_locked_all_the_same() -> None:
    info = running_info("5.5.1")
    assert (info.orderly, info.client_version_name) == (False, "V5_5_0")
    assert all(queue.locked for queue in info.queues.values())


def test_a_client_that_has_nothing_to_commit_says_no_offset() -> None:
    """It says -1, which is no offset; later it says what it has stored in its own file."""
    fresh = b'{"mqTable":{{"brokerName":"b","queueId":0,"topic":"T"}:{"commitOffset":-1}}}'
    assert [queue.commit_offset for queue in consumers.consumer_running_info(fresh).queues.values()] == [None]
    assert [queue.commit_offset for queue in running_info("5.5.1-broadcasting").queues.values()] == [163, 163]


def test_a_client_that_pops_says_how_many_messages_wait_for_its_acknowledgement() -> None:
    info = running_info("5.5.1-pop")
    assert info.pop_queues == {
        MessageQueue("tasks", "broker-a", -1): consumers.PopProcessQueueInfo(76, False, utc(1795251838541))
    }
    assert set(info.queues) == {MessageQueue("%RETRY%pop-remote", "broker-a", 0)}


QUEUE = '{"topic":"T","brokerName":"b","queueId":0}'
GO = f"""{{"properties":{{"PROP_CONSUMEORDERLY":"false"}},"statusTable":null,"subscriptionSet":[{{
"classFilterMode":false,"topic":"T",
"subString":"a || b","tagsSet":["a","b"],"codeSet":["97","98"],"subVersion":1,"expressionType":"TAG"}}],
"mqTable":{{{QUEUE}:{{"commitOffset":7,"cachedMsgCount":0,"locked":true,"dropped":true,"lastPullTimestamp":-6795364578871}}}},
"jstack":"" }}"""
CPP = """{"mqTable":{{
   "brokerName" : "b",
   "queueId" : 0,
   "topic" : "T"
}:{
   "cachedMsgCount" : 2,
   "cachedMsgMaxOffset" : "9",
   "cachedMsgMinOffset" : "7",
   "commitOffset" : "7",
   "droped" : false,
   "lastPullTimestamp" : "1795214822995",
   "locked" : false
}},"jstack":"","properties":{"PROP_CONSUMEORDERLY":"true"},
"subscriptionSet":[{"subString":"*","subVersion":"1795214821786","topic":"T"}]}"""


def test_a_client_in_go_spells_dropped_otherwise_and_never_is_a_negative_time() -> None:
    info = consumers.consumer_running_info(GO.encode())
    (queue,) = info.queues.values()
    assert (queue.commit_offset, queue.dropped, queue.locked, queue.last_pull_at) == (7, True, True, None)
    assert [(one.topic, one.sub_string) for one in info.subscriptions] == [("T", "a || b")]
    assert (info.orderly, info.statuses) == (False, {})


def test_a_client_in_cpp_writes_numbers_as_texts() -> None:
    info = consumers.consumer_running_info(CPP.encode())
    assert set(info.queues) == {MessageQueue("T", "b", 0)}
    (queue,) = info.queues.values()
    assert (queue.commit_offset, queue.cached_min_offset, queue.cached_max_offset) == (7, 7, 9)
    assert queue.last_pull_at == utc(1795214822995)
    assert [(one.topic, one.sub_string, one.sub_version) for one in info.subscriptions] == [("T", "*", 1795214821786)]
    assert info.orderly is True


def test_what_a_client_of_another_language_does_not_say_is_unknown() -> None:
    info = consumers.consumer_running_info(
        b'{"properties":{"PROP_CLIENT_VERSION":"v2.1"},"mqTable":{{"brokerName":"b","queueId":0,"topic":"T"}:{}}}'
    )
    assert (info.orderly, info.thread_count, info.consumer_start_at) == (None, None, None)
    assert info.queues == {
        MessageQueue("T", "b", 0): consumers.ProcessQueueInfo(*[None] * 11)  # type: ignore[arg-type]
    }


@pytest.mark.parametrize("text", ["", "many", "1.5", "99999999999", "²", "-", "9" * 5000])
def test_settings_that_are_no_number_are_unknown(text: str) -> None:
    info = consumers.ConsumerRunningInfo(
        {"PROP_THREADPOOL_CORE_SIZE": text, "PROP_CONSUMER_START_TIMESTAMP": "9" * 20}, (), {}
    )
    assert (info.thread_count, info.consumer_start_at) == (None, None)


def test_the_range_of_the_cache_is_known_while_something_is_cached() -> None:
    info = consumers.consumer_running_info(
        b'{"mqTable":{{"brokerName":"b","queueId":0,"topic":"T"}:'
        b'{"cachedMsgCount":3,"cachedMsgMinOffset":0,"cachedMsgMaxOffset":2}}}'
    )
    (queue,) = info.queues.values()
    assert (queue.cached_message_count, queue.cached_min_offset, queue.cached_max_offset) == (3, 0, 2)


def test_rates_have_three_windows() -> None:
    stats = broker_figures.broker_stats((BODIES / "315_5.3.3.json").read_bytes())
    assert stats == broker_figures.BrokerStats(
        minute=broker_figures.StatsSnapshot(293, 4.883333333333334, 1.0),
        hour=broker_figures.StatsSnapshot(0, 0.0, 0.0),
        day=broker_figures.StatsSnapshot(0, 0.0, 0.0),
    )


def test_a_list_of_names() -> None:
    topics = broker_settings.topic_list((BODIES / "305_5.3.3.json").read_bytes()).topics
    assert "CHECKPOINT_TOPIC" in topics


@pytest.mark.parametrize(
    ("decoder", "text", "names"),
    [
        (consumers.consumer_running_info, '{"subscriptionSet":[{"topic":null}]}', "topic"),
        (consumers.consumer_running_info, '{"mqTable":{"T":{}}}', "no MessageQueue"),
        (
            consumers.consumer_running_info,
            '{"statusTable":{"T":{"pullTPS":1e999}}}',
            "pullTPS: expected a number",
        ),
        (consumers.consumer_running_info, '{"properties":[]}', "properties"),
        (broker_figures.broker_stats, "{}", "sum"),
        (broker_figures.broker_stats, '{"statsMinute":{"sum":1.5}}', "sum"),
        (broker_settings.topic_list, '{"topicList":[1]}', "topicList"),
        (broker_settings.topic_list, '{"topicList":{}}', "topicList"),
    ],
)
def test_a_body_with_a_wrong_field_is_malformed_and_the_field_is_named(
    decoder: Callable[[bytes], object], text: str, names: str
) -> None:
    with pytest.raises(MalformedBytes) as caught:
        decoder(text.encode())
    assert names in str(caught.value)
