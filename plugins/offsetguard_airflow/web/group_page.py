"""One consumer group: reached from the fleet, from an incident, or by its address."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import Response

from offsetguard.catalogue import Catalogue
from offsetguard.config.workspace import Workspace
from offsetguard.decide.incidents.history import IncidentWords
from offsetguard.deliver.messages.wording import pasteable
from offsetguard.model.incident import Incident
from offsetguard.store import incidents
from offsetguard.store.database import current_time, reading
from offsetguard.views.course import band_of
from offsetguard.views.group import (
    INCIDENTS,
    AskedGroup,
    ChangeLine,
    IncidentLine,
    group_view,
    incident_band,
    limit_lines,
)
from offsetguard_airflow.web.published_views import configuration, pictures_of, published_facts
from offsetguard_airflow.web.rendering import address_of, given_as, our_engine, words_for


def show_group(request: Request, asked: Annotated[AskedGroup, Query()]) -> Response:
    """Show the group that the address names; one of which nothing is known has an empty page."""
    workspace, engine, words = Workspace.from_environment(), our_engine(), words_for(request)
    with reading(engine) as session:
        now = current_time(session)
        since = now - asked.span.length
        found = incidents.of_group(session, asked.cluster, asked.consumer_group, since, limit=INCIDENTS)
    with published_facts(workspace, engine) as facts:
        rows = facts.of_group(asked, now)
        changed = facts.changes_before(asked, rows)
    config = configuration(workspace)
    view = group_view(
        asked,
        rows,
        [_incident_line(one, words, since, now) for one in found],
        [ChangeLine(at=one.at, what=words.read(one.what), band=band_of(one.at, one.at, since, now)) for one in changed],
        now,
        team=config.policy(asked.cluster, asked.consumer_group).team if config else None,
        limits=limit_lines(config, asked.cluster, asked.consumer_group) if config else (),
        console_url=config.delivery.console_address(asked.cluster, asked.consumer_group, None) if config else None,
    )
    return given_as(
        request,
        "group.html.j2",
        view,
        view.topics,
        topics=[
            address_of("topic", cluster=asked.cluster, topic=one.topic, lang=words.locale.language)
            for one in view.topics
        ],
        **pictures_of("group", asked, view.courses, words.locale.language),
    )


def _incident_line(incident: Incident, words: Catalogue, since: datetime, now: datetime) -> IncidentLine:
    said = IncidentWords(incident, words.locale)
    return IncidentLine(
        incident_id=incident.incident_id,
        rule_id=incident.subject.rule_id,
        severity=incident.evidence.severity,
        summary=said.summary,
        cause=said.cause,
        do_next=said.do_next,
        commands=pasteable(incident.evidence.commands),
        opened_at=incident.opened_at,
        resolved_at=incident.resolved_at,
        resolution=said.resolution,
        band=incident_band(incident, since, now),
    )
