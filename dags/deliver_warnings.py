"""**At 3 a.m.:** a failed run means that warnings wait in the outbox; none is lost. The next sweep tries again. Look when it stays red for more than ten minutes: then mail *and* Slack, or the configuration, are out of order.

## What it does
Sends the messages of the outbox by SMTP, Slack and webhooks, each receiver on its own: one that hangs holds up no other. A message is logged as sent only after the receiver accepted it; until then it stays in the outbox with the reason, and is tried again with growing pauses. `docs/delivery.md` says what holds when something dies.

Runs as soon as `collect_and_judge` has written a message (asset `offsetguard_outbox`), and as a sweep for what had to wait. What is open is posted to Alertmanagers (`delivery.alertmanagers`) each time, and then after every judged minute.

After each sweep it tells the heartbeat (`delivery.heartbeat_connection`) that all is well, or what has stopped: a cluster that is not judged any more, an outbox that does not drain. `offsetguard health` says the same.

## When it is red
The task fails when a receiver refused or could not be reached; its log has one line per message with the reason and the time of the next attempt.

| the log says | do |
|---|---|
| connection ... does not exist | create the Airflow connection that `delivery.mail_connection`, `delivery.slack_connection` or `slack_webhooks` names |
| Alertmanager ... | the connection that `delivery.alertmanagers` names, or that Alertmanager; alerts are posted again with the next run |
| SMTP refuses the login, Slack says `invalid_auth` | correct the password or token in that connection |
| Slack says `channel_not_found`, `not_in_channel` | invite the app into the channel, or correct `teams:` in config/offsetguard.yml |
| accepted, but that could not be logged | our database did not answer; those messages are sent once more |
| the database did not answer | nothing was lost; see that PostgreSQL runs, or that the disk of SQLite is not full |
| nothing of cluster ... was judged | `collect_and_judge` does not run, or fails |
| cannot be reached, timed out | the network or the server; nothing to do here |
"""

from datetime import timedelta

from airflow.sdk import DAG, AssetOrTimeSchedule, CronTriggerTimetable

from offsetguard_airflow.defaults import OUTBOX, TAGS, TASK_DEFAULTS
from offsetguard_airflow.hooks import deadline
from offsetguard_airflow.operators.outbox import DeliverOperator

with DAG(
    "deliver_warnings",
    description="Send the messages of the outbox; each once, each logged after it was accepted",
    doc_md=__doc__,
    schedule=AssetOrTimeSchedule(timetable=CronTriggerTimetable("*/2 * * * *", timezone="UTC"), assets=[OUTBOX]),
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(minutes=10),
    deadline=deadline(timedelta(minutes=8)),
    default_args=TASK_DEFAULTS,
    tags=TAGS,
) as dag:
    # No retries: what was not accepted is due again at the time that the outbox says, and the sweep finds it.
    DeliverOperator(task_id="deliver_outbox", retries=0)
