"""What all our DAGs share, so that it is said once; and what they announce to each other."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import Asset, AssetAlias

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

PUBLISHED_FACTS = Asset(name="offsetguard_published_facts", uri="x-offsetguard://published-facts")
"""An interval of a cluster became readable as a whole."""

OUTBOX = Asset(name="offsetguard_outbox", uri="x-offsetguard://outbox")
"""There are messages to deliver. Starts `deliver_warnings` at once."""

OUTBOX_CHANGES = AssetAlias(name="offsetguard_outbox_changes")
"""Outlet of the judge: it adds OUTBOX only when it wrote a message, so quiet minutes start nothing."""
