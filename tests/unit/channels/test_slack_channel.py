"""Slack accepts, refuses with HTTP 200, limits, fails and hangs; each time it is known whether a retry can help."""

from __future__ import annotations

import pytest

from offsetguard.channels.slack import SlackChannel
from offsetguard.errors import DeliveryError
from offsetguard.messages.slack import SlackMessage
from offsetguard_peers.slack_server import Failure, SlackServer

MESSAGE = SlackMessage(
    text="hello & more",
    blocks=[{"type": "section", "text": {"type": "mrkdwn", "text": "hello", "verbatim": True}}],
    metadata={"event_type": "offsetguard_message", "event_payload": {"idempotency_key": "key 1"}},
)


PATIENCE_S = 5  # one test waits for it; the others for answers that come, perhaps from a busy machine


def channel(server: SlackServer, token: str | None = None) -> SlackChannel:
    return SlackChannel.with_token(token or server.token, base_url=server.api_url, timeout_s=PATIENCE_S)


def test_the_receipt_is_channel_id_and_ts_of_what_slack_keeps(slack: SlackServer) -> None:
    receipt = channel(slack).send(MESSAGE, channel="#alerts")
    (posted,) = slack.messages
    assert receipt.text == f"C0ALERTS {posted.ts}"
    assert posted.metadata == MESSAGE.metadata
    assert slack.requests[0].arguments["mrkdwn"] is False


def test_a_later_message_stands_in_the_thread_and_in_the_channel(slack: SlackServer) -> None:
    first = channel(slack).send(MESSAGE, channel="#alerts")
    channel(slack).send(MESSAGE, channel="#alerts", thread_ts=first.text.split()[1])
    assert (slack.messages[1].thread_ts, slack.messages[1].reply_broadcast) == (slack.messages[0].ts, True)


def test_a_message_whose_parent_is_gone_is_posted_anew(slack: SlackServer) -> None:
    channel(slack).send(MESSAGE, channel="#alerts", thread_ts="1700000000.000100")
    assert [posted.thread_ts for posted in slack.messages] == [None]


@pytest.mark.parametrize(
    ("failure", "permanent", "retry_after_s", "reason"),
    [
        (Failure(status=429, retry_after_s=7), False, 7, "allows no more messages to #alerts for 7 s"),
        (Failure(status=429), False, 30, "allows no more messages to #alerts for 30 s"),
        (Failure(status=503), False, None, "HTTP 503; whether #alerts has the message is unknown"),
        (Failure(error="internal_error"), False, None, "internal_error"),
        (Failure(error="fatal_error"), False, None, "fatal_error"),
        (Failure(error="ratelimited"), False, None, "ratelimited"),
        (Failure(error="token_revoked"), False, None, "token_revoked; correct the Airflow connection"),
        (Failure(error="missing_scope"), False, None, "missing_scope; correct the Airflow connection"),
        (Failure(error="msg_blocks_too_long"), True, None, "msg_blocks_too_long; this is a defect of OffsetGuard"),
        (Failure(error="some_new_error"), True, None, "some_new_error; see the Slack API reference"),
        (Failure(hang=True), False, None, "did not answer within 5 s"),
        (Failure(hang_up=True), False, None, "cannot be reached"),
    ],
    ids=str,
)
def test_each_failure_says_whether_a_retry_can_help(
    slack: SlackServer, failure: Failure, permanent: bool, retry_after_s: float | None, reason: str
) -> None:
    slack.fail_next("chat.postMessage", failure)
    with pytest.raises(DeliveryError) as caught:
        channel(slack).send(MESSAGE, channel="#alerts")
    assert (caught.value.permanent, caught.value.retry_after_s) == (permanent, retry_after_s)
    assert reason in str(caught.value)
    assert len(slack.requests) == 1, "the outbox retries, not the client"


@pytest.mark.parametrize(
    ("receiver", "reason"),
    [
        ("#nowhere", "channel_not_found; correct the channel in config/offsetguard.yml"),
        ("#not-invited", "not_in_channel; invite the app to the channel"),
        ("#archived", "is_archived; name another channel"),
    ],
)
def test_a_channel_that_cannot_be_posted_to_is_permanent_and_says_what_to_do(
    slack: SlackServer, receiver: str, reason: str
) -> None:
    with pytest.raises(DeliveryError) as caught:
        channel(slack).send(MESSAGE, channel=receiver)
    assert caught.value.permanent
    assert reason in str(caught.value)


def test_a_wrong_token_can_be_mended_so_the_message_waits(slack: SlackServer) -> None:
    with pytest.raises(DeliveryError, match="invalid_auth; correct the Airflow connection") as caught:
        channel(slack, "xoxb-wrong").send(MESSAGE, channel="#alerts")
    assert not caught.value.permanent
    assert "xoxb" not in str(caught.value)


def test_blocks_that_slack_refuses_say_which(slack: SlackServer) -> None:
    broken = SlackMessage(
        text="x", blocks=[{"type": "header", "text": {"type": "mrkdwn", "text": "x"}}], metadata=MESSAGE.metadata
    )
    with pytest.raises(DeliveryError, match=r"invalid_blocks .*must be one of plain_text") as caught:
        channel(slack).send(broken, channel="#alerts")
    assert caught.value.permanent


def test_nobody_at_the_address_is_a_matter_of_time() -> None:
    with SlackServer() as server:
        gone = channel(server)
    with pytest.raises(DeliveryError, match="Slack cannot be reached at http://127") as caught:
        gone.send(MESSAGE, channel="#alerts")
    assert not caught.value.permanent
