"""`offsetguard incidents` and `offsetguard silences`: an operator sees, acknowledges and silences, with a reason."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from offsetguard.judge.incident_words import IncidentWords
from offsetguard.model.errors import UnknownName
from offsetguard.model.incident import EventKind, IncidentEvent, Subject
from offsetguard.model.notification import GroupKey, MuteReason, NotificationKey, Notified, NotifiedIncident
from offsetguard.model.offsets import MessageQueue
from offsetguard.model.verdicts import Explained, QueueEvidence, Severity
from offsetguard.store import incidents, notifications, outbox
from offsetguard.store.database import open_database, writing
from offsetguard_peers.cases.messages import VIEW
from offsetguard_peers.command_line import json_lines, run
from offsetguard_peers.judging.records import an_incident

START = datetime(2026, 11, 21, 10, 39, tzinfo=UTC)
HOSTILE = "billing\x1b[2J\u202egroup"
STOPPED = an_incident(
    "consumer_offline",
    incident_id="3fa2b1c4d5e6f708",
    severity=Severity.CRITICAL,
    opened_at=START,
    last_seen_at=START + timedelta(minutes=4),
    peak_figure="effective_lag",
    peak=20_000,
)
BILLING = replace(
    STOPPED,
    evidence=replace(
        STOPPED.evidence,
        state="STOPPED",
        summary="billing is offline and 20,000 messages behind on orders",
        figures={"effective_lag": 20_000, "since": START, "lag_ms": None},
        queues=(QueueEvidence(MessageQueue("orders", "broker-a", 3), {"effective_lag": 9_000}),),
        queue_count=4,
    ),
)
HARMLESS = replace(
    BILLING,
    incident_id="3fb0000000000001",
    subject=Subject("demo", "accumulation", HOSTILE, "orders"),
    evidence=replace(BILLING.evidence, severity=Severity.WARNING, summary=f"{HOSTILE} is behind", audited=False),
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
PENDING = an_incident("x", incident_id="99aa000000000003", consumer_group=None, topic=None, is_pending=True)


@pytest.fixture(autouse=True)
def known(database: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep an incident of each kind; Anna is logged in."""
    monkeypatch.setenv("USER", "anna")
    with writing(database) as session:
        incidents.save(session, [BILLING, HARMLESS, OVER, PENDING])
        opened = IncidentEvent(BILLING.incident_id, START, EventKind.OPENED, "critical: billing is offline")
        incidents.record_events(session, [opened])
        key = NotificationKey(GroupKey("orders", "demo", "consumer_offline"), "mail", "orders@example.org")
        knows = NotifiedIncident(Severity.CRITICAL, START, START, repeats=2)
        muted = {OVER.incident_id: MuteReason.SILENCE}
        notifications.save(session, {key: Notified(START, "thread", {BILLING.incident_id: knows}, muted)})


def lines(*arguments: str) -> list[dict[str, Any]]:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return json_lines(result)


def text(*arguments: str) -> str:
    return run(*arguments, "--format", "table").stdout


def silenced_by() -> list[list[int]]:
    """Return the silences of each open incident."""
    return [one["silenced_by"] for one in lines("incidents", "list")]


def test_open_incidents_are_listed_worst_first_and_pending_ones_are_nobodys_concern() -> None:
    listed = lines("incidents", "list", "--format", "json")
    assert [(one["id"], one["severity"], one["state"]) for one in listed] == [
        (BILLING.incident_id, "critical", "STOPPED"),
        (HARMLESS.incident_id, "warning", "UNKNOWN"),
    ]
    assert listed[0]["evidence"] == {"effective_lag": 20_000, "since": START.isoformat(), "lag_ms": None}
    assert run("incidents", "list", "--cluster", "another").exit_code == 2  # see test_command_line.py


def test_what_cannot_be_seen_any_more_is_listed_as_it_was_seen_last() -> None:
    last_seen = "last seen 2026-11-21 10:44:00 UTC: "
    (_, listed), (shown,) = lines("incidents", "list"), lines("incidents", "show", HARMLESS.incident_id)
    assert listed["summary"].startswith(last_seen)
    assert listed["cause"].startswith("Not seen any more, because broker-a gave no offsets")
    assert (shown["summary"], shown["cause"]) == (listed["summary"], listed["cause"])
    assert f"WARNING  {last_seen}" in text("incidents", "list")
    assert "Not seen any more, because" in text("incidents", "show", HARMLESS.incident_id)
    assert last_seen in text("incidents", "acknowledge", HARMLESS.incident_id)


def test_so_is_what_it_explains() -> None:
    explained = Explained("flow_control", "billing", "orders", "billing has full caches")
    evidence = replace(HARMLESS.evidence, explains=(explained,))
    unseen, seen = replace(HARMLESS, evidence=evidence), replace(HARMLESS, evidence=evidence, unknown_since=None)
    assert list(IncidentWords(unseen).explains()) == [
        "flow_control: last seen 2026-11-21 10:44:00 UTC: billing has full caches"
    ]
    assert list(IncidentWords(seen).explains()) == ["flow_control: billing has full caches"]


def test_incidents_that_are_over_say_how_they_ended() -> None:
    shown = text("incidents", "list", "--resolved")
    assert shown.startswith(f"{OVER.incident_id}  CRITICAL  billing is offline")
    assert "after 9 min: recovered: clients are online" in shown
    assert BILLING.incident_id not in shown


def test_the_first_digits_of_an_id_show_all_about_it_and_who_was_told() -> None:
    (one,) = lines("incidents", "show", "3fa2")
    assert (one["id"], one["queue_count"]) == (BILLING.incident_id, 4)
    assert one["queues"] == [{"topic": "orders", "broker_name": "broker-a", "queue_id": 3, "effective_lag": 9_000}]
    assert one["history"] == [
        {"at": START.isoformat(), "kind": "opened", "by": None, "text": "critical: billing is offline"}
    ]
    told_of = {"team": "orders", "channel": "mail", "receiver": "orders@example.org"}
    told = {
        "first_told_at": START.isoformat(),
        "severity": "critical",
        "repeats": 2,
        "muted": None,
        "undelivered": None,
    }
    assert one["told"] == [told_of | told]
    kept_from = "mail to orders@example.org (team orders): not told, now muted by silence"
    assert kept_from in text("incidents", "show", OVER.incident_id)


def test_beside_who_is_told_stands_why_that_failed(database: Engine) -> None:
    view = VIEW.model_copy(update={"thread_key": "thread"})
    with writing(database) as session:
        outbox.enqueue(
            session, idempotency_key="k", channel="mail", receiver="orders@example.org", view=view, now=START
        )
    message = outbox.claim_next(database, outbox.Lane("mail", "orders@example.org"), now=START, claim_ms=60_000)
    assert message is not None
    outbox.mark_retry(database, message, next_attempt_at=START, error="nobody listens")
    assert "    not delivered: nobody listens" in text("incidents", "show", BILLING.incident_id)
    (one,) = lines("incidents", "show", BILLING.incident_id)
    assert [told["undelivered"] for told in one["told"]] == ["nobody listens"]


def test_only_of_what_spark_has_not_published_it_is_said_that_nobody_audited_it() -> None:
    shown = {one.incident_id: text("incidents", "show", one.incident_id) for one in (BILLING, HARMLESS)}
    assert [
        one for one, page in shown.items() if "Not checked yet: these figures are what the brokers answered" in page
    ] == [HARMLESS.incident_id]


@pytest.mark.parametrize("command", [("incidents", "list"), ("incidents", "show", HARMLESS.incident_id)])
def test_names_from_the_cluster_cannot_steer_the_terminal(command: tuple[str, ...]) -> None:
    shown = text(*command)
    assert r"billing\x1b[2J\u202egroup" in shown
    assert "\x1b" not in shown


def test_more_than_the_limit_is_said() -> None:
    assert text("incidents", "list", "--limit", "1").splitlines()[-1] == "and more: --limit 2"


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ("3f", rf"several incidents begin with '3f': {BILLING.incident_id} \(billing is offline.*write more"),
        ("3fa2b1c4d5e6f700", rf"nothing is known of incident '3fa2b1c4d5e6f700'; did you mean '{BILLING.incident_id}'"),
        ("zzz", "nothing is known of incident 'zzz'"),
        ("", "nothing is known of incident ''"),
        ("%", "nothing is known of incident '%'"),
        (PENDING.incident_id, "nothing is known of incident"),
    ],
)
@pytest.mark.parametrize("command", ["show", "acknowledge"])
def test_an_unknown_id_names_near_ones(command: str, wanted: str, says: str) -> None:
    refused = run("incidents", command, wanted)
    assert isinstance(refused.exception, UnknownName)
    assert re.search(says, str(refused.exception))


def test_whoever_is_logged_in_acknowledges_or_another_author() -> None:
    (given,) = lines("incidents", "acknowledge", "3fa2", "--comment", "restarting")
    assert (given["incident_id"], given["author"]) == (BILLING.incident_id, "anna")
    (shown,) = lines("incidents", "show", "3fa2")
    assert (shown["acknowledged"]["author"], shown["acknowledged"]["comment"]) == ("anna", "restarting")
    assert [(event["kind"], event["by"], event["text"]) for event in shown["history"][1:]] == [
        ("acknowledged", "anna", "restarting")
    ]
    lines("incidents", "acknowledge", "3fa2", "--author", "bert")
    assert "acknowledged by bert" in text("incidents", "list")


def test_nobody_cannot_acknowledge() -> None:
    refused = run("incidents", "acknowledge", "3fa2", environment={"USER": ""})
    assert refused.exit_code != 0
    assert "--author" in refused.output


def test_what_is_over_needs_no_acknowledgement_and_then_none_is_kept() -> None:
    refused = run("incidents", "acknowledge", "3fa2", "77aa")
    assert "is resolved" in str(refused.exception)
    assert lines("incidents", "show", "3fa2")[0]["acknowledged"] is None


def test_a_silence_says_what_it_matches_and_is_shown_beside_what_it_mutes() -> None:
    (added,) = lines("silences", "add", "--group", "bill*", "--for", "2h", "--comment", "load test")
    assert (added["id"], added["state"], added["matchers"]) == (1, "active", {"consumer_group": "bill*"})
    assert (added["author"], added["open_incidents"]) == ("anna", 2)
    assert lines("silences", "list")[0]["comment"] == "load test"
    assert silenced_by() == [[1], [1]]
    assert "silence 1 by anna: load test" in text("incidents", "show", "3fa2")


def test_a_silence_may_be_about_exactly_one_incident() -> None:
    shown = text("silences", "add", "--incident", "3fb", "--for", "7d", "--comment", "known")
    assert "matches 1 of 2 open incidents" in shown
    assert silenced_by() == [[], [1]]


def test_a_silence_of_warnings_lets_critical_ones_through() -> None:
    run("silences", "add", "--cluster", "*", "--severity", "warning", "--for", "1h", "--comment", "quiet")
    assert silenced_by() == [[], [1]]


def test_a_silence_ends_before_its_time_once() -> None:
    for _ in range(2):
        run("silences", "add", "--rule", "accumulation", "--for", "2h", "--comment", "deploy")
    (ended,) = lines("silences", "expire", "1")
    assert (ended["state"], ended["ends_at"]) == ("over", ended["expired_at"])
    assert [one["id"] for one in lines("silences", "list", "--all")] == [2, 1]
    assert "silence 1 is over already; those that are not over: 2" in str(run("silences", "expire", "1").exception)
    assert "silence 9 does not exist" in str(run("silences", "expire", "2", "9").exception)
    assert [one["id"] for one in lines("silences", "list")] == [2], "nothing was changed"


def test_a_silence_may_begin_later() -> None:
    options = ("--from", "2099-01-01T00:00Z", "--until", "2099-01-02T00:00+08:00")
    (added,) = lines("silences", "add", "--topic", "orders", *options, "--comment", "migration")
    assert (added["state"], added["ends_at"]) == ("waiting", "2099-01-01T16:00:00+00:00")
    assert silenced_by() == [[], []]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--group", "g", "--comment", "c"), "say how long"),
        (("--group", "g", "--comment", "c", "--for", "1h", "--until", "2099-01-01T00:00Z"), "say how long"),
        (("--group", "g", "--comment", "c", "--until", "2099-01-01T00:00"), "has no time zone"),
        (("--group", "g", "--comment", "c", "--until", "2020-01-01T00:00Z"), "is over already"),
        (("--group", "g", "--comment", "c", "--for", "0s"), "is over already"),
        (("--group", "g", "--for", "1h"), "--comment"),
        (("--group", "g", "--for", "1h", "--comment", " "), "needs a comment"),
        (("--for", "1h", "--comment", "c"), "needs a cluster, consumer group, topic, rule or severity"),
        (("--for", "1h", "--comment", "c", "--incident", "3fa2", "--group", "g"), "--incident says all"),
        (("--for", "1h", "--comment", "c", "--incident", "nope"), "nothing is known of incident 'nope'"),
    ],
)
def test_a_silence_that_nobody_can_have_meant_is_refused(options: tuple[str, ...], says: str) -> None:
    refused = run("silences", "add", *options)
    assert refused.exit_code != 0
    assert says in f"{refused.output} {refused.exception}"
    assert lines("silences", "list", "--all") == []


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("incidents list", "Nothing is wrong."),
        ("incidents list --resolved", "No incident is over."),
        ("silences list", "Nothing is silenced."),
        ("silences list --all", "There never was a silence."),
    ],
)
def test_an_empty_database_says_so(tmp_path: Path, command: str, said: str) -> None:
    url = f"sqlite:///{tmp_path / 'new.db'}"
    open_database(url).dispose()
    result = run(*command.split(), "--format", "table", environment={"OFFSETGUARD_DATABASE_URL": url})
    assert result.stdout == f"{said}\n"
