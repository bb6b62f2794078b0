"""One mail instead of many: worst cause first, few groups of each, and everything that is not listed counted."""

from __future__ import annotations

import email
from datetime import UTC, datetime
from email import policy
from email.message import EmailMessage

import pytest

from offsetguard.decide.message_views import INCIDENTS_PER_CAUSE, digest
from offsetguard.deliver.messages.mail import render_mail
from offsetguard.model.views import DigestView, IncidentView, MessageView, read_view

SENT_AT = datetime(2026, 11, 21, 7, 20, tzinfo=UTC)


def mail_of(view: DigestView) -> EmailMessage:
    addresses = {"sender": "offsetguard@example.com", "receiver": "orders@example.com"}
    rendered = render_mail(view, **addresses, idempotency_key="key", sent_at=SENT_AT)
    return email.message_from_bytes(rendered.as_bytes(), policy=policy.default)


def text_of(view: DigestView, kind: str = "plain") -> str:
    body = mail_of(view).get_body((kind,))
    assert body is not None
    return str(body.get_content()).replace("\r\n", "\n")


@pytest.fixture
def views(view: MessageView, incident: IncidentView, resolved_incident: IncidentView) -> list[MessageView]:
    """Give three causes: one that is over, a warning about 7 of 312 groups, something critical."""
    warning = {"severity": "warning", "rule_id": "dead_letters", "title": "new dead letters"}
    many = tuple(
        incident.model_copy(update={"consumer_group": f"g-{n}", "summary": f"g-{n}: 3 dead letters"}) for n in range(7)
    )
    over = {"rule_id": "loss_ahead", "title": "messages will be lost", "firing": (), "resolved": (resolved_incident,)}
    return [
        view.model_copy(update=over),
        view.model_copy(update={**warning, "firing": many, "hidden_firing": 305, "group_count": 312}),
        view,
    ]


def test_a_digest_tells_the_worst_cause_first_and_counts_what_it_does_not_list(views: list[MessageView]) -> None:
    made = digest(views, thread_key="thread")
    assert [(one.rule_id, one.firing_count, one.resolved_count) for one in made.sections] == [
        ("accumulation", 1, 0),
        ("dead_letters", 312, 0),
        ("loss_ahead", 0, 1),
    ]
    assert made.severity == "critical"
    assert len(made.sections[1].firing) == INCIDENTS_PER_CAUSE
    assert (
        text_of(made)
        == """\
CRITICAL: 3 causes in one mail: 313 findings, 1 resolved
Cluster orders-cluster

1. CRITICAL: 1 consumer group · messages pile up
   - order-group is offline and 5,120 messages behind on order-events
   What to do. Start the consumers of order-group.
   rule accumulation

2. WARNING: 312 consumer groups · new dead letters
   - g-0: 3 dead letters
   - g-1: 3 dead letters
   - g-2: 3 dead letters
   - g-3: 3 dead letters
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


def test_text_and_html_of_a_digest_say_the_same(views: list[MessageView]) -> None:
    html = text_of(digest(views, thread_key="thread"), "html")
    for words in ("312 consumer groups · new dead letters", "and 307 more findings", "rule loss_ahead", "caught up"):
        assert words in html
    assert "cid:" not in html


def test_the_subject_of_a_digest_says_how_many_and_how_bad(views: list[MessageView]) -> None:
    mail = mail_of(digest(views, thread_key="thread"))
    assert mail["Subject"] == "[CRITICAL] orders-cluster · 3 causes in one mail: 313 findings, 1 resolved"
    over = mail_of(digest(views[:1], thread_key="thread"))
    assert over["Subject"] == "[RESOLVED] orders-cluster · 1 cause in one mail: 1 resolved"


def test_a_hundred_causes_give_a_mail_that_mail_programs_show_whole(views: list[MessageView]) -> None:
    many = [views[1].model_copy(update={"rule_id": f"rule_{n:03}"}) for n in range(100)]
    made = digest(many, thread_key="thread")
    html = text_of(made, "html")
    assert "and 75 more causes" in html
    assert len(html.encode()) < 102_000, "Gmail cuts mails at 102 kB"
    assert len(made.model_dump_json()) < 1_000_000


def test_a_digest_and_a_message_are_read_back_from_the_outbox_as_what_they_are(
    views: list[MessageView], view: MessageView
) -> None:
    made = digest(views, thread_key="thread")
    assert read_view(made.model_dump_json()) == made
    assert read_view(view.model_dump_json()) == view


def test_a_digest_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one"):
        digest([], thread_key="thread")
