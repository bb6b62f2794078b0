"""The text and the HTML of a daily report: what the templates `daily_report.*.j2` are filled with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetguard.messages import wording
from offsetguard.messages.mail_pages import COLOURS, MailTexts, fill
from offsetguard.text import format_duration, format_messages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetguard.catalogue import Catalogue
    from offsetguard.messages.daily_report import DailyReportView, DataQuality, ForecastQuality, ReportedIncident

CALM = "calm"  # the status of a day without incidents


def report_texts(view: DailyReportView, words: Catalogue) -> MailTexts:
    """Return a daily report as text and HTML; `view`: harmless."""
    count = len(view.incidents) + view.hidden_incidents
    day, what = view.day.isoformat(), _what(view, count, words)
    status = view.severity if count else CALM
    return fill(
        "daily_report",
        {
            "view": view,
            "words": words,
            "subject": words.say("report_subject", team=view.team, day=day, what=what),
            "status": status,
            "status_word": words.say("report_head"),
            "colour": COLOURS["info"] if count else COLOURS[wording.RESOLVED],
            "news": words.say("report_news", day=day, what=what),
            "below_news": words.say("report_team", team=view.team),
            "notes": (),
            "why_now": words.say("report_why"),
            "footer": words.say("report_footer", zone=view.time_zone),
            "counts": tuple(_counts(view, words)),
            "about": _about,
            "course": lambda incident: _course(incident, words),
            "more_incidents": wording.more(view.hidden_incidents, "finding", words),
            "forecasts": tuple(_forecast(one, words) for one in view.forecasts),
            "data": tuple(_data(one, words) for one in view.data),
            "more_clusters": wording.more(view.hidden_clusters, "cluster", words),
        },
    )


def _what(view: DailyReportView, count: int, words: Catalogue) -> str:
    if not count:
        return words.say("report_nothing")
    if not view.critical_count:
        return words.say("report_some", count=count)
    return words.say("report_some_critical", count=count, critical=view.critical_count)


def _counts(view: DailyReportView, words: Catalogue) -> Iterator[tuple[str, str]]:
    """Give the day in figures; what did not happen is left out, but for the first three."""
    yield words.say("report_opened"), format_messages(view.opened_count)
    yield words.say("report_resolved"), format_messages(view.resolved_count)
    yield words.say("report_open"), format_messages(view.open_count)
    further = (
        ("report_muted", view.muted_count),
        ("report_acknowledged", view.acknowledged_count),
        ("report_silences", view.silence_count),
        ("report_sent", view.sent_count),
        ("report_waiting", view.waiting_count),
        ("report_failed", view.failed_count),
    )
    yield from ((words.say(key), format_messages(count)) for key, count in further if count)


def _about(incident: ReportedIncident) -> str:
    names = (incident.consumer_group, incident.topic)
    return " · ".join([incident.cluster, *(name for name in names if name), incident.title])


def _course(incident: ReportedIncident, words: Catalogue) -> str:
    """Return how long it lasted on the day, since when, how it stands, and how bad it was."""
    lasted = format_duration(incident.lasted_ms, words.locale)
    opened = words.moment(incident.opened_at)
    if incident.resolved_at is None:
        key = "report_unknown" if incident.unknown else "report_still_open"
        course = words.say(key, lasted=lasted, opened=opened)
    else:
        course = words.say("report_over", lasted=lasted, opened=opened)
    return course if incident.peak is None else words.say("report_with_peak", course=course, peak=incident.peak)


def _forecast(one: ForecastQuality, words: Catalogue) -> tuple[str, str]:
    known = one.inside + one.early + one.late
    head = words.say("report_forecast_loss" if one.kind == "loss" else "report_forecast_drain", cluster=one.cluster)
    if not known:
        return head, words.say("report_forecast_none", void=one.void)
    percent = round(100 * one.inside / known)
    return head, words.say(
        "report_forecast", percent=percent, known=known, early=one.early, late=one.late, void=one.void
    )


def _data(one: DataQuality, words: Catalogue) -> tuple[str, str]:
    said = [words.say("report_judged", judged=one.judged_count, expected=one.expected_count)]
    further = (
        ("report_gap", one.longest_gap_ms),
        ("report_late", one.late_count),
        ("report_failed_cycles", one.failed_cycle_count),
        ("report_violations", one.violation_count),
        ("report_quarantined", one.quarantined_count),
    )
    said += [words.say(key, count=count) for key, count in further if count]
    return one.cluster, words.say("report_and").join(said)
