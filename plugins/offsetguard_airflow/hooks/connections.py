"""Mail and Slack channels, and logins of RocketMQ, from the Airflow connections that the configuration names.

A connection of a channel that is missing, incomplete or malformed stops only its own channel: its messages wait in the
outbox with the reason. Secrets are in no reason, so what others' code says of a connection that it cannot read is not
in it either.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, TypeVar

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException, AirflowRuntimeError

from offsetguard.deliver.channels.receipt import Unavailable
from offsetguard.model.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.sdk import Connection

    from offsetguard.config import Delivery
    from offsetguard.deliver.channels.mail import MailChannel, TlsMode
    from offsetguard.deliver.channels.slack import SlackChannel
    from offsetguard.deliver.channels.slack_webhook import SlackWebhookChannel
    from offsetguard.deliver.sending import Channels
    from offsetguard.sources.rocketmq.header import Credentials

_Channel = TypeVar("_Channel")


class _Malformed(ValueError):
    """A part of a connection that is not what it has to be; the text says what to do and has no secret."""


def _stops_only_itself(open_one: Callable[[str], _Channel | Unavailable]) -> Callable[[str], _Channel | Unavailable]:
    """Let a connection that cannot be read count as one that is not there."""

    @functools.wraps(open_one)
    def opened(conn_id: str) -> _Channel | Unavailable:
        try:
            return open_one(conn_id)
        except _Malformed as error:
            return Unavailable(f"Airflow connection {conn_id!r} is malformed: {error}")
        except (ValueError, TypeError, AttributeError) as error:
            what = f"is malformed ({type(error).__name__}); correct it under Admin > Connections"
        except (AirflowException, AirflowRuntimeError, OSError) as error:
            what = f"could not be read ({type(error).__name__})"
        return Unavailable(f"Airflow connection {conn_id!r} {what}")

    return opened


def open_channels(delivery: Delivery) -> Channels:
    """Open the ways out; a webhook only when there is a message for it."""
    from offsetguard.deliver.sending import Channels

    return Channels(
        mail=mail_channel(delivery.mail_connection),
        slack=slack_channel(delivery.slack_connection),
        mail_from=delivery.mail_from,
        webhook=slack_webhook,
    )


@_stops_only_itself
def mail_channel(conn_id: str) -> MailChannel | Unavailable:
    """Open SMTP as the provider's connection type `smtp` describes it.

    Host, port, login, password; extra `disable_ssl` (TLS from the first byte unless it is true), `disable_tls`
    (STARTTLS unless it is true), `timeout` in seconds.
    """
    from offsetguard.deliver.channels.mail import MailChannel

    connection = _connection(conn_id)
    if connection is None or not connection.host:
        return Unavailable(
            f"Airflow connection {conn_id!r} {_what_lacks(connection, 'a host')}; create one of type smtp "
            "with host, port, login and password (delivery.mail_connection names it)"
        )
    mode = _tls_mode(connection)
    return MailChannel(
        connection.host,
        connection.port or _USUAL_PORT[mode.value],
        connection.login or None,
        connection.password or None,
        mode,
        _timeout_s(connection),
    )


@_stops_only_itself
def slack_channel(conn_id: str) -> SlackChannel | Unavailable:
    """Open Slack by the provider's type `slack`: password = bot token; extra `base_url`, `timeout`, `proxy`."""
    from offsetguard.deliver.channels.slack import SlackChannel

    connection = _connection(conn_id)
    if connection is None or not connection.password:
        return Unavailable(
            f"Airflow connection {conn_id!r} {_what_lacks(connection, 'a password')}; create one of type slack "
            "with the bot token (xoxb-..., scopes chat:write and channels:history) as password "
            "(delivery.slack_connection names it)"
        )
    extra = connection.extra_dejson
    options = {name: extra[name] for name in ("base_url", "proxy") if extra.get(name)}
    return SlackChannel.with_token(connection.password, timeout_s=math.ceil(_timeout_s(connection)), **options)


@_stops_only_itself
def slack_webhook(conn_id: str) -> SlackWebhookChannel | Unavailable:
    """Open an incoming webhook by the provider's type `slackwebhook`.

    Password: the whole address, or what comes after the host's `https://hooks.slack.com/services`; extra `timeout`,
    `proxy`.
    """
    from offsetguard.deliver.channels.slack_webhook import SlackWebhookChannel

    connection = _connection(conn_id)
    if connection is None or not connection.password:
        return Unavailable(
            f"Airflow connection {conn_id!r} {_what_lacks(connection, 'a password')}; create one of type slackwebhook "
            "with the webhook's address as password (slack_webhooks in the configuration names it)"
        )
    extra = connection.extra_dejson
    address = _webhook_address(connection)
    return SlackWebhookChannel(conn_id, address, math.ceil(_timeout_s(connection)), extra.get("proxy") or None)


def _webhook_address(connection: Connection) -> str:
    """Put the address together as the provider does."""
    password = connection.password or ""
    if password.startswith(("http://", "https://")):
        return password
    host = connection.host or "hooks.slack.com/services"
    base = host if "://" in host else f"{connection.schema or 'https'}://{host}"
    return f"{base.rstrip('/')}/{password.lstrip('/')}"


def _timeout_s(connection: Connection) -> float:
    value = connection.extra_dejson.get("timeout", 10)
    try:
        timeout_s = float(value)
    except (ValueError, TypeError):
        timeout_s = math.nan
    if not 0 < timeout_s <= _LONGEST_TIMEOUT_S:
        said = repr(value)[:100]
        raise _Malformed(f"write seconds, up to {_LONGEST_TIMEOUT_S:g}, as timeout into its extra, not {said}")
    return timeout_s


_LONGEST_TIMEOUT_S = 3_600.0
_USUAL_PORT = {"none": 25, "starttls": 587, "tls": 465}


def _tls_mode(connection: Connection) -> TlsMode:
    from offsetguard.deliver.channels.mail import TlsMode

    extra = connection.extra_dejson
    if not _is_true(extra.get("disable_ssl", False)):
        return TlsMode.TLS
    return TlsMode.NONE if _is_true(extra.get("disable_tls", False)) else TlsMode.STARTTLS


def _is_true(value: object) -> bool:
    return str(value).lower() in {"true", "1", "yes"}


def _connection(conn_id: str) -> Connection | None:
    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        return None


def _what_lacks(connection: Connection | None, part: str) -> str:
    return "does not exist" if connection is None else f"has not got {part}"


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
