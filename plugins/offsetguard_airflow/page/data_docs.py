"""The Data Docs of all clusters, and a list of them; nothing outside of their folder can be named."""

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request, status
from fastapi.responses import FileResponse, Response

from offsetguard.config.object_store import is_remote, read_bytes
from offsetguard.config.workspace import Workspace
from offsetguard.views.data_docs import AskedDataDocs
from offsetguard_airflow.web.forms import PAGE_HEADERS
from offsetguard_airflow.web.rendering import given_as
from offsetguard_airflow.web.workspace import views_of_workspace

_HTML = "text/html; charset=utf-8"


def routes(may_write: list[object]) -> APIRouter:
    """Return the routes; nothing is changed here."""
    router = APIRouter()
    router.get("/")(show_list)
    router.get("/{path:path}")(give_page)
    return router


def show_list(request: Request, asked: Annotated[AskedDataDocs, Query()]) -> Response:
    """Show what the newest minutes of each cluster violated, with the way to their pages."""
    with views_of_workspace() as views:
        view = views.data_docs(asked)
    return given_as(request, "data_docs.html.j2", view, view.minutes)


def give_page(path: str) -> Response:
    """Give one file; 404 for everything that is not a page of the Data Docs."""
    file = find_file(Workspace.from_environment().data_docs_folder, path)
    if file is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "there are no Data Docs of this name (any more)")
    if is_remote(file):
        return Response(read_bytes(file), headers=PAGE_HEADERS, media_type=_HTML)
    return FileResponse(file, headers=PAGE_HEADERS, media_type=_HTML)


def find_file(folder: Path, path: str) -> Path | None:
    """Return the file that a URL path names, or None.

    `..`, absolute paths and links that leave the folder name nothing. Only pages are given out: they are all that Data
    Docs consist of.
    """
    if "\x00" in path:
        return None
    if is_remote(folder):
        return _find_object(folder, path)
    root = folder.resolve()
    try:
        file = (root / path).resolve()
        if file.is_dir():
            file /= "index.html"
        is_page = file.is_relative_to(root) and file.suffix == ".html" and file.is_file()
    except OSError:  # longer than a name may be
        return None
    return file if is_page else None


def _find_object(folder: Path, path: str) -> Path | None:
    parts = path.strip("/").split("/")
    if {"", ".", ".."} & set(parts):
        return None
    file = folder.joinpath(*parts) if parts[-1].endswith(".html") else folder.joinpath(*parts, "index.html")
    return file if file.is_file() else None
