"""The messages of the Slack simulation as a web page, roughly as Slack shows them; everything is escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from offsetguard_peers.slack.workspace import PostedMessage, SlackWorkspace

STYLE = """
body { font: 15px/1.46 Lato, "Helvetica Neue", Arial, sans-serif; color: #1d1c1d; margin: 0; background: #fff; }
header { background: #4a154b; color: #fff; padding: 10px 20px; font-weight: 700; }
main { max-width: 760px; padding: 8px 20px 40px; }
h2 { font-size: 18px; border-bottom: 1px solid #ddd; padding-bottom: 8px; }
.message { display: flex; gap: 10px; padding: 8px 0; }
.reply { margin-left: 46px; border-left: 3px solid #ddd; padding-left: 10px; }
.icon { width: 36px; height: 36px; border-radius: 4px; background: #2eb67d; color: #fff; text-align: center;
  line-height: 36px; font-weight: 700; flex: none; }
.body { min-width: 0; flex: 1; overflow-wrap: anywhere; }
.author { font-weight: 900; } .app { background: #ddd; font-size: 10px; padding: 1px 3px; border-radius: 2px; }
.time, .context, .notification { color: #616061; font-size: 12px; }
.heading { font-size: 18px; font-weight: 900; margin: 6px 0; }
.section { margin: 6px 0; white-space: pre-wrap; }
.fields { display: grid; grid-template-columns: 1fr 1fr; gap: 4px 16px; margin: 6px 0; white-space: pre-wrap; }
.context span { margin-right: 12px; white-space: pre-wrap; }
.button { display: inline-block; border: 1px solid #aaa; border-radius: 4px; padding: 3px 12px; margin: 4px 8px 4px 0;
  font-weight: 700; color: #1d1c1d; text-decoration: none; }
code { background: #f6f6f6; border: 1px solid #ddd; border-radius: 3px; padding: 1px 3px; color: #c01343;
  font-size: 13px; }
hr { border: 0; border-top: 1px solid #ddd; }
"""


def render_page(workspace: SlackWorkspace) -> str:
    """Return the whole page: each channel that has messages, newest thread first."""
    parts = []
    for channel in workspace.channels:
        mine = [each for each in workspace.messages if each.channel == channel]
        if mine:
            parts.append(f"<h2># {html.escape(channel.name)}</h2>")
            parents = [each for each in mine if each.thread_ts in (None, each.ts)]
            for parent in reversed(parents):
                parts.append(_message(parent))
                parts += [_message(each, reply=True) for each in mine if each.thread_ts == parent.ts != each.ts]
    body = "".join(parts) or "<p>No message has been accepted yet.</p>"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="5">'
        f"<title>Slack (simulated)</title><style>{STYLE}</style></head>"
        f"<body><header>Slack (simulated) &middot; OffsetGuard test</header><main>{body}</main></body></html>"
    )


def _message(message: PostedMessage, *, reply: bool = False) -> str:
    moment = datetime.fromtimestamp(float(message.ts), tz=UTC).strftime("%H:%M:%S UTC")
    edited = " (edited)" if message.edited_ts else ""
    edited += ", also in the channel" if message.reply_broadcast else ""
    content = "".join(_block(block) for block in message.blocks) or _section_text(message.text)
    return (
        f'<article class="message{" reply" if reply else ""}"><div class="icon">O</div><div class="body">'
        f'<span class="author">OffsetGuard</span> <span class="app">APP</span> <span class="time">{moment}{edited}'
        f'</span>{content}<div class="notification">notification: {html.escape(message.text[:200])}</div>'
        "</div></article>"
    )


def _block(block: Mapping[str, Any]) -> str:
    render = RENDERERS.get(block["type"])
    return render(block) if render else f"<p>{html.escape(str(block))}</p>"


def _section(block: Mapping[str, Any]) -> str:
    text = f'<div class="section">{_text(block["text"])}</div>' if "text" in block else ""
    fields = "".join(f"<div>{_text(each)}</div>" for each in block.get("fields", []))
    accessory = _element(block["accessory"]) if "accessory" in block else ""
    return text + (f'<div class="fields">{fields}</div>' if fields else "") + accessory


def _context(block: Mapping[str, Any]) -> str:
    elements = [_element(each) if each["type"] == "image" else _text(each) for each in block["elements"]]
    return f'<div class="context">{"".join(f"<span>{each}</span>" for each in elements)}</div>'


def _element(element: Mapping[str, Any]) -> str:
    if element["type"] == "image":
        return f"[image: {html.escape(element['alt_text'])}]"
    url = element.get("url")
    target = f' href="{html.escape(url)}"' if isinstance(url, str) and _is_link(url) else ""
    return f'<a class="button"{target}>{_text(element["text"])}</a>'


RENDERERS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "header": lambda block: f'<div class="heading">{_text(block["text"])}</div>',
    "section": _section,
    "context": _context,
    "actions": lambda block: f"<div>{''.join(_element(each) for each in block['elements'])}</div>",
    "divider": lambda _: "<hr>",
    "image": _element,
}


def _text(text: Mapping[str, Any]) -> str:
    return mrkdwn_to_html(text["text"]) if text["type"] == "mrkdwn" else html.escape(text["text"])


def _section_text(text: str) -> str:
    return f'<div class="section">{mrkdwn_to_html(text)}</div>'


def mrkdwn_to_html(text: str) -> str:
    """Render Slack's markup: links in `<...>`, code, bold, italic, strike; its three entities; all else escaped."""
    parts = re.split(r"(<[^<>]*>|`[^`\n]+`)", text)
    return "".join(_markup(part) if index % 2 else _styled(part) for index, part in enumerate(parts))


def _markup(part: str) -> str:
    if part.startswith("`"):
        return f"<code>{_escaped(part[1:-1])}</code>"
    target, _, label = part[1:-1].partition("|")
    if _is_link(target):
        return f'<a href="{_escaped(target)}">{_escaped(label or target)}</a>'
    return f"<mark>{_escaped(label or target)}</mark>"  # a mention of people or channels: should be seen


def _styled(text: str) -> str:
    styled = _escaped(text)
    for mark, tag in (("*", "b"), ("_", "i"), ("~", "s")):
        sign = re.escape(mark)
        styled = re.sub(rf"(?<!\w){sign}(?=\S)([^{sign}\n]+?)(?<=\S){sign}(?!\w)", rf"<{tag}>\1</{tag}>", styled)
    return styled


def _escaped(text: str) -> str:
    plain = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    return html.escape(plain)


def _is_link(target: str) -> bool:
    return target.startswith(("http://", "https://", "mailto:"))
