"""**At 3 a.m.:** a failed run means that a team's report of yesterday comes later: the next run, a quarter of an hour on, writes it. No warning waits for it. Look when it stays red for a day.

## What it does
Looks four times an hour whether the hour of a team's daily report has come (`delivery.daily_report_at`, or the team's own `daily_report_at`, by the clock of the team's zone), and puts the report into the outbox; `deliver_warnings` sends it like every other message.

A report says what was bad and for how long, how many incidents were muted or acknowledged, which messages were sent, how good forecasts were, and how much of the day was seen at all. It goes to the team's mail receivers, once per team, day and receiver, however often this runs.

## When it is red
| the log says | do |
|---|---|
| the configuration file is broken | `offsetguard config check` names the line; reports go on with the last file that was right |
| the database is locked or gone | nothing when it passes; else look at OFFSETGUARD_DATABASE_URL |

## Rerun
Always safe: a report that was written is not written again. One whose hour is over for more than twelve hours is left out.
"""

from datetime import timedelta

from airflow.sdk import DAG, CronTriggerTimetable

from offsetguard_airflow.defaults import TAGS, TASK_DEFAULTS
from offsetguard_airflow.operators.outbox import DailyReportOperator

with DAG(
    "daily_report",
    description="Tell each team once a day what was bad, for how long, and how much was seen",
    doc_md=__doc__,
    schedule=CronTriggerTimetable("*/15 * * * *", timezone="UTC"),
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(minutes=10),
    default_args=TASK_DEFAULTS,
    tags=TAGS,
) as dag:
    DailyReportOperator(task_id="write_reports")
