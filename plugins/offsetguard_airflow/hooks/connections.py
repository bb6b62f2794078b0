"""Channels, and logins of RocketMQ, from the Airflow connections that the configuration names.

A connection of a channel that is missing, incomplete or malformed stops only its own channel: its messages wait in the
outbox with the reason. Secrets are in no reason, so what others' code says of a connection that it cannot read is not
in it either.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException, AirflowRuntimeError

from offsetguard.model.errors import ConfigError

if TYPE_CHECKING:
    from offsetguard.config import Delivery
    from offsetguard.deliver.channels.channel import Connection, Transport, Unavailable
    from offsetguard.deliver.deliver import OpenTransport
    from offsetguard.model.notification import Channel
    from offsetguard.sources.rocketmq.header import Credentials


def transports(delivery: Delivery) -> OpenTransport:
    """Return what opens transports for one sweep: each connection is read once, when there is a message for it."""
    from offsetguard.deliver.deliver import CHANNELS

    @cache
    def opened(channel: Channel, conn_id: str) -> Transport | Unavailable:
        return transport_of(channel, conn_id, delivery)

    return lambda lane: opened(lane.channel, CHANNELS[lane.channel].connection_id(delivery, lane.receiver))


def transport_of(channel: Channel, conn_id: str, delivery: Delivery) -> Transport | Unavailable:
    """Open a channel by a connection; one that cannot be read counts as one that is not there."""
    from offsetguard.deliver.channels.channel import Malformed, Unavailable, open_transport
    from offsetguard.deliver.deliver import CHANNELS

    try:
        return open_transport(CHANNELS[channel], conn_id, _connection(conn_id), delivery)
    except Malformed as error:
        return Unavailable(f"Airflow connection {conn_id!r} is malformed: {error}")
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
