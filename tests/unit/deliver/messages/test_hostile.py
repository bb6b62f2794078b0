"""No name can break a line, a header, a link or the markup of a mail, nor hide itself."""

import unicodedata
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from offsetguard.deliver.messages.wording import harmless, harmless_link, unescaped
from offsetguard.model.digest import digest
from offsetguard.model.views import (
    AnyView,
    DailyReportView,
    DataQuality,
    FigureView,
    ForecastQuality,
    IncidentView,
    LagPoint,
    MessageView,
    News,
    NotificationReason,
    QueueView,
    Record,
    ReportedIncident,
    StackView,
)
from offsetguard_peers.cases.messages import SENT_AT, mail_of
from offsetguard_peers.cases.running import examples
from offsetguard_peers.cases.texts import Outline


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("order-group", "order-group"),
        ("订单-组 ñ 🔴", "订单-组 ñ 🔴"),
        ("a\r\nBcc: x@example.com", "a\\r\\nBcc: x@example.com"),
        ("group\u202egnp.exe", "group\\u202egnp.exe"),
        ("pay\u200bments", "pay\\u200bments"),
        ("\ud800", "\\ud800"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\u2028b\x85c", "a\\u2028b\\x85c"),
        ("abcdefghijkl", "abcdefghijkl"),
    ],
)
def test_what_could_do_harm_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert harmless(text, 100) == shown


@given(st.text(st.characters() | st.characters(categories=["Cs", "Cf", "Cc"])), st.integers(1, 50))
def test_any_text_becomes_one_short_line_that_can_be_encoded(text: str, limit: int) -> None:
    shown = harmless(text, limit)
    assert len(shown) <= limit
    assert len(shown.splitlines()) <= 1
    assert not {unicodedata.category(character) for character in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    shown.encode("utf-8")


@given(st.text(st.characters(exclude_characters="\\") | st.characters(categories=["Cs", "Cf", "Cc"])))
def test_who_reads_an_escape_can_ask_for_the_name_with_it(name: str) -> None:
    assert unescaped(harmless(name, 100_000)) == name


STRANGE_ADDRESSES = [
    *("javascript:alert(1)", "http://good.example@evil.example/", 'http://x/"><script>', "http://x/a|b", "http://x/ y"),
    *("http://x/\u202e", "http://[", "//x/y", "", None, "http://x/" + "a" * 3_000),
]


@pytest.mark.parametrize("url", STRANGE_ADDRESSES)
def test_an_address_that_is_not_plainly_a_web_page_is_no_link(url: str | None) -> None:
    assert harmless_link(url) is None


def test_a_web_page_stays_as_it_is() -> None:
    assert harmless_link("https://airflow.example:8443/dags?x=1&y=2#z") == "https://airflow.example:8443/dags?x=1&y=2#z"


FAST = settings(max_examples=examples(0.1), suppress_health_check=[HealthCheck.too_slow])
OUR_HEADERS = {
    "Subject", "From", "To", "Date", "Message-ID", "In-Reply-To", "References", "Auto-Submitted",
    "List-Id", "Precedence", "X-Auto-Response-Suppress", "X-OffsetGuard-Cluster", "X-OffsetGuard-Rule",
    "X-OffsetGuard-Severity", "MIME-Version", "Content-Type",
}  # fmt: skip

hostile = st.one_of(
    st.sampled_from(
        [
            "<script>alert(1)</script>",
            '"><img src=x onerror=alert(1)>',
            "' style='x",
            "a\r\nBcc: victim@example.com\r\n\r\nbody",
            "\u202egnp.exe",
            "{{ 7 * 7 }}{% raw %}{lag:messages}",
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
links = st.none() | hostile | hostile.map("http://airflow.example/{}".format)
moments = st.just(SENT_AT)
severities = st.sampled_from(["critical", "warning", "info"])
FIXED = {
    "severity": severities | hostile,
    "kind": None,  # says which view it is: not text of anybody's
    "language": hostile | st.sampled_from(["en", "zh"]),
    "time_zone": hostile | st.just("Asia/Shanghai"),
    "lag_curve": st.sampled_from([(), tuple(LagPoint(at=SENT_AT + timedelta(minutes=n), lag=n) for n in range(3))]),
    "drain_ms": st.none() | st.just((0, 10_000)),
    "loss_ms": st.none() | st.just((5_000, 10_000)),
    "reason": st.sampled_from(NotificationReason),
    "news": st.none() | st.sampled_from(News),
    "day": moments.map(datetime.date),
}
BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    str: hostile,
    str | None: st.none() | hostile,
    tuple[str, ...]: st.lists(hostile, max_size=2).map(tuple),
    int: st.integers(0, 3),
    bool: st.booleans(),
    datetime: moments,
    datetime | None: st.none() | moments,
}


def tuples(of: st.SearchStrategy[Any], most: int = 2) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(of, max_size=most).map(tuple)


def hostile_views(model: type[Record], **given_fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Make views whose every field is hostile; one of a type that nobody here knows must be given."""
    known = {**FIXED, **given_fields}
    fields = {
        name: links if name.endswith("_url") else known[name] if name in known else BY_TYPE[field.annotation]
        for name, field in model.model_fields.items()
    }
    return st.builds(model, **{name: values for name, values in fields.items() if values is not None})


figures = tuples(hostile_views(FigureView))
queues = tuples(hostile_views(QueueView, figures=figures))
stacks = tuples(hostile_views(StackView))
incidents = hostile_views(IncidentView, figures=figures, queues=queues, stacks=stacks)
messages = hostile_views(MessageView, severity=severities, firing=tuples(incidents, 3), resolved=tuples(incidents))
digests = st.builds(digest, st.lists(messages, min_size=1, max_size=2), thread_key=hostile)
reports = hostile_views(
    DailyReportView,
    incidents=tuples(hostile_views(ReportedIncident)),
    forecasts=tuples(hostile_views(ForecastQuality)),
    data=tuples(hostile_views(DataQuality)),
)
EVERY_KIND = pytest.mark.parametrize("kind", [messages, digests, reports], ids=["message", "digest", "daily report"])


@EVERY_KIND
@FAST
@given(data=st.data())
def test_no_text_can_add_a_header_a_recipient_or_a_line_to_one(
    kind: st.SearchStrategy[AnyView], data: st.DataObject
) -> None:
    mail = mail_of(data.draw(kind)).message
    assert set(mail.keys()) == OUR_HEADERS
    assert len(mail.keys()) == len(OUR_HEADERS)
    assert [address.addr_spec for address in mail["To"].addresses] == ["orders@example.com"]
    assert mail.defects == []
    for value in mail.values():
        assert len(str(value).splitlines()) <= 1
    for below in mail.walk():
        assert set(below.keys()) <= OUR_HEADERS | {"Content-Transfer-Encoding", "Content-Disposition", "Content-ID"}


TAGS = {
    "a", "b", "body", "br", "div", "head", "html", "img", "meta", "span", "style", "table", "td", "title", "tr",
}  # fmt: skip
ATTRIBUTES = {
    "align", "alt", "cellpadding", "cellspacing", "charset", "class", "content", "href", "lang", "name", "role", "src",
    "style", "title", "width",
}  # fmt: skip


@EVERY_KIND
@FAST
@given(data=st.data())
def test_no_text_can_add_a_tag_an_attribute_a_link_or_a_source(
    kind: st.SearchStrategy[AnyView], data: st.DataObject
) -> None:
    mail = mail_of(data.draw(kind))
    outline = Outline(mail.html)
    assert {tag for tag, _ in outline.tags} <= TAGS
    assert {name for _, name in outline.tags} - {""} <= ATTRIBUTES
    assert all(link.startswith(("http://", "https://")) for link in outline.links)
    assert all(source.startswith("cid:lag") for source in outline.sources)
    assert not set(mail.text) & set("\r\0\u202e\u2028\x1b")
