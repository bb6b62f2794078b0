"""Between our pages and Airflow's: the log of the task behind a page, and the page for a DAG, a run or a task.

Airflow's database says which run stands for which minute: it is asked only when somebody
follows such a link. Airflow asks for the right to what it shows itself.
"""

from typing import Annotated, Literal
from urllib.parse import quote, urlencode

from airflow.api_fastapi.common.db.common import SessionDep
from airflow.models.dagrun import DagRun
from fastapi import HTTPException, Query, Request, status
from fastapi.responses import RedirectResponse, Response
from pydantic import AwareDatetime, BaseModel, Field
from sqlalchemy import select

from offsetguard.collect.manifest import Manifest
from offsetguard.model.intervals import Interval
from offsetguard.model.views import FLEET_PATH, INCIDENTS_PATH
from offsetguard.store import published_intervals
from offsetguard.views.course import Name
from offsetguard_airflow.task_inputs import ALL_CLUSTERS
from offsetguard_airflow.web.rendering import html
from offsetguard_airflow.web.rights import DAG_THAT_MAKES_THEM
from offsetguard_airflow.web.workspace import our_engine

PAGE_OF = {  # each of our DAGs -> where it is seen what it does
    DAG_THAT_MAKES_THEM: FLEET_PATH,
    "recompute_facts": FLEET_PATH,
    "ingest_broker_logs": FLEET_PATH,
    "housekeeping": FLEET_PATH,
    "deliver_warnings": INCIDENTS_PATH,
    "daily_report": INCIDENTS_PATH,
}
_JUDGE = "judge_interval"
_Id = Annotated[str, Field(max_length=250, pattern=r"^[^\x00]*$")]  # Airflow's own limit


class AskedLog(BaseModel):
    """Of which task the log is wanted."""

    cluster: Name
    at: AwareDatetime  # of facts: when they had been collected; of what was judged: its minute
    step: Literal["publish_interval", "judge_interval"] = "publish_interval"


class AskedRun(BaseModel):
    """What Airflow's external views know of where the reader is."""

    dag_id: _Id
    run_id: _Id = ""
    task_id: _Id = ""


def lead_to_log(request: Request, asked: Annotated[AskedLog, Query()], session: SessionDep) -> Response:
    """Lead to Airflow's page of the task that did this step of the cluster's minute; it opens with the log."""
    minute = _minute(asked)
    runs = session.scalars(
        select(DagRun)
        .where(DagRun.dag_id == DAG_THAT_MAKES_THEM)
        .where(DagRun.run_after >= minute.start, DagRun.run_after < minute.end)
        .order_by(DagRun.id.desc())
    )
    run_id = next((one.run_id for one in runs if _cluster_of(one) in {ALL_CLUSTERS, asked.cluster}), None)
    if run_id is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "Airflow keeps no run of this minute (any more)")
    run = f"{request.scope.get('app_root_path', '')}/dags/{DAG_THAT_MAKES_THEM}/runs/{quote(run_id, safe='')}"
    return RedirectResponse(f"{run}/tasks/{asked.step}", status.HTTP_303_SEE_OTHER)


def lead_to_page(request: Request, asked: Annotated[AskedRun, Query()], session: SessionDep) -> Response:
    """Lead from a DAG or task to our page about it and its cluster; from a run that judged to what was open then."""
    if asked.dag_id not in PAGE_OF:
        return html(request, "not_ours.html.j2", dag_id=asked.dag_id)
    page = PAGE_OF[asked.dag_id]
    run = session.scalar(select(DagRun).where(DagRun.dag_id == asked.dag_id, DagRun.run_id == asked.run_id))
    cluster = ALL_CLUSTERS if run is None else _cluster_of(run)
    about = {} if cluster == ALL_CLUSTERS else {"cluster": cluster}
    if run is not None and asked.dag_id == DAG_THAT_MAKES_THEM and asked.task_id in ("", _JUDGE):
        page = INCIDENTS_PATH
        about["open_at"] = Interval.containing(run.data_interval_start or run.run_after).start.isoformat()
    return RedirectResponse(f"..{page}/?{urlencode(about)}", status.HTTP_303_SEE_OTHER)


def _minute(asked: AskedLog) -> Interval:
    """Return the interval; collecting may have ended in the minute after it, when the next one had begun."""
    if asked.step == _JUDGE:
        return Interval.containing(asked.at)
    engine = our_engine()
    found = published_intervals.newest(engine, asked.cluster, before=asked.at)
    if found is not None and Manifest.from_json(found.manifest_json).finished_at > asked.at:
        found = published_intervals.newest(engine, asked.cluster, before=found.interval.start)
    if found is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "nothing was published of this cluster then")
    return found.interval


def _cluster_of(run: DagRun) -> str:
    """Return the cluster that a run was started for."""
    return str((run.conf or {}).get("cluster", ALL_CLUSTERS))
