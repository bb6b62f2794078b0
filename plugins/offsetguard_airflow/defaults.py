"""What all our DAGs share, so that it is said once; and what they announce to each other."""

import os
from datetime import timedelta
from typing import Any

from airflow.sdk import Asset, AssetAlias, Param
from airflow.sdk.definitions.context import Context

from offsetguard.config.file import load_config
from offsetguard.config.workspace import Workspace
from offsetguard.model.errors import ConfigError
from offsetguard.model.processes import write_for_owner_only

OWNER = "offsetguard"
TAGS = ["offsetguard", "rocketmq"]

# The minute that a run stands for: fixed when the run is created, so that a rerun works on the same one. Runs that
# somebody triggers may have no data interval; `run_after` is then the moment of the trigger.
INTERVAL_START = "{{ (data_interval_start | default(none) or dag_run.run_after).isoformat() }}"

# A backfill makes facts again also where nothing has changed, and is history: nobody is told anything.
IS_BACKFILL = "{{ dag_run.run_type == 'backfill' }}"


def _write_for_owner_only(context: Context) -> None:
    write_for_owner_only()


TASK_DEFAULTS = {
    "owner": OWNER,
    "retries": 1,  # every task is a transaction on its interval: a second try replaces the first
    "retry_delay": timedelta(seconds=5),
    "execution_timeout": timedelta(minutes=5),
    "pre_execute": _write_for_owner_only,  # in the task's own process: Airflow's logs stay as Airflow has them
}

CYCLES_POOL = os.environ.get("OFFSETGUARD_POOL") or "default_pool"
"""The pool of tasks that have Spark work for long. No publication is in it: it would wait behind them for hours."""


def collection_tasks() -> int:
    """Return how many tasks collect, each its share of the clusters; 1 while the configuration is broken."""
    try:
        return load_config(Workspace.from_environment().config_file).collection.tasks
    except ConfigError:
        return 1


def cluster_param(*, or_all: str | None = None) -> Param:
    """Return the field of a trigger form that proposes the configured clusters; `or_all`: the word for all of them.

    The task that reads the field says what is wrong with it: a cluster may be newer than the form.
    """
    try:
        known = sorted(load_config(Workspace.from_environment().config_file).clusters)
    except ConfigError:
        known = []  # the next task that runs says why
    schema: dict[str, Any] = {
        "type": "string",
        "title": "Cluster",
        "pattern": r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$",
        "examples": [or_all, *known] if or_all else known,
        "description": f"A cluster's name in config/offsetguard.yml{f', or: {or_all}' if or_all else ''}",
    }
    return Param(or_all, **schema) if or_all else Param(**schema)


def moment_param(title: str, description: str) -> Param:
    """Return the field of a trigger form for a moment with its zone; Airflow checks the pattern, and no `format`."""
    return Param(
        type="string",
        format="date-time",  # gives the form its calendar
        pattern=r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[T ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,6})?)?"
        r"(Z|[+-][01]\d:[0-5]\d)$",
        title=title,
        description=description,
    )


PUBLISHED_FACTS = Asset(name="offsetguard_published_facts", uri="x-offsetguard://published-facts")
"""An interval of a cluster became readable as a whole."""

OUTBOX = Asset(name="offsetguard_outbox", uri="x-offsetguard://outbox")
"""There are messages to deliver. Starts `deliver_warnings` at once."""

OUTBOX_CHANGES = AssetAlias(name="offsetguard_outbox_changes")
"""Outlet of the judge: it adds OUTBOX only when it wrote a message, so quiet minutes start nothing."""
