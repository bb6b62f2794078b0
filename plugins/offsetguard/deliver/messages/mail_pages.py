"""Templates of mails, and what fills those about several causes and the daily report."""

import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from offsetguard.catalogue import Catalogue
from offsetguard.catalogue.text import Language, format_duration, format_messages
from offsetguard.deliver.messages import wording
from offsetguard.model.verdicts import Severity
from offsetguard.model.views import (
    DailyReportView,
    DataQuality,
    DigestSection,
    DigestView,
    ForecastQuality,
    ReportedIncident,
)

WITH_CAUSE = 5  # incidents of a digest, the worst of all sections
SECTIONS_SHOWN = 25  # Gmail cuts mails at 102 kB


def digest_texts(view: DigestView, words: Catalogue) -> "MailTexts":
    """Return a digest as text and HTML; `view`: harmless."""
    status = view.severity if any(section.firing_count for section in view.sections) else wording.RESOLVED
    word = wording.status_word(status, words)
    in_brief = words.say("mail_digest_news", count=len(view.sections), what=what_happened(view, words))
    return fill(
        "digest",
        {
            "view": view,
            "words": words,
            "subject": f"[{word.upper()}] {view.cluster} · {in_brief}",
            "status": status,
            "in_brief": in_brief,
            "sub_line": f"{words.say('mail_cluster')} {view.cluster}",
            "notes": tuple(wording.told_late(view, words)),
            "why_now": words.say("mail_digest_why", count=len(view.sections)),
            "footnote": wording.footnote(view, words),
            "footer": words.say("mail_digest_footer", interval=view.interval_start, team=view.team),
            "sections": view.sections[:SECTIONS_SHOWN],
            "more_sections": wording.more(len(view.sections) - SECTIONS_SHOWN, "cause", words),
            "counted": lambda section: counted_of(section, words),
            "with_cause": _shown_with_cause(view),
            "section_notes": lambda section: tuple(wording.of_cause(section, words)),
        },
    )


def _shown_with_cause(view: DigestView) -> Counter[int]:
    """Return by a section's place how many show their causes: the worst of all, of equals one of each first."""
    ranks = {severity.value: severity.rank for severity in Severity}
    placed = [(place, one, n) for n, section in enumerate(view.sections) for place, one in enumerate(section.firing)]
    worst = sorted(placed, key=lambda listed: (-ranks.get(listed[1].severity, 0), listed[0]))
    return Counter(section for _, _, section in worst[:WITH_CAUSE])


def what_happened(view: DigestView, words: Catalogue) -> str:
    """Return how many findings a digest has, and how many have resolved."""
    firing = sum(section.firing_count for section in view.sections)
    resolved = sum(section.resolved_count for section in view.sections)
    parts = [words.say("findings", count=firing)] if firing or not resolved else []
    parts += [words.say("mail_digest_resolved", count=resolved)] if resolved else []
    return words.say("mail_digest_both", one=parts[0], other=parts[1]) if len(parts) > 1 else parts[0]


def counted_of(section: DigestSection, words: Catalogue) -> str:
    """Return `312 consumer groups`, or `3 findings` where they are not about groups."""
    if section.group_count:
        return words.say("consumer_groups", count=section.group_count)
    return words.say("findings", count=section.firing_count or section.resolved_count)


CALM = "calm"  # the status of a day without incidents


def report_texts(view: DailyReportView, words: Catalogue) -> "MailTexts":
    """Return a daily report as text and HTML; `view`: harmless."""
    count = len(view.incidents) + view.hidden_incidents
    day, what = view.day.isoformat(), _what_was_bad(view, count, words)
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
            "in_brief": words.say("report_news", day=day, what=what),
            "sub_line": words.say("report_team", team=view.team),
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


def _what_was_bad(view: DailyReportView, count: int, words: Catalogue) -> str:
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


COLOURS = {"critical": "#b42318", "warning": "#b54708", "info": "#175cd3", wording.RESOLVED: "#067647"}
_HTML_LANGUAGES = {Language.EN: "en", Language.ZH: "zh-CN"}
_COLUMN = 22  # columns of the labels of a text mail
_WIDE = frozenset("WF")  # East Asian widths that take two columns


@dataclass(frozen=True, slots=True)
class Picture:
    """An inline picture: the HTML names its content id."""

    content_id: str  # without angle brackets
    head: str  # stands above it
    alt: str  # says what it shows
    png: bytes
    width: int  # CSS pixels


@dataclass(frozen=True, slots=True)
class MailTexts:
    """What a mail says, before it is MIME."""

    subject: str
    status: str  # critical, warning, info, resolved, ...: for headers that filters read
    text: str
    html: str
    pictures: tuple[Picture, ...] = ()


def column(text: str) -> str:
    """Fill up with spaces, so that what follows stands in one column; a Chinese character takes two."""
    width = sum(2 if unicodedata.east_asian_width(character) in _WIDE else 1 for character in text)
    return text + " " * max(0, _COLUMN - width)


def _templates(*, autoescape: bool) -> Environment:
    environment = Environment(
        loader=PackageLoader("offsetguard.deliver.messages"),
        autoescape=autoescape,  # noqa: S701 off for plain text only
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["column"] = column
    return environment


_HTML = _templates(autoescape=True)
_TEXT = _templates(autoescape=False)  # plain text has no markup; lines cannot be broken by names, see wording.py


def fill(template: str, words: Mapping[str, Any], pictures: Mapping[str, Picture] | None = None) -> MailTexts:
    """Fill `<template>.txt.j2` and `<template>.html.j2`; `words`: subject, status, words (a Catalogue) and more."""
    catalogue = words["words"]
    status = words["status"]
    given = {
        "status_word": wording.status_word(status, catalogue),
        "colour": COLOURS.get(status, COLOURS["info"]),
        "headline": lambda incident: wording.headline(incident, catalogue),
        "ending": lambda incident: wording.ending(incident, catalogue),
        "footnote": "",
        "more": lambda hidden, what: wording.more(hidden, what, catalogue),
        **words,
        "say": catalogue.say,
        "colon": catalogue.locale.words.colon,
        "html_language": _HTML_LANGUAGES[catalogue.locale.language],
        "status_word_of": lambda severity: wording.status_word(severity, catalogue),
    }
    return MailTexts(
        subject=words["subject"],
        status=status,
        text=_TEXT.get_template(f"{template}.txt.j2").render(given),
        html=_HTML.get_template(f"{template}.html.j2").render(given),
        pictures=tuple((pictures or {}).values()),
    )
