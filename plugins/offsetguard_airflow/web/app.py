"""Our pages behind Airflow's login: a FastAPI app that the API server mounts (see `plugins/offsetguard_plugin.py`).

Airflow does not protect the apps of plugins. Every route here depends on Airflow's own check: a valid token (cookie of
the UI, or a bearer token) of somebody with the right (`rights.py`).
"""

import importlib
import logging
from urllib.parse import urlencode

from fastapi import Depends, FastAPI, HTTPException, Request, status
from fastapi.responses import JSONResponse, RedirectResponse, Response
from sqlalchemy.exc import OperationalError
from starlette.exceptions import HTTPException as StarletteHTTPException

from offsetguard.deliver.messages.wording import harmless
from offsetguard.store.database_errors import DatabaseNamed, what_failed
from offsetguard_airflow import page
from offsetguard_airflow.web.rendering import give_static, refused, words_for
from offsetguard_airflow.web.rights import READ, WRITE, offered

_log = logging.getLogger(__name__)
_REFUSAL_LIMIT = 500


def create_app() -> FastAPI:
    """Build the app; every route is behind the login."""
    app = FastAPI(
        title="OffsetGuard",
        dependencies=[Depends(READ)],
        lifespan=offered,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        exception_handlers={StarletteHTTPException: answer_refusal, OperationalError: answer_busy},
    )
    app.get("/static/{name}")(give_static)
    for name in page.names():
        found = importlib.import_module(f"{page.__name__}.{name}")
        app.include_router(found.routes([Depends(WRITE)]), prefix=page.path_of(name))
    return app


async def answer_refusal(request: Request, refusal: Exception) -> Response:
    """Send a browser that is not logged in to Airflow's login and back again; tell everybody else why."""
    assert isinstance(refusal, StarletteHTTPException)  # noqa: S101 - registered for this class only
    if refusal.status_code < status.HTTP_400_BAD_REQUEST:  # it is none: nothing has changed, or the answer is elsewhere
        return Response(status_code=refusal.status_code, headers=refusal.headers)
    because = words_for(request).read(refusal.detail)
    if "text/html" not in request.headers.get("accept", "") or "format" in request.query_params:
        return JSONResponse({"detail": because}, refusal.status_code, headers=refusal.headers)
    if refusal.status_code == status.HTTP_401_UNAUTHORIZED:
        airflow_root = request.scope.get("app_root_path", "")
        asked = f"?{request.url.query}" if request.url.query else ""
        return_to = urlencode({"next": request.url.path + asked})
        return RedirectResponse(f"{airflow_root}/api/v2/auth/login?{return_to}", status.HTTP_303_SEE_OTHER)
    return refused(request, because, refusal.status_code)


async def answer_busy(request: Request, error: Exception) -> Response:
    """Say what is wrong with the database, or that it is locked or away: whoever asks again will mostly be served."""
    assert isinstance(error, OperationalError)  # noqa: S101 - registered for this class only
    said = harmless(what_failed(error), _REFUSAL_LIMIT)
    _log.warning("%s %s: %s", request.method, harmless(request.url.path, _REFUSAL_LIMIT), said)
    busy = "OffsetGuard's database is busy or cannot be reached just now: try again in a minute"
    if isinstance(error, DatabaseNamed):
        busy = said
    return await answer_refusal(
        request, HTTPException(status.HTTP_503_SERVICE_UNAVAILABLE, busy, headers={"Retry-After": "60"})
    )
