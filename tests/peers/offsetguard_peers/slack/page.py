"""The messages of the Slack simulation as a web page, roughly as Slack shows them; everything is escaped."""

import html
import re
from datetime import UTC, datetime
from pathlib import Path

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from offsetguard_peers.slack.workspace import SlackWorkspace


def render_page(workspace: SlackWorkspace) -> str:
    """Return the whole page: each channel that has messages, newest thread first."""
    return _TEMPLATES.get_template("page.html.j2").render(channels=workspace.channels, messages=workspace.messages)


def mrkdwn_to_html(text: str) -> Markup:
    """Render Slack's markup: links in `<...>`, code, bold, italic, strike; its three entities; all else escaped."""
    parts = re.split(r"(<[^<>]*>|`[^`\n]+`)", text)
    return Markup("".join(_markup(part) if index % 2 else _styled(part) for index, part in enumerate(parts)))  # noqa: S704 every part is escaped


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


def _moment(ts: str) -> str:
    return datetime.fromtimestamp(float(ts), tz=UTC).strftime("%H:%M:%S UTC")


_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.globals |= {"mrkdwn": mrkdwn_to_html, "is_link": _is_link, "moment": _moment}
