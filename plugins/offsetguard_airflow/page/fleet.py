"""The fleet: which groups are in trouble, worst first, in all clusters or one; whether the figures can be trusted.

Below it the pages of one group, of its queues and of one topic, which the menu does not have: they need a name.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Query, Request, status
from fastapi.responses import Response

from offsetguard.views.course import plot_of
from offsetguard.views.fleet import Wanted
from offsetguard.views.group import AskedGroup, GroupView
from offsetguard.views.heat_picture import draw
from offsetguard.views.outlook import AHEAD
from offsetguard.views.queues import SPANS, AskedPicture, AskedQueues
from offsetguard.views.topic import AskedTopic
from offsetguard_airflow.web.airflow_runs import lead_to_log, lead_to_page
from offsetguard_airflow.web.forms import PAGE_HEADERS
from offsetguard_airflow.web.published_views import pictures_of, unless_unchanged, views_of_workspace
from offsetguard_airflow.web.rendering import address_of, given_as, lead_to_folder, words_for


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


def show_group(request: Request, asked: Annotated[AskedGroup, Query()]) -> Response:
    """Show the group that the address names."""
    words = words_for(request)
    with views_of_workspace() as views:
        view = views.group(asked, words)
    return given_as(
        request,
        "group.html.j2",
        view,
        view.topics,
        topics=[
            address_of("topic", cluster=asked.cluster, topic=one.topic, lang=words.locale.language)
            for one in view.topics
        ],
        queues=address_of(
            "queues", cluster=asked.cluster, consumer_group=asked.consumer_group, lang=words.locale.language
        ),
        **(pictures_of("group", asked, view.courses, words.locale.language) | _beyond(view)),
    )


def show_topic(request: Request, asked: Annotated[AskedTopic, Query()]) -> Response:
    """Show the topic that the address names."""
    with views_of_workspace() as views:
        view = views.topic(asked)
    cluster, language = asked.cluster, words_for(request).locale.language
    groups = [
        address_of("group", cluster=cluster, consumer_group=one.consumer_group, lang=language) for one in view.readers
    ]
    pictures = pictures_of("topic", asked, view.courses, language)
    return given_as(request, "topic.html.j2", view, view.readers, groups=groups, **pictures)


def show_queues(request: Request, asked: Annotated[AskedQueues, Query()]) -> Response:
    """Show the queues of the group that the address names."""
    with views_of_workspace() as views:
        view = views.queues(asked)
    language, query = words_for(request).locale.language, {key: str(value) for key, value in asked.model_dump().items()}
    steps, figures = view.table()
    return given_as(
        request,
        "queues.html.j2",
        view,
        view.points(),
        steps=steps,
        figures=figures,
        picture=address_of("queues.png", **query, until=view.until.isoformat()),
        group=address_of("group", cluster=asked.cluster, consumer_group=asked.consumer_group, lang=language),
        spans={one.value: address_of("queues", **{**query, "span": one.value}, lang=language) for one in SPANS},
    )


def show_heat_map(asked: Annotated[AskedPicture, Query()]) -> Response:
    """Give the picture of a span that is over: its address says which, so it may be kept for a while."""
    with views_of_workspace() as views:
        view = views.queues(asked, asked.until)
    if not view.heat:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "no queue of the group has a row in this span")
    headers = {**PAGE_HEADERS, "Cache-Control": "private, max-age=3600"}
    return Response(draw([line.greatest for line in view.heat]), headers=headers, media_type="image/png")


def _beyond(view: GroupView) -> dict[str, object]:
    """Return what the pictures need to show what lies beyond the courses: the edge of retention where it is near."""
    kept_ms = (view.until - view.kept_since) / timedelta(milliseconds=1) if view.kept_since else None
    plots = []
    for one in view.courses:
        is_near = one.figure == "lag_ms" and kept_ms is not None and kept_ms <= 2 * (one.greatest or 0)
        plots.append(plot_of(one, kept_ms if is_near and kept_ms else 0))
    return {"ahead": AHEAD if view.outlooks else 0, "kept_ms": kept_ms, "plots": plots}
