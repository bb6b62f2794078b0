"""From incidents to what people see in Slack, in each language: the story of the pictures in docs/messages.md."""

from __future__ import annotations

import re

import pytest

from offsetguard_peers.pictures.slack import READERS, story, tell
from offsetguard_peers.slack.server import SlackServer

WORDS = {
    "en": ("Resolved: 2 consumer groups", "Critical: 2 consumer groups", "06:53:00 UTC"),
    "zh": ("已恢复", "严重", "14:53:00 UTC+8"),
}


@pytest.mark.parametrize("language", READERS)
def test_the_parent_turns_green_and_each_update_stands_below_it(language: str) -> None:
    resolved, critical, moment = WORDS[language]
    with SlackServer() as slack:
        for _, view in story(language, READERS[language]):
            tell(slack, view)
        parent, worse, end = slack.messages
    heads = [message.blocks[0]["text"]["text"] for message in (parent, worse, end)]
    assert [head[0] for head in heads] == ["✅", "🔴", "✅"]
    assert resolved in heads[0]
    assert critical in heads[1]
    assert moment in str(worse.blocks)
    assert [message.thread_ts for message in (parent, worse, end)] == [None, parent.ts, parent.ts]
    assert [message.reply_broadcast for message in (parent, worse, end)] == [False, True, False]
    assert parent.edited_ts is not None


def test_nothing_is_left_in_english_for_chinese_readers() -> None:
    """But for names, commands, numbers and what RocketMQ and Airflow call things."""
    with SlackServer() as slack:
        for _, view in story("zh", READERS["zh"]):
            tell(slack, view)
        said = " ".join(str(text) for message in slack.messages for text in _texts(message.blocks))
    english = set(re.findall(r"[A-Za-z]{3,}", re.sub(r"`[^`]*`|<[^>]*>|mqadmin.*? -s", "", said)))
    named = {"order", "group", "events", "invoice", "broker", "inflight", "UTC", "alice"}
    comment = {"listener", "hangs", "restarting"}
    assert english - named - comment == set()


def _texts(value: object) -> list[str]:
    if isinstance(value, list):
        return [text for each in value for text in _texts(each)]
    if isinstance(value, dict):
        own = value.get("text")
        return [own] if isinstance(own, str) else [text for each in value.values() for text in _texts(each)]
    return []
