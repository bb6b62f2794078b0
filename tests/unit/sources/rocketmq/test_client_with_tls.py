"""TLS with certificates of a throw-away authority; every failure says which setting to look at."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from offsetguard.config import Tls
from offsetguard.model.errors import ConfigError, ConnectionLost, PeerUnreachable, RocketMQError, UndecodableResponse
from offsetguard.sources.rocketmq.client import RocketMQClient
from offsetguard.sources.rocketmq.reach import tls_context
from offsetguard.sources.rocketmq.requests import GetMaxOffset
from offsetguard_peers.rocketmq.security import TlsFiles, make_tls_files
from offsetguard_peers.scripted.peer import Conversation, ScriptedPeer, echo_queue_id

REQUESTS = [GetMaxOffset("t", number) for number in range(200)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return make_tls_files(tmp_path_factory.mktemp("tls"))


async def closes_at_once(conversation: Conversation) -> None:
    """As a broker with tls.server.mode=disabled does when it sees the first byte of a handshake."""


async def speaks_http(conversation: Conversation) -> None:
    conversation.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    await conversation.hang()


def server_side(files: TlsFiles, *, ask_clients: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(files.ca_file))
    context.load_cert_chain(files.certificate_file, files.key_file)
    context.verify_mode = ssl.CERT_REQUIRED if ask_clients else ssl.CERT_NONE
    return context


def outcomes_of(
    tls: Tls | ssl.SSLContext | None,
    peer_tls: ssl.SSLContext | None,
    script: Callable[[Conversation], Awaitable[None]] = echo_queue_id,
    host: str = "127.0.0.1",
) -> list[Any]:
    async def run() -> list[Any]:
        async with ScriptedPeer(script, peer_tls) as peer, RocketMQClient(timeout_ms=60_000, tls=tls) as client:
            address = peer.address.replace("127.0.0.1", host)
            return list(await client.call_many(address, REQUESTS))

    return asyncio.run(asyncio.wait_for(run(), timeout=120))


def failure_of(*args: Any, **options: Any) -> RocketMQError:
    outcomes = outcomes_of(*args, **options)
    assert len({type(outcome) for outcome in outcomes}) == 1
    assert isinstance(outcomes[0], RocketMQError)
    return outcomes[0]


def test_a_trusted_peer_is_asked_as_any_other(files: TlsFiles) -> None:
    tls = Tls(ca_file=str(files.ca_file))
    assert outcomes_of(tls, server_side(files)) == list(range(200))
    assert outcomes_of(tls_context(tls), server_side(files)) == list(range(200)), "a context of the caller's own"


def test_a_certificate_of_an_unknown_authority_names_the_setting(files: TlsFiles) -> None:
    error = failure_of(Tls(), server_side(files))
    assert type(error) is PeerUnreachable
    assert "certificate is not trusted" in str(error)
    assert "set tls.ca_file" in str(error)


def test_a_certificate_for_another_host_names_the_setting_which_then_helps(files: TlsFiles) -> None:
    other_name = "127.1"  # leads to the same peer and is in no certificate
    error = failure_of(Tls(ca_file=str(files.ca_file)), server_side(files), host=other_name)
    assert type(error) is PeerUnreachable
    assert "certificate is for another host" in str(error)
    assert "tls.check_host_name" in str(error)
    lenient = Tls(ca_file=str(files.ca_file), check_host_name=False)
    assert outcomes_of(lenient, server_side(files), host=other_name) == list(range(200))


@pytest.mark.parametrize("script", [closes_at_once, speaks_http])
def test_a_peer_that_speaks_no_tls_is_recognised(files, script):
    error = failure_of(Tls(ca_file=str(files.ca_file)), None, script)
    assert type(error) is PeerUnreachable
    assert "does it speak TLS at all" in str(error)


def test_a_peer_that_insists_on_tls_is_recognised(files: TlsFiles) -> None:
    error = failure_of(None, server_side(files))
    assert type(error) in (ConnectionLost, UndecodableResponse), "it closes, or it sends a TLS alert first"
    assert "tls" in str(error).removeprefix(error.address)


def test_a_peer_that_asks_for_a_certificate_names_the_setting_which_then_helps(files: TlsFiles) -> None:
    error = failure_of(Tls(ca_file=str(files.ca_file)), server_side(files, ask_clients=True))
    assert type(error) in (PeerUnreachable, ConnectionLost)
    assert "set tls.client_certificate_file" in str(error)
    tls = Tls(
        ca_file=str(files.ca_file),
        client_certificate_file=str(files.certificate_file),
        client_key_file=str(files.key_file),
    )
    assert outcomes_of(tls, server_side(files, ask_clients=True)) == list(range(200))


def test_files_that_cannot_be_used_are_named_with_their_setting(files: TlsFiles, tmp_path: Path) -> None:
    no_pem = tmp_path / "no.pem"
    no_pem.write_text("certificate")
    for tls, setting in [
        (Tls(ca_file=str(tmp_path / "missing.pem")), "tls.ca_file"),
        (Tls(ca_file=str(no_pem)), "tls.ca_file"),
        (Tls(client_certificate_file=str(no_pem)), "tls.client_certificate_file"),
        (Tls(client_certificate_file=str(files.certificate_file)), "tls.client_certificate_file"),
    ]:
        with pytest.raises(ConfigError, match=rf"^{setting}: .*cannot be used"):
            RocketMQClient(tls=tls)
