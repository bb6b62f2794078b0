"""Servers that drip, that never end, and that lead elsewhere: the heartbeat, Slack and webhooks get away from them."""

import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import pytest

from offsetguard.deliver.channels.slack import SlackChannel
from offsetguard.deliver.channels.slack_webhook import SlackWebhookChannel
from offsetguard.deliver.heartbeat import beat
from offsetguard.deliver.one_request import MOST_BYTES, NotAnswered
from offsetguard.deliver.one_request import ask as ask_once
from offsetguard.model.errors import DeliveryError
from offsetguard_peers.cases.messages import slack_message
from offsetguard_peers.http_server import HttpPeer, Quiet

SECRET, LIMIT_S = "xoxb-nobody-else-may-have-it", 1
Answer = Callable[[BaseHTTPRequestHandler], object]


def heartbeat(url: str) -> str | None:
    return beat(f"{url}{SECRET}", ["trouble"], limit_s=LIMIT_S)


def slack(url: str) -> str | None:
    return _told(SlackChannel.with_token(SECRET, base_url=url, timeout=LIMIT_S), "#alerts")


def webhook(url: str) -> str | None:
    return _told(SlackWebhookChannel("hook", f"{url}{SECRET}", LIMIT_S))


def _told(channel: SlackChannel | SlackWebhookChannel, *receiver: str) -> str | None:
    try:
        channel.send(slack_message(), *receiver)
    except DeliveryError as error:
        return f"refused for good: {error}" if error.permanent else str(error)
    return None


WHO_ASKS = pytest.mark.parametrize("ask", [heartbeat, slack, webhook])


@contextmanager
def server(answer: Answer) -> Iterator[tuple[str, list[str]]]:
    """Answer each request so; gives the address, and what was asked for."""
    asked: list[str] = []

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            answer(self)

        do_POST = do_GET  # noqa: N815 the base class's name

    with HttpPeer(Handler) as peer:
        yield peer.url, asked


def sends(handler: BaseHTTPRequestHandler, first: bytes, then: bytes, every_s: float, ended: threading.Event) -> int:
    """Send, and go on until nobody reads; returns how many bytes."""
    sent = handler.wfile.write(first)
    while not ended.wait(every_s):
        try:
            sent += handler.wfile.write(then)
        except OSError:
            break
    return sent


def is_heard(ask: Callable[[str], str | None], first: bytes) -> bool:
    """Whether it makes no difference: the heartbeat wants to be heard, and reads no body."""
    return ask is heartbeat and first.endswith(b"\r\n\r\n")


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


@WHO_ASKS
@pytest.mark.parametrize("first", [HEAD + b"X-Slow: ", HEAD + b"\r\n"], ids=["head", "body"])
def test_who_drips_one_byte_after_the_other_is_left_in_time(ask: Callable[[str], str | None], first: bytes) -> None:
    ended = threading.Event()
    with server(lambda handler: sends(handler, first, b"x", 0.1, ended)) as (url, _):
        started = time.monotonic()
        told = ask(url)
        took_s = time.monotonic() - started
        ended.set()
    assert told is None if is_heard(ask, first) else f"within {LIMIT_S} s" in str(told)
    assert took_s < 3 * LIMIT_S


@WHO_ASKS
@pytest.mark.parametrize("first", [HEAD + b"X-Long: ", HEAD + b"\r\n"], ids=["head", "body"])
def test_an_answer_without_end_takes_no_memory(ask: Callable[[str], str | None], first: bytes) -> None:
    ended, sent = threading.Event(), queue.SimpleQueue[int]()
    with server(lambda handler: sent.put(sends(handler, first, b"x" * 65_536, 0.0, ended))) as (url, _):
        told = ask(url)
        ended.set()
    assert (told is None) is is_heard(ask, first)
    assert sent.get(timeout=60) < 2 * MOST_BYTES, "its thread may end after the server"


@WHO_ASKS
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed_so_no_other_host_gets_anything(
    ask: Callable[[str], str | None], status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Location", f"{other}elsewhere")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    with server(lambda handler: handler.send_response(200)) as (other, asked_there), server(answer) as (url, asked):
        told = ask(url)
        assert (len(asked), asked_there) == (1, [])
    assert f"HTTP {status}" in str(told) or "not Slack's" in str(told)
    assert SECRET not in f"{told} {caplog.text}"


@pytest.mark.parametrize(
    ("ask", "address"),
    [
        *itertools.product([heartbeat, slack, webhook], ["http://127.0.0.1:port/"]),
        *itertools.product([heartbeat, webhook], ["http://[::1/", "http://a\u2100b/", "//"]),
    ],
)
def test_an_address_that_cannot_be_is_named_and_not_shown(ask: Callable[[str], str | None], address: str) -> None:
    told = ask(address)
    assert "address" in str(told) or "base_url" in str(told)
    assert SECRET not in str(told)


def test_a_token_that_cannot_be_sent_is_named_and_not_shown() -> None:
    with server(lambda handler: handler.send_response(200)) as (url, asked):
        told = _told(SlackChannel.with_token(f"{SECRET}\r\nHost: evil", base_url=url), "#alerts")
        assert asked == []
    assert "a token that cannot be used" in str(told)
    assert SECRET not in str(told)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_who_is_reached_at_an_address_that_is_not_allowed_gets_nothing(host: str) -> None:
    """A name can be looked up twice, and lead inward at the second time."""
    looked_at: list[str] = []

    def may_reach(address: str) -> bool:
        looked_at.append(address)
        return False

    with server(lambda handler: handler.send_response(200)) as (url, asked):
        address = url.replace("127.0.0.1", host)
        with pytest.raises(NotAnswered, match="its name leads to an address that is not allowed"):
            ask_once("POST", f"{address}{SECRET}", limit_s=30, body=b"{}", may_reach=may_reach)
        assert asked == []
        assert looked_at == ["127.0.0.1"]
        with pytest.raises(NotAnswered, match="no whole answer"):
            ask_once("POST", "http://nowhere.invalid/", limit_s=30, proxy=url, may_reach=may_reach)
        assert asked == ["http://nowhere.invalid/"], "a proxy leads where it may"
