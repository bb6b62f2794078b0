"""`offsetguard incidents` and `offsetguard silences`: an operator sees, acknowledges and silences, with a reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from offsetguard.cli.main import offsetguard
from offsetguard.model.errors import SilenceError
from offsetguard.model.incident import EventKind, Evidence, Incident, IncidentEvent, Subject
from offsetguard.model.notification import (
    Channel,
    GroupKey,
    MuteReason,
    NotificationKey,
    Notified,
    NotifiedIncident,
)
from offsetguard.model.offsets import MessageQueue
from offsetguard.model.verdicts import QueueEvidence, Severity
from offsetguard.store import incidents, notifications
from offsetguard.store.database import writing
from offsetguard_peers.databases import fresh_database

START = datetime(2026, 11, 21, 10, 39, tzinfo=UTC)
HOSTILE = "billing\x1b[2J\u202egroup"
BILLING = Incident(
    incident_id="3fa2b1c4d5e6f708",
    subject=Subject("demo", "consumer_offline", "billing", "orders"),
    opened_at=START,
    last_seen_at=START + timedelta(minutes=4),
    seen_count=5,
    evidence=Evidence(
        severity=Severity.CRITICAL,
        state="STOPPED",
        variant="default",
        summary="billing is offline and 20,000 messages behind on orders",
        cause="No client of billing is online.",
        do_next="Start the consumers.",
        figures={"effective_lag": 20_000, "since": START, "lag_ms": None},
        queues=(QueueEvidence(MessageQueue("orders", "broker-a", 3), {"effective_lag": 9_000}),),
        queue_count=4,
        broker_names=frozenset({"broker-a"}),
    ),
    peak_figure="effective_lag",
    peak=20_000,
)
HARMLESS = replace(
    BILLING,
    incident_id="3fb0000000000001",
    subject=Subject("demo", "accumulation", HOSTILE, "orders"),
    evidence=replace(BILLING.evidence, severity=Severity.WARNING, summary=f"{HOSTILE} is behind"),
    unknown_since=START + timedelta(minutes=5),
    unknown_because="broker-a gave no offsets",
)
OVER = replace(
    BILLING,
    incident_id="77aa000000000002",
    subject=replace(BILLING.subject, topic="refunds"),
    resolved_at=START + timedelta(minutes=9),
    resolution="recovered: clients are online",
)
PENDING = replace(BILLING, incident_id="99aa000000000003", subject=Subject("demo", "x", None, None), is_pending=True)


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Result]:
    """Run the command line on a database with an incident of each kind."""
    url = f"sqlite:///{tmp_path / 'offsetguard.db'}"
    engine = fresh_database(url)
    with writing(engine) as session:
        incidents.save(session, [BILLING, HARMLESS, OVER, PENDING])
        opened = IncidentEvent(BILLING.incident_id, START, EventKind.OPENED, "critical: billing is offline")
        incidents.record_events(session, [opened])
        key = NotificationKey(GroupKey("orders", "demo", "consumer_offline"), Channel.MAIL, "orders@example.org")
        knows = NotifiedIncident(Severity.CRITICAL, START, START, repeats=2)
        muted = {OVER.incident_id: MuteReason.SILENCE}
        notifications.save(session, {key: Notified(START, "thread", {BILLING.incident_id: knows}, muted)})
    engine.dispose()

    def run_command(*arguments: str, **environment: str) -> Result:
        given = {"OFFSETGUARD_DATABASE_URL": url, "USER": "anna", **environment}
        return CliRunner().invoke(offsetguard, arguments, env=given)

    return run_command


def lines(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.output.splitlines()]


def test_open_incidents_are_listed_worst_first_and_pending_ones_are_nobodys_concern(run: Callable[..., Result]) -> None:
    listed = lines(run("incidents", "list", "--format", "json"))
    assert [(one["id"], one["severity"], one["state"]) for one in listed] == [
        (BILLING.incident_id, "critical", "STOPPED"),
        (HARMLESS.incident_id, "warning", "UNKNOWN"),
    ]
    assert listed[0]["evidence"] == {"effective_lag": 20_000, "since": START.isoformat(), "lag_ms": None}
    assert lines(run("incidents", "list", "--cluster", "another")) == []


def test_incidents_that_are_over_say_how_they_ended(run: Callable[..., Result]) -> None:
    shown = run("incidents", "list", "--resolved", "--format", "table").output
    assert shown.startswith(f"{OVER.incident_id}  CRITICAL  billing is offline")
    assert "after 9 min: recovered: clients are online" in shown
    assert BILLING.incident_id not in shown


def test_one_incident_says_who_was_told_and_from_whom_it_is_kept(run: Callable[..., Result]) -> None:
    (shown,) = lines(run("incidents", "show", "3fa2"))
    told_of = {"team": "orders", "channel": "mail", "receiver": "orders@example.org"}
    assert shown["told"] == [
        {**told_of, "first_told_at": START.isoformat(), "severity": "critical", "repeats": 2, "muted": None}
    ]
    text = run("incidents", "show", OVER.incident_id, "--format", "table").output
    assert "mail to orders@example.org (team orders): not told, now muted by silence" in text


def test_names_from_the_cluster_cannot_steer_the_terminal(run: Callable[..., Result]) -> None:
    for command in (("incidents", "list"), ("incidents", "show", HARMLESS.incident_id)):
        shown = run(*command, "--format", "table").output
        assert r"billing\x1b[2J\u202egroup" in shown
        assert "\x1b" not in shown


def test_more_than_the_limit_is_said(run: Callable[..., Result]) -> None:
    shown = run("incidents", "list", "--limit", "1", "--format", "table").output
    assert shown.splitlines()[-1] == "and more: --limit 2"


def test_the_first_digits_of_an_id_will_do(run: Callable[..., Result]) -> None:
    (one,) = lines(run("incidents", "show", "3fa2"))
    assert (one["id"], one["queue_count"]) == (BILLING.incident_id, 4)
    assert one["queues"] == [{"topic": "orders", "broker_name": "broker-a", "queue_id": 3, "effective_lag": 9_000}]
    assert one["history"] == [
        {"at": START.isoformat(), "kind": "opened", "by": None, "text": "critical: billing is offline"}
    ]


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ("3f", rf"several incidents begin with '3f': {BILLING.incident_id} \(billing is offline.*write more"),
        ("3fa2b1c4d5e6f700", rf"there is no incident '3fa2b1c4d5e6f700'; do you mean {BILLING.incident_id}"),
        ("zzz", "there is no incident 'zzz': see `offsetguard incidents list`"),
        ("", "there is no incident ''"),
        ("%", "there is no incident '%'"),
        (PENDING.incident_id, "there is no incident"),
    ],
)
@pytest.mark.parametrize("command", [("incidents", "show"), ("incidents", "acknowledge")])
def test_an_unknown_id_names_near_ones(
    run: Callable[..., Result], command: tuple[str, str], wanted: str, says: str
) -> None:
    refused = run(*command, wanted)
    assert refused.exit_code != 0
    with pytest.raises(SilenceError, match=says):
        raise refused.exception  # type: ignore[misc]


def test_who_acknowledges_is_asked_of_nobody_who_is_logged_in(run: Callable[..., Result]) -> None:
    (given,) = lines(run("incidents", "acknowledge", "3fa2", "--comment", "restarting"))
    assert (given["incident_id"], given["author"]) == (BILLING.incident_id, "anna")
    (shown,) = lines(run("incidents", "show", "3fa2"))
    assert (shown["acknowledged"]["author"], shown["acknowledged"]["comment"]) == ("anna", "restarting")
    assert [(event["kind"], event["by"], event["text"]) for event in shown["history"][1:]] == [
        ("acknowledged", "anna", "restarting")
    ]
    lines(run("incidents", "acknowledge", "3fa2", "--author", "bert"))
    assert "acknowledged by bert" in run("incidents", "list", "--format", "table").output


def test_nobody_cannot_acknowledge(run: Callable[..., Result]) -> None:
    refused = run("incidents", "acknowledge", "3fa2", USER="")
    assert refused.exit_code != 0
    assert "--author" in refused.output


def test_what_is_over_needs_no_acknowledgement_and_then_none_is_kept(run: Callable[..., Result]) -> None:
    refused = run("incidents", "acknowledge", "3fa2", "77aa")
    assert "is resolved" in str(refused.exception)
    assert lines(run("incidents", "show", "3fa2"))[0]["acknowledged"] is None


def test_a_silence_says_what_it_matches_and_is_shown_beside_what_it_mutes(run: Callable[..., Result]) -> None:
    (added,) = lines(run("silences", "add", "--group", "bill*", "--for", "2h", "--comment", "load test"))
    assert (added["id"], added["state"], added["matchers"]) == (1, "active", {"consumer_group": "bill*"})
    assert (added["author"], added["open_incidents"]) == ("anna", 2)
    assert lines(run("silences", "list"))[0]["comment"] == "load test"
    assert [one["silenced_by"] for one in lines(run("incidents", "list"))] == [[1], [1]]
    assert "silence 1 by anna: load test" in run("incidents", "show", "3fa2", "--format", "table").output


def test_a_silence_may_be_about_exactly_one_incident(run: Callable[..., Result]) -> None:
    shown = run("silences", "add", "--incident", "3fb", "--for", "7d", "--comment", "known", "--format", "table").output
    assert "matches 1 of 2 open incidents" in shown
    assert [one["silenced_by"] for one in lines(run("incidents", "list"))] == [[], [1]]


def test_a_silence_of_warnings_lets_critical_ones_through(run: Callable[..., Result]) -> None:
    run("silences", "add", "--cluster", "*", "--severity", "warning", "--for", "1h", "--comment", "quiet")
    assert [one["silenced_by"] for one in lines(run("incidents", "list"))] == [[], [1]]


def test_a_silence_ends_before_its_time_once(run: Callable[..., Result]) -> None:
    for _ in range(2):
        run("silences", "add", "--rule", "accumulation", "--for", "2h", "--comment", "deploy")
    (ended,) = lines(run("silences", "expire", "1"))
    assert (ended["state"], ended["ends_at"]) == ("over", ended["expired_at"])
    assert [one["id"] for one in lines(run("silences", "list"))] == [2]
    assert [one["id"] for one in lines(run("silences", "list", "--all"))] == [2, 1]
    assert "silence 1 is over already; those that are not over: 2" in str(run("silences", "expire", "1").exception)
    assert "silence 9 does not exist" in str(run("silences", "expire", "2", "9").exception)
    assert [one["id"] for one in lines(run("silences", "list"))] == [2], "nothing was changed"


def test_a_silence_may_begin_later(run: Callable[..., Result]) -> None:
    options = ("--from", "2099-01-01T00:00Z", "--until", "2099-01-02T00:00+08:00")
    (added,) = lines(run("silences", "add", "--topic", "orders", *options, "--comment", "migration"))
    assert (added["state"], added["ends_at"]) == ("waiting", "2099-01-01T16:00:00+00:00")
    assert [one["silenced_by"] for one in lines(run("incidents", "list"))] == [[], []]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--group", "g", "--comment", "c"), "say how long"),
        (("--group", "g", "--comment", "c", "--for", "1h", "--until", "2099-01-01T00:00Z"), "say how long"),
        (("--group", "g", "--comment", "c", "--until", "2099-01-01T00:00"), "has no time zone"),
        (("--group", "g", "--comment", "c", "--until", "tomorrow"), "is no moment"),
        (("--group", "g", "--comment", "c", "--until", "2020-01-01T00:00Z"), "is over already"),
        (("--group", "g", "--comment", "c", "--for", "0s"), "is over already"),
        (("--group", "g", "--for", "1h"), "--comment"),
        (("--group", "g", "--for", "1h", "--comment", " "), "needs a comment"),
        (("--for", "1h", "--comment", "c"), "needs a cluster, consumer group, topic, rule or severity"),
        (("--for", "1h", "--comment", "c", "--incident", "3fa2", "--group", "g"), "--incident says all"),
        (("--for", "1h", "--comment", "c", "--incident", "nope"), "there is no incident 'nope'"),
    ],
)
def test_a_silence_that_nobody_can_have_meant_is_refused(
    run: Callable[..., Result], options: tuple[str, ...], says: str
) -> None:
    refused = run("silences", "add", *options)
    assert refused.exit_code != 0
    assert says in f"{refused.output} {refused.exception}"
    assert lines(run("silences", "list", "--all")) == []


def test_an_empty_database_says_so(tmp_path: Path) -> None:
    environment = {"OFFSETGUARD_DATABASE_URL": f"sqlite:///{tmp_path / 'new.db'}"}
    said = [
        CliRunner().invoke(offsetguard, [*command.split(), "--format", "table"], env=environment).output
        for command in ("incidents list", "incidents list --resolved", "silences list", "silences list --all")
    ]
    assert said == [
        "Nothing is wrong.\n",
        "No incident is over.\n",
        "Nothing is silenced.\n",
        "There never was a silence.\n",
    ]
