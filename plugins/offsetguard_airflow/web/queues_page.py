"""The queues of a group: reached from the group's page, or by its address; the heat map has an address of its own."""

from __future__ import annotations

from typing import Annotated

from fastapi import HTTPException, Query, Request, status
from fastapi.responses import Response

from offsetguard.views.heat_picture import draw
from offsetguard.views.queues import SPANS, AskedPicture, AskedQueues
from offsetguard_airflow.web.forms import PAGE_HEADERS
from offsetguard_airflow.web.published_views import views_of_workspace
from offsetguard_airflow.web.rendering import address_of, given_as, words_for


def show_queues(request: Request, asked: Annotated[AskedQueues, Query()]) -> Response:
    """Show the queues of the group that the address names; a group of which nothing is known has an empty page."""
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
