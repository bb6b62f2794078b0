"""What we ask is read-only and worded as RocketMQ wants it; what brokers refuse has a class that says what to do."""

import inspect
from typing import Any

import pytest

from offsetguard.model.errors import BrokerRefused
from offsetguard.sources.rocketmq import codes, requests
from offsetguard.sources.rocketmq.codes import RequestCode, ResponseCode
from offsetguard.sources.rocketmq.connection import Connection
from offsetguard.sources.rocketmq.header import Credentials, signed_ext_fields
from offsetguard.sources.rocketmq.requests import Request
from offsetguard_peers.cases.running import for_each

ALL_REQUESTS: list[type[Request[Any]]] = [
    declared
    for _, declared in inspect.getmembers(requests, inspect.isclass)
    if issubclass(declared, Request) and declared is not Request
]

# Each was read in the broker's or name server's processor, 4.9.8 and 5.3.3: none writes anything that a user owns.
# Read-only, and yet not for us: 317 GET_BROKER_CONSUME_STATS, 17 MB in one frame at 113,000 rows.
READ_ONLY_CODES = {
    11: "PULL_MESSAGE: with bit 4, without the commit bit 1; may create our own consumer group",
    21: "GET_ALL_TOPIC_CONFIG",
    26: "GET_BROKER_CONFIG",
    28: "GET_BROKER_RUNTIME_INFO",
    29: "SEARCH_OFFSET_BY_TIMESTAMP",
    30: "GET_MAX_OFFSET",
    31: "GET_MIN_OFFSET",
    32: "GET_EARLIEST_MSG_STORETIME",
    43: "GET_ALL_CONSUMER_OFFSET",
    105: "GET_ROUTEINFO_BY_TOPIC",
    106: "GET_BROKER_CLUSTER_INFO",
    201: "GET_ALL_SUBSCRIPTIONGROUP_CONFIG",
    202: "GET_TOPIC_STATS_INFO",
    203: "GET_CONSUMER_CONNECTION_LIST",
    208: "GET_CONSUME_STATS",
    303: "QUERY_CONSUME_TIME_SPAN",
    305: "GET_SYSTEM_TOPIC_LIST_FROM_BROKER",
    307: "GET_CONSUMER_RUNNING_INFO: the broker asks the client, which writes down what it and its threads do",
    315: "VIEW_BROKER_STATS_DATA",
    907: "GET_BROKER_HA_STATUS",
}


def test_no_request_changes_anything_on_a_broker() -> None:
    codes = {int(declared.code) for declared in ALL_REQUESTS}
    assert codes == set(READ_ONLY_CODES), (
        "read in the broker's processor that the code changes nothing, then add it to the list"
    )
    assert set(RequestCode) == {*codes, RequestCode.NOTIFY_CONSUMER_IDS_CHANGED}, "a code is declared that nobody sends"


def test_nothing_else_leaves_a_connection() -> None:
    """Whatever is declared one day: update and delete (17, 215, 25, 15 of RocketMQ's own) and unknown codes."""
    connection = Connection()
    for code in range(1_000):
        if code in READ_ONLY_CODES:
            assert connection.request(code, {})[1]
        else:
            with pytest.raises(ValueError, match="none of those that only read"):
                connection.request(code, {})


def test_a_pull_neither_commits_nor_waits_nor_touches_a_group_of_the_users() -> None:
    fields = requests.PullMessage("T", 0, 5).ext_fields()
    assert fields == {
        "consumerGroup": "OFFSETGUARD_MONITOR",
        "topic": "T",
        "queueId": "0",
        "queueOffset": "5",
        "maxMsgNums": "32",
        "sysFlag": "4",  # bit 1 would commit, bit 2 would wait
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
    }


@for_each(
    "request_, fields",
    [
        (requests.GetRouteInfoByTopic("T"), {"topic": "T"}),
        (requests.GetAllConsumerOffset(), {}),
        (requests.GetConsumeStats("G"), {"consumerGroup": "G"}),
        (requests.GetConsumeStats("G", "T"), {"consumerGroup": "G", "topic": "T"}),
        (requests.GetTopicStatsInfo("T"), {"topic": "T"}),
        (requests.GetConsumerConnectionList("G"), {"consumerGroup": "G"}),
        (requests.GetMaxOffset("T", 3), {"topic": "T", "queueId": "3"}),
        (
            requests.SearchOffsetByTimestamp("T", 3, 1795214730000),
            {"topic": "T", "queueId": "3", "timestamp": "1795214730000"},
        ),
        (requests.QueryConsumeTimeSpan("T", "G"), {"topic": "T", "group": "G"}),
        (  # without thread stacks unless they are asked for: a dump stops an application's JVM for a moment
            requests.GetConsumerRunningInfo("G", "10.0.0.1@1"),
            {"consumerGroup": "G", "clientId": "10.0.0.1@1", "jstackEnable": "false"},
        ),
        (
            requests.ViewBrokerStatsData("GROUP_GET_NUMS", "T@G"),
            {"statsName": "GROUP_GET_NUMS", "statsKey": "T@G"},
        ),
    ],
)
def test_requests_have_the_fields_of_rocketmqs_headers(request_: Request[Any], fields: dict[str, str]) -> None:
    assert request_.ext_fields() == fields


@for_each(
    "code, remark, error_type",
    [
        (1, "java.lang.NullPointerException", codes.BrokerSystemError),
        (1, None, codes.BrokerSystemError),
        (1, "The stats <GROUP_GET_NUMS> <Archive2@G_NEVER2> not exist", codes.NotThere),
        (1, "The Consumer <G> <192.0.2.2@16789#1265283451712> not online", codes.NotThere),
        (1, "no consumer for this group, G_NEVER2", codes.NotThere),
        (1, "java.lang.RuntimeException: The stats <a> <b> not exist", codes.BrokerSystemError),
        (1, "org.apache.rocketmq.acl.common.AclException: Check signature failed", codes.AccessDenied),
        (2, "[REJECTREQUEST]system busy", codes.SystemBusy),
        (3, " request type 361 not supported", codes.RequestCodeNotSupported),
        (14, "not available", codes.ServiceNotAvailable),
        (16, "no permission", codes.AccessDenied),
        (17, "No topic route info", codes.TopicNotExist),
        (24, "the consumer's group info not exist\nSee ...", BrokerRefused),
        (206, "the consumer group[G] not online", codes.ConsumerNotOnline),
        (207, "consumer <G> <C> Timeout", codes.ClientTimedOut),
        (4711, "?", BrokerRefused),
    ],
)
def test_a_refusal_has_the_class_of_its_code(code, remark, error_type):
    error = codes.refusal("broker:10911", code, remark)
    assert type(error) is error_type
    assert (error.address, error.code, error.remark) == ("broker:10911", code, remark)
    assert str(error).startswith(f"broker:10911: refused with code {code}: ")
    assert "\n" not in str(error)
    assert error_type.advice in str(error)


def test_a_stack_trace_does_not_flood_the_text_and_is_kept() -> None:
    remark = "java.lang.NullPointerException\n" + "\tat org.apache.rocketmq.Broker\n" * 500
    error = codes.refusal("broker:10911", ResponseCode.SYSTEM_ERROR, remark)
    assert len(str(error)) < 400
    assert error.remark == remark


def test_names_and_remarks_cannot_steer_a_terminal() -> None:
    error = codes.refusal("broker:10911", 1, "\x1b[2Jgone\u202e")
    assert str(error).isprintable()
    assert str(requests.GetTopicStatsInfo("a\x1b[2J\nb")).isprintable()


def test_the_signature_is_the_one_that_java_makes() -> None:
    """Verified against AclClientRPCHook: content `rocketmq2G1T1`."""
    fields = signed_ext_fields({"topic": "T1", "consumerGroup": "G1"}, b"", Credentials("rocketmq2", "12345678"))
    assert fields == {
        "topic": "T1",
        "consumerGroup": "G1",
        "AccessKey": "rocketmq2",
        "Signature": "KUCvu3BSF4xb4d0TU/HFH/DOnp8=",
    }


def test_a_second_signing_replaces_the_first_and_body_and_token_are_signed() -> None:
    credentials = Credentials("a", "s", security_token="t")
    once = signed_ext_fields({"x": "1"}, b"body", credentials)
    assert signed_ext_fields(once, b"body", credentials) == once
    assert once["SecurityToken"] == "t"
    assert signed_ext_fields({"x": "1"}, b"other", credentials)["Signature"] != once["Signature"]


def test_credentials_do_not_show_their_secrets() -> None:
    assert repr(Credentials("alice", "secret", "token")) == "Credentials(access_key='alice')"
