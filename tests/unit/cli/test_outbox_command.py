"""`offsetguard outbox`: an operator sees what was not accepted and why, and sends it again after a fix."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from offsetguard.cli.main import offsetguard
from offsetguard.model.notification import Channel
from offsetguard.model.views import MessageView, NotificationReason
from offsetguard.store import outbox
from offsetguard.store.database import open_database, writing
from offsetguard_peers.databases import fresh_database

NOW = datetime(2026, 11, 21, 10, 41, tzinfo=UTC)


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """One message waits, one was refused for good with a reason that would clear a terminal."""
    url = f"sqlite:///{tmp_path / 'offsetguard.db'}"
    engine = fresh_database(url)
    view = MessageView(
        team="orders",
        cluster="demo",
        rule_id="accumulation",
        severity="critical",
        title="order-group is offline",
        reason=NotificationReason.FIRST,
        interval_start=NOW,
        thread_key="thread 1",
    )
    with writing(engine) as session:
        for receiver in ("orders@example.org", "#gone"):
            channel = Channel.SLACK if receiver.startswith("#") else Channel.MAIL
            outbox.enqueue(session, idempotency_key=receiver, channel=channel, receiver=receiver, view=view, now=NOW)
    for lane in outbox.due_lanes(engine, now=NOW):
        message = outbox.claim_next(engine, lane, now=NOW)
        assert message is not None
        if message.channel is Channel.SLACK:
            outbox.mark_failed(engine, message, error="channel_not_found \x1b[2J")
        else:
            outbox.mark_retry(engine, message, next_attempt_at=NOW, error="connection refused")
    engine.dispose()
    return url


def run(database_url: str, *arguments: str) -> Result:
    return CliRunner().invoke(offsetguard, ["outbox", *arguments], env={"OFFSETGUARD_DATABASE_URL": database_url})


def test_what_was_not_accepted_is_listed_with_its_reason(database_url: str) -> None:
    lines = [json.loads(line) for line in run(database_url, "list", "--format", "json").output.splitlines()]
    assert [(line["receiver"], line["status"], line["title"]) for line in lines] == [
        ("#gone", "failed", "order-group is offline"),
        ("orders@example.org", "pending", "order-group is offline"),
    ]
    assert lines[1]["last_error"] == "connection refused"


def test_a_reason_cannot_steer_the_terminal(database_url: str) -> None:
    shown = run(database_url, "list", "--format", "table").output
    assert "channel_not_found" in shown
    assert "\x1b" not in shown


def test_what_was_refused_for_good_is_due_again(database_url: str) -> None:
    assert run(database_url, "redrive", "--all").output.startswith("1 message will be sent")
    assert not run(database_url, "list", "--status", "failed", "--format", "json").output
    engine = open_database(database_url)
    due = outbox.due_lanes(engine, now=datetime.now(UTC))
    engine.dispose()
    assert {lane.receiver for lane in due} == {"#gone", "orders@example.org"}


def test_what_was_refused_for_good_can_be_dismissed_and_keeps_its_reason(database_url: str) -> None:
    assert run(database_url, "dismiss", "1").output.startswith("0 messages dismissed"), "it waits, so it is sent"
    assert run(database_url, "dismiss", "--all").output.startswith("1 message dismissed")
    (line,) = run(database_url, "list", "--status", "dismissed", "--format", "json").output.splitlines()
    assert json.loads(line)["last_error"].startswith("channel_not_found")
    assert run(database_url, "redrive", "--all").output.startswith("0 messages")


@pytest.mark.parametrize("command", ["redrive", "dismiss"])
@pytest.mark.parametrize("arguments", [(), ("--all", "2")])
def test_redrive_and_dismiss_ask_which(database_url: str, command: str, arguments: tuple[str, ...]) -> None:
    refused = run(database_url, command, *arguments)
    assert refused.exit_code == 2
    assert "--all" in refused.output


def test_an_empty_outbox_says_so(tmp_path: Path) -> None:
    assert run(f"sqlite:///{tmp_path / 'new.db'}", "list", "--format", "table").output == "Nothing waits.\n"
