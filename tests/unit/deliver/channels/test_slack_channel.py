"""Slack accepts, refuses with HTTP 200, limits, fails and hangs; each time it is known whether a retry can help.

Whatever fails and however often: each message stands in Slack once, in order, and the parent shows the newest.
"""

import json
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetguard.deliver.channels.channel import LIMIT_S, Receipt
from offsetguard.deliver.channels.slack import SlackChannel, retry_after_s
from offsetguard.deliver.messages.slack import SlackMessage
from offsetguard.model.errors import DeliveryError
from offsetguard_peers.cases.messages import slack_message
from offsetguard_peers.cases.running import examples
from offsetguard_peers.slack.server import Failure, SlackServer

PATIENCE_S = 30  # for answers that come, perhaps from a busy machine
SHORT_PATIENCE_S = 2  # for answers that do not


def tell(
    server: SlackServer,
    text: str = "hello & more",
    key: str = "key 1",
    *,
    to: str = "#alerts",
    below: Receipt | None = None,
    message: SlackMessage | None = None,
    patience_s: int = PATIENCE_S,
    limit_s: float = LIMIT_S,
    **how: Any,
) -> Receipt:
    """Tell the receiver, or the thread of a receipt."""
    opened = SlackChannel.with_token(how.pop("token", server.token), base_url=server.api_url, timeout=patience_s)
    sent = message or slack_message(text, key)
    return replace(opened, limit_s=limit_s).send(sent, to, below=below.text if below else None, **how)


def thread(server: SlackServer) -> list[tuple[str, str | None, bool]]:
    """Return what stands in Slack: text, the parent's text, whether a reply is shown in the channel."""
    texts = {posted.ts: posted.text for posted in server.messages}
    return [
        (posted.text, texts.get(posted.thread_ts or ""), posted.reply_broadcast)
        for posted in server.messages
        if not posted.is_tombstone
    ]


def test_the_receipt_is_channel_id_and_ts_of_what_slack_keeps(slack_server: SlackServer) -> None:
    receipt = tell(slack_server)
    (posted,) = slack_server.messages
    assert (receipt.text, receipt.remark) == (f"C0ALERTS {posted.ts}", None)
    assert posted.metadata == slack_message().metadata
    assert [request.method for request in slack_server.requests] == ["chat.postMessage"]
    arguments = slack_server.requests[0].arguments
    assert arguments["mrkdwn"] is False
    assert (arguments["unfurl_links"], arguments["unfurl_media"]) == (False, False), "no preview of our own pages"


def test_the_receipt_has_the_workspace_where_slack_names_it(slack_server: SlackServer) -> None:
    slack_server.workspace.team = "T0WORKSPACE"
    first = tell(slack_server, "one is down", "key 1")
    second = tell(slack_server, "two are down", "key 2", below=first)
    parent, reply = slack_server.messages
    assert first.text == f"C0ALERTS T0WORKSPACE {parent.ts}"
    assert second.text == f"C0ALERTS T0WORKSPACE {reply.ts} {parent.ts}"
    tell(slack_server, "three are down", "key 3", below=second)
    assert [one.thread_ts for one in slack_server.messages] == [None, parent.ts, parent.ts]


def test_an_update_edits_the_parent_in_place_and_stands_below_it(slack_server: SlackServer) -> None:
    short = [{"type": "section", "text": {"type": "mrkdwn", "text": "short"}}]
    end = slack_message("all is well", "key 3", in_channel=False, reply_blocks=short)
    first = tell(slack_server, "one is down", "key 1")
    second = tell(slack_server, "two are down", "key 2", below=first)
    last = tell(slack_server, message=end, below=second)
    parent, _, reply = slack_server.messages
    assert thread(slack_server) == [
        ("all is well", None, False),
        ("two are down", "all is well", True),
        ("all is well", "all is well", False),
    ]
    assert [receipt.text.split()[2:] for receipt in (first, second, last)] == [[], [parent.ts], [parent.ts]]
    assert (parent.blocks, reply.blocks) == (end.blocks, short), "a reply may be shorter than the state above it"
    assert parent.metadata == slack_message(key="key 1").metadata, "the parent can still be looked up"


def test_a_message_that_was_driven_again_leaves_the_newer_parent_alone(slack_server: SlackServer) -> None:
    first = tell(slack_server, "all is well", "key 2")
    tell(slack_server, "one is down", "key 1", below=first, edit_parent=False)
    assert thread(slack_server) == [("all is well", None, False), ("one is down", "all is well", True)]


@pytest.mark.parametrize("replied", [False, True])
def test_a_deleted_parent_is_replaced_by_a_new_one_that_later_updates_find(
    slack_server: SlackServer, replied: bool
) -> None:
    first = tell(slack_server, "one", "key 1")
    if replied:
        tell(slack_server, "reply", "key 2", below=first)
    slack_server.workspace.delete(first.text.split()[1])
    again = tell(slack_server, "two", "key 3", below=first)
    later = tell(slack_server, "three", "key 4", below=again)
    tell(slack_server, "four", "key 5", below=later)
    assert thread(slack_server)[-3:] == [("four", None, False), ("three", "four", True), ("four", "four", True)]


def test_a_parent_that_may_not_be_edited_any_more_keeps_its_state_and_updates_stand_in_the_channel(
    slack_server: SlackServer,
) -> None:
    first = tell(slack_server, "one is down", "key 1")
    slack_server.workspace.edit_window_s = -10.0
    receipt = tell(slack_server, message=slack_message("all is well", "key 2", in_channel=False), below=first)
    assert thread(slack_server) == [("one is down", None, False), ("all is well", "one is down", True)]
    assert "does not let messages be edited" in str(receipt.remark)


POSTED_UNKNOWINGLY = Failure(status=503, after_posting=True)


@pytest.mark.parametrize("how", ["by name", "by id", "by known id"])
def test_a_parent_that_was_accepted_before_the_crash_is_found_and_not_posted_again(
    slack_server: SlackServer, how: str
) -> None:
    """Also far below other messages, and where our clock is an hour ahead: the history is paged, back to two hours."""
    put_at = datetime.now(UTC)
    slack_server.workspace.clock = (put_at - timedelta(hours=2)).timestamp
    tell(slack_server, "long ago", "key 0")
    slack_server.workspace.clock = put_at.timestamp
    slack_server.fail_next("chat.postMessage", POSTED_UNKNOWINGLY)
    with pytest.raises(DeliveryError, match="unknown"):
        tell(slack_server)
    for number in range(205):
        slack_server.workspace.call(
            "chat.postMessage", {"channel": "C0ALERTS", "text": str(number)}, slack_server.token
        )
    known: dict[str, Any] = {"known_channel_id": "C0ALERTS"} if how == "by known id" else {}
    slack_server.requests.clear()
    receiver = "C0ALERTS" if how == "by id" else "#alerts"
    ours = put_at + timedelta(hours=1)
    receipt = tell(slack_server, to=receiver, tried_before=True, not_before=ours, **known)
    accepted = slack_server.messages[1]
    assert (receipt.text, receipt.remark) == (f"C0ALERTS {accepted.ts}", None)
    lists = ["users.conversations"] if how == "by name" else []
    assert [request.method for request in slack_server.requests] == [*lists, *["conversations.history"] * 2]


@pytest.mark.parametrize("deleted", [False, True], ids=["a reply", "a new parent in place of a deleted one"])
def test_what_was_accepted_in_a_thread_before_the_crash_is_found(slack_server: SlackServer, deleted: bool) -> None:
    first = tell(slack_server, "one", "key 1")
    if deleted:
        slack_server.workspace.delete(first.text.split()[1])
    slack_server.fail_next("chat.postMessage", POSTED_UNKNOWINGLY)
    with pytest.raises(DeliveryError):
        tell(slack_server, "two", "key 2", below=first)
    receipt = tell(slack_server, "two", "key 2", below=first, tried_before=True)
    parent, newest = slack_server.messages[0], slack_server.messages[-1]
    assert receipt.text == f"C0ALERTS {newest.ts} {parent.ts}"
    assert [message.text for message in slack_server.messages] == (["two"] if deleted else ["two", "two"])


def test_what_was_tried_before_and_not_accepted_is_posted_once(slack_server: SlackServer) -> None:
    first = tell(slack_server, "one", "key 1", tried_before=True)
    slack_server.fail_next("chat.update", Failure(status=503))
    with pytest.raises(DeliveryError):
        tell(slack_server, "two", "key 2", below=first)
    tell(slack_server, "two", "key 2", below=first, tried_before=True)
    assert thread(slack_server) == [("two", None, False), ("two", "two", True)]


CANNOT_LOOK = [
    ("#alerts", {"chat:write"}, "lacks the scope channels:read"),
    ("#alerts", {"chat:write", "channels:read"}, "lacks the scope channels:history"),
    ("G0SECRET", {"chat:write", "channels:history"}, "lacks the scope groups:history"),
    ("#private", {"chat:write", "channels:read", "channels:history"}, "lacks the scope groups:read"),
]


@pytest.mark.parametrize(("receiver", "scopes", "remark"), CANNOT_LOOK)
def test_a_token_that_may_not_look_posts_all_the_same_and_says_what_may_follow(
    slack_server: SlackServer, receiver: str, scopes: set[str], remark: str
) -> None:
    slack_server.workspace.scopes = frozenset(scopes)
    receipt = tell(slack_server, to=receiver, tried_before=True)
    assert remark in str(receipt.remark)
    assert "may stand in Slack twice" in str(receipt.remark)
    assert tell(slack_server, to=receiver).remark is None, "nothing to look for"
    assert len(slack_server.messages) == 2


@pytest.mark.parametrize(
    ("failure", "retry_after_s"), [(Failure(status=429, retry_after_s=7), 7), (Failure(status=500), None)]
)
def test_while_slack_cannot_be_asked_nothing_is_posted_blindly(
    slack_server: SlackServer, failure: Failure, retry_after_s: int | None
) -> None:
    slack_server.fail_next("conversations.history", failure)
    with pytest.raises(DeliveryError) as caught:
        tell(slack_server, to="C0ALERTS", tried_before=True)
    assert (caught.value.permanent, caught.value.retry_after_s) == (False, retry_after_s)
    assert slack_server.messages == []


def test_the_key_of_somebody_else_s_message_is_not_ours(slack_server: SlackServer) -> None:
    foreign = {**slack_message().metadata, "event_type": "other_app"}
    slack_server.workspace.call(
        "chat.postMessage", {"channel": "C0ALERTS", "text": "x", "metadata": foreign}, slack_server.token
    )
    tell(slack_server, tried_before=True)
    assert len(slack_server.messages) == 2


@pytest.mark.parametrize(
    ("failure", "permanent", "retry_after_s", "reason"),
    [
        (Failure(status=429, retry_after_s=7), False, 7, "allows no more messages to #alerts for 7 s"),
        (Failure(status=429), False, 30, "allows no more messages to #alerts for 30 s"),
        (Failure(status=503), False, None, "HTTP 503; whether #alerts has the message is unknown"),
        (Failure(error="fatal_error"), False, None, "fatal_error"),
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
    slack_server: SlackServer, failure: Failure, permanent: bool, retry_after_s: float | None, reason: str
) -> None:
    slack_server.fail_next("chat.postMessage", failure)
    with pytest.raises(DeliveryError) as caught:
        tell(slack_server, patience_s=SHORT_PATIENCE_S if failure.hang else PATIENCE_S)
    assert (caught.value.permanent, caught.value.retry_after_s) == (permanent, retry_after_s)
    assert reason in str(caught.value)
    assert len(slack_server.requests) == 1, "the outbox retries, not the client"


@pytest.mark.parametrize("failure", [Failure(drip=True), Failure(drip=True, after_posting=True)], ids=str)
def test_an_answer_that_drips_for_ever_is_given_up(slack_server: SlackServer, failure: Failure) -> None:
    slack_server.fail_next("chat.postMessage", failure)
    with pytest.raises(DeliveryError, match="did not answer within 1 s; whether #alerts has the message is unknown"):
        tell(slack_server, limit_s=1.0)
    tell(slack_server, tried_before=True)
    assert len(slack_server.messages) == 1


NOT_SLACK = {
    "no ts": b'{"ok": true, "channel": "C0ALERTS"}',
    "a ts that is none": b'{"ok": true, "channel": "C0ALERTS", "ts": 5}',
    "no object": b"[]",
    "no JSON": b"<html>Sign in to the wireless network</html>",
    "no UTF-8": '{"ok": true, "note": "größer"}'.encode("utf-16"),
    "deep": b'{"ok": true, "a": ' + b"[" * 200_000,
    "empty": b"",
    "another charset": '{"ok": false, "error": "größer"}'.encode("latin-1"),
    "a number": b"5",
    "an error as a list": b'{"ok": false, "error": ["a"]}',
}
NOT_SLACK_S_REFUSAL = {
    "metadata as a list": b'{"ok": false, "error": "channel_not_found", "response_metadata": ["x"]}',
    "metadata as a text": b'{"ok": false, "error": "channel_not_found", "response_metadata": "x"}',
    "messages as a number": b'{"ok": false, "error": "no_text", "response_metadata": {"messages": 5}}',
}
OURS = slack_message().metadata
NOT_A_HISTORY: dict[str, dict[str, Any]] = {
    "no messages": {},
    "messages as an object": {"messages": {"a": 1}},
    "messages as texts": {"messages": ["a"]},
    "metadata as a text": {"messages": [{"ts": "1.2", "metadata": "a"}]},
    "a payload as a list": {"messages": [{"ts": "1.2", "metadata": {**OURS, "event_payload": [1]}}]},
    "ours, without a ts": {"messages": [{"metadata": OURS}]},
    "ours, with a ts that is none": {"messages": [{"ts": None, "metadata": OURS}]},
    "the next page as a list": {"messages": [], "response_metadata": ["a"]},
    "the next page as a text": {"messages": [], "response_metadata": "a"},
    "the next page as a number": {"messages": [], "response_metadata": 5},
}
NOT_A_LIST_OF_CHANNELS: dict[str, dict[str, Any]] = {
    "without a name": {"channels": [{"id": "C0ALERTS"}]},
    "without an id": {"channels": [{"name": "alerts", "id": None}]},
}


@pytest.mark.parametrize("body", (NOT_SLACK | NOT_SLACK_S_REFUSAL).values(), ids=NOT_SLACK | NOT_SLACK_S_REFUSAL)
@pytest.mark.parametrize("posted", [False, True])
def test_an_answer_that_is_not_slack_s_leaves_it_unknown_so_it_is_looked_for(
    slack_server: SlackServer, body: bytes, *, posted: bool
) -> None:
    slack_server.fail_next("chat.postMessage", Failure(body=body, after_posting=posted))
    with pytest.raises(DeliveryError, match=r"not Slack's .*; whether #alerts has the message is unknown") as caught:
        tell(slack_server)
    assert not caught.value.permanent
    tell(slack_server, tried_before=True)
    assert len(slack_server.messages) == 1


@pytest.mark.parametrize("body", NOT_SLACK.values(), ids=NOT_SLACK)
def test_where_the_look_up_is_answered_by_somebody_else_nothing_is_posted(
    slack_server: SlackServer, body: bytes
) -> None:
    slack_server.fail_next("conversations.history", Failure(body=body))
    with pytest.raises(DeliveryError) as caught:
        tell(slack_server, to="C0ALERTS", tried_before=True)
    assert not caught.value.permanent
    assert slack_server.messages == []


@pytest.mark.parametrize(
    ("to", "method", "body"),
    [
        *[("C0ALERTS", "conversations.history", body) for body in NOT_A_HISTORY.values()],
        *[("#alerts", "users.conversations", body) for body in NOT_A_LIST_OF_CHANNELS.values()],
    ],
    ids=[*NOT_A_HISTORY, *NOT_A_LIST_OF_CHANNELS],
)
def test_where_the_look_up_s_answer_is_odd_nothing_is_posted_until_slack_answers(
    slack_server: SlackServer, to: str, method: str, body: dict[str, Any]
) -> None:
    tell(slack_server)
    slack_server.fail_next(method, Failure(body=json.dumps({"ok": True, **body}).encode()))
    with pytest.raises(DeliveryError, match=r"not Slack's .*; whether .* has the message is unknown") as caught:
        tell(slack_server, to=to, tried_before=True)
    assert not caught.value.permanent
    tell(slack_server, to=to, tried_before=True)
    assert len(slack_server.messages) == 1


def test_what_was_given_up_posts_nothing_later(slack_server: SlackServer) -> None:
    """The outbox has tried again by then."""
    may_go_on = threading.Event()
    slack_server.when("conversations.history", may_go_on.wait)
    with pytest.raises(DeliveryError, match=r"within 0\.2 s"):
        tell(slack_server, to="C0ALERTS", tried_before=True, limit_s=0.2)
    may_go_on.set()
    for abandoned in [thread for thread in threading.enumerate() if thread.name == "slack C0ALERTS"]:
        abandoned.join()
    assert slack_server.messages == []


def test_a_failure_to_edit_is_classified_too_and_nothing_is_posted(slack_server: SlackServer) -> None:
    first = tell(slack_server, "one", "key 1")
    slack_server.fail_next("chat.update", Failure(status=429, retry_after_s=9))
    with pytest.raises(DeliveryError, match="allows no more messages") as caught:
        tell(slack_server, "two", "key 2", below=first)
    assert (caught.value.permanent, caught.value.retry_after_s) == (False, 9)
    assert thread(slack_server) == [("one", None, False)]


NO_BLOCK = slack_message(blocks=[{"type": "header", "text": {"type": "mrkdwn", "text": "x"}}])
REFUSED: list[tuple[dict[str, Any], bool, str]] = [
    ({"to": "#nowhere"}, True, "channel_not_found; correct the channel in config/offsetguard.yml"),
    ({"to": "#not-invited"}, True, "not_in_channel; invite the app to the channel"),
    ({"to": "#archived"}, True, "is_archived; name another channel"),
    ({"message": NO_BLOCK}, True, "invalid_blocks ([ERROR] must be one of plain_text"),
    ({"token": "xoxb-wrong"}, False, "invalid_auth; correct the Airflow connection"),
]


@pytest.mark.parametrize(("how", "permanent", "reason"), REFUSED, ids=[case[2] for case in REFUSED])
def test_what_slack_refuses_says_what_to_do(
    slack_server: SlackServer, how: dict[str, Any], permanent: bool, reason: str
) -> None:
    with pytest.raises(DeliveryError) as caught:
        tell(slack_server, **how)
    assert caught.value.permanent is permanent
    assert reason in str(caught.value)
    assert "xoxb" not in str(caught.value)


def test_nobody_at_the_address_is_a_matter_of_time() -> None:
    with SlackServer() as gone:
        pass
    with pytest.raises(DeliveryError, match="Slack cannot be reached at http://127") as caught:
        tell(gone)
    assert not caught.value.permanent


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
    with SlackServer() as slack_server:
        for method, failure in script:
            slack_server.fail_next(method, failure)
        receipts: list[Receipt] = []
        for number in range(count):
            receipts.append(
                _tell_until_accepted(slack_server, receiver, number, receipts, most_attempts=len(script) + 1)
            )
        posted = slack_server.messages
    assert [message.ts for message in posted] == [receipt.text.split()[1] for receipt in receipts]
    assert [message.thread_ts for message in posted] == [None, *[posted[0].ts] * (count - 1)]
    assert [message.text for message in posted] == [str(count - 1), *(str(number) for number in range(1, count))]


def _tell_until_accepted(
    slack_server: SlackServer, receiver: str, number: int, before: list[Receipt], *, most_attempts: int
) -> Receipt:
    below = before[-1] if before else None
    for attempt in range(most_attempts):
        try:
            receipt = tell(
                slack_server, str(number), f"key {number}", to=receiver, below=below, tried_before=attempt > 0
            )
        except DeliveryError as error:
            if error.permanent:
                raise
            continue
        assert receipt.remark is None
        return receipt
    raise AssertionError(f"{number} was not accepted although each failure happens once")


NOW = datetime(2026, 11, 21, 10, 39, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "wait_s"),
    [
        ("7", 7.0),
        (["7"], 7.0),
        ("31536000", 3_600.0),  # postponed a message to next year
        ("9" * 400, 3_600.0),  # ended a sweep
        ("Sat, 21 Nov 2026 10:40:30 GMT", 90.0),
        ("Sat, 21 Nov 2026 10:00:00 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 3_600.0),
        ("-5", None),
        ("soon", None),
        ("\u0667", None),
        (None, None),
    ],
)
def test_a_wish_to_wait_is_a_number_or_a_date_and_at_most_an_hour(value: Any, wait_s: float | None) -> None:
    assert retry_after_s({"retry-AFTER": value}, NOW) == wait_s
    assert retry_after_s({}, NOW) is None
