"""Each way to fail has its class, and the error names the address; against TCP servers that lie, close and hang."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from offsetguard.model.errors import (
    BrokerRefused,
    ConnectionLost,
    PeerUnreachable,
    RequestTimedOut,
    RocketMQError,
    UndecodableResponse,
)
from offsetguard.sources.rocketmq.client import RocketMQClient
from offsetguard.sources.rocketmq.connection import Frame, encode_frame
from offsetguard.sources.rocketmq.refusals import AccessDenied, TopicNotExist
from offsetguard.sources.rocketmq.requests import (
    GetAllConsumerOffset,
    GetBrokerRuntimeInfo,
    GetMaxOffset,
    GetTopicStatsInfo,
)
from offsetguard_peers.scripted.peer import (
    PATIENT_MS,
    QUICK_MS,
    Conversation,
    answer_bytes,
    ask,
    closes_in_mid_frame,
    failure,
    hangs,
)


async def closes_before_the_answer(conversation: Conversation) -> None:
    await conversation.next_request()


async def closes_in_the_length(conversation: Conversation) -> None:
    conversation.send(answer_bytes(await conversation.next_request())[:3])


async def speaks_http(conversation: Conversation) -> None:
    await conversation.next_request()
    conversation.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    await conversation.hang()


async def declares_a_huge_length(conversation: Conversation) -> None:
    await conversation.next_request()
    conversation.send(b"\x7f\xff\xff\xff")
    await conversation.hang()


async def sends_a_header_that_is_no_header(conversation: Conversation) -> None:
    await conversation.next_request()
    conversation.send(encode_frame(Frame(0, b"[1,2,3]", b"")))
    await conversation.hang()


async def sends_an_unknown_serialize_type(conversation: Conversation) -> None:
    await conversation.next_request()
    conversation.send(encode_frame(Frame(9, b"{}", b"")))
    await conversation.hang()


async def answers_with_a_body_that_is_no_json(conversation: Conversation) -> None:
    conversation.answer(await conversation.next_request(), body=b"<html>")
    await conversation.hang()


async def refuses(conversation: Conversation) -> None:
    conversation.answer(await conversation.next_request(), code=17, remark="No topic route info")
    await conversation.hang()


async def refuses_the_login(conversation: Conversation) -> None:
    remark = "org.apache.rocketmq.acl.common.AclException: No accessKey is configured, org.apache..."
    conversation.answer(await conversation.next_request(), code=1, remark=remark)
    await conversation.hang()


@pytest.mark.parametrize(
    ("script", "error_type", "says"),
    [
        (closes_before_the_answer, ConnectionLost, "closed the connection before it answered"),
        (closes_in_mid_frame, ConnectionLost, "in mid-frame, 30 bytes too early"),
        (closes_in_the_length, ConnectionLost, "in mid-frame, 1 bytes too early"),
        (speaks_http, UndecodableResponse, "is this the port of a RocketMQ"),
        (declares_a_huge_length, UndecodableResponse, "declares a length of 2147483647 bytes"),
        (sends_a_header_that_is_no_header, UndecodableResponse, "expected an object"),
        (sends_an_unknown_serialize_type, UndecodableResponse, "serialize type 9"),
        (answers_with_a_body_that_is_no_json, UndecodableResponse, "no JSON"),
        (hangs, RequestTimedOut, "no answer within 1500 ms"),
        (refuses, TopicNotExist, "code 17: No topic route info"),
        (refuses_the_login, AccessDenied, "check access key and secret key"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_each_failure_has_its_class_and_names_the_address(
    script: Callable[[Conversation], Awaitable[None]], error_type: type[RocketMQError], says: str
) -> None:
    error, peer = ask(
        script,
        lambda client, address: failure(client.call(address, GetTopicStatsInfo("orders"))),
        timeout_ms=QUICK_MS if script is hangs else PATIENT_MS,
    )

    assert type(error) is error_type
    assert str(error).startswith(f"{peer.address}: ")
    assert says in str(error)
    if not isinstance(error, BrokerRefused):
        assert "GET_TOPIC_STATS_INFO(topic=orders)" in str(error), "the error names the request"


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("no-such-host.invalid:9876", "cannot be resolved"),
        (f"{'x' * 70}.example:9876", "cannot be resolved"),
        ("localhost", "write host:port"),
        ("localhost:99999999999", "write host:port"),
        (":9876", "write host:port"),
    ],
)
def test_an_address_that_leads_nowhere_is_unreachable(address: str, says: str) -> None:
    async def run() -> RocketMQError:
        async with RocketMQClient(timeout_ms=5000) as client:
            return await failure(client.call(address, GetBrokerRuntimeInfo()))

    error = asyncio.run(run())
    assert type(error) is PeerUnreachable
    assert str(error).startswith(f"{address}: ")
    assert says in str(error)


def test_a_refused_connection_is_unreachable() -> None:
    with socket.socket() as bound_but_not_listening:
        bound_but_not_listening.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound_but_not_listening.getsockname()[1]}"

        async def run() -> RocketMQError:
            async with RocketMQClient() as client:
                return await failure(client.call(address, GetBrokerRuntimeInfo()))

        error = asyncio.run(run())
    assert type(error) is PeerUnreachable
    assert "nobody listens there" in str(error)


def test_a_host_that_swallows_packets_is_unreachable_for_all_callers_after_one_time_out() -> None:
    """A listening socket whose queue is full does not answer SYNs, as a firewall that drops them."""
    with socket.socket() as deaf, socket.socket() as first, socket.socket() as second:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        address = deaf.getsockname()
        for filler in (first, second):
            filler.setblocking(False)
            filler.connect_ex(address)

        async def run() -> tuple[list[RocketMQError], float]:
            async with RocketMQClient(timeout_ms=1_000, max_in_flight=2) as client:
                started = asyncio.get_running_loop().time()
                calls = [failure(client.call(f"127.0.0.1:{address[1]}", GetMaxOffset("t", n))) for n in range(40)]
                return await asyncio.gather(*calls), asyncio.get_running_loop().time() - started

        errors, took_s = asyncio.run(run())
    assert {type(error) for error in errors} == {PeerUnreachable}
    assert len(set(map(id, errors))) == 40, "each caller has an exception of its own"
    assert "no connection within 1000 ms" in str(errors[0])
    assert took_s < 10, "not 20 times 1 s"


def test_a_large_body_that_cannot_be_decoded_is_an_error_like_any_other() -> None:
    async def answers(conversation: Conversation) -> None:
        conversation.answer(await conversation.next_request(), body=b"{" * 1_000_000)
        await conversation.hang()

    error, _ = ask(answers, lambda client, address: failure(client.call(address, GetAllConsumerOffset())))
    assert type(error) is UndecodableResponse
