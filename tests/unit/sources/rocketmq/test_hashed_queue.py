"""The queue of a key is the one that Java's SelectMessageQueueByHash picks of the queues that a producer lists."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.model.offsets import MessageQueue
from offsetguard.sources.rocketmq import routes
from offsetguard.sources.rocketmq.routes import (
    BrokerData,
    QueueData,
    TopicRoute,
    java_hash_code,
    position_of,
    queues_of_brokers,
    queues_to_write,
)

SMALLEST_INT = -(2**31)


COUNTS = (1, 7, 8, 16, 24, 100)
# Printed by String.hashCode and SelectMessageQueueByHash of the Java clients 4.9.7 and 5.5.0, for COUNTS queues.
BY_JAVA = [
    ("", 0, (0, 0, 0, 0, 0, 0)),
    ("a", 97, (0, 6, 1, 1, 1, 97)),
    ("Hello", 69_609_650, (0, 5, 2, 2, 2, 50)),
    ("order-4711", 708_276_994, (0, 5, 2, 2, 10, 94)),
    ("polygenelubricants", SMALLEST_INT, (0, 2, 0, 0, 8, 48)),  # Math.abs of its hash is negative
    ("\u8ba2\u5355", 1_129_459, (0, 2, 3, 3, 19, 59)),
    ("\U0001f600", 1_772_899, (0, 2, 3, 3, 19, 99)),  # beyond the BMP: two UTF-16 code units
    ("\ud83d", 55_357, (0, 1, 5, 13, 13, 57)),  # half of it: Java's strings may hold that
    ("user:42\x00", -267_307_757, (0, 3, 5, 13, 5, 57)),
    ("K\u00f6ln-\U0001f69a-7", -1_219_665_561, (0, 2, 1, 9, 9, 61)),
    ("z" * 24, -143_714_560, (0, 3, 0, 0, 16, 60)),
]


@pytest.mark.parametrize(("text", "hash_code", "positions"), BY_JAVA)
def test_hash_codes_and_queues_are_those_of_java(text: str, hash_code: int, positions: tuple[int, ...]) -> None:
    assert java_hash_code(text) == hash_code
    assert tuple(position_of(hash_code, count) for count in COUNTS) == positions


@given(st.text(max_size=40), st.text(max_size=40))
def test_the_hash_of_a_text_follows_from_its_parts(first: str, second: str) -> None:
    """Java defines it as s[0]*31^(n-1) + ... over UTF-16 code units, modulo 2^32."""
    units = len(second.encode("utf-16-be", "surrogatepass")) // 2
    joined = java_hash_code(first) * pow(31, units, 2**32) + java_hash_code(second)
    assert java_hash_code(first + second) % 2**32 == joined % 2**32


@given(st.integers(SMALLEST_INT, 2**31 - 1), st.integers(1, 10_000))
def test_the_position_is_javas_remainder_without_its_sign(hash_code: int, count: int) -> None:
    remainder = hash_code - count * int(hash_code / count)  # Java rounds towards zero
    assert position_of(hash_code, count) == abs(remainder)


def test_a_topic_without_queues_takes_no_key() -> None:
    with pytest.raises(ValueError, match="without queues"):
        position_of(1, 0)


def names(queues: tuple[MessageQueue, ...]) -> list[str]:
    return [f"{queue.broker_name}/{queue.queue_id}" for queue in queues]


def route(*queues: QueueData, without_master: str = "", **fields: object) -> TopicRoute:
    brokers = tuple(
        BrokerData(one.broker_name, "c", {1 if one.broker_name == without_master else 0: "10.0.0.1:10911"})
        for one in queues
    )
    return TopicRoute(brokers, queues, **fields)  # type: ignore[arg-type]


B10, B9 = QueueData("broker-10", 2, 2, 6), QueueData("broker-9", 1, 1, 6)


@pytest.mark.parametrize(
    ("given_route", "expected"),
    [
        pytest.param(route(B9, B10), ["broker-10/0", "broker-10/1", "broker-9/0"], id="names as texts, not as numbers"),
        pytest.param(route(QueueData("b", 8, 2, 6)), ["b/0", "b/1"], id="write queues, not read queues"),
        pytest.param(route(QueueData("b", 1, 1, 4), B9), ["broker-9/0"], id="a broker that may only be read"),
        pytest.param(route(B10, B9, without_master="broker-10"), ["broker-9/0"], id="a broker without a master"),
        pytest.param(
            route(B9, B10, order_topic_conf="broker-9:1;broker-10:2"),
            ["broker-9/0", "broker-10/0", "broker-10/1"],
            id="an order configuration gives the order",
        ),
    ],
)
def test_queues_are_listed_as_a_producer_lists_them(given_route: TopicRoute, expected: list[str]) -> None:
    assert names(queues_to_write("orders", given_route)) == expected


@pytest.mark.parametrize(
    ("given_route", "words"),
    [
        (route(B9, static=True), "static topic"),
        (route(B9, order_topic_conf="broker-9"), "not BROKER:QUEUES"),
        (route(B9, order_topic_conf="broker-9:" + "9" * 5_000), "not BROKER:QUEUES"),
        (route(B9, order_topic_conf="broker-9:999999999999"), "999,999,999,999 queues on a broker"),
        (route(QueueData("b", 8, 8_193, 6)), "8,193 queues on a broker"),
        (route(QueueData("b", 8, 2**31 - 1, 6)), "2,147,483,647 queues on a broker"),
        (route(*(QueueData(f"b{number}", 8, 8_192, 6) for number in range(100))), "819,200 queues, which cannot be"),
    ],
)
def test_a_route_whose_queues_do_not_follow_is_named(given_route: TopicRoute, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        queues_to_write("orders", given_route)


def test_as_many_queues_as_may_be_are_taken() -> None:
    found = queues_to_write("orders", route(*(QueueData(f"b{number}", 8, 8_192, 6) for number in range(61))))
    assert len(found) == 499_712


def test_brokers_of_the_command_line_may_come_in_any_order() -> None:
    assert names(queues_of_brokers("t", [("b", 2), ("a", 1)])) == ["a/0", "b/0", "b/1"]


def test_the_order_configuration_and_logical_queues_are_read_from_the_route() -> None:
    body = (
        b'{"brokerDatas":[],"orderTopicConf":"broker-a:2","queueDatas":[],"topicQueueMappingByBroker":{"broker-a":{}}}'
    )
    found = routes.topic_route(body)
    assert (found.order_topic_conf, found.static) == ("broker-a:2", True)
    assert routes.topic_route(b'{"brokerDatas":[],"orderTopicConf":"","queueDatas":[]}').order_topic_conf is None
