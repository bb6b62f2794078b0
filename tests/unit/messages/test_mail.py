"""A mail says what is wrong, where and what to do; no name in it can add a tag, a header or a recipient."""

from __future__ import annotations

import email
from datetime import UTC, datetime, timedelta
from email import policy
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from offsetguard.messages.mail import render_mail
from offsetguard.messages.view import FigureView, IncidentView, LagPoint, MessageView, NotificationReason, QueueView

if TYPE_CHECKING:
    from email.message import EmailMessage

SENT_AT = datetime(2026, 11, 21, 7, 20, tzinfo=UTC)


def mail_of(view: MessageView, key: str = "key 1") -> EmailMessage:
    """Render and read back from the bytes that go to the server."""
    rendered = render_mail(
        view, sender="offsetguard@example.com", receiver="orders@example.com", idempotency_key=key, sent_at=SENT_AT
    )
    return email.message_from_bytes(rendered.as_bytes(), policy=policy.default)


def part(mail: EmailMessage, kind: str) -> str:
    body = mail.get_body((kind,))
    assert body is not None
    return str(body.get_content()).replace("\r\n", "\n")


def test_the_text_of_a_first_warning(view: MessageView) -> None:
    assert (
        part(mail_of(view), "plain")
        == """\
CRITICAL: order-group is offline and 5,120 messages behind on order-events
Cluster orders-cluster

Consumer group order-group is 5,120 messages behind on order-events and no client of it is online.

What to do. Start the consumers of order-group.

  Type                    messages pile up
  Consumer group          order-group
  Topic                   order-events
  Cluster                 orders-cluster
  Messages waiting        5,120
  Clients online          0
  Backlog gone in         8 min to 12 min
  Messages lost in        5 h or later
  Peak                    5,120 messages
  Since                   2026-11-21 06:45:00 UTC, for 34 min, seen 34 times
  Acknowledged            by alice, 2026-11-21 07:00:00 UTC: I look after it

  Lag of order-group from 2026-11-21 06:45:00 to 07:15:00 UTC: 0 at first, at most 6,000 at 07:05, 5,120 at the end

  Queues, worst first:
  - order-events broker-a queue 0: lag 700
  - order-events broker-a queue 1: lag 699
  and 14 more queues

  Also explains:
  - never_committed: order-group has committed nothing of order-audit
  and 12 more findings

  Cannot tell:
  - lock_contention: lock.log of broker-a was not read.

  Acknowledge             http://127.0.0.1:8080/offsetguard/incidents/1#acknowledge
  Silence                 http://127.0.0.1:8080/offsetguard/incidents/1#silence
  Details                 http://127.0.0.1:8080/offsetguard/incidents/1

Open in Airflow         http://127.0.0.1:8080
Data Docs               http://127.0.0.1:8080/docs?a=1&b=2

--\x20
First message about this.
Rule accumulation · interval 2026-11-21 07:19:00 UTC · team orders · OffsetGuard
"""
    )


def test_the_text_when_all_has_resolved(view: MessageView, resolved_incident: IncidentView) -> None:
    changes = {"firing": (), "resolved": (resolved_incident,), "reason": NotificationReason.ALL_RESOLVED}
    mail = mail_of(view.model_copy(update=changes))
    assert mail["Subject"] == "[RESOLVED] orders-cluster · order-group · messages pile up"
    text = part(mail, "plain")
    assert text.startswith("RESOLVED: order-group · caught up after 41 min\n")
    assert "Lasted                  41 min, from 2026-11-21 06:45:00 to 07:26:00 UTC" in text
    assert "It was: Consumer group order-group is 5,120 messages behind" in text


def test_the_subject_names_severity_cluster_and_group_or_how_many(view: MessageView, incident: IncidentView) -> None:
    assert mail_of(view)["Subject"] == "[CRITICAL] orders-cluster · order-group · messages pile up"
    other = incident.model_copy(update={"consumer_group": "billing", "summary": "offsets lie beyond the end"})
    assert mail_of(view.model_copy(update={"firing": (other,)}))["Subject"] == (
        "[CRITICAL] orders-cluster · billing · messages pile up"
    )
    assert mail_of(view.model_copy(update={"firing": (incident, other)}))["Subject"] == (
        "[CRITICAL] orders-cluster · 2 consumer groups · messages pile up"
    )
    broker = other.model_copy(update={"consumer_group": None, "topic": None})
    assert mail_of(view.model_copy(update={"firing": (broker,)}))["Subject"] == (
        "[CRITICAL] orders-cluster · messages pile up"
    )


def test_of_what_a_finding_explains_ten_are_named_and_the_rest_is_counted(
    view: MessageView, incident: IncidentView
) -> None:
    many = {"explains": tuple(f"accumulation: group-{n:02d}" for n in range(20)), "explained_count": 5_000}
    mail = mail_of(view.model_copy(update={"firing": (incident.model_copy(update=many),)}))
    for text in (part(mail, "plain"), part(mail, "html")):
        assert "group-09" in text
        assert "group-10" not in text
        assert "and 4,990 more findings" in text
    nothing = incident.model_copy(
        update={"explains": (), "explained_count": 0, "cannot_tell": (), "cannot_tell_count": 0}
    )
    text = part(mail_of(view.model_copy(update={"firing": (nothing,)})), "plain")
    assert "explains" not in text
    assert "Cannot tell" not in text


def test_headers_thread_by_the_firing_spell_and_never_cause_automatic_answers(view: MessageView) -> None:
    first, again, other = mail_of(view), mail_of(view, "key 2"), mail_of(view.model_copy(update={"thread_key": "2"}))
    assert first["Message-ID"] == mail_of(view)["Message-ID"] != again["Message-ID"]
    assert first["References"] == again["References"] == again["In-Reply-To"] != other["References"]
    assert first["Auto-Submitted"] == "auto-generated"
    assert first["To"] == "orders@example.com"
    assert first["X-OffsetGuard-Rule"] == "accumulation"


def test_the_same_message_is_the_same_bytes(view: MessageView) -> None:
    arguments = {"sender": "a@example.com", "receiver": "b@example.com", "idempotency_key": "k", "sent_at": SENT_AT}
    assert render_mail(view, **arguments).as_bytes() == render_mail(view, **arguments).as_bytes()


def test_a_hundred_groups_give_ten_in_full_forty_by_line_and_a_count(view: MessageView, incident: IncidentView) -> None:
    many = tuple(
        incident.model_copy(update={"consumer_group": f"group-{n:03d}", "summary": f"group-{n:03d} is behind"})
        for n in range(100)
    )
    mail = mail_of(view.model_copy(update={"firing": many}))
    for text in (part(mail, "plain"), part(mail, "html")):
        assert "group-009" in text
        assert "group-049" in text
        assert "group-050" not in text
        assert "and 50 more findings" in text
    assert len(part(mail, "html")) < 102_000, "Gmail cuts mails at 102 kB"


class Outline(HTMLParser):
    """What a browser would make of the HTML: tags with their attributes' names, links, and the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[tuple[str, str]] = set()
        self.links: set[str] = set()
        self.sources: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags |= {(tag, name) for name, _ in attrs} | {(tag, "")}
        self.links |= {value or "" for name, value in attrs if name == "href"}
        self.sources += [
            value or "" for name, value in attrs if name in {"src", "background"} or "url(" in (value or "")
        ]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_html_loads_nothing_and_links_only_where_it_says(view: MessageView) -> None:
    outline = Outline(part(mail_of(view), "html"))
    assert [source for source in outline.sources if not source.startswith("cid:")] == []
    page = "http://127.0.0.1:8080/offsetguard/incidents/1"
    ours = {"http://127.0.0.1:8080", "http://127.0.0.1:8080/docs?a=1&b=2", page}
    assert outline.links == ours | {f"{page}#acknowledge", f"{page}#silence"}


hostile = st.one_of(
    st.sampled_from(
        [
            "<script>alert(1)</script>",
            '"><img src=x onerror=alert(1)>',
            "' style='x",
            "a\r\nBcc: victim@example.com\r\n\r\nbody",
            "\u202egnp.exe",
            "{{ 7 * 7 }}{% raw %}",
            "=?utf-8?q?a=0D=0ABcc:_x?=",
            "&lt;b&gt;",
            "]]>-->",
            "*_~`<!channel>",
            "\ud800",
            "",
        ]
    ),
    st.text(st.characters() | st.sampled_from("<>&\"'\r\n\u202e\u2028\0"), max_size=40),
)
figures = st.tuples(st.builds(FigureView, label=hostile, value=hostile))
queues = st.tuples(st.builds(QueueView, topic=hostile, broker_name=hostile, queue_id=st.just(3), figures=figures))
incidents = st.builds(
    IncidentView,
    incident_id=hostile,
    consumer_group=st.none() | hostile,
    topic=st.none() | hostile,
    severity=st.sampled_from(["critical", "warning", "info"]),
    state=hostile,
    summary=hostile,
    cause=hostile,
    do_next=hostile,
    opened_at=st.just(SENT_AT),
    last_seen_at=st.just(SENT_AT),
    resolved_at=st.none() | st.just(SENT_AT),
    resolution=st.none() | hostile,
    peak=st.none() | hostile,
    figures=figures,
    queues=st.just(()) | queues,
    queue_count=st.integers(0, 5),
    explains=st.lists(hostile, max_size=2).map(tuple),
    explained_count=st.integers(0, 5),
    cannot_tell=st.lists(hostile, max_size=2).map(tuple),
    cannot_tell_count=st.integers(0, 5),
    lag_curve=st.sampled_from([(), tuple(LagPoint(at=SENT_AT + timedelta(minutes=n), lag=n) for n in range(3))]),
    drain_ms=st.none() | st.just((0, 10_000)),
    loss_ms=st.none() | st.just((5_000, 10_000)),
    muted_count=st.integers(0, 2),
    muted_when_resolved=st.none() | hostile,
    acknowledged_at=st.just(SENT_AT),
    acknowledged_by=st.none() | hostile,
    acknowledgement=st.none() | hostile,
    incident_url=st.none() | hostile,
    acknowledge_url=st.none() | hostile.map("http://airflow.example/{}".format),
    silence_url=st.none() | hostile,
)
views = st.builds(
    MessageView,
    team=hostile,
    cluster=hostile,
    rule_id=hostile,
    severity=st.sampled_from(["critical", "warning", "info"]),
    title=hostile,
    reason=st.sampled_from(NotificationReason),
    interval_start=st.just(SENT_AT),
    thread_key=hostile,
    firing=st.lists(incidents, max_size=3).map(tuple),
    resolved=st.lists(incidents, max_size=2).map(tuple),
    page_url=st.none() | hostile | hostile.map("http://airflow.example/{}".format),
    data_docs_url=st.none() | hostile,
    language=hostile | st.sampled_from(["en", "zh"]),
    time_zone=hostile | st.just("Asia/Shanghai"),
    hidden_firing=st.integers(0, 2),
    hidden_resolved=st.integers(0, 2),
    muted_count=st.integers(0, 2),
    muted_by=st.lists(hostile, max_size=2).map(tuple),
    repeat_count=st.integers(0, 2),
    escalated_from=st.none() | hostile,
    late=st.booleans(),
)
FAST = settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
OUR_HEADERS = {
    "Subject", "From", "To", "Date", "Message-ID", "In-Reply-To", "References", "Auto-Submitted",
    "List-Id", "Precedence", "X-Auto-Response-Suppress", "X-OffsetGuard-Cluster", "X-OffsetGuard-Rule",
    "X-OffsetGuard-Severity", "MIME-Version", "Content-Type",
}  # fmt: skip


@FAST
@given(hostile_view=views)
def test_no_text_can_add_a_header_a_recipient_or_a_line_to_one(hostile_view: MessageView) -> None:
    mail = mail_of(hostile_view)
    assert set(mail.keys()) == OUR_HEADERS
    assert len(mail.keys()) == len(OUR_HEADERS)
    assert [address.addr_spec for address in mail["To"].addresses] == ["orders@example.com"]
    assert mail.defects == []
    for value in mail.values():
        assert len(str(value).splitlines()) <= 1


@pytest.fixture
def our_tags(view: MessageView, resolved_incident: IncidentView) -> set[tuple[str, str]]:
    """Collect the tags and attributes of a mail that has every part."""
    elsewhere = resolved_incident.model_copy(update={"topic": "another topic than that of its queues"})
    lists = {"firing": (elsewhere,) * 51, "resolved": (elsewhere,) * 41}
    everything = view.model_copy(update={**lists, "late": True})
    return Outline(part(mail_of(everything), "html")).tags


@FAST
@given(hostile_view=views)
def test_no_text_can_add_a_tag_an_attribute_or_a_link(
    our_tags: set[tuple[str, str]], hostile_view: MessageView
) -> None:
    outline = Outline(part(mail_of(hostile_view), "html"))
    assert outline.tags <= our_tags
    assert all(link.startswith(("http://", "https://")) for link in outline.links)


@FAST
@given(name=st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=255))
def test_text_and_html_name_group_topic_and_cause_whatever_they_are(
    view: MessageView, incident: IncidentView, name: str
) -> None:
    named = incident.model_copy(update={"consumer_group": name, "topic": f"{name}-t", "cause": f"{name} stands still."})
    mail = mail_of(view.model_copy(update={"firing": (named,)}))
    for text in (part(mail, "plain"), Outline(part(mail, "html")).text):
        assert name in text
        assert f"{name}-t"[:254] in text
        assert f"{name} stands still." in text
