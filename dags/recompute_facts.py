"""**At 3 a.m.:** nothing waits for this: it runs when somebody triggers it, and readers keep the facts that they have until each interval's new ones are complete. Clear the task, and it goes on where it was; or look at it in the morning.

## What it does
Makes the facts of a past span again from the snapshots that have landed: after a fix or a new release, or when log files were read in. Newer intervals and the state of the queues are left alone, nothing is judged, and **nobody is told anything**.

| task | what | when it fails |
|---|---|---|
| `recompute_facts` | publishes every landed interval of the span again, oldest first, in one Spark session | readers keep what they have of the intervals that failed; the log and `offsetguard cycles --failed` say why |

Use this rather than `airflow backfill create` for more than a few intervals: a backfill is a task for each of them.

## How to use it
1. Trigger with `dry_run` on (it is at first): the log says how many intervals can be recomputed, and how many cannot and why (never landed, or older than `retention.snapshots_days`).
2. Trigger again with `dry_run` off. The log has a line for each interval: `312/1440 20261121T103900Z: 4,321 rows in 2.1 s; 27.5 intervals a minute, 0:41:01 left`.

New minutes are published meanwhile: each takes its turn.

## Rerun
Always safe. Clearing the task goes on with what is left: intervals that were published after this run was triggered are done.
"""

from datetime import timedelta

from airflow.sdk import DAG, Param

from offsetguard_airflow.defaults import CYCLES_POOL, TAGS, TASK_DEFAULTS, cluster_param, moment_param
from offsetguard_airflow.operators.spark_jobs import RecomputeFactsOperator

with DAG(
    "recompute_facts",
    description="By hand: make the facts of a past span again from the snapshots that have landed",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=24),
    default_args=TASK_DEFAULTS,
    tags=TAGS,
    # So that values arrive with their types, and no text is taken for a template.
    render_template_as_native_obj=True,
    params={
        "cluster": cluster_param(),
        "from": moment_param("From", "Any moment of the first minute, with its zone, e.g. 2026-11-14T00:00:00Z"),
        "to": moment_param("To", "Any moment of the last minute, with its zone; it is recomputed, too"),
        "rebuild_state": Param(
            False,
            type="boolean",
            title="Rebuild the state of the queues, too",
            description="Make queue_state of now again from the snapshots of the last hours. Only when it is doubted.",
        ),
        "dry_run": Param(
            True,
            type="boolean",
            title="Dry run",
            description="Say what can be recomputed and what cannot, and do nothing. Begin with it.",
        ),
    },
) as dag:
    RecomputeFactsOperator(
        task_id="recompute_facts",
        form="{{ params }}",
        since="{{ dag_run.run_after.isoformat() }}",
        pool=CYCLES_POOL,
        execution_timeout=timedelta(hours=23),
    )
