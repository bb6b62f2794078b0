"""Feishu and Lark: the custom bot of a group chat, with an interactive card, signed where it wants that.

It answers with `code`, mostly in HTTP 200. It takes 5 messages a second and 100 a minute, and 20 KB each. Everything
in a card is plain text, in which nothing is markup, but for the people whom it calls.

Source: https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot (messages, signature, sizes, rates; of codes
9499, 11232, 19021, 19022, 19024, which XiHanFun/XiHan.Framework: .../LarkResultErrCodeEnum.cs copies; the same in
English at open.larksuite.com). 99991400: larksuite/cli: internal/output/lark_errors.go. In no reference that was
found, but answered to other senders: 19001 (sansan0/TrendRadar#278), 19002 (feiyu563/PrometheusAlert#69), 19007, and
"too many request" as a text of 9499, which is else a document that is wrong.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Any, ClassVar

from offsetguard.deliver.channels.one_post import CLOCK, OUR_DEFECT, Refusal, Robot, as_json, signature
from offsetguard.deliver.messages.robots import Letter, Piece, fitted, letter
from offsetguard.deliver.messages.wording import RESOLVED
from offsetguard.model.notification import Declared
from offsetguard.model.views import AnyView

CHANNEL = Declared(
    name="feishu",
    receivers="feishu",
    meaning="Airflow connections of Feishu or Lark bots; can only add messages",
    title="Feishu",
    title_zh="飞书",
    note="a Feishu bot can only add messages: repeats and ends are new ones, and after a crash one may come twice",
    digests=True,
    mentions="open ids (ou_...) or user ids of those whom a Feishu message calls",
)

MOST_BYTES = 20_000  # of the request, of 20 KB; the signature stands in it
_SIGNATURE_BYTES = 120
_COLOURS = {"critical": "red", "warning": "orange", RESOLVED: "green"}


class FeishuBot(Robot):
    """A custom bot; of Lark, the connection's host is open.larksuite.com."""

    __slots__ = ()

    SERVICE: ClassVar = "Feishu"
    KIND: ClassVar = "bot"
    HOST: ClassVar = "open.feishu.cn"
    PATH: ClassVar = "/open-apis/bot/v2/hook/"
    PER_MINUTE: ClassVar = 100
    CODE: ClassVar = "code"
    TEXT: ClassVar = "msg"
    CONNECTION_ADVICE: ClassVar = (
        'create one of type generic with the bot\'s address as password and, where it signs, {"secret": "..."} as '
        "extra (feishu in the configuration names it)"
    )
    REFUSALS: ClassVar = {
        11232: Refusal("too fast", wait_s=60.0),
        99991400: Refusal("too fast", wait_s=60.0),
        19001: Refusal("there is no such bot; put the address of one that works into the connection"),
        19007: Refusal("the bot is not enabled: see the group's settings"),
        19021: Refusal(f"the connection's extra `secret` is not the bot's, or {CLOCK}"),
        19022: Refusal("the bot does not take messages from this host's address: add it to the bot's settings"),
        19024: Refusal("the bot wants a keyword: let it take OffsetGuard, which stands in each message"),
        19002: OUR_DEFECT,
        9499: OUR_DEFECT,
    }

    @classmethod
    def said(cls, view: AnyView) -> dict[str, Any]:
        """Return what a message says."""
        room = MOST_BYTES - _SIGNATURE_BYTES
        return fitted(letter(view, sentence=1_500), _document, lambda document: len(as_json(document)) <= room)

    def signed(self, said: dict[str, Any], at_s: float) -> tuple[str, dict[str, Any]]:
        """Sign the document: the key is timestamp and secret, the text is empty."""
        if self.secret is None:
            return self.url, said
        timestamp = str(round(at_s))
        sign = signature(f"{timestamp}\n{self.secret}".encode(), b"")
        return self.url, {"timestamp": timestamp, "sign": sign, **said}


def _document(whole: Letter) -> dict[str, Any]:
    header = {"title": _plain(whole.title), "template": _COLOURS.get(whole.status, "blue")}
    card = {"config": {"wide_screen_mode": True}, "header": header, "elements": list(_elements(whole))}
    return {"msg_type": "interactive", "card": card}


def _elements(whole: Letter) -> Iterator[dict[str, Any]]:
    for kind, pieces in groupby(whole.pieces, _kind):
        found = list(pieces)
        if kind == "hr":  # plain text has no headings: a line stands before each
            for one in found:
                yield {"tag": "hr"}
                yield {"tag": "div", "text": _plain(one.text)}
            continue
        if kind == "fields":
            yield {"tag": "div", "fields": [_field(one) for one in found]}
        elif kind == "action":
            links = [link for one in found for link in one.links]
            yield {"tag": "action", "actions": [_button(label, url) for label, url in links]}
        else:
            yield from ({"tag": "div", "text": _plain(one.text)} for one in found)
    if whole.mentions:
        called = " ".join(f"<at id={one}></at>" for one in whole.mentions)
        yield {"tag": "div", "text": {"tag": "lark_md", "content": called}}


def _kind(piece: Piece) -> str:
    if piece.is_heading:
        return "hr"
    return "action" if piece.links else "div" if piece.label is None else "fields"


def _plain(text: str) -> dict[str, str]:
    return {"tag": "plain_text", "content": text}


def _field(piece: Piece) -> dict[str, Any]:
    return {"is_short": len(piece.text) <= 40, "text": _plain(f"{piece.label}\n{piece.text}")}


def _button(label: str, url: str) -> dict[str, Any]:
    return {"tag": "button", "text": _plain(label), "url": url, "type": "default"}
