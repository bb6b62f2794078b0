"""Bodies of live brokers, 4.9.8, 5.3.3 and 5.5.x, as records; and what is not such a body."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetguard.model.offsets import MessageQueue
from offsetguard.sources.rocketmq import broker_figures, broker_settings, consumers, offset_table, offsets, routes
from offsetguard.sources.rocketmq.json_fields import MalformedBytes
from offsetguard_peers.cases.running import examples, for_each
from offsetguard_peers.fuzz.targets import BODY_DECODERS as DECODERS

BODIES = Path(__file__).parent / "bodies"
VERSIONS = ("4.9.8", "5.3.3", "5.5.1")
LINES = ("4.9.", "5.3.", "5.5.")
JSON_DECODERS = [decoder for code, decoder in DECODERS.items() if code != 26]


def body(name: str) -> bytes:
    """Read the only file of that code and version."""
    (file,) = BODIES.glob(f"{name}.*")
    return file.read_bytes()


def utc(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def test_every_body_has_a_decoder_and_every_decoder_a_body_of_each_line() -> None:
    seen = {tuple(file.name.split("_", 1)) for file in BODIES.iterdir()}
    for code in DECODERS:
        for line in LINES:
            assert any(number == str(code) and name.startswith(line) for number, name in seen), (code, line)
    assert {int(number) for number, _ in seen} == set(DECODERS)


@for_each("file", sorted(BODIES.iterdir()), name_of=lambda file: file.stem)
def test_every_captured_body_is_read(file: Path) -> None:
    assert DECODERS[int(file.name.split("_")[0])](file.read_bytes())


def test_cluster_info_gives_addresses_by_broker_id() -> None:
    assert routes.cluster_info(body("106_5.3.3")) == routes.ClusterInfo(
        (routes.BrokerData("broker-a", "DefaultCluster", {0: "127.0.0.1:30110", 1: "127.0.0.1:30210"}),),
        {"DefaultCluster": ("broker-a",)},
    )
    brokers = {broker.broker_name: broker for broker in routes.cluster_info(body("106_4.9.8")).brokers}
    assert brokers["broker-a"].master_address == "127.0.0.1:20110"
    assert 1 not in brokers["broker-b"].addresses


def test_a_broker_without_master_has_no_master_address() -> None:
    info = routes.cluster_info(
        b'{"brokerAddrTable":{"b":{"brokerAddrs":{1:"h:1"},"brokerName":"b","cluster":"c"}},"clusterAddrTable":{}}'
    )
    assert info.brokers[0].master_address is None


@pytest.mark.parametrize("name", ["105_5.3.3", "105_5.3.3-before-401"])
def test_a_route_is_the_same_in_both_dialects(name: str) -> None:
    assert routes.topic_route(body(name)) == routes.TopicRoute(
        (routes.BrokerData("broker-a", "DefaultCluster", {0: "127.0.0.1:30110", 1: "127.0.0.1:30210"}),),
        (routes.QueueData("broker-a", 4, 4, 6),),
    )


@pytest.mark.parametrize(("version", "topic"), [("4.9.8", "Healthy"), ("5.3.3", "orders"), ("5.5.1", "orders")])
def test_topic_settings(version: str, topic: str) -> None:
    configured = broker_settings.topic_config_table(body(f"21_{version}")).topics[topic]
    assert (configured.topic, configured.read_queue_nums, configured.write_queue_nums, configured.perm) == (
        topic,
        4,
        4,
        6,
    )
    assert configured.order is False


@pytest.mark.parametrize(("version", "group"), [("4.9.8", "G_HEALTHY"), ("5.3.3", "ledger"), ("5.5.1", "ledger")])
def test_group_settings(version: str, group: str) -> None:
    configured = broker_settings.subscription_group_table(body(f"201_{version}")).groups[group]
    assert configured == broker_settings.SubscriptionGroupConfig(
        group_name=group,
        consume_enable=True,
        retry_max_times=16,
        broker_id=0,
        which_broker_when_consume_slowly=1,
    )


def test_committed_offsets_by_topic_and_group() -> None:
    table = offset_table.all_consumer_offsets(body("43_4.9.8"))
    assert table.offsets["NarrowTopic", "G_NARROW"] == {0: 100, 1: 100}
    assert table.offsets["%RETRY%G_WIDE", "G_WIDE"] == {0: 0}
    assert (table.broadcast_offsets, table.pull_offsets, table.unreadable_keys) == ({}, {}, ())


def test_what_broadcasting_clients_pulled_is_not_mixed_with_commits() -> None:
    table = offset_table.all_consumer_offsets(body("43_5.5.1"))
    assert table.broadcast_offsets == {("payments", "cache-refresh"): {0: 163, 1: 162}}
    assert table.offsets["payments", "ledger"] == {0: 163, 1: 162}
    assert {group for _, group in table.offsets} == {"billing", "ledger", "vip-mail"}


def test_the_pull_offset_table_of_5_5_0_is_not_mixed_with_commits() -> None:
    table = offset_table.all_consumer_offsets(body("43_5.5.0"))
    assert table.offsets == {("t1", "g1"): {0: 0, 1: 0}}
    assert table.pull_offsets == {("t1", "g1"): {0: 0}}


def test_lite_topics_keep_their_names() -> None:
    assert offset_table.all_consumer_offsets(body("43_5.5.1-lite")).offsets[
        "%LMQ%$chat$session-10", "lite-readers"
    ] == {0: 3}


def test_keys_that_are_not_topic_at_group_are_kept_apart_and_not_lost() -> None:
    table = offset_table.all_consumer_offsets(
        b'{"offsetTable":{"T":{0:1},"T@":{0:1},"@G":{},"T@G@else":{0:1},"T@G":{}}}'
    )
    assert table.unreadable_keys == ("T", "T@", "@G", "T@G@else")
    assert table.offsets == {("T", "G"): {}}
    assert offset_table.all_consumer_offsets(b'{"pullOffsetTable":{"T":{}}}').unreadable_keys == ("T",)


def test_consume_stats_before_5_1_know_no_pull_offset_and_0_is_no_time() -> None:
    stats = offsets.consume_stats(body("208_4.9.8"))
    assert stats.consume_tps == 0.0
    assert stats.queues == {
        MessageQueue("NarrowTopic", "broker-a", 0): offsets.ConsumeOffsets(100, 100, None, utc(1795248010958)),
        MessageQueue("NarrowTopic", "broker-a", 1): offsets.ConsumeOffsets(100, 100, None, utc(1795248010983)),
        MessageQueue("%RETRY%G_NARROW", "broker-a", 0): offsets.ConsumeOffsets(0, 0, None, None),
    }


def test_consume_stats_since_5_1_know_the_pull_offset() -> None:
    stats = offsets.consume_stats(body("208_5.5.1"))
    assert stats.queues[MessageQueue("orders", "broker-a", 1)] == offsets.ConsumeOffsets(
        249, 248, 249, utc(1795251137606)
    )


def test_a_group_without_any_commit_has_no_queues() -> None:
    assert offsets.consume_stats(b'{"consumeTps":0.0,"offsetTable":{}}').queues == {}


@pytest.mark.parametrize(("version", "topic"), [("4.9.8", "Healthy"), ("5.3.3", "orders"), ("5.5.1", "orders")])
def test_topic_stats_of_every_queue(version: str, topic: str) -> None:
    queues = offsets.topic_stats(body(f"202_{version}")).queues
    assert set(queues) == {MessageQueue(topic, "broker-a", queue_id) for queue_id in range(4)}
    assert all(0 == offsets.min_offset < offsets.max_offset for offsets in queues.values())


def test_the_time_of_an_empty_queue_is_unknown_and_not_1970() -> None:
    stats = offsets.topic_stats(
        b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:{"lastUpdateTimestamp":0,"maxOffset":0,"minOffset":0}}}'
    )
    assert stats.queues == {MessageQueue("T", "b", 0): offsets.TopicOffsets(0, 0, None)}


@pytest.mark.parametrize(
    ("version", "topic", "client_version"),
    [("4.9.8", "Healthy", 409), ("5.3.3", "orders", 479), ("5.5.1", "orders", 513)],
)
def test_connections_of_a_group(version: str, topic: str, client_version: int) -> None:
    group = consumers.consumer_connections(body(f"203_{version}"))
    assert [(client.language, client.version) for client in group.connections] == [("JAVA", client_version)] * 2
    assert all("@" in client.client_id and ":" in client.client_address for client in group.connections)
    assert (group.consume_type, group.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
    subscription = group.subscriptions[topic]
    assert (subscription.sub_string, subscription.expression_type, subscription.tags) == ("*", "TAG", frozenset())


def test_the_age_of_the_first_unconsumed_message_and_the_one_that_is_none() -> None:
    """A queue that never was committed has delayTime = now: 56 years of lag, if one believed it."""
    queues = offsets.consume_time_spans(body("303_4.9.8")).queues
    assert queues[MessageQueue("NarrowTopic", "broker-a", 0)].delay_ms == 0
    never_committed = queues[MessageQueue("NarrowTopic", "broker-a", 2)]
    assert never_committed.delay_ms is None

    span = offsets.consume_time_spans(body("303_5.5.1")).queues[MessageQueue("orders", "broker-a", 1)]
    assert span == offsets.ConsumeTimeSpan(utc(1795250973949), 549)


@pytest.mark.parametrize(("version", "named"), [("4.9.8", "V4_9_8"), ("5.3.3", "V5_3_3"), ("5.5.1", "V5_5_1")])
def test_runtime_info_has_typed_figures(version: str, named: str) -> None:
    info = broker_figures.broker_runtime_info(body(f"28_{version}"))
    assert info.broker_version_desc == named
    assert info.boot_at is not None
    assert info.boot_at.year == 2026
    assert info.commit_log_disk_ratio is not None
    assert 0 < info.commit_log_disk_ratio < 1
    assert info.commit_log_max_offset is not None
    assert info.commit_log_min_offset == 0
    assert info.is_active is (None if version == "4.9.8" else True)
    assert len(info.tps("getFoundTps")) >= 1


def test_runtime_figures_that_are_none_are_none() -> None:
    info = broker_figures.BrokerRuntimeInfo(
        {"commitLogDiskRatio": "-1.0", "putTps": "0.0  ", "a": "null", "bootTimestamp": "9" * 30}
    )
    assert (info.commit_log_disk_ratio, info.boot_at, info.number("a"), info.integer("b")) == (None, None, None, None)
    assert info.tps("putTps") == (0.0,)
    assert info.tps("a") == info.tps("missing") == ()


@pytest.mark.parametrize("version", VERSIONS)
def test_broker_config_is_a_table_of_texts(version: str) -> None:
    config = broker_settings.broker_config(body(f"26_{version}"))
    assert config["brokerRole"] == "ASYNC_MASTER"
    assert config["messageDelayLevel"].endswith("1h 2h")
    assert config["slaveReadEnable"] == "true"


def test_a_config_value_may_contain_equals_signs() -> None:
    assert broker_settings.broker_config(b"a=b=c\nno value\nd=\n") == {"a": "b=c", "d": ""}


QUEUE = '{"brokerName":"b","queueId":0,"topic":"T"}'


@for_each(
    "decoder, text, names",
    [
        (offset_table.all_consumer_offsets, '{"offsetTable":{"T@G":{0:"1"}}}', "T@G"),
        (
            offset_table.all_consumer_offsets,
            '{"offsetTable":{"T@G":{0:9223372036854775808}}}',
            "T@G: expected a 64-bit",
        ),
        (offset_table.all_consumer_offsets, '{"offsetTable":{"T@G":{"x":1}}}', "a number as key"),
        (offset_table.all_consumer_offsets, '{"offsetTable":{"T@G":{99999999999:1}}}', "a number as key"),
        (offset_table.all_consumer_offsets, '{"offsetTable":[]}', "offsetTable: expected an object"),
        (offset_table.all_consumer_offsets, '{"offsetTable":{"T@G":{0:true}}}', "found True"),
        (offset_table.all_consumer_offsets, f'{{"offsetTable":{{"T@G":{{0:{"9" * 4000}}}}}}}', "a number of"),
        (offsets.topic_stats, f'{{"offsetTable":{{{QUEUE}:{{"maxOffset":1}}}}}}', "minOffset"),
        (offsets.topic_stats, '{"offsetTable":{"T":{}}}', "no MessageQueue"),
        (
            offsets.consume_stats,
            f'{{"offsetTable":{{{QUEUE}:{{"brokerOffset":1.5,"consumerOffset":0}}}}}}',
            "brokerOffset",
        ),
        (
            offsets.consume_stats,
            f'{{"offsetTable":{{{QUEUE}:{{"brokerOffset":1,"consumerOffset":0,"lastTimestamp":9000000000000000}}}}}}',
            "lastTimestamp: expected a time",
        ),
        (
            routes.cluster_info,
            '{"brokerAddrTable":{"b":{"brokerAddrs":{0:5},"brokerName":"b","cluster":"c"}}}',
            "0",
        ),
        (consumers.consumer_connections, '{"connectionSet":[{"clientId":null}]}', "clientId"),
        (consumers.consumer_connections, '{"connectionSet":{}}', "connectionSet: expected a list"),
        (broker_figures.broker_runtime_info, "[]", "expected an object"),
        (offsets.consume_time_spans, '{"consumeTimeSpanSet":[{"delayTime":1}]}', "queueId"),
    ],
)
def test_a_body_with_a_wrong_field_is_malformed_and_the_field_is_named(
    decoder: Callable[[bytes], object], text: str, names: str
) -> None:
    with pytest.raises(MalformedBytes) as caught:
        decoder(text.encode())
    assert names in str(caught.value)


FIELD_NAMES = sorted(
    {part for file in BODIES.iterdir() for part in file.read_text().split('"') if part.isalnum() and not part.isdigit()}
)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from([QUEUE, "T@G", "0"])
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*FIELD_NAMES, QUEUE, "T@G", "0"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(decoder=st.sampled_from(JSON_DECODERS), document=json_values)
@settings(max_examples=examples(2))
def test_no_document_raises_anything_but_malformed(decoder: Callable[[bytes], object], document: Any) -> None:
    with contextlib.suppress(MalformedBytes):
        decoder(json.dumps(document).encode())


@given(file=st.sampled_from(sorted(BODIES.glob("*.json"))), data=st.data())
@settings(max_examples=examples(2))
def test_no_damaged_body_raises_anything_but_malformed(file: Path, data: st.DataObject) -> None:
    damaged = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(damaged) - 1))
        damaged[position : position + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    with contextlib.suppress(MalformedBytes):
        DECODERS[int(file.name.split("_")[0])](bytes(damaged))


@pytest.mark.parametrize("text", [None, "", "x", "1.5", "9223372036854775808", "9" * 5000])
def test_an_offset_in_a_header_must_be_a_64_bit_number(text: str | None) -> None:
    with pytest.raises(MalformedBytes, match="offset"):
        offsets.offset_field({} if text is None else {"offset": text})
