"""Who may see our pages, and who may change something there: by Airflow's rights, or by a permission of our own.

Who may see the DAG that makes what is shown may read; who may start a run of it may acknowledge and silence. `can_read`
and `can_create` on RESOURCE give the same alone, without the DAG: who has the first sees our pages, who has both may
acknowledge and silence.
"""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Literal

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from airflow.utils.session import create_session
from fastapi import Depends, FastAPI, HTTPException, Request
from starlette.concurrency import run_in_threadpool

RESOURCE = "OffsetGuard"
DAG_THAT_MAKES_THEM = "collect_and_judge"
_MISSING = {  # what to ask an administrator for
    "GET": f"you may not look: this takes the right to see the DAG {DAG_THAT_MAKES_THEM}, or can_read on {RESOURCE}",
    "POST": f"you may only look: it takes the right to run the DAG {DAG_THAT_MAKES_THEM}, or can_create on {RESOURCE}",
}


def needs(method: Literal["GET", "POST"], entity: DagAccessEntity | None = None) -> Callable[..., None]:
    """Return a dependency that refuses whoever may neither do this with the DAG nor with RESOURCE."""
    by_the_dag = requires_access_dag(method, entity, param_dag_id=DAG_THAT_MAKES_THEM)

    def check(request: Request, user: GetUserDep) -> None:
        manager = get_auth_manager()
        # Airflow's simple manager lets a viewer do anything with what plugins name: it cannot give our permission
        by_ours = not isinstance(manager, SimpleAuthManager) and manager.is_authorized_custom_view(
            method=method, resource_name=RESOURCE, user=user
        )
        if not by_ours:
            try:
                by_the_dag(request, user)
            except HTTPException as refusal:
                raise HTTPException(refusal.status_code, _MISSING[method]) from refusal

    return check


READ = needs("GET")
WRITE = needs("POST", DagAccessEntity.RUN)


def _may_act(request: Request, user: GetUserDep) -> bool:
    """Whether the reader may acknowledge and silence: nobody else is shown a form."""
    try:
        WRITE(request, user)
    except HTTPException:
        return False
    return True


MayAct = Annotated[bool, Depends(_may_act)]


@asynccontextmanager
async def offered(_: FastAPI) -> AsyncIterator[None]:
    """Make the permission known to FAB while the API server starts: it gives none that it has never seen."""
    await run_in_threadpool(_offer)
    yield


def _offer() -> None:
    fab = sys.modules.get("airflow.providers.fab.auth_manager.fab_auth_manager")
    if fab is None or not isinstance(get_auth_manager(), fab.FabAuthManager):
        return
    from airflow.providers.fab.www.security_appless import ApplessAirflowSecurityManager

    with create_session() as session:
        for action in ("can_read", "can_create"):
            ApplessAirflowSecurityManager(session=session).create_permission(action, RESOURCE)
