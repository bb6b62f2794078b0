"""The workspace that pages show: its database, and the views that are made of what was published."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from fastapi import HTTPException, status
from sqlalchemy import Engine

from offsetguard.config.workspace import Workspace
from offsetguard.model.errors import PublishError, StoreError, UnknownName
from offsetguard.store.database import open_migrated
from offsetguard.views.workspace_views import WorkspaceViews


def our_engine() -> Engine:
    """Return the database's engine; 503 with the reason where there is none."""
    try:
        return _opened(Workspace.from_environment().database_url)
    except StoreError as error:
        raise HTTPException(status.HTTP_503_SERVICE_UNAVAILABLE, str(error)) from error


@contextmanager
def views_of_workspace() -> Iterator[WorkspaceViews]:
    """Give what makes the views; what nothing is known of is answered with 404, what cannot be read with 503."""
    try:
        yield _views(Workspace.from_environment(), our_engine())
    except UnknownName as error:
        raise HTTPException(status.HTTP_404_NOT_FOUND, error.text) from error
    except PublishError as error:
        raise HTTPException(status.HTTP_503_SERVICE_UNAVAILABLE, str(error)) from error


@cache
def _opened(url: str) -> Engine:
    """Open a database once in the life of a worker; one that cannot be opened is tried again.

    A page migrates nothing: who looks need not be who may change tables.
    """
    return open_migrated(url)


@cache
def _views(workspace: Workspace, engine: Engine) -> WorkspaceViews:
    """Open what makes the views, once; what the worker has by then stays for good.

    Garbage need not be looked for in it: Airflow's objects are a million, and each fourth fleet page would wait 0.2 s.
    """
    gc.freeze()
    return WorkspaceViews(workspace, engine)
