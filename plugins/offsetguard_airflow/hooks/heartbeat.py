"""The place outside that hears whether all is well; see `channels.heartbeat`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offsetguard.config import Delivery
    from offsetguard.deliver.channels.heartbeat import Heartbeat

    class Log(Protocol):
        """A logger of the standard library or of a task."""

        def error(self, event: str, /, *values: Any) -> object:
            """Write a line."""


def open_heartbeat(delivery: Delivery) -> Heartbeat | None:
    """Return it when the configuration names one: by its address, or by a connection whose password is the address.

    Raises AirflowNotFoundException when the connection that is named does not exist.
    """
    from offsetguard.deliver.channels.heartbeat import Heartbeat

    if delivery.heartbeat_connection is not None:
        return Heartbeat(BaseHook.get_connection(delivery.heartbeat_connection).password or "")
    return None if delivery.heartbeat_url is None else Heartbeat(delivery.heartbeat_url)


def tell_heartbeat(delivery: Delivery, reasons: Sequence[str], log: Log) -> None:
    """Say well, or what is not, and log why that was not heard; nothing when the configuration names no heartbeat."""
    from offsetguard.deliver.channels.heartbeat import beat

    try:
        heartbeat = open_heartbeat(delivery)
    except AirflowNotFoundException as error:
        log.error("no heartbeat is sent: %s (delivery.heartbeat_connection names it)", error)
        return
    if heartbeat is not None and (unheard := beat(heartbeat, reasons)):
        log.error("%s; whoever listens will raise the alarm", unheard)
