"""The Slack simulation refuses what Slack refuses: else a defect would pass. How it fails, tests of channels see."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from offsetguard_peers.slack.limits import RateLimits
from offsetguard_peers.slack.server import SlackServer


def section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def post(url: str, body: bytes) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, data=body) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def client_of(slack: SlackServer, token: str | None = None, timeout: int = 30) -> WebClient:
    return WebClient(token=token or slack.token, base_url=slack.api_url, timeout=timeout, retry_handlers=[])


REFUSED_POSTS = [
    ("channel_not_found", {"channel": "#nowhere", "text": "x"}),
    ("not_in_channel", {"channel": "#not-invited", "text": "x"}),
    ("is_archived", {"channel": "C0OLD", "text": "x"}),
    ("no_text", {"channel": "C0ALERTS", "text": " "}),
    ("invalid_blocks", {"channel": "C0ALERTS", "text": "x", "blocks": [section("")]}),
    ("msg_blocks_too_long", {"channel": "C0ALERTS", "text": "x", "blocks": [section("x" * 2700)] * 5}),
    ("thread_not_found", {"channel": "C0ALERTS", "text": "x", "thread_ts": "1.000001"}),
    ("invalid_metadata_schema", {"channel": "C0ALERTS", "text": "x", "metadata": {"event_type": "a"}}),
]


@pytest.mark.filterwarnings("ignore:The top-level `text`")
@pytest.mark.parametrize(("error", "arguments"), REFUSED_POSTS)
def test_a_wrong_post_is_refused_with_slack_s_error_and_kept_nowhere(
    slack_server: SlackServer, error: str, arguments: dict[str, Any]
) -> None:
    with pytest.raises(SlackApiError) as refused:
        client_of(slack_server).chat_postMessage(**arguments)
    assert (refused.value.response["error"], refused.value.response.status_code) == (error, 200)
    assert slack_server.messages == []


REFUSED_UPDATES = [
    ("channel_not_found", {"channel": "#alerts", "text": "x"}),
    ("message_not_found", {"channel": "C0ALERTS", "text": "x", "ts": "1.000001"}),
    ("msg_too_long", {"channel": "C0ALERTS", "text": "x" * 4001}),
]


@pytest.mark.parametrize(("error", "arguments"), REFUSED_UPDATES)
def test_a_wrong_update_is_refused(slack_server: SlackServer, error: str, arguments: dict[str, Any]) -> None:
    client = client_of(slack_server)
    ts = client.chat_postMessage(channel="C0ALERTS", text="before")["ts"]
    with pytest.raises(SlackApiError) as refused:
        client.chat_update(**{"ts": ts, **arguments})
    assert refused.value.response["error"] == error
    assert [each.text for each in slack_server.messages] == ["before"]


def test_a_token_is_checked(slack_server: SlackServer) -> None:
    with pytest.raises(SlackApiError, match="invalid_auth"):
        client_of(slack_server, token="xoxb-wrong").auth_test()
    with urllib.request.urlopen(f"{slack_server.api_url}auth.test") as answer:
        assert json.load(answer)["error"] == "not_authed"
    form = f"token={slack_server.token}".encode()
    with urllib.request.urlopen(f"{slack_server.api_url}auth.test", data=form) as answer:
        assert json.load(answer)["ok"]


WEBHOOKS = [
    (b'{"text": "hello"}', 200, "ok"),
    (b"not json", 400, "invalid_payload"),
    (b"{}", 400, "no_text"),
    (b'{"blocks": [{"type": "nothing"}]}', 400, "invalid_blocks"),
]


@pytest.mark.parametrize(("body", "status", "text"), WEBHOOKS)
def test_a_webhook_answers_in_plain_text(slack_server: SlackServer, body: bytes, status: int, text: str) -> None:
    assert post(slack_server.webhook_url, body) == (status, text)


def test_an_unknown_webhook_is_gone_and_a_wrong_secret_refused(slack_server: SlackServer) -> None:
    assert post(f"{slack_server.url}services/T0/B0/x", b'{"text": "hello"}') == (404, "no_service")
    assert post(f"{slack_server.webhook_url}x", b'{"text": "hello"}') == (403, "invalid_token")
    assert slack_server.messages == []


def test_haste_is_answered_by_429_and_the_seconds_to_wait(slack_server: SlackServer) -> None:
    now = [1_800_000_000.0]
    slack_server.workspace.limits = RateLimits(lambda: now[0])
    client = client_of(slack_server)

    def posted(channel: str) -> tuple[int, str, str | None]:
        try:
            client.chat_postMessage(channel=channel, text="x")
        except SlackApiError as error:
            return error.response.status_code, error.response["error"], error.response.headers["Retry-After"]
        return accepted

    accepted, limited = (200, "", None), (429, "ratelimited", "1")
    assert [posted("C0ALERTS") for _ in range(7)] == [accepted] * 5 + [limited] * 2, "a burst, then one a second"
    assert posted("C0OPSROOM") == accepted, "each channel has its own"
    now[0] += 1
    assert [posted("C0ALERTS"), posted("C0ALERTS")] == [accepted, limited]
    assert [post(slack_server.webhook_url, b'{"text": "x"}')[0] for _ in range(6)] == [200] * 5 + [429]


LACKING = [
    ("conversations_history", {"channel": "C0ALERTS"}, "channels:history"),
    ("conversations_replies", {"channel": "C0ALERTS", "ts": "1.1"}, "channels:history"),
    ("users_conversations", {}, "channels:read"),
]


@pytest.mark.parametrize(("method", "arguments", "needed"), LACKING)
def test_a_token_without_the_scope_is_told_which_it_needs(
    slack_server: SlackServer, method: str, arguments: dict[str, str], needed: str
) -> None:
    slack_server.workspace.scopes = frozenset({"chat:write"})
    with pytest.raises(SlackApiError) as refused:
        getattr(client_of(slack_server), method)(**arguments)
    assert refused.value.response["error"] == "missing_scope"
    assert needed in refused.value.response["needed"].split(",")
    assert refused.value.response["provided"] == "chat:write"


def test_private_channels_want_scopes_of_their_own(slack_server: SlackServer) -> None:
    client = client_of(slack_server)
    assert [each["name"] for each in client.users_conversations()["channels"]] == ["alerts", "ops", "archived"]
    with pytest.raises(SlackApiError, match="missing_scope"):
        client.conversations_history(channel="G0SECRET")
    with pytest.raises(SlackApiError, match="missing_scope"):
        client.users_conversations(types="public_channel,private_channel")
    slack_server.workspace.scopes |= {"groups:history", "groups:read"}
    assert client.conversations_history(channel="G0SECRET")["messages"] == []
    assert [each["name"] for each in client.users_conversations(types="private_channel")["channels"]] == ["private"]


def test_a_deleted_parent_leaves_a_tombstone_only_above_replies(slack_server: SlackServer) -> None:
    client = client_of(slack_server)
    parent, other = (client.chat_postMessage(channel="C0ALERTS", text="parent")["ts"] for _ in range(2))
    client.chat_postMessage(channel="C0ALERTS", text="reply", thread_ts=parent)
    slack_server.workspace.delete(parent)
    slack_server.workspace.delete(other)
    shown = client.conversations_history(channel="C0ALERTS")["messages"]
    assert [(each["ts"], each["subtype"]) for each in shown] == [(parent, "tombstone")]
    for ts in (parent, other):
        with pytest.raises(SlackApiError, match="message_not_found"):
            client.chat_update(channel="C0ALERTS", ts=ts, text="x")
    with pytest.raises(SlackApiError, match="thread_not_found"):
        client.chat_postMessage(channel="C0ALERTS", text="x", thread_ts=other)


def test_an_edit_after_the_window_and_of_another_s_message_is_refused(slack_server: SlackServer) -> None:
    client = client_of(slack_server)
    ts = client.chat_postMessage(channel="C0ALERTS", text="before")["ts"]
    post(slack_server.webhook_url, b'{"text": "hello"}')
    slack_server.workspace.edit_window_s = -10.0
    with pytest.raises(SlackApiError, match="edit_window_closed"):
        client.chat_update(channel="C0ALERTS", ts=ts, text="after")
    with pytest.raises(SlackApiError, match="cant_update_message"):
        client.chat_update(channel="C0ALERTS", ts=slack_server.messages[1].ts, text="after")
    assert [each.text for each in slack_server.messages] == ["before", "hello"]


WRONG_READS = [
    ("invalid_limit", {"limit": 1000}),
    ("invalid_limit", {"limit": "many"}),
    ("invalid_cursor", {"cursor": "2"}),
    ("invalid_ts_oldest", {"oldest": "yesterday"}),
]


@pytest.mark.parametrize(("error", "arguments"), WRONG_READS)
def test_a_wrong_page_is_refused(slack_server: SlackServer, error: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(SlackApiError, match=error):
        client_of(slack_server).conversations_history(channel="C0ALERTS", **arguments)
