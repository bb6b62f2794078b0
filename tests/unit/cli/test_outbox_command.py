"""`offsetguard outbox`: an operator sees what was not accepted and why, and sends it again after a fix."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import Engine

from offsetguard.model.views import DailyReportView
from offsetguard.store import outbox
from offsetguard.store.database import writing
from offsetguard_peers.cases.messages import VIEW
from offsetguard_peers.command_line import json_lines, run

NOW = datetime(2026, 11, 21, 10, 41, tzinfo=UTC)


@pytest.fixture
def kept(database: Engine) -> Engine:
    """One message waits, one was refused for good with a reason that would clear a terminal."""
    with writing(database) as session:
        for channel, receiver in (("mail", "orders@example.org"), ("slack", "#gone")):
            outbox.enqueue(session, idempotency_key=receiver, channel=channel, receiver=receiver, view=VIEW, now=NOW)
    for lane in outbox.due_lanes(database, now=NOW):
        message = outbox.claim_next(database, lane, now=NOW)
        assert message is not None
        if message.channel == "slack":
            outbox.mark_failed(database, message, error="channel_not_found \x1b[2J")
        else:
            outbox.mark_retry(database, message, next_attempt_at=NOW, error="connection refused")
    return database


def test_what_was_not_accepted_is_listed_with_its_reason(kept: Engine) -> None:
    refused, waiting = json_lines(run("outbox", "list", "--format", "json"))
    assert (refused["receiver"], refused["status"]) == ("#gone", "failed")
    assert waiting == {
        "id": 1,
        "status": "pending",
        "channel": "mail",
        "receiver": "orders@example.org",
        "team": "orders",
        "cluster": "orders-cluster",
        "rule": "accumulation",
        "title": "messages pile up",
        "created_at": NOW.isoformat(),
        "attempts": 1,
        "next_attempt_at": NOW.isoformat(),
        "last_error": "connection refused",
    }


def test_a_reason_cannot_steer_the_terminal(kept: Engine) -> None:
    shown = run("outbox", "list", "--format", "table").stdout
    assert "channel_not_found" in shown
    assert "\x1b" not in shown


def test_of_messages_in_other_languages_the_terminal_says_in_english_what_they_are(database: Engine) -> None:
    report = DailyReportView(
        **{name: getattr(VIEW, name) for name in ("team", "interval_start", "thread_key")},
        severity="info",
        ends_at=NOW,
        day=NOW.date(),
        language="zh",
    )
    with writing(database) as session:
        for view in (VIEW.model_copy(update={"language": "zh", "title": "消息堆积"}), report):
            about = {"idempotency_key": view.rule_id, "channel": "mail", "receiver": view.rule_id}
            outbox.enqueue(session, **about, view=view, now=NOW)
    listed = run("outbox", "list", "--format", "table").stdout
    assert "mail to accumulation: messages pile up" in listed
    assert "mail to daily_report: daily_report" in listed


def test_what_was_refused_for_good_is_due_again(kept: Engine) -> None:
    assert run("outbox", "redrive", "--all").stdout.startswith("1 message will be sent")
    assert run("outbox", "list", "--status", "failed", "--format", "table").stdout == "No message is failed.\n"
    due = outbox.due_lanes(kept, now=datetime.now(UTC))
    assert {lane.receiver for lane in due} == {"#gone", "orders@example.org"}


def test_what_was_refused_for_good_can_be_dismissed_and_keeps_its_reason(kept: Engine) -> None:
    for waits_or_is_not_there in (("1",), ("99",), ("2", "99")):
        refused = run("outbox", "dismiss", *waits_or_is_not_there)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert f"not refused for good: {waits_or_is_not_there[-1]}; those that are: 2; nothing" in " ".join(
            refused.stderr.split()
        )
    assert run("outbox", "dismiss", "--all").stdout.startswith("1 message dismissed")
    (line,) = json_lines(run("outbox", "list", "--status", "dismissed", "--format", "json"))
    assert line["last_error"].startswith("channel_not_found")
    assert run("outbox", "redrive", "--all").stdout.startswith("0 messages")


def test_an_empty_outbox_says_so(database: Engine) -> None:
    assert run("outbox", "list", "--format", "table").stdout == "Nothing waits.\n"
