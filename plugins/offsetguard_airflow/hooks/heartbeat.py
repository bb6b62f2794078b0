"""The place outside that hears whether all is well; see `channels.heartbeat`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseHook

if TYPE_CHECKING:
    from offsetguard.channels.heartbeat import Heartbeat
    from offsetguard.config import Delivery


def open_heartbeat(delivery: Delivery) -> Heartbeat | None:
    """Return it when the configuration names one: by its address, or by a connection whose password is the address.

    Raises AirflowNotFoundException when the connection that is named does not exist.
    """
    from offsetguard.channels.heartbeat import Heartbeat

    if delivery.heartbeat_connection is not None:
        return Heartbeat(BaseHook.get_connection(delivery.heartbeat_connection).password or "")
    return None if delivery.heartbeat_url is None else Heartbeat(delivery.heartbeat_url)
