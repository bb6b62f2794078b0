"""One topic: reached from the page of a group that reads it, or by its address."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import Response

from offsetguard.views.topic import AskedTopic
from offsetguard_airflow.web.published_views import pictures_of, views_of_workspace
from offsetguard_airflow.web.rendering import address_of, given_as, words_for


def show_topic(request: Request, asked: Annotated[AskedTopic, Query()]) -> Response:
    """Show the topic that the address names; one of which nothing is known has an empty page."""
    with views_of_workspace() as views:
        view = views.topic(asked)
    cluster, language = asked.cluster, words_for(request).locale.language
    groups = [
        address_of("group", cluster=cluster, consumer_group=one.consumer_group, lang=language) for one in view.readers
    ]
    pictures = pictures_of("topic", asked, view.courses, language)
    return given_as(request, "topic.html.j2", view, view.readers, groups=groups, **pictures)
