"""A mail says what is wrong, where and what to do; no name in it can add a tag, a header or a recipient."""

from __future__ import annotations

import email
from datetime import UTC, datetime
from email import policy
from email.message import EmailMessage
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from offsetguard.deliver.messages.mail import render_mail
from offsetguard.model.views import IncidentView, MessageView, NotificationReason
from offsetguard_peers.cases.running import examples
from offsetguard_peers.cases.texts import Outline

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


def test_the_picture_of_the_lag_comes_with_the_mail_and_says_in_words_what_it_shows(
    view: MessageView, incident: IncidentView
) -> None:
    mail = mail_of(view)
    assert [one.get_content_type() for one in mail.walk()] == [
        "multipart/alternative",
        "text/plain",
        "multipart/related",
        "text/html",
        "image/png",
    ]
    (picture,) = (one for one in mail.walk() if one.get_content_type() == "image/png")
    assert picture.get_content_disposition() == "inline"
    words = (
        "Lag of order-group from 2026-11-21 06:45:00 to 07:15:00 UTC: "
        "0 at first, at most 6,000 at 07:05, 5,120 at the end"
    )
    source = f'src="cid:{str(picture["Content-ID"]).strip("<>")}"'
    html = part(mail, "html")
    assert f'alt="{words}"' in html
    assert source in html
    many = tuple(incident.model_copy(update={"incident_id": str(n)}) for n in range(10))
    pictures = [one for one in mail_of(view.model_copy(update={"firing": many})).walk() if one["Content-ID"]]
    assert len(pictures) == len({one["Content-ID"] for one in pictures}) == 3, "the worst three only"
    without = incident.model_copy(update={"lag_curve": incident.lag_curve[:2]})
    assert "image" not in {
        one.get_content_maintype() for one in mail_of(view.model_copy(update={"firing": (without,)})).walk()
    }


def test_a_chinese_reader_gets_a_chinese_mail_by_their_clock(view: MessageView) -> None:
    mail = mail_of(view.model_copy(update={"language": "zh", "time_zone": "Asia/Shanghai"}))
    assert mail["Subject"] == "[严重] orders-cluster · order-group · messages pile up"
    assert mail["X-OffsetGuard-Severity"] == "critical", "filters read the same in every language"
    text = part(mail, "plain")
    for words in ("消费组                  order-group", "2026-11-21 14:45:00 UTC+8", "处理建议", "预计消费完"):
        assert words in text
    assert 'lang="zh-CN"' in part(mail, "html")


def test_what_a_reader_must_know_first_stands_on_top(view: MessageView) -> None:
    changes = {
        "late": True,
        "escalated_from": "billing",
        "repeat_count": 2,
        "muted_count": 312,
    }
    mail = mail_of(view.model_copy(update=changes))
    assert part(mail, "plain").splitlines()[2:6] == [
        "Told late, because a replay or backfill was asked to tell.",
        "Escalated: team billing has not acknowledged it.",
        "Told again 2 times since the last news.",
        "312 findings below this: muted while it lasts.",
    ]


def test_hidden_incidents_are_counted_in_subject_and_text(view: MessageView) -> None:
    mail = mail_of(view.model_copy(update={"hidden_firing": 9_999, "group_count": 10_000}))
    assert mail["Subject"] == "[CRITICAL] orders-cluster · 10,000 consumer groups · messages pile up"
    for kind in ("plain", "html"):
        assert "and 9,999 more findings" in part(mail, kind)


@pytest.mark.parametrize(
    ("team", "list_id"),
    [
        ("orders", "<orders.offsetguard.example.com>"),
        ("Orders", "<orders.offsetguard.example.com>"),
        ("订单", "<3d5436ea.offsetguard.example.com>"),
        ("a b", "<a-b-c8687a08.offsetguard.example.com>"),
    ],
)
def test_a_list_id_names_the_team_for_filters(view: MessageView, team: str, list_id: str) -> None:
    assert mail_of(view.model_copy(update={"team": team}))["List-Id"] == list_id


def test_headers_thread_by_the_firing_spell_and_never_cause_automatic_answers(view: MessageView) -> None:
    first, again, other = mail_of(view), mail_of(view, "key 2"), mail_of(view.model_copy(update={"thread_key": "2"}))
    assert first["Message-ID"] == mail_of(view)["Message-ID"] != again["Message-ID"]
    assert first["References"] == again["References"] == again["In-Reply-To"] != other["References"]
    assert first["Auto-Submitted"] == "auto-generated"
    assert first["To"] == "orders@example.com"
    assert first["X-OffsetGuard-Rule"] == "accumulation"


def test_the_same_message_is_the_same_bytes(view: MessageView) -> None:
    arguments: dict[str, Any] = {
        "sender": "a@example.com",
        "receiver": "b@example.com",
        "idempotency_key": "k",
        "sent_at": SENT_AT,
    }
    assert render_mail(view, **arguments).as_bytes() == render_mail(view, **arguments).as_bytes()


def test_a_hundred_groups_give_six_in_full_more_by_line_and_a_count(view: MessageView, incident: IncidentView) -> None:
    many = tuple(
        incident.model_copy(
            update={
                "consumer_group": f"group-{n:03d}",
                "summary": f"group-{n:03d} is behind",
                "queues": incident.queues * 10,
                "figures": incident.figures * 4,
            }
        )
        for n in range(100)
    )
    mail = mail_of(view.model_copy(update={"firing": many}))
    for text in (part(mail, "plain"), part(mail, "html")):
        assert "group-009" in text
        assert "group-049" in text
        assert "group-050" not in text
        assert "and 50 more findings" in text
    assert len(part(mail, "html")) < 102_000, "Gmail cuts mails at 102 kB"


def test_the_html_loads_nothing_and_links_only_where_it_says(view: MessageView) -> None:
    outline = Outline(part(mail_of(view), "html"))
    assert [source for source in outline.sources if not source.startswith("cid:")] == []
    page = "http://127.0.0.1:8080/offsetguard/incidents/1"
    ours = {"http://127.0.0.1:8080", "http://127.0.0.1:8080/docs?a=1&b=2", page}
    assert outline.links == ours | {f"{page}#acknowledge", f"{page}#silence"}


FAST = settings(
    max_examples=examples(0.1), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


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
