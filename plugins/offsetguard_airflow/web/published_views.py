"""What pages of published facts share: the reader of this workspace, the configuration, and what incidents say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

from fastapi import HTTPException, status
from pydantic import BaseModel
from sqlalchemy import Engine

from offsetguard.config import Config
from offsetguard.config.file import config_in_use
from offsetguard.config.workspace import Workspace
from offsetguard.model.errors import ConfigError, PublishError
from offsetguard.views.course import HEIGHT, WIDTH, Course, Span, plot_of
from offsetguard.views.published import PublishedFacts
from offsetguard_airflow.web.rendering import address_of


@contextmanager
def published_facts(workspace: Workspace, engine: Engine) -> Iterator[PublishedFacts]:
    """Give the reader; what cannot be read is answered with 503 and the reason."""
    try:
        yield _facts(workspace, engine)
    except PublishError as error:
        raise HTTPException(status.HTTP_503_SERVICE_UNAVAILABLE, str(error)) from error


def configuration(workspace: Workspace) -> Config | None:
    """Return what holds now; None where it cannot be read: what was published is shown all the same."""
    try:
        return config_in_use(workspace).config
    except ConfigError:
        return None


def pictures_of(page: str, asked: BaseModel, courses: Sequence[Course], language: str) -> dict[str, object]:
    """Return what a page with courses needs to draw them, and its own address for each span."""
    return {
        "plots": [plot_of(one) for one in courses],
        "width": WIDTH,
        "height": HEIGHT,
        "spans": {
            span.value: address_of(page, **{**asked.model_dump(), "span": span.value}, lang=language) for span in Span
        },
    }


@cache
def _facts(workspace: Workspace, engine: Engine) -> PublishedFacts:
    return PublishedFacts(workspace, engine)
