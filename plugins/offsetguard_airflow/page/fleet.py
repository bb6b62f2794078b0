"""The fleet: which groups are in trouble, worst first, in all clusters or one; whether the figures can be trusted.

Below it the pages of one group, of its queues and of one topic, which the menu does not have: they need a name.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse, Response

from offsetguard.views.fleet import Wanted
from offsetguard_airflow.web.airflow_runs import lead_to_log, lead_to_page
from offsetguard_airflow.web.forms import FORM_HEADERS
from offsetguard_airflow.web.group_page import show_group
from offsetguard_airflow.web.published_views import views_of_workspace
from offsetguard_airflow.web.queues_page import show_heat_map, show_queues
from offsetguard_airflow.web.rendering import TEMPLATES, address_of, given_as, lead_to_folder, words_for
from offsetguard_airflow.web.topic_page import show_topic


def routes(may_write: list[object]) -> APIRouter:
    """Return the routes; nothing is changed here."""
    router = APIRouter()
    router.get("")(lead_to_folder)
    router.get("/")(show_fleet)
    router.get("/group")(show_group)
    router.get("/topic")(show_topic)
    router.get("/queues")(show_queues)
    router.get("/queues.png")(show_heat_map)
    router.get("/log")(lead_to_log)
    router.get("/of-run")(lead_to_page)
    router.get("/zone.js")(lambda: _script("zone.js"))
    router.get("/leave_frame.js")(lambda: _script("leave_frame.js"))
    router.get("/copy.js")(lambda: _script("copy.js"))
    return router


def show_fleet(request: Request, wanted: Annotated[Wanted, Query()]) -> Response:
    """Show what the address asks for."""
    words = words_for(request)
    with views_of_workspace() as views:
        view = views.fleet(wanted, words)
    language = words.locale.language
    groups = [
        address_of("group", cluster=one.cluster, consumer_group=one.consumer_group, lang=language)
        for one in view.groups
    ]
    return given_as(request, "fleet.html.j2", view, view.groups, groups=groups)


def _script(name: str) -> Response:
    return FileResponse(TEMPLATES / name, headers=FORM_HEADERS, media_type="text/javascript; charset=utf-8")
