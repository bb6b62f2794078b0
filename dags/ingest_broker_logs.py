"""**At 3 a.m.:** nothing waits for this: it runs when somebody triggers it, changes only the rows of the files that it was given, and can be run again. Look at it in the morning.

## What it does
Reads whole log files of one broker replica (or of clients) with Spark and brings what they tell into the tables `log_events` and `offset_moves`: which clients came and went, which offsets were corrected, which locks were refused, days or weeks back. Use it when OffsetGuard was not there yet, or could not see the logs.

| task | what | when it fails |
|---|---|---|
| `ingest_broker_logs` | finds the files, parses them, writes, audits, and only then shows | the tables are as they were before; the log's last lines name the file, or say what Spark refused |

## How to use it
1. Put the files where **this machine and the Spark workers** can read them; rotated `.gz` files are read as they are.
2. Trigger with `dry_run` on (it is at first). The last line of the task's log is a report: files found and left out, events by kind, the first and the last time, lines that could not be read.
3. **Look at the times.** If they are hours off, `time_zone` is wrong: brokers write GMT+8 wherever they run, 4.x clients the zone of their host.
4. Trigger again with `dry_run` off.

## Rerun
Always safe: the rows of the same files are replaced, whatever the files are called by now (a log is known by its first line). Rows that rounds of `collect_and_judge` read are left alone, and no message is sent: what lies in the past is history. Facts of a past minute take it in when that minute is published again.
"""

from datetime import timedelta

from airflow.sdk import DAG, Param

from offsetguard_airflow.defaults import CYCLES_POOL, TAGS, TASK_DEFAULTS, cluster_param
from offsetguard_airflow.operators.spark_jobs import IngestBrokerLogsOperator

with DAG(
    "ingest_broker_logs",
    description="By hand: read whole log files of a broker into log_events and offset_moves",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=12),
    default_args=TASK_DEFAULTS,
    tags=TAGS,
    # So that values arrive with their types, and a file name is never taken for a template.
    render_template_as_native_obj=True,
    params={
        "cluster": cluster_param(),
        "files": Param(
            type="array",
            title="Files",
            items={"type": "string", "minLength": 1, "maxLength": 4096},
            minItems=1,
            description="Paths or patterns, one to a line, e.g. /mnt/broker-a/logs/rocketmqlogs/otherdays/broker*.gz",
        ),
        "broker_name": Param(
            None,
            type=["null", "string"],
            title="Broker name",
            pattern=r"^[^\x00-\x20\x7f/]{1,255}$",
            description="The broker that wrote them, as the name server calls it. Leave it empty for clients' logs.",
        ),
        "broker_id": Param(
            0,
            type="integer",
            title="Broker id",
            minimum=0,
            description="Its replica: 0 is the master.",
        ),
        "time_zone": Param(
            "+08:00",
            type="string",
            title="Time zone",
            pattern=r"^([+-](0\d|1[0-4]):[0-5]\d|[A-Z][A-Za-z_]+(/[A-Za-z0-9_+-]+){0,2})$",
            description="Zone of the times in the files. Brokers, and clients since 5.0, write GMT+8 (+08:00) wherever "
            "they run; 4.x clients write the zone of their host, e.g. UTC or Asia/Shanghai.",
        ),
        "routine": Param(
            False,
            type="boolean",
            title="Routine lines, too",
            description="Also lines that are written for ever where nothing happens, e.g. every counter of stats.log: "
            "many times as many rows.",
        ),
        "dry_run": Param(
            True,
            type="boolean",
            title="Dry run",
            description="Say what would be written, and write nothing. Begin with it, and look at the times.",
        ),
    },
) as dag:
    IngestBrokerLogsOperator(
        task_id="ingest_broker_logs",
        form="{{ params }}",
        retries=0,  # a wrong path or zone does not get better by itself
        pool=CYCLES_POOL,
        execution_timeout=timedelta(hours=11),
    )
