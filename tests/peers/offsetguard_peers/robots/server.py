"""DingTalk, WeCom and Feishu to robots: HTTP 200 to everything, with their codes; structure, length, signature, rate.

Source: the references that the channels of the product name; of each the checks come in the order of its documentation.
What Markdown of a robot shows, and whom it calls, is read back from its text as a chat would (`Received.links`, ...).
"""

import base64
import hashlib
import hmac
import json
import re
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from offsetguard_peers.http_server import HttpPeer, Quiet
from offsetguard_peers.robots.page import render_page

TOKEN, SECRET = "robot-token-0123", "SEC-robot-secret"
ROBOTS = ("dingtalk", "wecom", "feishu")
DINGTALK, WECOM, FEISHU = "/robot/send", "/cgi-bin/webhook/send", "/open-apis/bot/v2/hook/"
OK = {"errcode": 0, "errmsg": "ok"}
HOUR_S = 3_600
_LINK = re.compile(r"\[([^\[\]]*)\]\((https?://[^()\s]*)\)")
_CALL = re.compile(r"<@([^<>]+)>|<at id=([^<>]+)></at>")


@dataclass(frozen=True, slots=True)
class Fault:
    """What becomes of the next request instead: an answer, or none."""

    answer: dict[str, Any] | None = None
    status: int = 200
    body: bytes | None = None  # in place of JSON
    headers: tuple[tuple[str, str], ...] = ()
    closes: bool = False
    hangs: bool = False
    drips: bool = False
    accepts: bool = False  # before that, the message is in the chat


@dataclass(frozen=True, slots=True)
class Received:
    """A message as it stands in a chat."""

    robot: str  # dingtalk, wecom or feishu
    document: dict[str, Any]

    @property
    def title(self) -> str:
        """What a list of chats shows of it."""
        if self.robot == "feishu":
            return str(self.document["card"]["header"]["title"]["content"])
        return self.text.partition("\n")[0].removeprefix("### ")

    @property
    def colour(self) -> str | None:
        """The colour of its head, of a card."""
        return str(self.document["card"]["header"]["template"]) if self.robot == "feishu" else None

    @property
    def text(self) -> str:
        """All of it, as it was sent."""
        if self.robot == "feishu":
            return "\n".join(_texts(self.document["card"]))
        return str(self.document["markdown"]["text" if self.robot == "dingtalk" else "content"])

    @property
    def links(self) -> list[str]:
        """Where it leads."""
        if self.robot == "feishu":
            return [one["url"] for part in _parts(self.document) for one in part.get("actions", ())]
        return [url for _, url in _LINK.findall(self.text)]

    @property
    def calls(self) -> list[str]:
        """Whom it calls."""
        if self.robot == "dingtalk":
            at = self.document["at"]
            return [*at["atMobiles"], *(["all"] if at["isAtAll"] or "@all" in self.text.lower() else [])]
        marked = self.text
        if self.robot == "feishu":
            marked = "".join(one["text"]["content"] for one in _parts(self.document) if _is_markup(one))
        return [one or other for one, other in _CALL.findall(marked)]


@dataclass(slots=True)
class Limit:
    """So many in so many seconds; `blocked_s`: how long who was too fast is refused."""

    most: int
    window_s: float
    blocked_s: float = 0.0
    _at: deque[float] = field(default_factory=deque)
    _blocked_until: float = 0.0

    def passes(self, now: float) -> bool:
        """Count a message, unless it comes too fast."""
        while self._at and self._at[0] <= now - self.window_s:
            self._at.popleft()
        if now < self._blocked_until or len(self._at) >= self.most:
            if self.blocked_s and now >= self._blocked_until:
                self._blocked_until = now + self.blocked_s
            return False
        self._at.append(now)
        return True


class RobotServer(HttpPeer):
    """`received`: what was accepted; `refused`: (robot, answer) of all else, in order."""

    def __init__(
        self,
        *,
        signs: bool = True,
        keyword: str = "",
        clock: Callable[[], float] = time.time,
        host: str = "127.0.0.1",
        port: int = 0,
        message_file: Path | None = None,
    ) -> None:
        """`signs`: robots want signatures; `clock`: by which those end, and by which rates are counted.

        `message_file`: keeps what was accepted, also for the next server.
        """
        self._message_file = message_file
        self.signs, self.keyword, self.clock = signs, keyword, clock
        self.received: list[Received] = []
        self.refused: list[tuple[str, dict[str, Any]]] = []
        self.faults: deque[Fault] = deque()
        self.stopped = False
        self._limits: dict[str, list[Limit]] = defaultdict(list)
        self._limits["dingtalk"] = [Limit(20, 60, blocked_s=600)]
        self._limits["wecom"] = [Limit(20, 60)]
        self._limits["feishu"] = [Limit(100, 60), Limit(5, 1)]
        if message_file is not None and message_file.exists():
            kept = map(json.loads, message_file.read_text("utf-8").splitlines())
            self.received += [Received(one["robot"], one["document"]) for one in kept]
        super().__init__(_handler(self), host=host, port=port)

    def accept(self, one: Received) -> None:
        """Let a message stand in its chat, once where its sender gave it a key (`msgUuid`)."""
        key = one.document.get("msgUuid")
        if key is not None and any(other.document.get("msgUuid") == key for other in self.received):
            return
        self.received.append(one)
        if self._message_file is not None:
            with self._message_file.open("a", encoding="utf-8") as kept:
                kept.write(json.dumps({"robot": one.robot, "document": one.document}) + "\n")

    def __exit__(self, *_: object) -> None:
        """Let go of what hangs, and stop."""
        self.stopped = True
        super().__exit__()

    def address(self, robot: str) -> str:
        """Return the address of a robot, which is a secret."""
        root = self.url.rstrip("/")
        paths = {
            "dingtalk": f"{DINGTALK}?access_token={TOKEN}",
            "wecom": f"{WECOM}?key={TOKEN}",
            "feishu": f"{FEISHU}{TOKEN}",
        }
        return f"{root}{paths[robot]}"

    def answer(self, path: str, body: bytes) -> tuple[str, dict[str, Any]]:
        """Return which robot it is and what it answers; what is accepted is kept."""
        parts = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        try:
            document = json.loads(body)
        except ValueError:
            document = None
        if parts.path == DINGTALK:
            return "dingtalk", next(self._dingtalk(query, document, len(body)), OK)
        if parts.path == WECOM:
            return "wecom", next(self._wecom(query, document), OK)
        refused = self._feishu(parts.path.removeprefix(FEISHU), document, len(body))
        return "feishu", next(refused, {"StatusCode": 0, "StatusMessage": "success", "code": 0, "data": {}, "msg": ""})

    def pieces(self, body: bytes) -> Iterator[bytes]:
        """Give single bytes, slowly, until the server stops."""
        for byte in body:
            if not self.stopped:
                yield bytes([byte])
                time.sleep(0.3)

    def _passes(self, robot: str) -> bool:
        now = self.clock()
        passed = [limit.passes(now) for limit in self._limits[robot]]
        return all(passed)

    def _dingtalk(self, query: dict[str, str], document: Any, size: int) -> Iterator[dict[str, Any]]:
        yield from self._dingtalk_security(query)
        if not isinstance(document, dict):
            yield {"errcode": 40035, "errmsg": "缺少参数 json"}
        if document.get("msgtype") != "markdown":
            yield {"errcode": 400105, "errmsg": "unsupported msgtype"}
        markdown = document.get("markdown", {})
        if not markdown.get("title"):
            yield {"errcode": 400402, "errmsg": "miss title"}
        if size > 20_000:
            yield {"errcode": 460101, "errmsg": "message too long, exceed 20000 bytes"}
        if self.keyword not in markdown.get("text", ""):
            yield {"errcode": 310000, "errmsg": "keywords not in content"}
        if not self._passes("dingtalk"):
            text = "send too fast, exceed 20 times per minute"
            yield {"status": 1111, "wait": 5, "source": "x5", "punish": "deny", "errcode": 130101, "errmsg": text}

    def _dingtalk_security(self, query: dict[str, str]) -> Iterator[dict[str, Any]]:
        if query.get("access_token") != TOKEN:
            yield {"errcode": 300005, "errmsg": "token is not exist"}
        timestamp = query.get("timestamp", "")
        if self.signs and (not timestamp.isdecimal() or abs(int(timestamp) / 1_000 - self.clock()) > HOUR_S):
            yield {"errcode": 310000, "errmsg": "invalid timestamp"}
        if self.signs and query.get("sign") != _signed(SECRET, f"{timestamp}\n{SECRET}"):
            yield {"errcode": 310000, "errmsg": "sign not match"}

    def _wecom(self, query: dict[str, str], document: Any) -> Iterator[dict[str, Any]]:
        if query.get("key") != TOKEN:
            yield {"errcode": 93000, "errmsg": "invalid webhook url, hint: [1], from ip: 127.0.0.1"}
        if not isinstance(document, dict) or document.get("msgtype") != "markdown":
            yield {"errcode": 40008, "errmsg": "invalid message type"}
        content = document.get("markdown", {}).get("content", "")
        if not content:
            yield {"errcode": 44004, "errmsg": "empty content"}
        if len(content.encode()) > 4_096:
            yield {"errcode": 40058, "errmsg": "markdown.content exceed max length 4096. invalid Request Parameter"}
        if not self._passes("wecom"):
            yield {"errcode": 45009, "errmsg": "api freq out of limit"}

    def _feishu(self, token: str, document: Any, size: int) -> Iterator[dict[str, Any]]:
        if token != TOKEN:
            yield {"code": 19001, "data": {}, "msg": "param invalid: incoming webhook access token invalid"}
        if size > 20 * 1_024 or not isinstance(document, dict):
            yield {"code": 9499, "data": {}, "msg": "Bad Request"}
        timestamp = str(document.get("timestamp", ""))
        late = not timestamp.isdecimal() or abs(int(timestamp) - self.clock()) > HOUR_S
        if self.signs and (late or document.get("sign") != _signed(f"{timestamp}\n{SECRET}", "")):
            text = "sign match fail or timestamp is not within one hour from current time"
            yield {"code": 19021, "data": {}, "msg": text}
        if document.get("msg_type") != "interactive":
            yield {"code": 19002, "data": {}, "msg": "params error, msg_type need"}
        if (wrong := _wrong_card(document.get("card"))) is not None:
            yield {"code": 9499, "data": {}, "msg": f"Bad Request: {wrong}"}
        if self.keyword not in "\n".join(_texts(document["card"])):
            yield {"code": 19024, "data": {}, "msg": "Key Words Not Found"}
        if not self._passes("feishu"):
            yield {"code": 11232, "data": {}, "msg": "frequency limited psm[lark.oapi.app_platform_runtime]"}


def _signed(key: str, text: str) -> str:
    return base64.b64encode(hmac.new(key.encode(), text.encode(), hashlib.sha256).digest()).decode()


def _parts(document: dict[str, Any]) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = document["card"]["elements"]
    return parts


def _is_markup(part: dict[str, Any]) -> bool:
    return bool(part["tag"] == "div" and part.get("text", {}).get("tag") == "lark_md")


def _texts(card: Any) -> list[str]:
    if isinstance(card, dict):
        found = [card["content"]] if "content" in card else []
        return found + [text for below in card.values() for text in _texts(below)]
    return [text for below in card for text in _texts(below)] if isinstance(card, list) else []


def _wrong_card(card: Any) -> str | None:
    """Return what is wrong with a card of version 1: its header, and each of its elements."""
    colours = {"red", "orange", "green", "blue", "grey"}
    if not isinstance(card, dict) or card.get("header", {}).get("template") not in colours:
        return "header"
    if not _is_text(card["header"].get("title")):
        return "title"
    for part in card.get("elements") or [{}]:
        match part:
            case {"tag": "hr"}:
                right = True
            case {"tag": "div", "text": text}:
                right = _is_text(text)
            case {"tag": "div", "fields": [*fields]}:
                right = bool(fields) and all(type(one["is_short"]) is bool and _is_text(one["text"]) for one in fields)
            case {"tag": "action", "actions": [*buttons]}:
                right = bool(buttons) and all(
                    _is_text(one["text"]) and one["url"].startswith("http") for one in buttons
                )
            case _:
                right = False
        if not right:
            return f"element {part}"
    return None


def _is_text(text: Any) -> bool:
    return isinstance(text, dict) and text.get("tag") in {"plain_text", "lark_md"} and bool(text.get("content"))


def _handler(server: RobotServer) -> type[BaseHTTPRequestHandler]:
    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """Answer as the robot would, or as a fault says."""
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fault = server.faults.popleft() if server.faults else Fault(accepts=True)
            robot, said = server.answer(self.path, body)
            said = fault.answer or said
            if said.get("errcode", said.get("code")) != 0:
                server.refused.append((robot, said))
            elif fault.accepts:
                server.accept(Received(robot, json.loads(body)))
            while fault.hangs and not server.stopped:
                time.sleep(0.02)
            if not fault.closes:
                self._send(fault, json.dumps(said, ensure_ascii=False).encode() if fault.body is None else fault.body)

        def _send(self, fault: Fault, body: bytes) -> None:
            self.send_response(fault.status)
            for name, value in fault.headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            for piece in server.pieces(body) if fault.drips else [body]:
                self.wfile.write(piece)

        def do_GET(self) -> None:
            """Show what stands in the chats, at `/`."""
            page = Fault(headers=(("Content-Type", "text/html; charset=utf-8"),))
            is_page = urlsplit(self.path).path == "/"
            self._send(page, render_page(server.received).encode()) if is_page else self.do_POST()

    return Handler
