"""The Data Docs of the newest published interval of each cluster; nothing outside of their folder can be named."""

from pathlib import Path

from fastapi import APIRouter, HTTPException, Request, status
from fastapi.responses import FileResponse, Response

from offsetguard.config.workspace import Workspace
from offsetguard_airflow.web.forms import PAGE_HEADERS
from offsetguard_airflow.web.rendering import html

_HTML = "text/html; charset=utf-8"


def routes(may_write: list[object]) -> APIRouter:
    """Return the one route; nothing is changed here."""
    router = APIRouter()
    router.get("/{path:path}")(show_data_docs)
    return router


def show_data_docs(request: Request, path: str) -> Response:
    """Serve one file, or the list of clusters; 404 for everything that is not a file of the Data Docs."""
    folder = Workspace.from_environment().data_docs_folder
    if path == "":
        clusters = sorted(entry.name for entry in folder.glob("*") if (entry / "index.html").is_file())
        return html(request, "data_docs.html.j2", clusters=clusters)
    file = find_file(folder, path)
    if file is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "there are no Data Docs of this name (any more)")
    return FileResponse(file, headers=PAGE_HEADERS, media_type=_HTML)


def find_file(folder: Path, path: str) -> Path | None:
    """Return the file that a URL path names, or None.

    `..`, absolute paths and links that leave the folder name nothing. Only pages are given out: they are all that Data
    Docs consist of.
    """
    if "\x00" in path:
        return None
    root = folder.resolve()
    try:
        file = (root / path).resolve()
        if file.is_dir():
            file /= "index.html"
        is_page = file.is_relative_to(root) and file.suffix == ".html" and file.is_file()
    except OSError:  # longer than a name may be
        return None
    return file if is_page else None
