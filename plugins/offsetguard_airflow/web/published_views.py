"""What pages of published facts share: the views of this workspace, 304 where they are as before, and pictures."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

from fastapi import HTTPException, Request, status
from pydantic import BaseModel
from sqlalchemy import Engine

from offsetguard.config.workspace import Workspace
from offsetguard.model.errors import PublishError, UnknownName
from offsetguard.views.course import HEIGHT, WIDTH, Course, Span, plot_of
from offsetguard.views.workspace_views import WorkspaceViews
from offsetguard_airflow.web.rendering import address_of, format_of, our_engine, words_for


@contextmanager
def views_of_workspace() -> Iterator[WorkspaceViews]:
    """Give what makes the views; what nothing is known of is answered with 404, what cannot be read with 503."""
    try:
        yield _views(Workspace.from_environment(), our_engine())
    except UnknownName as error:
        raise HTTPException(status.HTTP_404_NOT_FOUND, error.text) from error
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


def unless_unchanged(request: Request) -> None:
    """Answer 304 to who has the view already; else have it given with its ETag.

    A route depends on this if all that it shows is in the stamp of the workspace's views: no form, which has a token.
    """
    with views_of_workspace() as views:
        stamp = views.stamp(request.query_params.get("cluster", ""))
    locale = words_for(request).locale
    told = (stamp, request.url.path, request.url.query, format_of(request), locale.language, str(locale.zone))
    etag = f'W/"{hashlib.sha256(repr(told).encode()).hexdigest()[:32]}"'
    headers = {"Cache-Control": "private, no-cache", "ETag": etag, "Vary": "Accept, Accept-Language, Cookie"}
    if etag in request.headers.get("if-none-match", ""):
        raise HTTPException(status.HTTP_304_NOT_MODIFIED, headers=headers)
    request.state.headers = headers


@cache
def _views(workspace: Workspace, engine: Engine) -> WorkspaceViews:
    return WorkspaceViews(workspace, engine)
