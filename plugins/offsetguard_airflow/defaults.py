"""What all our DAGs share, so that it is said once."""

from __future__ import annotations

from datetime import timedelta

OWNER = "offsetguard"
TAGS = ["offsetguard", "rocketmq"]

# The minute that a run stands for: fixed when the run is created, so that a rerun works on the same one. Runs that
# somebody triggers may have no data interval; `run_after` is then the moment of the trigger.
INTERVAL_START = "{{ (data_interval_start | default(none) or dag_run.run_after).isoformat() }}"

# A backfill makes facts again also where nothing has changed, and is history: nobody is told anything.
IS_BACKFILL = "{{ dag_run.run_type == 'backfill' }}"

TASK_DEFAULTS = {
    "owner": OWNER,
    "retries": 1,  # every task is a transaction on its interval: a second try replaces the first
    "retry_delay": timedelta(seconds=5),
    "execution_timeout": timedelta(minutes=5),
}
