"""Each way to fail has its class, and the error names the address; against TCP servers that lie, close and hang."""

import asyncio
import socket

import pytest

from offsetguard.model.errors import (
    BrokerRefused,
    ConnectionLost,
    PeerUnreachable,
    RequestTimedOut,
    RocketMQError,
    UndecodableBody,
    UndecodableResponse,
)
from offsetguard.sources.rocketmq.client import RocketMQClient
from offsetguard.sources.rocketmq.codes import AccessDenied, TopicNotExist
from offsetguard.sources.rocketmq.connection import Frame, encode_frame
from offsetguard.sources.rocketmq.reach import Reach
from offsetguard.sources.rocketmq.requests import GetBrokerRuntimeInfo, GetMaxOffset, GetTopicStatsInfo
from offsetguard_peers.cases.running import for_each
from offsetguard_peers.scripted.peer import PATIENT_MS, QUICK_MS, Conversation, answer_bytes, ask, failure

NO_LOGIN = "org.apache.rocketmq.acl.common.AclException: No accessKey is configured, org.apache..."


@pytest.mark.parametrize(
    ("sent", "closes", "error_type", "says"),
    [
        pytest.param(None, True, ConnectionLost, "closed the connection before it answered", id="closes"),
        pytest.param(None, False, RequestTimedOut, "no answer within 1500 ms", id="hangs"),
        pytest.param({"body": b"x" * 100}, -30, ConnectionLost, "in mid-frame, 30 bytes too early", id="half a body"),
        pytest.param({}, 3, ConnectionLost, "in mid-frame, 1 bytes too early", id="half a length"),
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", False, UndecodableResponse, "is this the port of", id="HTTP"),
        pytest.param(b"\x7f\xff\xff\xff", False, UndecodableResponse, "not begin with the length", id="huge"),
        pytest.param(Frame(0, b"[1,2,3]", b""), False, UndecodableResponse, "expected an object", id="no header"),
        pytest.param(Frame(9, b"{}", b""), False, UndecodableResponse, "serialize type 9", id="another form"),
        pytest.param({"body": b"<html>"}, False, UndecodableBody, "no JSON", id="no JSON"),
        pytest.param({"code": 17, "remark": "No route"}, False, TopicNotExist, "code 17: No route", id="refuses"),
        pytest.param({"code": 1, "remark": NO_LOGIN}, False, AccessDenied, "access key and secret key", id="no login"),
    ],
)
def test_each_failure_has_its_class_and_names_the_address(sent, closes, error_type, says):
    """`sent`: the fields of an answer, a frame, or any bytes; `closes`: at once, or in the middle of the answer."""

    async def fails(conversation: Conversation) -> None:
        request = await conversation.next_request()
        if isinstance(sent, dict):
            data = answer_bytes(request, **sent)
            conversation.send(data if isinstance(closes, bool) else data[:closes])
        elif sent is not None:
            conversation.send(encode_frame(sent) if isinstance(sent, Frame) else sent)
        if not closes:
            await conversation.hang()

    error, peer = ask(
        fails,
        lambda client, address: failure(client.call(address, GetTopicStatsInfo("orders"))),
        timeout_ms=QUICK_MS if error_type is RequestTimedOut else PATIENT_MS,
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
        ("10.0.0.1\0:80", "write host:port"),  # NUL: resolvers do not see what is behind it,
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


@for_each(
    "address, allowed, says",
    [
        ("169.254.169.254:80", [], "169.254.169.254 is no broker's address"),
        ("[::ffff:169.254.169.254]:80", [], "169.254.169.254 is no broker's address"),
        ("2852039166:80", [], "169.254.169.254 is no broker's address"),  # what resolvers take for an address
        ("100.100.100.200:80", [], "100.100.100.200 is no broker's address"),
        ("[fe80::1]:80", [], "fe80::1 is no broker's address"),
        ("0.0.0.0:80", [], "0.0.0.0 is no broker's address"),
        ("169.254.169.254:80", ["169.254.*"], "169.254.169.254 is no broker's address"),
        ("127.0.0.1:1", ["10.0.0.0/8", "broker-*"], "127.0.0.1 is not among allowed_addresses"),
        ("localhost:1", ["10.0.0.0/8", "broker-*"], "1 is not among allowed_addresses"),
        ("127.0.0.1:1", ["127.0.0.0/8"], "nobody listens there"),
        ("127.0.0.1:1", ["127.0.0.1"], "nobody listens there"),
        ("localhost:1", ["LOCAL*"], "nobody listens there"),
        ("127.0.0.1:1", [], "nobody listens there"),
    ],
)
def test_only_an_address_that_is_allowed_is_connected_to(address, allowed, says):
    async def run() -> RocketMQError:
        async with RocketMQClient(reach=Reach(allowed=allowed)) as client:
            return await failure(client.call(address, GetBrokerRuntimeInfo()))

    error = asyncio.run(run())
    assert type(error) is PeerUnreachable
    assert says in str(error)


@pytest.mark.parametrize("banner", [b"SSH-2.0-OpenSSH_9.6\r\n", b"\x00\x00\x00\x50\x51\x52\x53\x54" + b"secret" * 20])
def test_what_answers_instead_of_a_broker_is_not_repeated(banner: bytes) -> None:
    async def greets(conversation: Conversation) -> None:
        conversation.send(banner)
        await conversation.hang()

    async def call(client: RocketMQClient, address: str) -> tuple[str, RocketMQError]:
        return address, await failure(client.call(address, GetBrokerRuntimeInfo()))

    (address, error), _ = ask(greets, call)
    assert type(error) is UndecodableResponse
    says = str(error).removeprefix(address)  # a port may hold any digits
    parts = {str(banner[:4]), "SSH", "PQRS", str(int.from_bytes(banner[:4])), str(int.from_bytes(banner[5:8]))}
    assert not [part for part in parts if part in says]


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
