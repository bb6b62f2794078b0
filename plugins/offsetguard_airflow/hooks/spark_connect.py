"""A Spark Connect server from an Airflow connection.

The provider has a hook for such connections (`SparkConnectHook`), whose type `spark_connect` and form are used here.
Its `get_connection_url` is not: it puts the token into the address, where PySpark shows it in errors, and where a token
with a slash in it is cut. The token goes by Spark's own variable instead, which only the job's process has.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

if TYPE_CHECKING:
    from collections.abc import Mapping

CONNECT_TYPES = ("spark_connect", "sc")  # of the form, and of a URI `sc://...`
SCHEME = "sc://"


@dataclass(frozen=True, slots=True)
class SparkConnectServer:
    """Address (`sc://host:port/;...`, without the token) and token of a server."""

    remote: str
    token: str | None = field(repr=False)

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which PySpark finds the server."""
        token = {"SPARK_CONNECT_AUTHENTICATE_TOKEN": self.token} if self.token else {}
        return {"SPARK_REMOTE": self.remote, **token}


def spark_connect_server(conn_id: str) -> SparkConnectServer | None:
    """Return the server that the connection names; None when it names another engine, or does not exist."""
    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        return None
    if connection.conn_type not in CONNECT_TYPES and not (connection.host or "").startswith(SCHEME):
        return None
    host = (connection.host or "localhost").removeprefix(SCHEME).rstrip("/")
    address = f"{SCHEME}{host}:{connection.port}" if connection.port else f"{SCHEME}{host}"
    extra = {name: str(value) for name, value in connection.extra_dejson.items()}
    token = connection.password or extra.get("token")
    return SparkConnectServer(f"{address}/{_parameters(connection.login, extra)}", token)


def _parameters(user: str | None, extra: Mapping[str, str]) -> str:
    """Return `;name=value` for the user's name and every extra that PySpark's client or a proxy may ask for."""
    parameters = {name: value for name, value in extra.items() if name != "token"}
    if user:
        parameters["user_id"] = user
    return "".join(f";{quote(name, safe='')}={quote(value, safe='')}" for name, value in parameters.items())
