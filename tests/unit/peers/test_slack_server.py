"""The Slack simulation refuses what our channels never send, else a defect would pass; the rest their tests see."""

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


def client_of(slack: SlackServer) -> WebClient:
    return WebClient(token=slack.token, base_url=slack.api_url, retry_handlers=[])


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


def test_an_update_may_have_fewer_characters_than_a_post(slack_server: SlackServer) -> None:
    client = client_of(slack_server)
    ts = client.chat_postMessage(channel="C0ALERTS", text="x" * 4001)["ts"]
    with pytest.raises(SlackApiError, match="msg_too_long"):
        client.chat_update(channel="C0ALERTS", ts=ts, text="y" * 4001)


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
