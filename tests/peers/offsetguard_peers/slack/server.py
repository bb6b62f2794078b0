"""A strict simulation of Slack: Web API, incoming webhooks, and a page that shows what was received.

    with SlackServer() as slack:
        WebClient(token=slack.token, base_url=slack.api_url).chat_postMessage(channel="#alerts", text="hello")
        slack.fail_next("chat.postMessage", Failure(status=429, retry_after_s=3))

Checks what Slack checks (`workspace.py`, `blocks.py`) and fails as Slack fails, on demand.
`GET /`: all messages as HTML; `GET /messages.json`: the same for programs.
"""

import contextlib
import json
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

from offsetguard_peers.http_server import HttpPeer, Quiet
from offsetguard_peers.slack.limits import RateLimitedError
from offsetguard_peers.slack.page import render_page
from offsetguard_peers.slack.workspace import CHANNELS, Channel, PostedMessage, SlackWorkspace

Done = TypeVar("Done")
WEBHOOK_SERVICE, WEBHOOK_SECRET = "/services/T0OFFSETG/B0OFFSETG/", "kept-secret-9f2c"
WEBHOOK_STATUS = {"ok": 200, "channel_is_archived": 410, "no_service": 404, "invalid_token": 403}
WEBHOOK_STATUS |= {"action_prohibited": 403, "channel_not_found": 404, "rate_limited": 429, "rollup_error": 500}


@dataclass(frozen=True, slots=True)
class Failure:
    """How a request fails.

    One of: `error` (ok:false; of a webhook its text), `status` (HTTP), `hang`, `hang_up`, `drip`, `body`.
    """

    error: str | None = None
    status: int = 200
    retry_after_s: int | None = None
    hang: bool = False
    hang_up: bool = False
    drip: bool = False  # one byte at a time, without end
    body: bytes | None = None  # instead of what Slack says, with `status`
    after_posting: bool = False  # the message is kept all the same: a sender cannot know


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """One Web API request, for tests that look at what was sent."""

    method: str
    arguments: Mapping[str, Any]


class SlackServer(HttpPeer):
    """Slack, on 127.0.0.1 by default; at `url` a page shows the messages."""

    def __init__(
        self,
        *,
        port: int = 0,
        host: str = "127.0.0.1",
        channels: tuple[Channel, ...] = CHANNELS,
        message_file: Path | None = None,
    ) -> None:
        """Listen at once (on a free port by default); entering the context serves.

        `message_file`: messages are kept there, those of an earlier server are read from it.
        `workspace` may be changed: its scopes, the window for edits, its rate limits (`RateLimits(clock)`).
        """
        self.workspace = SlackWorkspace(channels, message_file=message_file)
        self.requests: list[ReceivedRequest] = []
        self._failures: dict[str, deque[Failure]] = defaultdict(deque)
        self._actions: dict[tuple[str, bool], Callable[[], object]] = {}
        self._released = threading.Event()
        super().__init__(type("Handler", (_Handler,), {"slack": self}), port=port, host=host)

    @property
    def api_url(self) -> str:
        """`base_url` for slack_sdk."""
        return f"{self.url}api/"

    @property
    def webhook_url(self) -> str:
        """An incoming webhook of the first channel."""
        return f"{self.url.rstrip('/')}{WEBHOOK_SERVICE}{WEBHOOK_SECRET}"

    @property
    def token(self) -> str:
        """The bot's token."""
        return self.workspace.token

    @property
    def messages(self) -> list[PostedMessage]:
        """All accepted messages, oldest first."""
        return list(self.workspace.messages)

    def fail_next(self, method: str, *failures: Failure) -> None:
        """Let the next requests of a method (`chat.postMessage`, ..., or `webhook`) fail, one failure each."""
        self._failures[method].extend(failures)

    def when(self, method: str, action: Callable[[], object]) -> None:
        """Call `action` whenever a request of a method has arrived and nothing was done yet."""
        self._actions[method, False] = action

    def when_done(self, method: str, action: Callable[[], object]) -> None:
        """Call `action` whenever a request of a method was done and not answered yet."""
        self._actions[method, True] = action

    def act(self, method: str, *, done: bool) -> None:
        """Do what was asked for at this step of a method."""
        if action := self._actions.get((method, done)):
            action()

    def __exit__(self, *_: object) -> None:
        """Stop, release hanging requests, close the port."""
        self._released.set()
        super().__exit__()

    def failure_for(self, method: str) -> Failure | None:
        """Take the next scripted failure of a method."""
        failures = self._failures[method]
        return failures.popleft() if failures else None

    def wait_as_if_hung(self, seconds: float | None = None) -> bool:
        """Block until the server stops, or for some seconds; returns whether it stops."""
        return self._released.wait(seconds)


class _Handler(Quiet, BaseHTTPRequestHandler):
    slack: SlackServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Page, messages, and the methods that Slack also answers by GET."""
        path = urlsplit(self.path).path
        if path == "/":
            self._send(200, render_page(self.slack.workspace).encode(), "text/html; charset=utf-8")
        elif path == "/messages.json":
            listed = [{"channel": each.channel.id, **each.as_json()} for each in self.slack.messages]
            self._send(200, json.dumps(listed).encode())
        elif path.startswith("/api/"):
            self._api(path.removeprefix("/api/"), dict(parse_qsl(urlsplit(self.path).query)))
        else:
            self._send(404, b"no such page", "text/plain")

    def do_POST(self) -> None:
        """Web API methods and webhooks."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = urlsplit(self.path).path
        if path.startswith("/api/"):
            self._api(path.removeprefix("/api/"), self._arguments(body))
        else:
            self._webhook(path, body)

    def _api(self, method: str, arguments: Mapping[str, Any] | None) -> None:
        if arguments is None:
            self._send_json({"ok": False, "error": "invalid_json"})
            return
        self.slack.requests.append(ReceivedRequest(method, arguments))
        token = self._token()
        answer, failure = self._done(method, lambda: self.slack.workspace.call(method, arguments, token))
        if failure is None:
            self._send_json(answer or {})
        else:
            self._fail(failure)

    def _webhook(self, path: str, body: bytes) -> None:
        text, failure = self._done("webhook", lambda: self._accept(path, body))
        if failure is None:
            self._send_word(text or "")
        elif failure.error is not None or failure.status == HTTPStatus.TOO_MANY_REQUESTS:
            self._send_word(failure.error or "rate_limited", _retry_after(failure))
        else:
            self._fail(failure)

    def _done(self, method: str, work: Callable[[], Done]) -> tuple[Done | None, Failure | None]:
        """Do a request unless it is to fail; returns its answer, and how it fails all the same."""
        self.slack.act(method, done=False)
        failure, answer = self.slack.failure_for(method), None
        if failure is None or failure.after_posting:
            try:
                answer = work()
            except RateLimitedError as limited:
                failure = Failure(status=429, retry_after_s=limited.retry_after_s)
        self.slack.act(method, done=True)
        return answer, failure

    def _accept(self, path: str, body: bytes) -> str:
        if not path.startswith(WEBHOOK_SERVICE):
            return "no_service"
        if path != WEBHOOK_SERVICE + WEBHOOK_SECRET:
            return "invalid_token"
        try:
            payload = json.loads(body)
        except ValueError:
            payload = None
        self.slack.requests.append(ReceivedRequest("webhook", payload if isinstance(payload, dict) else {}))
        return self.slack.workspace.post_through_webhook(self.slack.workspace.channels[0], payload)

    def _fail(self, failure: Failure) -> None:
        if failure.drip:
            self._drip()
        if failure.hang:
            self.slack.wait_as_if_hung()
        if failure.hang or failure.hang_up or failure.drip:
            self.close_connection = True
            return
        headers = _retry_after(failure)
        if failure.body is not None:
            self._send(failure.status, failure.body, headers=headers)
            return
        if failure.error is None and failure.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            self._send(failure.status, b"<html>upstream error</html>", "text/html", headers)
        else:
            self._send_json({"ok": False, "error": failure.error or "ratelimited"}, failure.status, headers)

    def _drip(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", "1000000")
        self.end_headers()
        with contextlib.suppress(OSError):  # the client has gone
            while not self.slack.wait_as_if_hung(0.05):
                self.wfile.write(b" ")

    def _arguments(self, body: bytes) -> Mapping[str, Any] | None:
        """Decode a JSON body or a form; None for broken JSON."""
        if not (self.headers.get("Content-Type") or "").startswith("application/json"):
            return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
        try:
            arguments = json.loads(body or b"{}")
        except ValueError:
            return None
        return arguments if isinstance(arguments, dict) else None

    def _token(self) -> str | None:
        kind, _, token = (self.headers.get("Authorization") or "").partition(" ")
        return token if kind == "Bearer" else None

    def _send_word(self, word: str, headers: Mapping[str, str] | None = None) -> None:
        self._send(WEBHOOK_STATUS.get(word, 400), word.encode(), "text/plain", headers)

    def _send_json(
        self, answer: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        self._send(status, json.dumps(answer).encode(), "application/json; charset=utf-8", headers)

    def _send(
        self,
        status: int,
        body: bytes,
        content_type: str = "application/json; charset=utf-8",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def _retry_after(failure: Failure) -> dict[str, str]:
    return {"Retry-After": str(failure.retry_after_s)} if failure.retry_after_s is not None else {}
