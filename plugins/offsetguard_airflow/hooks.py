"""Channels and logins of RocketMQ from the Airflow connections that the configuration names; and the heartbeat.

A connection of a channel that is missing, incomplete or malformed stops only its own channel: its messages wait in the
outbox with the reason. Secrets are in no reason, so what others' code says of a connection that it cannot read is not
in it either.

The heartbeat (`deliver.heartbeat`) is a place outside that is told whether all is well. Airflow's deadline alerts are a
second path to it: a run that hangs makes Airflow look whether OffsetGuard still works. Airflow counts every run as late
that did not end well in time, also one that failed at once. So a missed deadline is only the occasion to look: what has
stopped is told to the heartbeat, and nothing when all is well. The callback runs in the triggerer: without one nothing
is told here, and the heartbeat's silence has to do.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from airflow.sdk import BaseHook
from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference
from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException, AirflowRuntimeError
from airflow.sdk.observability.stats import gauge

from offsetguard.config import Delivery
from offsetguard.config.workspace import Workspace
from offsetguard.deliver.heartbeat import beat, write_down
from offsetguard.model.errors import ConfigError
from offsetguard_airflow.task_inputs import open_workspace

if TYPE_CHECKING:
    from offsetguard.config import Delivery
    from offsetguard.deliver.channels.channel import Connection, Transport, Unavailable
    from offsetguard.deliver.deliver import OpenTransport
    from offsetguard.model.notification import Channel
    from offsetguard.sources.rocketmq.header import Credentials

_Opened = TypeVar("_Opened", bound="Transport")


def transports(delivery: Delivery) -> OpenTransport:
    """Return what opens transports for one sweep: each connection is read once, when there is a message for it."""
    from offsetguard.deliver.deliver import CHANNELS

    @cache
    def opened(channel: Channel, conn_id: str) -> Transport | Unavailable:
        return opened_by(CHANNELS[channel], conn_id, delivery)

    return lambda lane: opened(lane.channel, CHANNELS[lane.channel].connection_id(delivery, lane.receiver))


def opened_by(kind: type[_Opened], conn_id: str, delivery: Delivery) -> _Opened | Unavailable:
    """Open what a connection leads to; one that cannot be read counts as one that is not there."""
    from offsetguard.deliver.channels.channel import Unavailable, open_by

    try:
        return open_by(kind, conn_id, _connection(conn_id), delivery)
    except (ValueError, TypeError, AttributeError) as error:
        what = f"is malformed ({type(error).__name__}); correct it under Admin > Connections"
    except (AirflowException, AirflowRuntimeError, OSError) as error:
        what = f"could not be read ({type(error).__name__})"
    return Unavailable(f"Airflow connection {conn_id!r} {what}")


def _connection(conn_id: str) -> Connection | None:
    from offsetguard.deliver.channels.channel import Connection

    try:
        given = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        return None
    return Connection(conn_id, given.host, given.port, given.login, given.password, given.schema, given.extra_dejson)


def rocketmq_credentials(conn_id: str | None) -> Credentials | None:
    """Read access key (login), secret key (password) and, if there is one, extra `security_token`.

    None: the cluster has no connection configured and is asked without a signature. Raises ConfigError when the
    connection lacks a key, AirflowNotFoundException when it does not exist.
    """
    if conn_id is None:
        return None
    from offsetguard.sources.rocketmq.header import Credentials

    connection = BaseHook.get_connection(conn_id)
    if not connection.login or not connection.password:
        raise ConfigError(
            f"Airflow connection {conn_id!r} needs the RocketMQ access key as login and the secret key as password"
        )
    return Credentials(connection.login, connection.password, connection.extra_dejson.get("security_token"))


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
    try:
        troubles = [one.text for one in troubles_of(ours.engine, ours.config, now=database_time(ours.engine))]
    finally:  # the triggerer goes on
        ours.engine.dispose()
    for trouble in troubles:
        _log.error("%s", trouble)
    if troubles:
        tell_heartbeat(ours.workspace, ours.config.delivery, troubles, _log.error)
