"""One consumer group: reached from the fleet, from an incident, or by its address."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import Response

from offsetguard.views.course import plot_of
from offsetguard.views.group import AskedGroup, GroupView
from offsetguard.views.outlook import AHEAD
from offsetguard_airflow.web.published_views import pictures_of, views_of_workspace
from offsetguard_airflow.web.rendering import address_of, given_as, words_for


def show_group(request: Request, asked: Annotated[AskedGroup, Query()]) -> Response:
    """Show the group that the address names; one of which nothing is known has an empty page."""
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


def _beyond(view: GroupView) -> dict[str, object]:
    """Return what the pictures need to show what lies beyond the courses: the edge of retention where it is near."""
    kept_ms = (view.until - view.kept_since) / timedelta(milliseconds=1) if view.kept_since else None
    plots = []
    for one in view.courses:
        is_near = one.figure == "lag_ms" and kept_ms is not None and kept_ms <= 2 * (one.greatest or 0)
        plots.append(plot_of(one, kept_ms if is_near and kept_ms else 0))
    return {"ahead": AHEAD if view.outlooks else 0, "kept_ms": kept_ms, "plots": plots}
