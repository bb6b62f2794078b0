"""**At 3 a.m.:** a failed run loses one minute of history and no warning: the next minute looks again, and what is still wrong then is still told. Look only when several runs in a row are red.

## What it does
Once a minute, for all clusters of `config/offsetguard.yml`: three tasks, however many clusters there are. A cluster that fails does not stop the others; the task turns red at its end, and its last lines say which cluster and why.

| task | what | when it fails |
|---|---|---|
| `collect_offsets` | asks the name servers and brokers of all clusters side by side, lands one snapshot of each. `collection.tasks: 3` deals the clusters out to three of them | brokers that do not answer are *not* a failure: they become the warning "collection incomplete". Red means that the disk, the connection in Airflow or the configuration is wrong: the log names file, line and field; fix the file, nothing needs a restart |
| `publish_interval` | Spark: types, checks, quarantines and publishes the facts of all that waits, of every cluster, in one session. **Skipped**: another minute's task is at work and takes this minute along | readers stay on the last good minute; the log's last lines say what Spark or the audit refused, and of which cluster and minute |
| `judge_interval` | each cluster in a transaction of its own, as soon as it is published: facts to findings to incidents to messages in the outbox. Waits for the published facts; once a minute of a cluster has not been published for two, it makes the facts of what has landed by itself, without Spark, and what it tells is marked "not audited" until facts that are published in time confirm or close it | nothing was written of the clusters that it names; the next minute judges afresh |

**When Spark hangs or is away**, one task at a time tries, for five minutes at most, and the others leave their minute to it; people are told all the same, and of the rule `facts_not_published` after three minutes. When Spark is back, one session publishes the newest ten minutes in order, then what was passed over, and takes along what lands meanwhile.

`deliver_warnings` sends what the judge put into the outbox.

## Rerun and backfill
Clearing a task or a run is always safe: an interval that has landed is not asked for again, its facts are replaced by the same facts, and a message that was sent is not sent again. A minute that was never collected cannot be collected later: its tasks are **skipped**. Old minutes (`delivery.notify_within_ms`) are recorded and never sent.

`airflow backfill create --dag-id collect_and_judge --from-date ... --to-date ... --reprocess-behavior completed --max-active-runs 2` makes the facts of past minutes again from the snapshots that have landed, touches nothing newer and **tells nobody**, unless `--dag-run-conf '{"notify_late": true}'` asks for it: then messages say that they are late, and only intervals newer than all that were judged are told. It is a task for each minute: for more than a few, trigger `recompute_facts`.

## Trigger form
`cluster`, `group_pattern`, `dry_run` and `notify_late` are explained beside their fields. Start with `dry_run`: it says in the log of `judge_interval` what would be told, and to whom.
"""

from datetime import timedelta

from airflow.sdk import DAG, CronTriggerTimetable, Param, TriggerRule, cross_downstream

from offsetguard_airflow.defaults import (
    INTERVAL_START,
    IS_BACKFILL,
    TAGS,
    TASK_DEFAULTS,
    cluster_param,
    collection_tasks,
)
from offsetguard_airflow.hooks import deadline
from offsetguard_airflow.operators.collect import CollectOffsetsOperator
from offsetguard_airflow.operators.judge import JudgeOperator
from offsetguard_airflow.operators.spark_jobs import PublishIntervalOperator

with DAG(
    "collect_and_judge",
    description="Each minute: collect offsets, publish facts, judge them, put warnings into the outbox",
    doc_md=__doc__,
    schedule=CronTriggerTimetable("* * * * *", timezone="UTC", run_immediately=True),
    catchup=False,  # a minute that has passed cannot be looked at again
    max_active_runs=32,  # a minute that Spark hangs in must not keep the next ones from being judged
    max_active_tasks=64,
    dagrun_timeout=timedelta(minutes=30),  # longer than all its tasks may take: the time-out of work is the task's
    deadline=deadline(timedelta(minutes=12)),
    default_args=TASK_DEFAULTS,
    tags=TAGS,
    params={
        "cluster": cluster_param(or_all="all"),
        "group_pattern": Param(
            "*",
            type="string",
            title="Consumer groups",
            minLength=1,
            maxLength=255,
            description="Judge only the groups that this pattern matches, e.g. order-* (case matters; * alone: all groups).",
        ),
        "dry_run": Param(
            False,
            type="boolean",
            title="Dry run",
            description="Collect, publish and judge, but open no incident and write no message: the log says what "
            "would have been told.",
        ),
        "notify_late": Param(
            False,
            type="boolean",
            title="Tell what is late",
            description="Also tell what a backfill finds, or a run that comes too late to be told, in messages that say "
            "so; only of intervals that are newer than all that were judged.",
        ),
    },
) as dag:
    CLUSTER = "{{ params.cluster }}"
    SHARES = collection_tasks()
    collect = [
        CollectOffsetsOperator(
            task_id=f"collect_offsets_{share + 1}" if share else "collect_offsets",
            cluster=CLUSTER,
            interval_start=INTERVAL_START,
            share=share,
            shares=SHARES,
        )
        for share in range(SHARES)
    ]
    publish = PublishIntervalOperator(
        task_id="publish_interval",
        cluster=CLUSTER,
        interval_start=INTERVAL_START,
        again=IS_BACKFILL,  # in no pool: what takes turns there could keep a minute from being published for hours
        trigger_rule=TriggerRule.ALL_DONE,  # a cluster that could not be collected does not stop the others
    )
    judge = JudgeOperator(
        task_id="judge_interval",
        cluster=CLUSTER,
        interval_start=INTERVAL_START,
        publish_task_id=publish.task_id,
        group_pattern="{{ params.group_pattern }}",
        rehearsal="{{ params.dry_run }}",
        replay=IS_BACKFILL,
        notify_late="{{ params.notify_late }}",
        trigger_rule=TriggerRule.ALL_DONE,
    )
    cross_downstream(collect, [publish, judge])  # the alarm does not wait for Spark longer than `task_inputs` says
