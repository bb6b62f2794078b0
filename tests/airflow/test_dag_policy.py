"""Every DAG file loads, and tells an operator at 3 a.m. what to do. A failure's message says what to add."""

import copy
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.models.pool import Pool
from airflow.sdk.exceptions import ParamValidationError

from offsetguard_airflow.defaults import cluster_param

DAGS_FOLDER = Path(__file__).parents[2] / "dags"
DAG_IDS = (
    "collect_and_judge",
    "daily_report",
    "deliver_warnings",
    "housekeeping",
    "ingest_broker_logs",
    "recompute_facts",
)
HEAVY = ("pyspark", "great_expectations", "pandas", "pyarrow", "pyiceberg", "slack_sdk", "alembic", "offsetguard_spark")


@pytest.fixture(scope="module")
def dag_bag() -> DagBag:
    return DagBag(str(DAGS_FOLDER))


@pytest.fixture
def dag(dag_bag: DagBag, request: pytest.FixtureRequest) -> Any:
    return dag_bag.dags[request.param]


def test_every_file_loads_and_the_dags_are_the_ones_that_the_documentation_names(dag_bag: DagBag) -> None:
    assert not dag_bag.import_errors, "\n".join(dag_bag.import_errors.values())
    assert sorted(dag_bag.dags) == sorted(DAG_IDS), "name the new DAG in DAG_IDS and in docs/operations.md"


@pytest.mark.parametrize("file", sorted(DAGS_FOLDER.glob("*.py")), ids=lambda file: file.stem)
def test_parsing_a_dag_file_imports_nothing_heavy(file: Path) -> None:
    """Airflow parses each file again and again: what only tasks need is imported inside of their functions."""
    program = f"import runpy, sys; runpy.run_path({str(file)!r}); print([m for m in {HEAVY!r} if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[-1] == "[]", f"{file.name}: import these inside of `execute`: {answer.stdout}"


@pytest.mark.parametrize("dag", DAG_IDS, indirect=True)
def test_the_docs_begin_with_what_a_failure_means_at_night(dag: Any) -> None:
    first_line = (dag.doc_md or "").strip().splitlines()[0]
    assert first_line.startswith("**At 3 a.m.:**"), (
        "begin the module's docstring with '**At 3 a.m.:** a failed run ...'"
    )
    assert dag.description, "add description=: the list of DAGs shows it"


@pytest.mark.parametrize("dag", DAG_IDS, indirect=True)
def test_runs_neither_pile_up_nor_look_into_the_past(dag: Any) -> None:
    if dag.dag_id == "collect_and_judge":  # goes on while Spark hangs; what must not run twice takes turns
        assert dag.max_active_runs > dag.dagrun_timeout.total_seconds() / 60, "a run that hangs would stop all after it"
    else:
        assert dag.max_active_runs == 1, "set max_active_runs=1: two runs would work on the same tables"
    assert not dag.catchup, "set catchup=False: a minute that has passed cannot be looked at again"
    assert dag.dagrun_timeout, "set dagrun_timeout=: a run that hangs would stop all runs after it"


def test_a_publication_is_ended_by_the_time_out_of_its_own_work_and_by_nothing_that_counts_waiting(
    dag_bag: DagBag,
) -> None:
    dag = dag_bag.dags["collect_and_judge"]
    longest = sum(
        ((dag.get_task(name).retries or 0) + 1) * dag.get_task(name).execution_timeout.total_seconds()
        for name in ("collect_offsets", "publish_interval")
    )
    assert dag.dagrun_timeout.total_seconds() > longest, "the run's time-out would end a publication that works"
    publish = dag.get_task("publish_interval")
    assert publish.pool == Pool.DEFAULT_POOL_NAME, "behind an hour's work in a pool a live minute would wait"
    assert publish.max_active_tis_per_dag is None, "what waits for its turn is left to the session at work instead"


@pytest.mark.parametrize("dag", DAG_IDS, indirect=True)
def test_every_task_has_an_owner_and_an_end(dag: Any) -> None:
    assert {"offsetguard", "rocketmq"} <= set(dag.tags), "use tags=TAGS of offsetguard_airflow.defaults"
    for task in dag.tasks:
        assert task.owner == "offsetguard", f"{task.task_id}: use default_args=TASK_DEFAULTS"
        assert task.execution_timeout, f"{task.task_id}: use default_args=TASK_DEFAULTS, or set execution_timeout="
        assert (task.retries or 0) <= 1, f"{task.task_id}: the next minute is the retry; more than one is too late"


@pytest.mark.parametrize("dag", DAG_IDS, indirect=True)
def test_what_a_task_writes_can_be_read_by_its_owner_only(dag: Any) -> None:
    for task in dag.tasks:
        before = os.umask(0o022)
        if task._pre_execute_hook is not None:
            task._pre_execute_hook({})
        assert os.umask(before) == 0o077, f"{task.task_id}: use default_args=TASK_DEFAULTS"


def test_the_judge_does_not_stand_behind_spark(dag_bag: DagBag) -> None:
    judge = dag_bag.dags["collect_and_judge"].get_task("judge_interval")
    assert "collect_offsets" in judge.upstream_task_ids
    assert "publish_interval" not in judge.upstream_task_ids


@pytest.mark.parametrize(
    ("moment", "is_one"),
    [
        ("2026-11-14T00:00:00Z", True),
        ("2026-11-14T00:00:00.000+08:00", True),
        ("2026-11-14 00:00Z", True),
        ("2026-11-14T00:00:00", False),
        ("2026-13-14T00:00:00Z", False),
        ("2026-11-14T24:00:00Z", False),
        ("yesterday", False),
    ],
)
def test_a_moment_is_checked_before_a_run_is_queued(dag_bag: DagBag, moment: str, *, is_one: bool) -> None:
    params = copy.deepcopy(dag_bag.dags["recompute_facts"].params)
    params["cluster"] = "main"
    with nullcontext() if is_one else pytest.raises(ParamValidationError):
        params.update({"from": moment, "to": moment})
        params.validate()


def test_forms_propose_the_configured_clusters(config_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a file that cannot be used lets the form open: a task says what is wrong with it."""
    del config_file
    assert cluster_param(or_all="all").schema["examples"] == ["all", "backup", "main"]
    assert cluster_param().schema["examples"] == ["backup", "main"]
    monkeypatch.setenv("OFFSETGUARD_CONFIG", "/no/such/file.yml")
    assert cluster_param().schema["examples"] == []


@pytest.mark.parametrize("dag", DAG_IDS, indirect=True)
def test_every_field_of_the_trigger_form_is_typed_and_explained(dag: Any) -> None:
    for name in dag.params:
        param = dag.params.get_param(name)
        assert param.schema.get("type"), f"param {name}: give it a type="
        assert param.schema.get("title"), f"param {name}: give it a title="
        assert param.description, f"param {name}: give it a description="


def test_three_tasks_a_minute_of_which_none_waits_for_a_cluster_that_failed(dag_bag: DagBag) -> None:
    dag = dag_bag.dags["collect_and_judge"]
    assert sorted(dag.task_ids) == ["collect_offsets", "judge_interval", "publish_interval"]
    for step in ("publish_interval", "judge_interval"):
        assert dag.get_task(step).trigger_rule == "all_done", f"{step}: a cluster that failed would stop the others"
