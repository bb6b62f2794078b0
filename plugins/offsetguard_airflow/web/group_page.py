"""One consumer group: reached from the fleet, from an incident, or by its address."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import Response

from offsetguard.views.group import AskedGroup
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
        **pictures_of("group", asked, view.courses, words.locale.language),
    )
