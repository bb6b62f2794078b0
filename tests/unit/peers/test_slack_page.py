"""The page that shows what was posted lets nothing become HTML that was posted."""

from __future__ import annotations

import urllib.request

from slack_sdk import WebClient

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
