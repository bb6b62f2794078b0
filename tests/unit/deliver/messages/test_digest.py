"""One mail instead of many: worst cause first, few groups of each, and everything that is not listed counted."""

from html import escape

import pytest

from offsetguard.model.digest import INCIDENTS_PER_CAUSE, digest
from offsetguard.model.views import read_view
from offsetguard_peers.cases.messages import ENDED, VIEW, incident, mail_of, message

OVER = message(rule_id="loss_ahead", title="messages will be lost", firing=(), resolved=(ENDED,))
OF_312_GROUPS = message(
    *(incident(consumer_group=f"g-{n}", summary=f"g-{n}: 3 dead letters") for n in range(7)),
    severity="warning",
    rule_id="dead_letters",
    title="new dead letters",
    hidden_firing=305,
    group_count=312,
)
DIGEST = digest([OVER, OF_312_GROUPS, VIEW], thread_key="thread")


def test_a_digest_tells_the_worst_cause_first_and_counts_what_it_does_not_list() -> None:
    assert [(one.rule_id, one.firing_count, one.resolved_count) for one in DIGEST.sections] == [
        ("accumulation", 1, 0),
        ("dead_letters", 312, 0),
        ("loss_ahead", 0, 1),
    ]
    assert DIGEST.severity == "critical"
    assert len(DIGEST.sections[1].firing) == INCIDENTS_PER_CAUSE
    assert (
        mail_of(DIGEST).text
        == """\
CRITICAL: 3 causes in one mail: 313 findings, 1 resolved
Cluster orders-cluster

1. CRITICAL: 1 consumer group · messages pile up
   - order-group is offline and 5,120 messages behind on order-events
     Consumer group order-group is 5,120 messages behind on order-events and no client of it is online.
   What to do. Start the consumers of order-group.
   rule accumulation

2. WARNING: 312 consumer groups · new dead letters
   - g-0: 3 dead letters
     Consumer group order-group is 5,120 messages behind on order-events and no client of it is online.
   - g-1: 3 dead letters
     Consumer group order-group is 5,120 messages behind on order-events and no client of it is online.
   - g-2: 3 dead letters
     Consumer group order-group is 5,120 messages behind on order-events and no client of it is online.
   - g-3: 3 dead letters
     Consumer group order-group is 5,120 messages behind on order-events and no client of it is online.
   - g-4: 3 dead letters
   and 307 more findings
   What to do. Start the consumers of order-group.
   rule dead_letters

3. RESOLVED: 1 consumer group · messages will be lost
   - Resolved · order-group · caught up after 41 min
   rule loss_ahead

Open in Airflow         http://127.0.0.1:8080
Data Docs               http://127.0.0.1:8080/docs?a=1&b=2

--\x20
One mail instead of 3: more than your route wants at a time.
Interval 2026-11-21 07:19:00 UTC · team orders · OffsetGuard
"""
    )


def test_text_and_html_of_a_digest_say_the_same() -> None:
    html = mail_of(DIGEST).html
    lines = ("312 consumer groups · new dead letters", "and 307 more findings", "rule loss_ahead", "caught up")
    for words in (*lines, f'href="{escape(str(VIEW.firing[0].group_url))}"'):
        assert words in html
    assert "cid:" not in html


def test_causes_of_one_rule_share_no_room() -> None:
    """Incidents of two messages may stand in the words of one rule by now."""
    two = [
        message(incident(severity=severity, cause=f"why {severity} {n}", summary=f"{severity} {n}"), severity=severity)
        for n, severity in enumerate(["critical", "warning"])
    ]
    more = message(*(incident(cause=f"why {n}", severity="critical") for n in range(4)), rule_id="dead_letters")
    said = mail_of(digest([*two, more], thread_key="thread")).text
    assert "why critical 0" in said
    assert "why warning 1" not in said, "five causes are shown, the worst"


def test_the_subject_of_a_digest_says_how_many_and_how_bad() -> None:
    subject = mail_of(DIGEST).message["Subject"]
    assert subject == "[CRITICAL] orders-cluster · 3 causes in one mail: 313 findings, 1 resolved"
    over = mail_of(digest([OVER], thread_key="thread")).message["Subject"]
    assert over == "[RESOLVED] orders-cluster · 1 cause in one mail: 1 resolved"


def test_a_hundred_causes_give_a_mail_that_mail_programs_show_whole() -> None:
    many = [OF_312_GROUPS.model_copy(update={"rule_id": f"rule_{n:03}"}) for n in range(100)]
    made = digest(many, thread_key="thread")
    html = mail_of(made).html
    assert "and 75 more causes" in html
    assert len(html.encode()) < 102_000, "Gmail cuts mails at 102 kB"
    assert len(made.model_dump_json()) < 1_000_000


def test_a_digest_and_a_message_are_read_back_from_the_outbox_as_what_they_are() -> None:
    assert read_view(DIGEST.model_dump_json()) == DIGEST
    assert read_view(VIEW.model_dump_json()) == VIEW


def test_a_digest_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one"):
        digest([], thread_key="thread")
