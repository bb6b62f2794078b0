"""Slack accepts, refuses with HTTP 200, limits, fails and hangs; each time it is known whether a retry can help.

Whatever fails and however often: each message stands in Slack once, in order, and the parent shows the newest.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetguard.deliver.channels.channel import Receipt
from offsetguard.deliver.channels.slack import SlackChannel, SlackParent, slack_parent
from offsetguard.deliver.messages.slack import SlackMessage
from offsetguard.model.errors import DeliveryError
from offsetguard_peers.cases.running import examples
from offsetguard_peers.slack.server import Failure, SlackServer

MESSAGE = SlackMessage(
    text="hello & more",
    blocks=[{"type": "section", "text": {"type": "mrkdwn", "text": "hello", "verbatim": True}}],
    metadata={"event_type": "offsetguard_message", "event_payload": {"idempotency_key": "key 1"}},
)


PATIENCE_S = 30  # for answers that come, perhaps from a busy machine
SHORT_PATIENCE_S = 2  # for answers that do not


def channel(server: SlackServer, token: str | None = None, patience_s: int = PATIENCE_S) -> SlackChannel:
    return SlackChannel.with_token(token or server.token, base_url=server.api_url, timeout_s=patience_s)


def saying(text: str, key: str, *, in_channel: bool = True) -> SlackMessage:
    metadata = {"event_type": "offsetguard_message", "event_payload": {"idempotency_key": key}}
    return replace(MESSAGE, text=text, metadata=metadata, in_channel=in_channel)


def tell(
    server: SlackServer,
    message: SlackMessage = MESSAGE,
    *,
    to: str = "#alerts",
    below: Receipt | None = None,
    **how: Any,
) -> Receipt:
    """Tell through the receiver's name, or below the parent of a receipt."""
    parts = below.text.split() if below else [to, None]
    key = message.metadata["event_payload"]["idempotency_key"]
    how = {"tried_before": False, **how}
    opened = channel(server, how.pop("token", None), how.pop("patience_s", PATIENCE_S))
    opened = replace(opened, limit_s=how.pop("limit_s", opened.limit_s))
    return opened.send(message, channel=str(parts[0]), parent_ts=parts[-1], idempotency_key=key, **how)


def thread(server: SlackServer) -> list[tuple[str, str | None, bool]]:
    """Return what stands in Slack: text, the parent's text, whether a reply is shown in the channel."""
    texts = {posted.ts: posted.text for posted in server.messages}
    return [
        (posted.text, texts.get(posted.thread_ts or ""), posted.reply_broadcast)
        for posted in server.messages
        if not posted.is_tombstone
    ]


def test_the_receipt_is_channel_id_and_ts_of_what_slack_keeps(slack: SlackServer) -> None:
    receipt = tell(slack)
    (posted,) = slack.messages
    assert (receipt.text, receipt.remark) == (f"C0ALERTS {posted.ts}", None)
    assert posted.metadata == MESSAGE.metadata
    assert [request.method for request in slack.requests] == ["chat.postMessage"]
    assert slack.requests[0].arguments["mrkdwn"] is False


def test_an_update_edits_the_parent_in_place_and_stands_below_it(slack: SlackServer) -> None:
    first = tell(slack, saying("one is down", "key 1"))
    second = tell(slack, saying("two are down", "key 2"), below=first)
    last = tell(slack, saying("all is well", "key 3", in_channel=False), below=second)
    parent = slack.messages[0]
    assert thread(slack) == [
        ("all is well", None, False),
        ("two are down", "all is well", True),
        ("all is well", "all is well", False),
    ]
    assert [receipt.text.split()[2:] for receipt in (first, second, last)] == [[], [parent.ts], [parent.ts]]
    assert parent.metadata == saying("", "key 1").metadata, "the parent can still be looked up"


def test_a_reply_may_be_shorter_than_the_state_that_its_parent_shows(slack: SlackServer) -> None:
    short = [{"type": "section", "text": {"type": "mrkdwn", "text": "short"}}]
    first = tell(slack)
    tell(slack, replace(saying("all is well", "key 2"), reply_blocks=short), below=first)
    assert [posted.blocks for posted in slack.messages] == [MESSAGE.blocks, short]


def test_a_message_that_was_driven_again_leaves_the_newer_parent_alone(slack: SlackServer) -> None:
    first = tell(slack, saying("all is well", "key 2"))
    tell(slack, saying("one is down", "key 1"), below=first, edit_parent=False)
    assert thread(slack) == [("all is well", None, False), ("one is down", "all is well", True)]


@pytest.mark.parametrize("replied", [False, True])
def test_a_deleted_parent_is_replaced_by_a_new_one_that_later_updates_find(slack: SlackServer, replied: bool) -> None:
    first = tell(slack, saying("one", "key 1"))
    if replied:
        tell(slack, saying("reply", "key 2"), below=first)
    slack.workspace.delete(first.text.split()[1])
    again = tell(slack, saying("two", "key 3"), below=first)
    receipts = [first.text, again.text]
    parent = slack_parent(receipts)
    assert parent is not None
    later = channel(slack).send(
        saying("three", "key 4"),
        channel=parent.channel,
        parent_ts=parent.ts,
        idempotency_key="key 4",
        tried_before=False,
    )
    assert slack_parent([*receipts, later.text]) == parent
    assert thread(slack)[-2:] == [("three", None, False), ("three", "three", True)]


def test_a_parent_that_may_not_be_edited_any_more_keeps_its_state_and_updates_stand_in_the_channel(
    slack: SlackServer,
) -> None:
    first = tell(slack, saying("one is down", "key 1"))
    slack.workspace.edit_window_s = -10.0
    receipt = tell(slack, saying("all is well", "key 2", in_channel=False), below=first)
    assert thread(slack) == [("one is down", None, False), ("all is well", "one is down", True)]
    assert "does not let messages be edited" in str(receipt.remark)


POSTED_UNKNOWINGLY = Failure(status=503, after_posting=True)


@pytest.mark.parametrize("how", ["by name", "by id", "by known id"])
def test_a_parent_that_was_accepted_before_the_crash_is_found_and_not_posted_again(
    slack: SlackServer, how: str
) -> None:
    """Also far below other messages: the history is paged, and only the time since the first attempt is read."""
    put_at = datetime.now(UTC)
    slack.workspace.clock = (put_at - timedelta(hours=1)).timestamp
    tell(slack, saying("long ago", "key 0"))
    slack.workspace.clock = put_at.timestamp
    slack.fail_next("chat.postMessage", POSTED_UNKNOWINGLY)
    with pytest.raises(DeliveryError, match="unknown"):
        tell(slack)
    for number in range(205):
        slack.workspace.call("chat.postMessage", {"channel": "C0ALERTS", "text": str(number)}, slack.token)
    known: dict[str, Any] = {"known_channel_id": "C0ALERTS"} if how == "by known id" else {}
    slack.requests.clear()
    receiver = "C0ALERTS" if how == "by id" else "#alerts"
    receipt = tell(slack, to=receiver, tried_before=True, not_before=put_at, **known)
    accepted = slack.messages[1]
    assert (receipt.text, receipt.remark) == (f"C0ALERTS {accepted.ts}", None)
    lists = ["users.conversations"] if how == "by name" else []
    assert [request.method for request in slack.requests] == [*lists, *["conversations.history"] * 2]


def test_a_reply_that_was_accepted_before_the_crash_is_found_and_not_posted_again(slack: SlackServer) -> None:
    first = tell(slack, saying("one", "key 1"))
    slack.fail_next("chat.postMessage", POSTED_UNKNOWINGLY)
    with pytest.raises(DeliveryError):
        tell(slack, saying("two", "key 2"), below=first)
    receipt = tell(slack, saying("two", "key 2"), below=first, tried_before=True)
    parent, reply = slack.messages
    assert receipt.text == f"C0ALERTS {reply.ts} {parent.ts}"
    assert parent.text == "two"


def test_what_was_tried_before_and_not_accepted_is_posted_once(slack: SlackServer) -> None:
    first = tell(slack, saying("one", "key 1"), tried_before=True)
    slack.fail_next("chat.update", Failure(status=503))
    with pytest.raises(DeliveryError):
        tell(slack, saying("two", "key 2"), below=first)
    tell(slack, saying("two", "key 2"), below=first, tried_before=True)
    assert thread(slack) == [("two", None, False), ("two", "two", True)]


def test_a_new_parent_in_place_of_a_deleted_one_is_found_after_a_crash(slack: SlackServer) -> None:
    first = tell(slack, saying("one", "key 1"))
    slack.workspace.delete(first.text.split()[1])
    slack.fail_next("chat.postMessage", POSTED_UNKNOWINGLY)
    with pytest.raises(DeliveryError):
        tell(slack, saying("two", "key 2"), below=first)
    receipt = tell(slack, saying("two", "key 2"), below=first, tried_before=True)
    (posted,) = slack.messages
    assert receipt.text == f"C0ALERTS {posted.ts} {posted.ts}"


CANNOT_LOOK = [
    ("#alerts", {"chat:write"}, "lacks the scope channels:read"),
    ("#alerts", {"chat:write", "channels:read"}, "lacks the scope channels:history"),
    ("G0SECRET", {"chat:write", "channels:history"}, "lacks the scope groups:history"),
    ("#private", {"chat:write", "channels:read", "channels:history"}, "lacks the scope groups:read"),
]


@pytest.mark.parametrize(("receiver", "scopes", "remark"), CANNOT_LOOK)
def test_a_token_that_may_not_look_posts_all_the_same_and_says_what_may_follow(
    slack: SlackServer, receiver: str, scopes: set[str], remark: str
) -> None:
    slack.workspace.scopes = frozenset(scopes)
    receipt = tell(slack, to=receiver, tried_before=True)
    assert remark in str(receipt.remark)
    assert "may stand in Slack twice" in str(receipt.remark)
    assert tell(slack, to=receiver).remark is None, "nothing to look for"
    assert len(slack.messages) == 2


@pytest.mark.parametrize(
    ("failure", "retry_after_s"), [(Failure(status=429, retry_after_s=7), 7), (Failure(status=500), None)]
)
def test_while_slack_cannot_be_asked_nothing_is_posted_blindly(
    slack: SlackServer, failure: Failure, retry_after_s: int | None
) -> None:
    slack.fail_next("conversations.history", failure)
    with pytest.raises(DeliveryError) as caught:
        tell(slack, to="C0ALERTS", tried_before=True)
    assert (caught.value.permanent, caught.value.retry_after_s) == (False, retry_after_s)
    assert slack.messages == []


def test_the_key_of_somebody_else_s_message_is_not_ours(slack: SlackServer) -> None:
    foreign = {**MESSAGE.metadata, "event_type": "other_app"}
    slack.workspace.call("chat.postMessage", {"channel": "C0ALERTS", "text": "x", "metadata": foreign}, slack.token)
    tell(slack, tried_before=True)
    assert len(slack.messages) == 2


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
        (Failure(hang=True), False, None, "did not answer within 2 s"),
        (Failure(hang_up=True), False, None, "cannot be reached"),
    ],
    ids=str,
)
def test_each_failure_says_whether_a_retry_can_help(
    slack: SlackServer, failure: Failure, permanent: bool, retry_after_s: float | None, reason: str
) -> None:
    slack.fail_next("chat.postMessage", failure)
    with pytest.raises(DeliveryError) as caught:
        tell(slack, patience_s=SHORT_PATIENCE_S if failure.hang else PATIENCE_S)
    assert (caught.value.permanent, caught.value.retry_after_s) == (permanent, retry_after_s)
    assert reason in str(caught.value)
    assert len(slack.requests) == 1, "the outbox retries, not the client"


@pytest.mark.parametrize("failure", [Failure(drip=True), Failure(drip=True, after_posting=True)], ids=str)
def test_an_answer_that_drips_for_ever_is_given_up(slack: SlackServer, failure: Failure) -> None:
    slack.fail_next("chat.postMessage", failure)
    with pytest.raises(DeliveryError, match="did not answer within 1 s; whether #alerts has the message is unknown"):
        tell(slack, limit_s=1.0)
    tell(slack, tried_before=True)
    assert len(slack.messages) == 1


def test_what_was_given_up_posts_nothing_later(slack: SlackServer) -> None:
    """The outbox has tried again by then."""
    may_go_on = threading.Event()
    slack.when("conversations.history", may_go_on.wait)
    with pytest.raises(DeliveryError, match=r"within 0\.2 s"):
        tell(slack, to="C0ALERTS", tried_before=True, limit_s=0.2)
    may_go_on.set()
    for abandoned in [thread for thread in threading.enumerate() if thread.name == "slack C0ALERTS"]:
        abandoned.join()
    assert slack.messages == []


def test_a_failure_to_edit_is_classified_too_and_nothing_is_posted(slack: SlackServer) -> None:
    first = tell(slack, saying("one", "key 1"))
    slack.fail_next("chat.update", Failure(status=429, retry_after_s=9))
    with pytest.raises(DeliveryError, match="allows no more messages") as caught:
        tell(slack, saying("two", "key 2"), below=first)
    assert (caught.value.permanent, caught.value.retry_after_s) == (False, 9)
    assert thread(slack) == [("one", None, False)]


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
        tell(slack, to=receiver)
    assert caught.value.permanent
    assert reason in str(caught.value)


def test_a_wrong_token_can_be_mended_so_the_message_waits(slack: SlackServer) -> None:
    with pytest.raises(DeliveryError, match="invalid_auth; correct the Airflow connection") as caught:
        tell(slack, token="xoxb-wrong")
    assert not caught.value.permanent
    assert "xoxb" not in str(caught.value)


def test_blocks_that_slack_refuses_say_which(slack: SlackServer) -> None:
    broken = SlackMessage(
        text="x", blocks=[{"type": "header", "text": {"type": "mrkdwn", "text": "x"}}], metadata=MESSAGE.metadata
    )
    with pytest.raises(DeliveryError, match=r"invalid_blocks .*must be one of plain_text") as caught:
        tell(slack, broken)
    assert caught.value.permanent


def test_nobody_at_the_address_is_a_matter_of_time() -> None:
    with SlackServer() as gone:
        pass
    with pytest.raises(DeliveryError, match="Slack cannot be reached at http://127") as caught:
        tell(gone)
    assert not caught.value.permanent


THREADS = [
    ([], None, "nothing was accepted"),
    (["C1 1.1"], "1.1", "the first message"),
    (["C1 1.1", "C1 2.2 1.1"], "1.1", "a reply names its parent"),
    (["C1 1.1", "C1 2.2", "C1 3.3"], "1.1", "replies of the release before name none"),
    (["C1 1.1", "C1 2.2 1.1", "C1 3.3 3.3"], "3.3", "a parent in place of one that was deleted"),
    (["C1 1.1", "C1 3.3 3.3", "C1 4.4 3.3"], "3.3", "replies to it"),
]


@pytest.mark.parametrize(("receipts", "ts", "why"), THREADS, ids=[case[2] for case in THREADS])
def test_the_newest_receipt_that_names_a_parent_decides(receipts: list[str], ts: str | None, why: str) -> None:
    assert slack_parent(receipts) == (None if ts is None else SlackParent("C1", ts)), why


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
