"""A webhook posts and does nothing else; its address stands in no error, no log and no repr."""

import logging
import traceback
from collections.abc import Iterator

import pytest

from offsetguard.deliver.channels.slack_webhook import SlackWebhookChannel
from offsetguard.deliver.messages.slack import SlackMessage
from offsetguard.model.errors import DeliveryError
from offsetguard_peers.cases.messages import slack_message
from offsetguard_peers.slack.server import WEBHOOK_SECRET, Failure, SlackServer
from offsetguard_peers.slack.workspace import Channel

MESSAGE = slack_message()
PATIENCE_S = 30  # for answers that come, perhaps from a busy machine
SHORT_PATIENCE_S = 2  # for answers that do not


@pytest.fixture(autouse=True)
def _nothing_logs_the_address(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG)
    yield
    assert WEBHOOK_SECRET not in caplog.text


def webhook(server: SlackServer, patience_s: int = PATIENCE_S) -> SlackWebhookChannel:
    return SlackWebhookChannel("orders_webhook", server.webhook_url, patience_s)


def refused(channel: SlackWebhookChannel, message: SlackMessage = MESSAGE) -> DeliveryError:
    """Return why a message was not accepted; nothing of it tells the address."""
    with pytest.raises(DeliveryError) as caught:
        channel.send(message)
    assert "'orders_webhook'" in str(caught.value)
    shown = "".join(traceback.format_exception(caught.value)) + repr(channel)
    assert WEBHOOK_SECRET not in shown
    return caught.value


def test_an_accepted_message_stands_in_the_channel_of_the_webhook(slack_server: SlackServer) -> None:
    receipt = webhook(slack_server).send(MESSAGE)
    (posted,) = slack_server.messages
    assert (posted.channel.name, posted.text, posted.blocks) == ("alerts", MESSAGE.text, MESSAGE.blocks)
    assert receipt.text == "webhook orders_webhook"
    (request,) = slack_server.requests
    arguments = request.arguments
    assert (arguments["unfurl_links"], arguments["unfurl_media"]) == (False, False), "no preview of our own pages"


FAILURES = [
    (Failure(status=429, retry_after_s=7), False, 7, "may post no more for 7 s"),
    (Failure(status=429), False, 30, "may post no more for 30 s"),
    (Failure(status=503), False, None, "HTTP 503; whether the channel has the message is unknown"),
    (Failure(error="rollup_error"), False, None, "HTTP 500"),
    (Failure(error="no_service"), False, None, "no_service; put the address of a new webhook into the connection"),
    (Failure(error="invalid_token"), False, None, "invalid_token; put the address of a new webhook"),
    (Failure(error="channel_is_archived"), True, None, "HTTP 410 channel_is_archived; make a webhook for another"),
    (Failure(error="action_prohibited"), True, None, "HTTP 403 action_prohibited; ask the workspace's admins"),
    (Failure(error="invalid_payload"), True, None, "HTTP 400 invalid_payload; this is a defect of OffsetGuard"),
    (Failure(error="some_new_error"), True, None, "some_new_error; see the Slack API reference"),
    (Failure(hang=True), False, None, "did not answer within 2 s; whether the channel has the message is unknown"),
    (Failure(hang_up=True), False, None, "cannot be reached"),
]


@pytest.mark.parametrize(("failure", "permanent", "retry_after_s", "reason"), FAILURES, ids=str)
def test_each_failure_says_whether_a_retry_can_help(
    slack_server: SlackServer, failure: Failure, permanent: bool, retry_after_s: float | None, reason: str
) -> None:
    slack_server.fail_next("webhook", failure)
    error = refused(webhook(slack_server, SHORT_PATIENCE_S if failure.hang else PATIENCE_S))
    assert (error.permanent, error.retry_after_s) == (permanent, retry_after_s)
    assert reason in str(error)
    assert slack_server.messages == []
    webhook(slack_server).send(MESSAGE)
    assert len(slack_server.messages) == 1, "one request only: the outbox retries, not the client"


def test_an_answer_that_drips_for_ever_is_given_up(slack_server: SlackServer) -> None:
    slack_server.fail_next("webhook", Failure(drip=True))
    error = refused(webhook(slack_server, 1))
    assert "did not answer within 1 s; whether the channel has the message is unknown" in str(error)
    assert not error.permanent


def test_blocks_that_slack_refuses_are_refused_for_good(slack_server: SlackServer) -> None:
    error = refused(webhook(slack_server), slack_message(blocks=[{"type": "nothing"}]))
    assert error.permanent
    assert "HTTP 400 invalid_blocks; this is a defect" in str(error)


def test_an_archived_channel_is_refused_for_good() -> None:
    with SlackServer(channels=(Channel("C0", "old", is_archived=True),)) as slack:
        assert refused(webhook(slack)).permanent


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        (f"http://127.0.0.1:1/services/T/B/{WEBHOOK_SECRET}", "cannot be reached"),
        (f"hooks.slack.com/services/T/B/{WEBHOOK_SECRET}", "correct the connection"),
        (f"https://127.0.0.1:1/services/T/B/{WEBHOOK_SECRET}\r\nHost: evil", "correct the connection"),
        (f"https://127.0.0.1:port/services/T/B/{WEBHOOK_SECRET}", "correct the connection"),
        (f"httpx://{WEBHOOK_SECRET}", "correct the connection"),
    ],
)
def test_a_wrong_address_is_a_matter_of_the_connection_and_is_not_told(url: str, reason: str) -> None:
    error = refused(SlackWebhookChannel("orders_webhook", url, PATIENCE_S))
    assert reason in str(error)
    assert not error.permanent


def test_an_answer_that_is_not_slack_s_is_no_acceptance(slack_server: SlackServer) -> None:
    page = SlackWebhookChannel("orders_webhook", f"{slack_server.url}api/api.test?{WEBHOOK_SECRET}", PATIENCE_S)
    error = refused(page)
    assert "the answer is not Slack's" in str(error)
    assert not error.permanent
