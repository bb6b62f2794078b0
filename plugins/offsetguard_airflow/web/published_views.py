"""What pages of published facts share: the views of this workspace, and pictures of their courses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

from fastapi import HTTPException, status
from pydantic import BaseModel
from sqlalchemy import Engine

from offsetguard.config.workspace import Workspace
from offsetguard.model.errors import PublishError
from offsetguard.views.course import HEIGHT, WIDTH, Course, Span, plot_of
from offsetguard.views.workspace_views import WorkspaceViews
from offsetguard_airflow.web.rendering import address_of, our_engine


@contextmanager
def views_of_workspace() -> Iterator[WorkspaceViews]:
    """Give what makes the views; what cannot be read is answered with 503 and the reason."""
    try:
        yield _views(Workspace.from_environment(), our_engine())
    except PublishError as error:
        raise HTTPException(status.HTTP_503_SERVICE_UNAVAILABLE, str(error)) from error


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
def _views(workspace: Workspace, engine: Engine) -> WorkspaceViews:
    return WorkspaceViews(workspace, engine)
