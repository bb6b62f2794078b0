"""The fleet: which groups are in trouble, worst first, in all clusters or one; whether the figures can be trusted."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request, status
from fastapi.responses import FileResponse, RedirectResponse, Response
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from offsetguard.catalogue.text import Locale
from offsetguard.config.file import config_in_use
from offsetguard.config.workspace import Workspace
from offsetguard.decide.incidents.history import IncidentWords
from offsetguard.model.errors import ConfigError, PublishError
from offsetguard.store import incidents
from offsetguard.store.database import current_time, reading
from offsetguard.views.fleet import Wanted, fleet
from offsetguard.views.published import PublishedFacts
from offsetguard_airflow.web.forms import FORM_HEADERS
from offsetguard_airflow.web.rendering import TEMPLATES, given_as, our_engine, words_for


def routes(may_write: list[object]) -> APIRouter:
    """Return the routes; nothing is changed here."""
    router = APIRouter()
    router.get("")(lead_to_fleet)
    router.get("/")(show_fleet)
    router.get("/zone.js")(give_script)
    return router


def lead_to_fleet(request: Request) -> Response:
    """Lead to the address below which relative links work."""
    return RedirectResponse(f"{request.url.path.rpartition('/')[2]}/", status.HTTP_307_TEMPORARY_REDIRECT)


def give_script() -> Response:
    """Give the script that says by which clock moments are shown; without it that is UTC."""
    return FileResponse(TEMPLATES / "zone.js", headers=FORM_HEADERS, media_type="text/javascript; charset=utf-8")


def show_fleet(request: Request, wanted: Annotated[Wanted, Query()]) -> Response:
    """Show what the address asks for."""
    workspace = Workspace.from_environment()
    engine = our_engine()
    locale = words_for(request).locale
    try:
        newest = _facts(workspace, engine).newest(_configured(workspace))
    except PublishError as error:
        raise HTTPException(status.HTTP_503_SERVICE_UNAVAILABLE, str(error)) from error
    with reading(engine) as session:
        view = fleet(
            newest,
            incidents.all_open(session),
            wanted,
            current_time(session),
            words_of=lambda ids: _summaries(session, ids, locale),
        )
    return given_as(request, "fleet.html.j2", view, view.groups)


def _summaries(session: Session, incident_ids: Collection[str], locale: Locale) -> dict[str, str]:
    found = incidents.by_id(session, incident_ids)
    return {key: IncidentWords(incident, locale).summary for key, incident in found.items()}


def _configured(workspace: Workspace) -> list[str]:
    """Return the clusters of the configuration; of one that cannot be read, none: what was published is shown."""
    try:
        return list(config_in_use(workspace).config.clusters)
    except ConfigError:
        return []


@cache
def _facts(workspace: Workspace, engine: Engine) -> PublishedFacts:
    return PublishedFacts(workspace, engine)
