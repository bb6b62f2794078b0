"""The sentences around the figures that mail and Slack share: who, how bad, since when, why now."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from offsetguard.messages.view import NotificationReason
from offsetguard.rules.text import format_duration, format_messages, format_moment

if TYPE_CHECKING:
    from offsetguard.messages.view import IncidentView, MessageView

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
    """Return e.g. `[CRITICAL] orders-cluster · order-group · consumer group has stopped`; several groups: a count."""
    incidents = view.firing or view.resolved
    about = [view.cluster]
    if len(incidents) == 1 and (name := incidents[0].consumer_group or incidents[0].topic):
        about.append(name)
    elif len(incidents) > 1:
        about.append(counted_groups(incidents))
    about.append(incidents[0].summary if len(incidents) == 1 else view.title)
    return f"[{status(view).upper()}] {' · '.join(about)}"


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


def why_now(view: MessageView) -> str:
    """Return one sentence that says why this message was sent now."""
    return _WHY_NOW.get(view.reason, "")


def more(hidden: int, what: str) -> str:
    """Return `and 12 more queues`, or nothing when nothing is hidden."""
    return f"and {format_messages(hidden)} more {what}{'' if hidden == 1 else 's'}" if hidden > 0 else ""


def _span(start: datetime, end: datetime) -> str:
    return format_duration(max(0.0, (end - start).total_seconds()) * 1_000)


def _same_day(one: datetime, other: datetime) -> bool:
    return one.astimezone(UTC).date() == other.astimezone(UTC).date()
