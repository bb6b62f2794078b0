"""The Data Docs of the newest published interval of each cluster; nothing outside of their folder can be named."""

from __future__ import annotations

import html
from pathlib import Path

from fastapi import APIRouter, HTTPException, status
from fastapi.responses import FileResponse, HTMLResponse, Response

from offsetguard.config.workspace import Workspace
from offsetguard_airflow.web.forms import PAGE_HEADERS

_HTML = "text/html; charset=utf-8"


def routes(may_write: list[object]) -> APIRouter:
    """Return the one route; nothing is changed here."""
    router = APIRouter()
    router.get("/{path:path}")(show_data_docs)
    return router


def show_data_docs(path: str) -> Response:
    """Serve one file, or the list of clusters; 404 for everything that is not a file of the Data Docs."""
    folder = Workspace.from_environment().data_docs_folder
    if path == "":
        return HTMLResponse(index_page(folder), headers=PAGE_HEADERS)
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


def index_page(folder: Path) -> str:
    """List the clusters that have Data Docs, as one small HTML page."""
    clusters = sorted(entry.name for entry in folder.glob("*") if (entry / "index.html").is_file())
    entries = "".join(f'<li><a href="{html.escape(name)}/index.html">{html.escape(name)}</a></li>' for name in clusters)
    body = f"<ul>{entries}</ul>" if entries else f"<p>{_NOTHING_YET}</p>"
    return _PAGE.format(body=body)


_NOTHING_YET = "No interval has been published yet. Look at the DAG <code>collect_and_judge</code>."
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>OffsetGuard Data Docs</title><style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 3rem auto; padding: 0 1rem; }}
</style></head><body><main>
<h1>Data Docs</h1>
<p>What was checked in the newest published interval of each cluster, what was violated, and what to do.</p>
{body}
</main></body></html>
"""
