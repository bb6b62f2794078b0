"""Bodies of live brokers and clients, 4.9.x, 5.3.3 and 5.5.x, as records; and what is not such a body."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from offsetguard.model.offsets import MessageQueue
from offsetguard.sources.rocketmq import brokers, consumers, offset_table, offsets, routes
from offsetguard.sources.rocketmq.json_fields import MalformedBytes
from offsetguard_peers.cases.running import for_each
from offsetguard_peers.fuzz.targets import BODY_DECODERS as DECODERS

BODIES = Path(__file__).parent / "bodies"
LINES = ("4.9.", "5.3.", "5.5.")
NEWER = {907: ("5.5.",)}  # what 4.x does not know
TOPICS = {"4.9.8": "Healthy", "5.3.3": "orders", "5.5.1": "orders"}
BROKER_A = routes.BrokerData("broker-a", "DefaultCluster", {0: "127.0.0.1:30110", 1: "127.0.0.1:30210"})
ROUTE = routes.TopicRoute((BROKER_A,), (routes.QueueData("broker-a", 4, 4, 6),))
QUEUE = '{"brokerName":"b","queueId":0,"topic":"T"}'
QUEUE_0 = MessageQueue("T", "b", 0)


def read(name: str) -> Any:
    """Read the body of `<code>_<version>`."""
    (file,) = BODIES.glob(f"{name}.*")
    return DECODERS[int(name.split("_", maxsplit=1)[0])](file.read_bytes())


def utc(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def test_every_body_has_a_decoder_and_every_decoder_a_body_of_each_line() -> None:
    seen = {tuple(file.name.split("_", 1)) for file in BODIES.iterdir()}
    for code in DECODERS:
        for line in NEWER.get(code, LINES):
            assert any(number == str(code) and name.startswith(line) for number, name in seen), (code, line)
    assert {int(number) for number, _ in seen} == set(DECODERS)


@for_each("file", sorted(BODIES.iterdir()), name_of=lambda file: file.stem)
def test_every_captured_body_is_read(file: Path) -> None:
    assert DECODERS[int(file.name.split("_")[0])](file.read_bytes())


def test_a_master_reads_from_nobody() -> None:
    body = b'{"haClientRuntimeInfo":{"lastReadTimestamp":0},"haConnectionInfo":[],"inSyncSlaveNums":1,"master":true}'
    assert brokers.last_replicated_at(body) is None


def topic_settings(topic: str) -> Callable[[Any], Any]:
    return lambda table: replace(table[topic], attributes={})


def queue_ends(stats: offsets.TopicStats) -> dict[MessageQueue, bool]:
    return {queue: 0 == one.min_offset < one.max_offset for queue, one in stats.queues.items()}


def members(group: consumers.ConsumerConnections) -> Any:
    assert all("@" in client.client_id and ":" in client.client_address for client in group.connections)
    return [(client.language, client.version) for client in group.connections], group.consume_type, group.message_model


def subscribed(found: Any) -> list[tuple[str, str]]:
    return [(one.topic, one.sub_string) for one in found.subscriptions]


@for_each(
    "name, part, expected",
    [
        ("907_5.5.0", lambda read_at: read_at, utc(1795802241374)),
        # routes and clusters
        ("106_5.3.3", lambda info: info, routes.ClusterInfo((BROKER_A,), {"DefaultCluster": ("broker-a",)})),
        (
            "106_4.9.8",
            lambda info: {b.broker_name: b.master_address for b in info.brokers}["broker-a"],
            "127.0.0.1:20110",
        ),
        ("106_4.9.8", lambda info: 1 in {b.broker_name: b for b in info.brokers}["broker-b"].addresses, False),
        ("105_5.3.3", lambda route: route, ROUTE),
        pytest.param("105_5.3.3-before-401", lambda route: route, ROUTE, id="a route in fastjson's dialect"),
        # settings
        *[
            (f"21_{version}", topic_settings(topic), brokers.TopicConfig(topic, 4, 4, 6, order=False))
            for version, topic in TOPICS.items()
        ],
        *[
            (
                f"201_{version}",
                lambda table, group=group: table[group],
                brokers.SubscriptionGroupConfig(
                    group,
                    consume_enable=True,
                    retry_max_times=16,
                    broker_id=0,
                    which_broker_when_consume_slowly=1,
                    consume_broadcast_enable=True,
                    consume_from_min_enable=True,
                    consume_message_orderly=orderly,
                    notify_consumer_ids_changed_enable=True,
                    retry_queue_nums=1,
                ),
            )
            for version, group, orderly in [
                ("4.9.8", "G_HEALTHY", None),
                ("5.3.3", "ledger", False),
                ("5.5.1", "ledger", False),
            ]
        ],
        *[
            (
                f"26_{version}",
                lambda settings: (
                    settings["brokerRole"],
                    settings["messageDelayLevel"][-5:],
                    settings["slaveReadEnable"],
                ),
                ("ASYNC_MASTER", "1h 2h", "true"),
            )
            for version in TOPICS
        ],
        ("305_5.3.3", lambda found: "CHECKPOINT_TOPIC" in found, True),
        # committed offsets: what broadcasting clients pulled, and the pull offsets of 5.5.0, are not mixed with them
        ("43_4.9.8", lambda table: table.offsets["NarrowTopic", "G_NARROW"], {0: 100, 1: 100}),
        ("43_4.9.8", lambda table: table.offsets["%RETRY%G_WIDE", "G_WIDE"], {0: 0}),
        ("43_4.9.8", lambda table: (table.broadcast_offsets, table.unreadable_keys), ({}, ())),
        ("43_5.5.1", lambda table: table.broadcast_offsets, {("payments", "cache-refresh"): {0: 163, 1: 162}}),
        ("43_5.5.1", lambda table: table.offsets["payments", "ledger"], {0: 163, 1: 162}),
        ("43_5.5.1", lambda table: {group for _, group in table.offsets}, {"billing", "ledger", "vip-mail"}),
        ("43_5.5.0", lambda table: table.offsets, {("t1", "g1"): {0: 0, 1: 0}}),
        ("43_5.5.1-lite", lambda table: table.offsets["%LMQ%$chat$session-10", "lite-readers"], {0: 3}),
        # consume stats: before 5.1 there is no pull offset, and 0 is no time
        (
            "208_4.9.8",
            lambda stats: stats,
            {
                MessageQueue("NarrowTopic", "broker-a", 0): offsets.ConsumeOffsets(100, 100, None, utc(1795248010958)),
                MessageQueue("NarrowTopic", "broker-a", 1): offsets.ConsumeOffsets(100, 100, None, utc(1795248010983)),
                MessageQueue("%RETRY%G_NARROW", "broker-a", 0): offsets.ConsumeOffsets(0, 0, None, None),
            },
        ),
        (
            "208_5.5.1",
            lambda stats: stats[MessageQueue("orders", "broker-a", 1)],
            offsets.ConsumeOffsets(249, 248, 249, utc(1795251137606)),
        ),
        *[
            (f"202_{version}", queue_ends, {MessageQueue(topic, "broker-a", queue_id): True for queue_id in range(4)})
            for version, topic in TOPICS.items()
        ],
        # a queue that never was committed has delayTime = now: 56 years of lag, if one believed it
        ("303_4.9.8", lambda spans: spans[MessageQueue("NarrowTopic", "broker-a", 0)].delay_ms, 0),
        ("303_4.9.8", lambda spans: spans[MessageQueue("NarrowTopic", "broker-a", 2)].delay_ms, None),
        (
            "303_5.5.1",
            lambda spans: spans[MessageQueue("orders", "broker-a", 1)],
            offsets.ConsumeTimeSpan(utc(1795250973949), 549),
        ),
        # who is connected, and what it says of itself
        *[
            (f"203_{version}", members, ([("JAVA", client)] * 2, "CONSUME_PASSIVELY", "CLUSTERING"))
            for version, client in [("4.9.8", 409), ("5.3.3", 479), ("5.5.1", 513)]
        ],
        *[
            (
                f"203_{version}",
                lambda group, topic=topic: group.subscriptions[topic],
                consumers.Subscription(topic, "*", "TAG"),
            )
            for version, topic in TOPICS.items()
        ],
        ("307_4.9.8", lambda info: (info.orderly, info.client_version_name, info.thread_count), (True, "V4_9_8", 20)),
        ("307_4.9.8", lambda info: (info.max_reconsume_times, info.pull_threshold_for_queue), (-1, 1000)),
        ("307_4.9.8", lambda info: info.pull_threshold_size_for_queue_mib, 100),
        ("307_4.9.8", lambda info: info.consumer_start_at, utc(1795247596929)),
        ("307_4.9.8", lambda info: (len(info.queues), info.pop_queues), (10, {})),
        (
            "307_4.9.8",
            lambda info: info.queues[MessageQueue("OrderPay", "broker-a", 0)],
            consumers.ProcessQueueInfo(
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
            ),
        ),
        ("307_4.9.8", subscribed, [("%RETRY%G_ORDER_PAY", "*"), ("OrderPay", "*")]),
        ("307_4.9.8", lambda info: info.statuses["OrderPay"].consume_ok_tps > 0, True),
        ("307_5.5.1", lambda info: (info.orderly, info.client_version_name), (False, "V5_5_0")),
        pytest.param(
            "307_5.5.1",
            lambda info: {queue.locked for queue in info.queues.values()},
            {True},
            id="a client that is not orderly says locked all the same",
        ),
        ("307_5.5.1-broadcasting", lambda info: [one.commit_offset for one in info.queues.values()], [163, 163]),
        (
            "307_5.5.1-pop",
            lambda info: info.pop_queues,
            {MessageQueue("tasks", "broker-a", -1): consumers.PopProcessQueueInfo(76, False, utc(1795251838541))},
        ),
        ("307_5.5.1-pop", lambda info: set(info.queues), {MessageQueue("%RETRY%pop-remote", "broker-a", 0)}),
        # rates
        (
            "315_5.3.3",
            lambda stats: stats,
            brokers.BrokerStats(
                minute=brokers.StatsSnapshot(293, 4.883333333333334, 1.0),
                hour=brokers.StatsSnapshot(0, 0.0, 0.0),
                day=brokers.StatsSnapshot(0, 0.0, 0.0),
            ),
        ),
    ],
)
def test_what_live_brokers_and_clients_said(name: str, part: Callable[[Any], Any], expected: object) -> None:
    assert part(read(name)) == expected


@pytest.mark.parametrize(("version", "named"), [("4.9.8", "V4_9_8"), ("5.3.3", "V5_3_3"), ("5.5.1", "V5_5_1")])
def test_runtime_info_has_typed_figures(version: str, named: str) -> None:
    info = read(f"28_{version}")
    assert info.broker_version_desc == named
    assert info.boot_at.year == 2026
    assert 0 < info.commit_log_disk_ratio < 1
    assert info.commit_log_max_offset is not None
    assert info.commit_log_min_offset == 0
    assert info.is_active is (None if version == "4.9.8" else True)
    assert len(info.tps("getFoundTps")) >= 1


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


def client_says(text: str) -> tuple[consumers.ConsumerRunningInfo, consumers.ProcessQueueInfo]:
    info = consumers.consumer_running_info(text.encode())
    assert set(info.queues) == {QUEUE_0}
    return info, info.queues[QUEUE_0]


def test_a_client_in_go_spells_dropped_otherwise_and_never_is_a_negative_time() -> None:
    info, queue = client_says(GO)
    assert (queue.commit_offset, queue.dropped, queue.locked, queue.last_pull_at) == (7, True, True, None)
    assert subscribed(info) == [("T", "a || b")]
    assert (info.orderly, info.statuses) == (False, {})


def test_a_client_in_cpp_writes_numbers_as_texts() -> None:
    info, queue = client_says(CPP)
    assert (queue.commit_offset, queue.cached_min_offset, queue.cached_max_offset) == (7, 7, 9)
    assert queue.last_pull_at == utc(1795214822995)
    assert subscribed(info) == [("T", "*")]
    assert info.orderly is True


def test_what_a_client_does_not_say_is_unknown() -> None:
    info, queue = client_says(f'{{"properties":{{"PROP_CLIENT_VERSION":"v2.1"}},"mqTable":{{{QUEUE}:{{}}}}}}')
    assert (info.orderly, info.thread_count, info.consumer_start_at) == (None, None, None)
    assert queue == consumers.ProcessQueueInfo(*[None] * 11)
    assert client_says(f'{{"mqTable":{{{QUEUE}:{{"commitOffset":-1}}}}}}')[1].commit_offset is None, "nothing to commit"


def test_the_range_of_the_cache_is_known_while_something_is_cached() -> None:
    cached = '{"cachedMsgCount":3,"cachedMsgMinOffset":0,"cachedMsgMaxOffset":2}'
    _, queue = client_says(f'{{"mqTable":{{{QUEUE}:{cached}}}}}')
    assert (queue.cached_message_count, queue.cached_min_offset, queue.cached_max_offset) == (3, 0, 2)


@pytest.mark.parametrize("text", ["", "many", "1.5", "99999999999", "²", "-", "9" * 5000])
def test_settings_that_are_no_number_are_unknown(text: str) -> None:
    settings = {"PROP_THREADPOOL_CORE_SIZE": text, "PROP_CONSUMER_START_TIMESTAMP": "9" * 20}
    info = consumers.ConsumerRunningInfo(settings, (), {})
    assert (info.thread_count, info.consumer_start_at) == (None, None)


def test_runtime_figures_that_are_none_are_none() -> None:
    info = brokers.BrokerRuntimeInfo(
        {"commitLogDiskRatio": "-1.0", "putTps": "0.0  ", "a": "null", "bootTimestamp": "9" * 30}
    )
    assert (info.commit_log_disk_ratio, info.boot_at, info.number("a"), info.integer("b")) == (None, None, None, None)
    assert info.tps("putTps") == (0.0,)
    assert info.tps("a") == info.tps("missing") == ()


def test_what_is_not_there_is_unknown_and_not_1970_or_0() -> None:
    no_master = (
        b'{"brokerAddrTable":{"b":{"brokerAddrs":{1:"h:1"},"brokerName":"b","cluster":"c"}},"clusterAddrTable":{}}'
    )
    assert routes.cluster_info(no_master).brokers[0].master_address is None
    assert offsets.consume_stats(b'{"consumeTps":0.0,"offsetTable":{}}') == {}
    empty = f'{{"offsetTable":{{{QUEUE}:{{"lastUpdateTimestamp":0,"maxOffset":0,"minOffset":0}}}}}}'
    assert offsets.topic_stats(empty.encode()).queues == {QUEUE_0: offsets.TopicOffsets(0, 0, None)}


def test_keys_that_are_not_topic_at_group_are_kept_apart_and_not_lost() -> None:
    table = offset_table.all_consumer_offsets(
        b'{"offsetTable":{"T":{0:1},"T@":{0:1},"@G":{},"T@G@else":{0:1},"T@G":{}}}'
    )
    assert table.unreadable_keys == ("T", "T@", "@G", "T@G@else")
    assert table.offsets == {("T", "G"): {}}
    assert offset_table.all_consumer_offsets(b'{"pullOffsetTable":{"T":{}}}').unreadable_keys == ("T",)


def test_a_config_value_may_contain_equals_signs() -> None:
    assert brokers.broker_config(b"a=b=c\nno value\nd=\n") == {"a": "b=c", "d": ""}


def of_queue(fields: str) -> str:
    return f'{{"offsetTable":{{{QUEUE}:{fields}}}}}'


@for_each(
    "code, text, names",
    [
        (43, '{"offsetTable":[]}', "offsetTable: expected an object"),
        (202, '{"offsetTable":[]}', "offsetTable: expected an object"),
        (105, '{"brokerDatas":[{"brokerAddrs":{0:5},"brokerName":"b","cluster":"c"}]}', "address of 0"),
        (203, '{"connectionSet":[{"clientId":null}]}', "clientId"),
        (203, '{"connectionSet":{}}', "connectionSet: expected a list"),
        (28, "[]", "expected an object"),
        (307, '{"subscriptionSet":[{"topic":null}]}', "topic"),
        (307, '{"mqTable":{"T":{}}}', "no MessageQueue"),
        (307, '{"statusTable":{"T":{"pullTPS":1e999}}}', "pullTPS: expected a number"),
        (307, '{"properties":[]}', "properties"),
        (315, "{}", "sum"),
        (315, '{"statsMinute":{"sum":1.5}}', "sum"),
        (305, '{"topicList":{}}', "topicList"),
    ],
)
def test_a_body_with_a_wrong_field_is_malformed_and_the_field_is_named(code: int, text: str, names: str) -> None:
    with pytest.raises(MalformedBytes) as caught:
        DECODERS[code](text.encode())
    assert names in str(caught.value)


RIGHT_TOPIC = '"right":{"readQueueNums":1,"writeQueueNums":1,"perm":6}'
RIGHT_SPAN = '{"messageQueue":{"topic":"right","brokerName":"b","queueId":0},"delayTime":1}'
RIGHT_BROKER = '"right":{"brokerAddrs":{0:"h:1"},"brokerName":"right","cluster":"c"}'


@for_each(
    "code, text, entry, why",
    [
        *(
            (
                21,
                f'{{"topicConfigTable":{{"wrong":{{"readQueueNums":1,"writeQueueNums":1{perm}}},{RIGHT_TOPIC}}}}}',
                *rest,
            )
            for perm, *rest in (
                ("", "wrong", "perm: expected a 64-bit number, found None"),
                (',"perm":null', "wrong", "perm: expected a 64-bit number, found None"),
                (',"perm":"6"', "wrong", "perm: expected a 64-bit number, found '6'"),
                (',"perm":6,"order":"yes"', "wrong", "order: expected true or false"),
            )
        ),
        (21, f'{{"topicConfigTable":{{"wrong":[],{RIGHT_TOPIC}}}}}', "wrong", "wrong: expected an object"),
        (201, '{"subscriptionGroupTable":{"wrong":{"retryMaxTimes":"x"},"right":{}}}', "wrong", "retryMaxTimes"),
        (202, of_queue('{"maxOffset":1}').replace("}}}", '}},"T":{}}', 1)[:-9] + "}}", QUEUE, "minOffset"),
        (106, f'{{"brokerAddrTable":{{"wrong":{{}},{RIGHT_BROKER}}}}}', "wrong", "brokerName: expected a text"),
        (
            106,
            f'{{"brokerAddrTable":{{"b":{{"brokerAddrs":{{0:5,1:"h:2"}},"brokerName":"b","cluster":"c"}},{RIGHT_BROKER}}}}}',
            "b 0",
            "address of 0: expected a text, found 5",
        ),
        (106, f'{{"brokerAddrTable":{{{RIGHT_BROKER}}},"clusterAddrTable":{{"wrong":[5]}}}}', "wrong", "list of texts"),
        (208, of_queue('{"brokerOffset":1.5,"consumerOffset":0}'), QUEUE, "brokerOffset"),
        (
            208,
            of_queue('{"brokerOffset":1,"consumerOffset":0,"lastTimestamp":9000000000000000}'),
            QUEUE,
            "lastTimestamp: expected a time",
        ),
        (303, f'{{"consumeTimeSpanSet":[{{"delayTime":1}},{RIGHT_SPAN}]}}', "consumeTimeSpanSet[0]", "queueId"),
        (303, f'{{"consumeTimeSpanSet":[{RIGHT_SPAN},5]}}', "consumeTimeSpanSet[1]", "expected an object, found 5"),
        (305, '{"topicList":["right",1]}', "topicList[1]", "expected a text, found 1"),
        *(
            (43, f'{{"offsetTable":{{"wrong@g":{row},"right@g":{{0:1}}}}}}', "wrong@g", why)
            for row, why in (
                ("[1]", "wrong@g: expected an object"),
                ('{0:"1"}', "wrong@g: expected a 64-bit number"),
                ("{0:1.5}", "found 1.5"),
                ("{0:true}", "found True"),
                ("{0:9223372036854775808}", "wrong@g: expected a 64-bit"),
                (f"{{0:{'9' * 4000}}}", "a number of"),
                ('{"x":1}', "expected a number as key"),
                ("{99999999999:1}", "expected a number as key"),
            )
        ),
    ],
)
def test_an_entry_that_is_wrong_costs_itself_and_is_named(code: int, text: str, entry: str, why: str) -> None:
    answer = DECODERS[code](text.encode())
    assert list(answer.unreadable) == [entry]
    assert why in answer.unreadable[entry]
    assert code in {202, 208} or "right" in _names(answer)


def _names(answer: object) -> set[str]:
    """Return what the entries are called that could be read: brokers, topics, topics of queues or of offsets."""
    if isinstance(answer, offset_table.AllConsumerOffsets):
        return {topic for topic, _ in answer.offsets}
    found = [one.broker_name for one in answer.brokers] if isinstance(answer, routes.ClusterInfo) else answer
    return {one.topic if isinstance(one, MessageQueue) else one for one in found}


@pytest.mark.parametrize("text", [None, "", "x", "1.5", "9223372036854775808", "9" * 5000])
def test_an_offset_in_a_header_must_be_a_64_bit_number(text: str | None) -> None:
    with pytest.raises(MalformedBytes, match="offset"):
        offsets.offset_field({} if text is None else {"offset": text})
