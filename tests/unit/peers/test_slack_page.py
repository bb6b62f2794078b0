"""The page that shows what was posted renders Slack's markup, and lets nothing else become HTML."""

from __future__ import annotations

import urllib.request

import pytest
from slack_sdk import WebClient

from offsetguard_peers.slack.page import mrkdwn_to_html
from offsetguard_peers.slack.server import SlackServer


def test_the_page_shows_messages_without_letting_them_become_html(slack_server: SlackServer) -> None:
    hostile = "<script>alert(1)</script>"
    blocks = [
        {"type": "header", "text": {"type": "plain_text", "text": hostile}},
        {"type": "section", "text": {"type": "mrkdwn", "text": hostile}},
    ]
    client = WebClient(token=slack_server.token, base_url=slack_server.api_url)
    client.chat_postMessage(channel="C0ALERTS", text=hostile, blocks=blocks)
    with urllib.request.urlopen(slack_server.url) as answer:
        page = answer.read().decode()
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


MARKUP = [
    ("*bold* and _it_", "<b>bold</b> and <i>it</i>"),
    ("a*b*c", "a*b*c"),
    ("`*code*`", "<code>*code*</code>"),
    ("<https://x.test?a=1&amp;b=2|the &lt;b&gt;>", '<a href="https://x.test?a=1&amp;b=2">the &lt;b&gt;</a>'),
    ("<javascript:alert(1)|x>", "<mark>x</mark>"),
    ("<!channel>", "<mark>!channel</mark>"),
    ('a "quoted" &amp; <b', "a &quot;quoted&quot; &amp; &lt;b"),
]


@pytest.mark.parametrize(("markup", "expected"), MARKUP)
def test_slack_markup_is_rendered_and_everything_else_escaped(markup: str, expected: str) -> None:
    assert mrkdwn_to_html(markup) == expected
