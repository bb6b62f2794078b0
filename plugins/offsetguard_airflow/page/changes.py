"""What changed in a cluster, by whoever did it."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response

from offsetguard.model.incident import Kind
from offsetguard.views.changes import AskedChanges
from offsetguard.views.course import Span
from offsetguard_airflow.web.rendering import by_readers_clock, given_as, lead_to_folder, words_for
from offsetguard_airflow.web.workspace import views_of_workspace


def routes(may_write: list[object]) -> APIRouter:
    """Return the routes; nothing is changed here."""
    router = APIRouter()
    router.get("")(lead_to_folder)
    router.get("/", dependencies=[Depends(by_readers_clock)])(show_changes)
    return router


def show_changes(request: Request, asked: Annotated[AskedChanges, Query()]) -> Response:
    """Show what the address asks for."""
    with views_of_workspace() as views:
        view = views.changes(asked, words_for(request))
    return given_as(request, "changes.html.j2", view, view.changes, kinds=list(Kind), spans=list(Span))
