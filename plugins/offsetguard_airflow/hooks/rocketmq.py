"""RocketMQ credentials (ACL) from an Airflow connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseHook

from offsetguard.model.errors import ConfigError

if TYPE_CHECKING:
    from offsetguard.sources.rocketmq.header import Credentials


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
