"""What robots were given, as a web page, roughly as DingTalk, WeCom and Feishu show it; everything is escaped.

Of Markdown it knows what the references of DingTalk and WeCom say that their clients show.
"""

import html
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

if TYPE_CHECKING:
    from offsetguard_peers.robots.server import Received

NAMES = {"dingtalk": "DingTalk 钉钉", "wecom": "WeCom 企业微信", "feishu": "Feishu 飞书"}
_PARTS = re.compile(r"(`[^`\n]+`|\[[^\[\]\n]*\]\(https?://[^()\s]*\)|<@[^<>]+>|<at id=[^<>]+></at>)")
_BOLD = re.compile(r"\*\*(\S(?:.*?\S)?)\*\*")
_ITALIC = re.compile(r"(?<![\w*])\*(?!\s)([^*\n]+)(?<!\s)\*(?![\w*])")
_HEADING = re.compile(r"(#{1,6}) (.*)")


def render_page(received: "Sequence[Received]") -> str:
    """Return the whole page: each robot's chat beside the others, newest message first."""
    chats = {robot: [one for one in reversed(received) if one.robot == robot] for robot in NAMES}
    return _TEMPLATES.get_template("page.html.j2").render(chats=chats, names=NAMES)


def markdown_to_html(text: str, called: Sequence[str] = ()) -> Markup:
    """Render Markdown as the clients do; `called`: whom DingTalk calls where its text names them."""
    return Markup("\n".join(_line(line, called) for line in text.split("\n") if line))  # noqa: S704 every part is escaped


def _line(line: str, called: Sequence[str]) -> str:
    if heading := _HEADING.fullmatch(line):
        return f"<h3>{_inline(heading[2], called)}</h3>"
    tag = "blockquote" if line.startswith("> ") else "li" if line.startswith(("- ", "+ ", "* ")) else "p"
    return f"<{tag}>{_inline(line if tag == 'p' else line[2:], called)}</{tag}>"


def _inline(text: str, called: Sequence[str]) -> str:
    return "".join(_part(part) if n % 2 else _styled(part, called) for n, part in enumerate(_PARTS.split(text)))


def _part(part: str) -> str:
    if part.startswith("`"):
        return f"<code>{html.escape(part[1:-1])}</code>"
    if part.startswith("["):
        label, _, url = part[1:-1].partition("](")
        return f'<a href="{html.escape(url)}">{html.escape(label)}</a>'
    return f"<mark>{html.escape(part)}</mark>"  # a call: should be seen


def _styled(text: str, called: Sequence[str]) -> str:
    styled = _ITALIC.sub(r"<i>\1</i>", _BOLD.sub(r"<b>\1</b>", html.escape(text)))
    for one in called:
        styled = styled.replace(f"@{html.escape(one)}", f"<mark>@{html.escape(one)}</mark>")
    return styled


_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True
)
_TEMPLATES.globals |= {"markdown": markdown_to_html}
