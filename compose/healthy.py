"""Whether the part in this container does its work: exit code 0, or 1 with a line that says what stands still.

    python compose/healthy.py api-server       it answers, and reaches its database
    python compose/healthy.py SchedulerJob     its loop has come round within the last minute, as Airflow's database
                                               says; likewise DagProcessorJob and TriggererJob

Airflow's own `airflow jobs check` says the same after five seconds of CPU, each time.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request

SILENT_AFTER_S = 60
_NEWEST = (
    "SELECT extract(epoch FROM clock_timestamp() - max(latest_heartbeat)) FROM job "
    "WHERE job_type = %s AND state = 'running' AND hostname = %s"
)


def trouble_of_api_server() -> str | None:
    """Return what is wrong with the API server of this container; None when it is well."""
    with urllib.request.urlopen("http://127.0.0.1:8080/api/v2/monitor/health", timeout=10) as answer:
        health = json.load(answer)
    status = health["metadatabase"]["status"]
    return None if status == "healthy" else f"Airflow's database is {status}"


def trouble_of_job(job_type: str) -> str | None:
    """Return since when a loop of this container stands still; None when it does not."""
    import psycopg2  # noqa: PLC0415 the API server's check needs none

    url = os.environ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].replace("postgresql+psycopg2://", "postgresql://")
    connection = psycopg2.connect(url, connect_timeout=10)
    try:
        with connection.cursor() as cursor:
            cursor.execute(_NEWEST, (job_type, os.uname().nodename))
            (silent_s,) = cursor.fetchone()
    finally:
        connection.close()
    if silent_s is None:
        return f"no {job_type} runs in this container"
    return None if silent_s < SILENT_AFTER_S else f"{job_type} gave no sign of life for {silent_s:.0f} s"


def main() -> int:
    """Return the exit code."""
    part = sys.argv[1]
    try:
        trouble = trouble_of_api_server() if part == "api-server" else trouble_of_job(part)
    except Exception as error:  # noqa: BLE001 whatever it is: it is not well, and Docker shows the line
        trouble = f"{type(error).__name__}: {error}".strip()
    if trouble:
        print(trouble)  # noqa: T201 Docker keeps it
    return 1 if trouble else 0


if __name__ == "__main__":
    sys.exit(main())
