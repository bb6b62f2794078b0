"""The fleet: which groups are in trouble, worst first, in all clusters or one; whether the figures can be trusted.

Below it the pages of one group and of one topic, which the menu does not have: they need a name.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse, Response
from sqlalchemy.orm import Session

from offsetguard.catalogue.text import Locale
from offsetguard.config.workspace import Workspace
from offsetguard.decide.incidents.history import IncidentWords
from offsetguard.store import incidents
from offsetguard.store.database import current_time, reading
from offsetguard.views.fleet import Wanted, fleet
from offsetguard_airflow.web.forms import FORM_HEADERS
from offsetguard_airflow.web.group_page import show_group
from offsetguard_airflow.web.published_views import configuration, published_facts
from offsetguard_airflow.web.rendering import TEMPLATES, address_of, given_as, lead_to_folder, our_engine, words_for
from offsetguard_airflow.web.topic_page import show_topic


def routes(may_write: list[object]) -> APIRouter:
    """Return the routes; nothing is changed here."""
    router = APIRouter()
    router.get("")(lead_to_folder)
    router.get("/")(show_fleet)
    router.get("/group")(show_group)
    router.get("/topic")(show_topic)
    router.get("/zone.js")(lambda: _script("zone.js"))
    router.get("/copy.js")(lambda: _script("copy.js"))
    return router


def show_fleet(request: Request, wanted: Annotated[Wanted, Query()]) -> Response:
    """Show what the address asks for."""
    workspace, engine, words = Workspace.from_environment(), our_engine(), words_for(request)
    config = configuration(workspace)
    with published_facts(workspace, engine) as facts:
        newest = facts.newest(config.clusters if config else ())
    with reading(engine) as session:
        view = fleet(
            newest,
            incidents.all_open(session),
            wanted,
            current_time(session),
            words_of=lambda ids: _summaries(session, ids, words.locale),
        )
    language = words.locale.language
    groups = [
        address_of("group", cluster=one.cluster, consumer_group=one.consumer_group, lang=language)
        for one in view.groups
    ]
    return given_as(request, "fleet.html.j2", view, view.groups, groups=groups)


def _summaries(session: Session, incident_ids: Collection[str], locale: Locale) -> dict[str, str]:
    found = incidents.by_id(session, incident_ids)
    return {key: IncidentWords(incident, locale).summary for key, incident in found.items()}


def _script(name: str) -> Response:
    return FileResponse(TEMPLATES / name, headers=FORM_HEADERS, media_type="text/javascript; charset=utf-8")
