"""Whatever fails and however often: each message stands in Slack once, in order, and the parent shows the newest."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from offsetguard.deliver.channels.slack import SlackChannel, slack_parent
from offsetguard.deliver.messages.slack import SlackMessage
from offsetguard.model.errors import DeliveryError
from offsetguard_peers.cases.running import examples
from offsetguard_peers.slack.server import Failure, SlackServer

METHODS = ("chat.postMessage", "chat.update", "conversations.history", "conversations.replies", "users.conversations")
FAILURES = (
    Failure(status=503),
    Failure(status=503, after_posting=True),
    Failure(hang_up=True),
    Failure(hang_up=True, after_posting=True),
    Failure(error="fatal_error", after_posting=True),
    Failure(status=429, retry_after_s=1),
    Failure(error="token_revoked"),
)
SCRIPT = st.lists(st.tuples(st.sampled_from(METHODS), st.sampled_from(FAILURES)), max_size=12)


@settings(max_examples=examples(0.25))
@given(script=SCRIPT, count=st.integers(1, 3), receiver=st.sampled_from(["#alerts", "C0ALERTS"]))
def test_no_message_is_lost_and_none_stands_twice(script: list[tuple[str, Failure]], count: int, receiver: str) -> None:
    """With the scopes to look messages up. A token that is revoked is mended; the outbox tries until it is accepted."""
    with SlackServer() as slack:
        for method, failure in script:
            slack.fail_next(method, failure)
        receipts: list[str] = []
        for number in range(count):
            receipts.append(_tell_until_accepted(slack, receiver, number, receipts, most_attempts=len(script) + 1))
        posted = slack.messages
    assert [message.ts for message in posted] == [receipt.split()[1] for receipt in receipts]
    assert [message.thread_ts for message in posted] == [None, *[posted[0].ts] * (count - 1)]
    assert [message.text for message in posted] == [str(count - 1), *(str(number) for number in range(1, count))]


def _tell_until_accepted(
    slack: SlackServer, receiver: str, number: int, receipts: list[str], *, most_attempts: int
) -> str:
    channel = SlackChannel.with_token(slack.token, base_url=slack.api_url, timeout_s=30)
    key = f"key {number}"
    metadata = {"event_type": "offsetguard_message", "event_payload": {"idempotency_key": key}}
    message = SlackMessage(text=str(number), blocks=[], metadata=metadata)
    parent = slack_parent(receipts)
    for attempt in range(most_attempts):
        try:
            receipt = channel.send(
                message,
                channel=parent.channel if parent else receiver,
                parent_ts=parent.ts if parent else None,
                idempotency_key=key,
                tried_before=attempt > 0,
            )
        except DeliveryError as error:
            if error.permanent:
                raise
            continue
        assert receipt.remark is None
        return receipt.text
    raise AssertionError(f"{key} was not accepted although each failure happens once")
