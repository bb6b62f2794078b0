"""Airflow's deadline alerts as a second path: a run that hangs makes Airflow look whether OffsetGuard still works.

Airflow counts every run as late that did not end well in time, also one that failed at once. So a missed deadline is
only the occasion to look: what has stopped is told to the heartbeat, and nothing when all is well.
The callback runs in the triggerer: without one nothing is told here, and the heartbeat's silence has to do.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

if TYPE_CHECKING:
    from datetime import timedelta

_log = logging.getLogger(__name__)


def deadline(after: timedelta) -> DeadlineAlert:
    """Return an alert for runs that have not ended well so long after they were queued."""
    return DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=after,
        callback=AsyncCallback(f"{__name__}.{look_whether_all_is_well.__name__}"),
    )


async def look_whether_all_is_well() -> None:
    """Tell the heartbeat what has stopped."""
    await asyncio.to_thread(_look)


def _look() -> None:
    from offsetguard.config.workspace import Workspace
    from offsetguard.decide.own_health import troubles_of
    from offsetguard.store.database import open_database
    from offsetguard_airflow.configuration import configuration
    from offsetguard_airflow.hooks.heartbeat import tell_heartbeat

    workspace = Workspace.from_environment()
    config = configuration(workspace, _log.error).config
    engine = open_database(workspace.database_url)
    troubles = [one.text for one in troubles_of(engine, config, now=datetime.now(UTC))]
    engine.dispose()
    for trouble in troubles:
        _log.error("%s", trouble)
    if troubles:
        tell_heartbeat(config.delivery, troubles, _log)
