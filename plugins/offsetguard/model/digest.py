"""One mail instead of many: a section for each cause with its worst incidents, and what is not listed is counted."""

from collections.abc import Sequence

from offsetguard.model.verdicts import Severity
from offsetguard.model.views import DigestSection, DigestView, IncidentView, MessageView

INCIDENTS_PER_CAUSE = 5


def digest(views: Sequence[MessageView], *, thread_key: str) -> DigestView:
    """Return one view for messages of one team, cluster and interval; raises ValueError when there is none."""
    if not views:
        raise ValueError("a digest needs at least one message")
    sections = tuple(sorted(map(_section, views), key=_worst_first))
    first = views[0]
    return DigestView(
        team=first.team,
        cluster=first.cluster,
        severity=sections[0].severity,
        interval_start=first.interval_start,
        thread_key=thread_key,
        sections=sections,
        language=first.language,
        time_zone=first.time_zone,
        page_url=first.page_url,
        data_docs_url=first.data_docs_url,
        late=any(view.late for view in views),
        mentions=first.mentions,
    )


def _section(view: MessageView) -> DigestSection:
    groups = {incident.consumer_group for incident in (*view.firing, *view.resolved)} - {None}
    said = {name: getattr(view, name) for name in DigestSection.model_fields}
    return DigestSection(
        **said
        | {
            "firing": tuple(map(_short, view.firing[:INCIDENTS_PER_CAUSE])),
            "hidden_firing": view.hidden_firing + max(0, len(view.firing) - INCIDENTS_PER_CAUSE),
            "resolved": tuple(map(_short, view.resolved[:INCIDENTS_PER_CAUSE])),
            "hidden_resolved": view.hidden_resolved + max(0, len(view.resolved) - INCIDENTS_PER_CAUSE),
            "group_count": view.group_count or len(groups),
        }
    )


def _short(incident: IncidentView) -> IncidentView:
    lists: dict[str, object] = dict.fromkeys(
        ("queues", "changes", "stacks", "explains", "cannot_tell", "lag_curve"), ()
    )
    return incident.model_copy(update={**lists, "explained_count": 0})


def _worst_first(section: DigestSection) -> tuple[bool, int, int, str]:
    return (not section.firing, -Severity(section.severity).rank, -section.firing_count, section.rule_id)
