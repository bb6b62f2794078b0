"""What a team reads once a day: what was bad and for how long, what nobody was told, how good forecasts and data were.

Figures and names only; `mail_reports.py` puts them into words.
"""

from __future__ import annotations

from datetime import date, datetime  # noqa: TC003 pydantic reads the annotations
from typing import Literal

from offsetguard.messages.view import Record

DAILY_REPORT = "daily_report"  # stands where other messages have their rule id
EVERY_CLUSTER = "*"
INCIDENTS_LISTED = 30
CLUSTERS_LISTED = 20


class ReportedIncident(Record):
    """One incident that the day saw."""

    cluster: str
    consumer_group: str | None
    topic: str | None
    rule_id: str
    title: str
    severity: str
    opened_at: datetime
    resolved_at: datetime | None  # None: it was open at the day's end
    lasted_ms: int  # within the day
    peak: str | None = None  # the worst figure of its whole life, formatted
    unknown: bool = False  # at the day's end its evidence could not be seen
    incident_url: str | None = None


class ForecastQuality(Record):
    """How one kind of forecast of one cluster turned out."""

    cluster: str
    kind: str  # drain or loss
    inside: int
    early: int
    late: int
    void: int  # their subject went away: they count for nothing


class DataQuality(Record):
    """How much of the day was seen of one cluster, and what was wrong with what was seen."""

    cluster: str
    expected_count: int  # intervals of the day
    judged_count: int
    late_count: int  # of these, judged so late that nobody was told
    failed_cycle_count: int
    longest_gap_ms: int  # between two judged intervals, or to the day's ends; 0: no interval is missing
    violation_count: int  # of invariants
    quarantined_count: int  # rows left out of the facts


class DailyReportView(Record):
    """One team's report about one day; carries what the outbox needs, as MessageView does."""

    kind: Literal["daily_report"] = "daily_report"
    team: str
    cluster: str = EVERY_CLUSTER
    rule_id: str = DAILY_REPORT
    severity: str  # the worst of the day, or info
    interval_start: datetime  # when the day began
    ends_at: datetime  # and when it ended
    day: date  # by the reader's calendar
    thread_key: str
    language: str = "en"
    time_zone: str = "UTC"
    incidents: tuple[ReportedIncident, ...] = ()  # worst first, at most INCIDENTS_LISTED
    hidden_incidents: int = 0
    critical_count: int = 0  # of all of them
    opened_count: int = 0  # on this day
    resolved_count: int = 0  # on this day
    open_count: int = 0  # at its end
    muted_count: int = 0  # incidents that were muted for a time
    acknowledged_count: int = 0
    silence_count: int = 0  # silences that were in force, of all teams
    sent_count: int = 0  # messages that receivers accepted
    waiting_count: int = 0  # of the day, not accepted yet
    failed_count: int = 0  # refused for good
    forecast_days: int = 7  # that the forecasts' outcomes are of, the day being the last
    forecasts: tuple[ForecastQuality, ...] = ()
    data: tuple[DataQuality, ...] = ()  # worst first, at most CLUSTERS_LISTED
    hidden_clusters: int = 0
    page_url: str | None = None
    data_docs_url: str | None = None
