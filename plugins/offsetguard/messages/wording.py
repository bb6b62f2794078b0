"""The sentences around the figures that mail and Slack share: who, how bad, since when, why now."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from offsetguard.messages.view import NotificationReason
from offsetguard.rules.text import format_duration, format_messages, format_moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetguard.messages.view import FigureView, IncidentView, MessageView

RESOLVED = "resolved"
_WHY_NOW = {
    NotificationReason.FIRST: "First message about this.",
    NotificationReason.NEW_FIRING: "Sent because something new fires.",
    NotificationReason.REPEAT: "Sent again because it still is so.",
    NotificationReason.RESOLVED: "Sent because a part has resolved.",
    NotificationReason.ALL_RESOLVED: "Sent because all of it has resolved.",
}


def status(view: MessageView) -> str:
    """Return the severity while something fires, else `resolved`."""
    return view.severity if view.firing else RESOLVED


def subject(view: MessageView) -> str:
    """Return e.g. `[CRITICAL] orders-cluster · order-group is offline and 5,120 messages behind`."""
    return f"[{status(view).upper()}] {view.cluster} · {news(view)}"


def news(view: MessageView) -> str:
    """Return the whole message in one line: of one incident its headline, of several how many groups and the title."""
    incidents = view.firing or view.resolved
    if len(incidents) != 1:
        return f"{counted_groups(incidents)} · {view.title}"
    return headline(incidents[0]) if view.firing else ending(incidents[0])


def headline(incident: IncidentView) -> str:
    """Return the summary, led by the group's name (or the topic's) where the summary does not say it."""
    name = incident.consumer_group or incident.topic
    return incident.summary if name is None or name in incident.summary else f"{name} · {incident.summary}"


def ending(incident: IncidentView) -> str:
    """Return e.g. `order-group · caught up after 41 min`."""
    after = f" after {_span(incident.opened_at, incident.resolved_at)}" if incident.resolved_at else ""
    return f"{incident.consumer_group or incident.topic or incident.summary} · {resolution(incident)}{after}"


def counted_groups(incidents: tuple[IncidentView, ...]) -> str:
    """Return `3 consumer groups`, or `3 findings` where they are not about groups."""
    groups = {incident.consumer_group for incident in incidents}
    if None in groups:
        return f"{len(incidents)} findings"
    return f"{format_messages(len(groups))} consumer group{'' if len(groups) == 1 else 's'}"


def history(incident: IncidentView) -> str:
    """Return since when and how often, or from when to when once it has resolved; UTC."""
    opened = format_moment(incident.opened_at)
    if incident.resolved_at is not None:
        lasted = _span(incident.opened_at, incident.resolved_at)
        ended = incident.resolved_at.astimezone(UTC).strftime(
            "%H:%M:%S" if _same_day(incident.opened_at, incident.resolved_at) else "%Y-%m-%d %H:%M:%S"
        )
        return f"{lasted}, from {opened.removesuffix(' UTC')} to {ended} UTC"
    if incident.seen_count <= 1:
        return f"{opened}, seen once"
    return f"{opened}, for {_span(incident.opened_at, incident.last_seen_at)}, seen {incident.seen_count:,} times"


def resolution(incident: IncidentView) -> str:
    """Return how it ended, in a few words."""
    return incident.resolution or "no longer found"


def label(figure: FigureView) -> str:
    """Return a figure's label as it stands at the head of a table row."""
    return figure.label[:1].upper() + figure.label[1:]


def why_now(view: MessageView) -> str:
    """Return one sentence that says why this message was sent now."""
    return _WHY_NOW.get(view.reason, "")


def beside(incident: IncidentView, shown: int) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Give what stands beside the finding: a heading, at most `shown` lines, and how many more there are."""
    lists = (
        ("Also explains", incident.explains, incident.explained_count, "finding"),
        ("Cannot tell", incident.cannot_tell, incident.cannot_tell_count, "question"),
    )
    for head, lines, count, what in lists:
        if count or lines:
            yield head, lines[:shown], more(count - min(len(lines), shown), what)


def more(hidden: int, what: str) -> str:
    """Return `and 12 more queues`, or nothing when nothing is hidden."""
    return f"and {format_messages(hidden)} more {what}{'' if hidden == 1 else 's'}" if hidden > 0 else ""


def _span(start: datetime, end: datetime) -> str:
    return format_duration(max(0.0, (end - start).total_seconds()) * 1_000)


def _same_day(one: datetime, other: datetime) -> bool:
    return one.astimezone(UTC).date() == other.astimezone(UTC).date()
