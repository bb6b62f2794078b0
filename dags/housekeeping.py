"""**At 3 a.m.:** nothing waits for this: a failed run leaves files and snapshots for the next hour, and no reader notices. Look when it stays red for a day: the disk fills, and reading gets slower.

## What it does
Once an hour, in the order of the log:

| what | how |
|---|---|
| rows that are too old are deleted | `retention:` in config/offsetguard.yml; whole days, without reading a row |
| small files are packed | each publication adds a file to every table; those of the day so far become one each hour, those of a day that is over become few, sorted so that one consumer group's rows lie together |
| old intervals are settled | readers find them in the newest snapshot from now on, with the same rows |
| snapshots expire | all that no reader needs, and the files that only they hold |
| files of killed runs are deleted | after a day, when nothing names them |
| landed snapshots are deleted | when `retention.snapshots_days` have passed; the facts stay |
| records are deleted | published intervals, cycles and judgements that are older than every row |

It needs no Spark, and publications go on beside it: it takes their lock only for its commits, for milliseconds.

## When it is red
| the log says | do |
|---|---|
| cannot be written, no space left | free space or enlarge the disk of OFFSETGUARD_HOME; then clear the task |
| has delete files | somebody else wrote to the Iceberg tables; rewrite that table with Spark's `rewrite_data_files` |
| a run was killed before it showed its rows | not an error: trigger `recompute_facts` for that minute; clearing `publish_interval` does nothing for one that was published before |

## Rerun
Always safe, also after it was killed: each step is one commit of one table, and what was not done is done by the next run.
"""

from datetime import timedelta

from airflow.sdk import DAG, CronTriggerTimetable

from offsetguard_airflow.defaults import TAGS, TASK_DEFAULTS
from offsetguard_airflow.operators.housekeeping import HousekeepingOperator

with DAG(
    "housekeeping",
    description="Each hour: delete old days, pack small files, let go of snapshots and files that nobody needs",
    doc_md=__doc__,
    schedule=CronTriggerTimetable("17 * * * *", timezone="UTC"),
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=2),
    default_args=TASK_DEFAULTS,
    tags=TAGS,
) as dag:
    HousekeepingOperator(task_id="clean", execution_timeout=timedelta(minutes=50))
