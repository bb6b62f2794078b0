"""The daily report as people read it, in both languages."""

from datetime import UTC, date, datetime, timedelta

from offsetguard.model.views import DailyReportView, DataQuality, ForecastQuality, ReportedIncident, read_view
from offsetguard_peers.cases.messages import mail_of

START = datetime(2026, 11, 21, tzinfo=UTC)
HOUR = timedelta(hours=1)
HOUR_MS = 3_600_000
INCIDENT = ReportedIncident(
    cluster="orders-cluster",
    consumer_group="order-group",
    topic="order-events",
    rule_id="consumer_offline",
    title="consumers are offline",
    severity="critical",
    opened_at=START + 6 * HOUR,
    resolved_at=START + 8 * HOUR,
    lasted_ms=2 * HOUR_MS,
    peak="lag 138,368",
)
MORE = {"consumer_group": "audit", "topic": None, "severity": "warning", "title": "new dead letters", "peak": None}
STILL_OPEN = INCIDENT.model_copy(update={**MORE, "resolved_at": None, "lasted_ms": 18 * HOUR_MS})
QUALITY = DataQuality(
    cluster="orders-cluster",
    expected_count=1_440,
    judged_count=1_410,
    late_count=2,
    failed_cycle_count=1,
    longest_gap_ms=30 * 60_000,
    violation_count=6,
    quarantined_count=10,
)
REPORT = DailyReportView(
    team="orders",
    severity="critical",
    interval_start=START,
    ends_at=START + 24 * HOUR,
    day=date(2026, 11, 21),
    thread_key="thread",
    incidents=(INCIDENT, STILL_OPEN),
    hidden_incidents=3,
    critical_count=1,
    opened_count=5,
    resolved_count=4,
    open_count=1,
    muted_count=2,
    silence_count=1,
    sent_count=9,
    failed_count=1,
    forecasts=(
        ForecastQuality(cluster="orders-cluster", kind="drain", inside=17, early=1, late=2, void=4),
        ForecastQuality(cluster="orders-cluster", kind="loss", inside=0, early=0, late=0, void=1),
    ),
    data=(QUALITY,),
    page_url="https://airflow.example.com",
)


def test_of_a_day_without_gaps_and_failures_none_are_counted() -> None:
    quality = QUALITY.model_copy(
        update={name: 0 for name in DataQuality.model_fields if name.endswith(("_count", "_ms"))}
        | {"expected_count": 1_440, "judged_count": 1_440}
    )
    lines = mail_of(REPORT.model_copy(update={"data": (quality,)})).text.splitlines()
    assert "- orders-cluster: 1,440 of 1,440 minutes judged" in lines


def test_the_text_of_a_bad_day() -> None:
    assert (
        mail_of(REPORT).text
        == """\
DAILY REPORT 2026-11-21: 5 incidents, 1 critical
Team orders

  Opened                  5
  Resolved                4
  Open at the day's end   1
  Muted for a time        2
  Silences in force       1
  Messages sent           9
  Messages refused for good  1

What was bad, worst first:
- CRITICAL: orders-cluster · order-group · order-events · consumers are offline
  2 h, first seen 2026-11-21 06:00:00 UTC, resolved · at worst lag 138,368
- WARNING: orders-cluster · audit · new dead letters
  18 h of the day, first seen 2026-11-21 06:00:00 UTC, still open
and 3 more findings

How good forecasts were in the last 7 days:
- orders-cluster: backlog gone: 85 % of 20 came within the range; 1 earlier, 2 later
- orders-cluster: messages lost: none came due (1 became pointless)

How much was seen:
- orders-cluster: 1,410 of 1,440 minutes judged; longest gap 30 min; 2 judged too late to tell; \
1 publication failed; 6 violations of invariants; 10 rows in quarantine

Open in Airflow         https://airflow.example.com

--\x20
Once a day at the hour that your configuration sets.
Times in UTC · OffsetGuard
"""
    )


def test_text_and_html_of_a_report_say_the_same() -> None:
    html = mail_of(REPORT).html
    for words in ("order-group · order-events · consumers are offline", "85 % of 20", "gap 30 min", "still open"):
        assert words in html


def test_a_calm_day_is_told_in_one_line_of_the_subject() -> None:
    calm = REPORT.model_copy(update={"incidents": (), "hidden_incidents": 0, "critical_count": 0, "severity": "info"})
    mail = mail_of(calm)
    assert mail.message["Subject"] == "[DAILY REPORT] orders · 2026-11-21 · nothing was wrong"
    assert mail.message["X-OffsetGuard-Severity"] == "calm"
    assert "What was bad" not in mail.text


def test_a_chinese_reader_gets_a_chinese_report_by_their_clock() -> None:
    mail = mail_of(REPORT.model_copy(update={"language": "zh", "time_zone": "Asia/Shanghai"}))
    for words in ("[日报] orders · 2026-11-21 · 5 个事件", "其中 1 个严重"):
        assert words in mail.message["Subject"]
    for words in ("2 小时", "首次发现于 2026-11-21 14:00:00 UTC+8", "近 7 天预测的准确性"):
        assert words in mail.text
    assert 'lang="zh-CN"' in mail.html


def test_a_report_is_read_back_from_the_outbox_as_it_is() -> None:
    assert read_view(REPORT.model_dump_json()) == REPORT
