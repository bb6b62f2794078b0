"""A mail says what is wrong, where and what to do; no name in it can add a tag, a header or a recipient."""

import html
import re
from datetime import timedelta
from email.message import Message

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetguard.model.views import MessageView, News, StackView
from offsetguard_peers.cases.messages import ALL_RESOLVED, INCIDENT, VIEW, incident, mail_of, message
from offsetguard_peers.cases.running import examples
from offsetguard_peers.cases.texts import Outline
from offsetguard_peers.smtp.server import ReceivedMail


def test_the_text_of_a_first_warning() -> None:
    assert (
        mail_of(VIEW).text
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
  First messages lost in  5 h or later
  First seen              2026-11-21 06:45:00 UTC, for 34 min, seen 34 times
  Peak                    5,120 messages
  Acknowledged            by alice, 2026-11-21 07:00:00 UTC: I look after it

  Lag of order-group in the queues that are behind, 2026-11-21 06:45:00 to 07:15:00 UTC: 0 at first, at most 6,000 at 07:05, 5,120 at the end

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
  Group                   http://127.0.0.1:8080/offsetguard/fleet/group?cluster=orders-cluster&consumer_group=order-group

Open in Airflow         http://127.0.0.1:8080
Data Docs               http://127.0.0.1:8080/docs?a=1&b=2

--\x20
First message about this.
Rule accumulation · interval 2026-11-21 07:19:00 UTC · team orders · OffsetGuard
"""  # noqa: E501 mail programs break lines
    )


def test_the_text_when_all_has_resolved() -> None:
    mail = mail_of(ALL_RESOLVED)
    assert mail.message["Subject"] == "[RESOLVED] orders-cluster · order-group · messages pile up"
    assert mail.text.startswith("RESOLVED: order-group · caught up after 41 min\n")
    assert "Lasted                  41 min, from 2026-11-21 06:45:00 to 07:26:00 UTC" in mail.text
    assert "It was: Consumer group order-group is 5,120 messages behind" in mail.text


OTHER = incident(consumer_group="billing", summary="offsets lie beyond the end")
OF_A_BROKER = incident(consumer_group=None, topic=None)


@pytest.mark.parametrize(
    ("view", "about"),
    [
        (VIEW, "order-group · messages pile up"),
        (message(OTHER), "billing · messages pile up"),
        (message(INCIDENT, OTHER), "2 consumer groups · messages pile up"),
        (message(OF_A_BROKER), "messages pile up"),
        (message(hidden_firing=9_999, group_count=10_000), "10,000 consumer groups · messages pile up"),
    ],
)
def test_the_subject_names_severity_cluster_and_group_or_how_many(view: MessageView, about: str) -> None:
    assert mail_of(view).message["Subject"] == f"[CRITICAL] orders-cluster · {about}"


def test_of_what_a_finding_explains_ten_are_named_and_the_rest_is_counted() -> None:
    mail = mail_of(
        message(incident(explains=tuple(f"accumulation: group-{n:02d}" for n in range(20)), explained_count=5_000))
    )
    for text in (mail.text, mail.html):
        assert "group-09" in text
        assert "group-10" not in text
        assert "and 4,990 more findings" in text
    nothing = incident(explains=(), explained_count=0, cannot_tell=(), cannot_tell_count=0)
    text = mail_of(message(nothing)).text
    assert "explains" not in text
    assert "Cannot tell" not in text


def test_the_picture_of_the_lag_comes_with_the_mail_and_says_in_words_what_it_shows() -> None:
    mail = mail_of(VIEW)
    assert [one.get_content_type() for one in mail.message.walk()] == [
        "multipart/alternative",
        "text/plain",
        "multipart/related",
        "text/html",
        "image/png",
    ]
    (picture,) = pictures(mail)
    assert picture.get_content_disposition() == "inline"
    words = (
        "Lag of order-group in the queues that are behind, 2026-11-21 06:45:00 to 07:15:00 UTC: "
        "0 at first, at most 6,000 at 07:05, 5,120 at the end"
    )
    assert f'alt="{words}"' in mail.html
    assert f'src="cid:{str(picture["Content-ID"]).strip("<>")}"' in mail.html
    many = pictures(mail_of(message(*(incident(incident_id=str(n)) for n in range(10)))))
    assert len(many) == len({one["Content-ID"] for one in many}) == 3, "the worst three only"
    assert pictures(mail_of(message(incident(lag_curve=INCIDENT.lag_curve[:2])))) == [], "two points are no course"


def pictures(mail: ReceivedMail) -> list[Message]:
    return [one for one in mail.message.walk() if one.get_content_maintype() == "image"]


def test_a_chinese_reader_gets_a_chinese_mail_by_their_clock() -> None:
    mail = mail_of(message(language="zh", time_zone="Asia/Shanghai"))
    assert mail.message["Subject"] == "[严重] orders-cluster · order-group · messages pile up"
    assert mail.message["X-OffsetGuard-Severity"] == "critical", "filters read the same in every language"
    for words in ("消费组                  order-group", "2026-11-21 14:45:00 UTC+8", "处理建议", "预计堆积消费完"):
        assert words in mail.text
    assert mail.text.startswith("严重：")
    assert not re.search("[\u4e00-\u9fff]:", mail.text), "a colon as wide as the words around it"
    assert 'lang="zh-CN"' in mail.html


def test_what_a_reader_must_know_first_stands_on_top_and_what_is_hidden_is_counted() -> None:
    mail = mail_of(message(late=True, escalated_from="billing", repeat_count=2, muted_count=312, hidden_firing=9_999))
    assert mail.text.splitlines()[2:6] == [
        "Sent late: a replay or backfill was asked to notify.",
        "Escalated: team billing has not acknowledged it.",
        "Reminder 2: it goes on.",
        "312 findings that follow from this: muted while it lasts.",
    ]
    for text in (mail.text, mail.html):
        assert "and 9,999 more findings" in text


def test_the_events_own_moment_stands_beside_when_it_was_first_seen() -> None:
    began_at = INCIDENT.opened_at - timedelta(seconds=17)
    mail = mail_of(message(INCIDENT.model_copy(update={"began_at": began_at})))
    since, seen = (f"  {head:22}  2026-11-21 " for head in ("Since", "First seen"))
    assert f"{since}06:44:43 UTC\n{seen}06:45:00 UTC" in mail.text


def test_what_is_new_in_a_message_is_marked_and_what_takes_no_part_is_counted() -> None:
    new, worse = (INCIDENT.model_copy(update={"news": news}) for news in News)
    mail = mail_of(message(worse, new, INCIDENT, goes_on_count=2))
    assert mail.text.splitlines()[2] == (
        "Also going on, acknowledged or muted and so not listed: 2 findings of this cause."
    )
    heads = [line for line in mail.text.splitlines() if line[:2] in ("1.", "2.", "3.")]
    summary = INCIDENT.summary
    assert [head.partition("CRITICAL: ")[2] for head in heads] == [f"Worse: {summary}", f"New: {summary}", summary]
    for head in heads:
        assert head.partition("CRITICAL: ")[2] in mail.html


def test_the_stacks_of_the_clients_threads_stand_with_the_incident() -> None:
    frames = ("com.acme.Pool.<init>:7", *(f"com.acme.Orders.step{n}:{n}" for n in range(8)))
    stacks = (StackView(said="client <b>@1"), StackView(said="20 of 20 consume threads, waiting", frames=frames))
    mail = mail_of(message(INCIDENT.model_copy(update={"stacks": stacks})))
    said = f"20 of 20 consume threads, waiting: {' ← '.join(frames)}"
    text = " ".join(mail.text.split())
    assert "What the client's threads did: - client <b>@1" in text
    assert said in text
    assert html.escape(said) in mail.html
    assert "client &lt;b&gt;@1" in mail.html


def test_what_changed_before_and_the_console_of_the_group_stand_with_the_incident() -> None:
    url = "https://console.example.com/#/consumer?group=order-group"
    changes = ("2026-11-21 10:31:00 UTC: a@1 left: 3 clients online", "2026-11-21 10:30:00 UTC: <b> joined")
    mail = mail_of(message(INCIDENT.model_copy(update={"changes": changes, "console_url": url})))
    _, *lines = mail.text[mail.text.index("What changed in the hour before:") :].splitlines()[:3]
    assert [line.strip(" -") for line in lines] == list(changes)
    assert re.search(rf"^  Console +{re.escape(url)}$", mail.text, re.MULTILINE)
    assert html.escape(changes[1]) in mail.html
    assert f'href="{url}"' in mail.html


@pytest.mark.parametrize(
    ("team", "list_id"),
    [
        ("orders", "<orders.offsetguard.example.com>"),
        ("Orders", "<orders.offsetguard.example.com>"),
        ("订单", "<3d5436ea.offsetguard.example.com>"),
        ("a b", "<a-b-c8687a08.offsetguard.example.com>"),
    ],
)
def test_a_list_id_names_the_team_for_filters(team: str, list_id: str) -> None:
    assert mail_of(message(team=team)).message["List-Id"] == list_id


def test_headers_thread_by_the_firing_spell_and_never_cause_automatic_answers() -> None:
    mails = mail_of(VIEW), mail_of(VIEW, "key 2"), mail_of(message(thread_key="2"))
    first, again, other = (mail.message for mail in mails)
    assert first["Message-ID"] != again["Message-ID"]
    assert first["References"] == again["References"] == again["In-Reply-To"] != other["References"]
    assert first["Auto-Submitted"] == "auto-generated"
    assert first["To"] == "orders@example.com"
    assert first["X-OffsetGuard-Rule"] == "accumulation"
    assert mail_of(VIEW).raw == mails[0].raw, "the same message is the same bytes"


def test_a_hundred_groups_give_six_in_full_more_by_line_and_a_count() -> None:
    long = {"queues": INCIDENT.queues * 10, "figures": INCIDENT.figures * 4}
    names = [f"group-{n:03d}" for n in range(100)]
    mail = mail_of(message(*(incident(consumer_group=name, summary=f"{name} is behind", **long) for name in names)))
    for text in (mail.text, mail.html):
        assert "group-009" in text
        assert "group-049" in text
        assert "group-050" not in text
        assert "and 50 more findings" in text
    assert len(mail.html) < 102_000, "Gmail cuts mails at 102 kB"


def test_the_html_loads_nothing_and_links_only_where_it_says() -> None:
    outline = Outline(mail_of(VIEW).html)
    assert [source for source in outline.sources if not source.startswith("cid:")] == []
    page = "http://127.0.0.1:8080/offsetguard/incidents/1"
    ours = {"http://127.0.0.1:8080", "http://127.0.0.1:8080/docs?a=1&b=2", page, str(INCIDENT.group_url)}
    assert outline.links == ours | {f"{page}#acknowledge", f"{page}#silence"}


@settings(max_examples=examples(0.1))
@given(name=st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=255))
def test_text_and_html_name_group_topic_and_cause_whatever_they_are(name: str) -> None:
    named = incident(consumer_group=name, topic=f"{name}-t", cause=f"{name} stands still.")
    mail = mail_of(message(named))
    for text in (mail.text, Outline(mail.html).text):
        assert name in text
        assert f"{name}-t"[:254] in text
        assert f"{name} stands still." in text
