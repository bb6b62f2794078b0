"""The fleet: which groups are in trouble, worst first, in all clusters or one; whether the figures can be trusted.

Below it the pages of one group, of its queues and of one topic, which the menu does not have: they need a name.
"""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Query, Request, status
from fastapi.responses import Response

from offsetguard.views.course import plot_of, usual_of
from offsetguard.views.fleet import Wanted
from offsetguard.views.group import AskedGroup, GroupView
from offsetguard.views.outlook import AHEAD
from offsetguard.views.queues import AskedPicture, AskedQueues
from offsetguard.views.topic import AskedTopic
from offsetguard_airflow.web.airflow_runs import lead_to_log, lead_to_page
from offsetguard_airflow.web.forms import PAGE_HEADERS
from offsetguard_airflow.web.rendering import (
    address_of,
    by_readers_clock,
    given_as,
    lead_to_folder,
    unless_unchanged,
    words_for,
)
from offsetguard_airflow.web.workspace import views_of_workspace


def routes(may_write: list[object]) -> APIRouter:
    """Return the routes; nothing is changed here."""
    router, unchanged = APIRouter(), [Depends(by_readers_clock), Depends(unless_unchanged)]
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
    with views_of_workspace() as views:
        view = views.fleet(wanted, words_for(request))
    return given_as(request, "fleet.html.j2", view, view.groups)


def show_group(request: Request, asked: Annotated[AskedGroup, Query()]) -> Response:
    """Show the group that the address names."""
    with views_of_workspace() as views:
        view = views.group(asked, words_for(request))
    return given_as(request, "group.html.j2", view, view.topics, **_beyond(view))


def show_topic(request: Request, asked: Annotated[AskedTopic, Query()]) -> Response:
    """Show the topic that the address names."""
    with views_of_workspace() as views:
        view = views.topic(asked)
    tops = {"produce_tps": sum(one.greatest or 0 for one in view.usual)}
    plots = [plot_of(one, tops.get(one.figure, 0)) for one in view.courses]
    return given_as(request, "topic.html.j2", view, view.readers, plots=plots, usual=usual_of(view.usual, plots[0].top))


def show_queues(request: Request, asked: Annotated[AskedQueues, Query()]) -> Response:
    """Show the queues of the group that the address names."""
    with views_of_workspace() as views:
        view = views.queues(asked)
    steps, figures = view.table()
    picture = address_of("queues.png", **{**view.asked.model_dump(mode="json"), "until": view.until.isoformat()})
    return given_as(request, "queues.html.j2", view, view.points(), steps=steps, figures=figures, picture=picture)


def show_heat_map(asked: Annotated[AskedPicture, Query()]) -> Response:
    """Give the picture of a span that is over: its address says which, so it may be kept for a while."""
    with views_of_workspace() as views:
        view = views.queues(asked)
    if not view.heat:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "no queue of the group has a row in this span")
    headers = {**PAGE_HEADERS, "Cache-Control": "private, max-age=3600"}
    return Response(view.picture(), headers=headers, media_type="image/png")


def _beyond(view: GroupView) -> dict[str, object]:
    """Return what the pictures need to show what lies beyond the courses: the edge of retention where it is near."""
    kept_ms = (view.until - view.kept_since) / timedelta(milliseconds=1) if view.kept_since else None
    plots = []
    for one in view.courses:
        is_near = one.figure == "lag_ms" and kept_ms is not None and kept_ms <= 2 * (one.greatest or 0)
        plots.append(plot_of(one, kept_ms if is_near and kept_ms else 0))
    return {"ahead": AHEAD if view.outlooks else 0, "kept_ms": kept_ms, "plots": plots}
