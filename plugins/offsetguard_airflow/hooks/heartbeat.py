"""The place outside that is told whether all is well (`deliver.heartbeat`), and a second path to it.

Airflow's deadline alerts are that path: a run that hangs makes Airflow look whether OffsetGuard still works. Airflow
counts every run as late that did not end well in time, also one that failed at once. So a missed deadline is only the
occasion to look: what has stopped is told to the heartbeat, and nothing when all is well.
The callback runs in the triggerer: without one nothing is told here, and the heartbeat's silence has to do.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from airflow.sdk import BaseHook
from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.observability.stats import gauge

from offsetguard.config import Delivery
from offsetguard.config.workspace import Workspace
from offsetguard.deliver.heartbeat import beat, write_down
from offsetguard_airflow.task_inputs import open_workspace

_log = logging.getLogger(__name__)


def tell_heartbeat(
    workspace: Workspace, delivery: Delivery, reasons: Sequence[str], log_error: Callable[..., object]
) -> None:
    """Say well, or what is not, and log why that was not heard: in a file, as a metric, and where somebody listens.

    The configuration names a connection whose password is the address of who does.
    """
    gauge("offsetguard.healthy", 0 if reasons else 1)
    if unwritten := write_down(workspace.heartbeat_file, reasons, datetime.now(UTC)):
        log_error("%s", unwritten)
    if delivery.heartbeat_connection is None:
        return
    try:
        address = BaseHook.get_connection(delivery.heartbeat_connection).password or ""
    except Exception as error:  # noqa: BLE001 the code of others
        said = (
            str(error) if isinstance(error, AirflowNotFoundException) else type(error).__name__
        )  # may have the address
        log_error("no heartbeat is sent: %s (delivery.heartbeat_connection names it)", said)
        return
    if unheard := beat(address, reasons):
        log_error("%s; whoever listens will raise the alarm", unheard)


def deadline(after: timedelta) -> DeadlineAlert:
    """Return an alert for runs that have not ended well so long after they were queued."""
    return DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=after,
        callback=AsyncCallback(f"{__name__}.{report_troubles.__name__}"),
    )


async def report_troubles() -> None:
    """Tell the heartbeat what has stopped."""
    await asyncio.to_thread(_report_troubles)


def _report_troubles() -> None:
    from offsetguard.decide.own_health import troubles_of
    from offsetguard.store.database import database_time

    ours = open_workspace(_log.error)
    troubles = [one.text for one in troubles_of(ours.engine, ours.config, now=database_time(ours.engine))]
    ours.engine.dispose()
    for trouble in troubles:
        _log.error("%s", trouble)
    if troubles:
        tell_heartbeat(ours.workspace, ours.config.delivery, troubles, _log.error)
