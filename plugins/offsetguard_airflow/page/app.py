"""Data Docs behind Airflow's login: a FastAPI app that the API server mounts (see `plugins/offsetguard_plugin.py`).

Airflow does not protect the apps of plugins. Every route here depends on Airflow's own check: a valid token (cookie of
the UI, or a bearer token) of somebody who may see the DAG that makes the Data Docs.
"""

from __future__ import annotations

from urllib.parse import urlencode

from airflow.api_fastapi.core_api.security import requires_access_dag
from fastapi import Depends, FastAPI, HTTPException, Request, status
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException as StarletteHTTPException

from offsetguard.page_addresses import DATA_DOCS_PATH
from offsetguard.workspace import Workspace
from offsetguard_airflow.page.files import CONTENT_TYPES, find_file, index_page

DAG_THAT_MAKES_THEM = "collect_and_judge"

# Pages hold names that came from brokers: they run no script, load nothing from elsewhere, send nothing anywhere, and
# are framed by nobody but Airflow itself.
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; "
        "form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "private, no-cache",  # the newest run replaces the page in place
}


def create_app() -> FastAPI:
    """Build the app; every route is behind the login."""
    app = FastAPI(
        title="OffsetGuard",
        dependencies=[Depends(requires_access_dag("GET", param_dag_id=DAG_THAT_MAKES_THEM))],
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        exception_handlers={StarletteHTTPException: answer_refusal},
    )
    app.get(DATA_DOCS_PATH + "/{path:path}")(show_data_docs)
    return app


def show_data_docs(path: str) -> Response:
    """Serve one file, or the list of clusters; 404 for everything that is not a file of the Data Docs."""
    folder = Workspace.from_environment().data_docs_folder
    if path == "":
        return HTMLResponse(index_page(folder), headers=_HEADERS)
    file = find_file(folder, path)
    if file is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "there are no Data Docs of this name (any more)")
    return FileResponse(file, headers=_HEADERS, media_type=CONTENT_TYPES[file.suffix])


async def answer_refusal(request: Request, refusal: Exception) -> Response:
    """Send a browser that is not logged in to Airflow's login and back again; tell everybody else the status."""
    assert isinstance(refusal, StarletteHTTPException)  # noqa: S101 - registered for this class only
    if refusal.status_code == status.HTTP_401_UNAUTHORIZED and "text/html" in request.headers.get("accept", ""):
        airflow_root = request.scope.get("app_root_path", "")
        return_to = urlencode({"next": request.url.path})
        return RedirectResponse(f"{airflow_root}/api/v2/auth/login?{return_to}", status.HTTP_303_SEE_OTHER)
    return JSONResponse({"detail": refusal.detail}, refusal.status_code, headers=refusal.headers)
