"""One topic: reached from the page of a group that reads it, or by its address."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import Response

from offsetguard.config.workspace import Workspace
from offsetguard.store.database import database_time
from offsetguard.views.topic import AskedTopic, topic_view
from offsetguard_airflow.web.published_views import pictures_of, published_facts
from offsetguard_airflow.web.rendering import address_of, given_as, our_engine, words_for


def show_topic(request: Request, asked: Annotated[AskedTopic, Query()]) -> Response:
    """Show the topic that the address names; one of which nothing is known has an empty page."""
    engine, words = our_engine(), words_for(request)
    now = database_time(engine)
    with published_facts(Workspace.from_environment(), engine) as facts:
        view = topic_view(asked, facts.of_topic(asked, now), now)
    cluster, language = asked.cluster, words.locale.language
    groups = [
        address_of("group", cluster=cluster, consumer_group=one.consumer_group, lang=language) for one in view.readers
    ]
    pictures = pictures_of("topic", asked, view.courses, language)
    return given_as(request, "topic.html.j2", view, view.readers, groups=groups, **pictures)
