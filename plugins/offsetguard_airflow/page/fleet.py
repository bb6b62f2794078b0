"""The fleet: which groups are in trouble, worst first, in all clusters or one; whether the figures can be trusted.

Below it the pages of one group, of its queues and of one topic, which the menu does not have: they need a name.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response

from offsetguard.views.fleet import Wanted
from offsetguard_airflow.web.airflow_runs import lead_to_log, lead_to_page
from offsetguard_airflow.web.group_page import show_group
from offsetguard_airflow.web.published_views import views_of_workspace
from offsetguard_airflow.web.queues_page import show_heat_map, show_queues
from offsetguard_airflow.web.rendering import address_of, given_as, lead_to_folder, words_for
from offsetguard_airflow.web.topic_page import show_topic
from offsetguard_airflow.web.unchanged import unless_unchanged


def routes(may_write: list[object]) -> APIRouter:
    """Return the routes; nothing is changed here."""
    router, unchanged = APIRouter(), [Depends(unless_unchanged)]
    router.get("")(lead_to_folder)
    router.get("/", dependencies=unchanged)(show_fleet)
    router.get("/group", dependencies=unchanged)(show_group)
    router.get("/topic", dependencies=unchanged)(show_topic)
    router.get("/queues", dependencies=unchanged)(show_queues)
    router.get("/queues.png")(show_heat_map)
    router.get("/log")(lead_to_log)
    router.get("/of-run")(lead_to_page)
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
