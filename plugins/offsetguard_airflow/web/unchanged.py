"""A view that shows what it showed before is answered with 304, before anything of it is read."""

from __future__ import annotations

import hashlib

from fastapi import HTTPException, Request, status

from offsetguard_airflow.web.published_views import views_of_workspace
from offsetguard_airflow.web.rendering import format_of, words_for


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
