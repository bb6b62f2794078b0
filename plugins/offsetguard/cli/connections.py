"""Whom the configuration names, opened by the connections that the Airflow of this environment has.

That Airflow is asked in a process of its own: no command imports it.
"""

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator

import click

from offsetguard.config import Config
from offsetguard.config.routes import Delivery
from offsetguard.deliver.channels.channel import Connection, Transport, Unavailable, open_by
from offsetguard.deliver.deliver import CHANNELS
from offsetguard.model.notification import Receiver

_ASK = """
import json, os, sys
os.environ["_AIRFLOW_PROCESS_CONTEXT"] = "server"  # else it asks the API that only tasks may
from airflow.exceptions import AirflowNotFoundException
from airflow.models import Connection
for conn_id in sys.argv[1:]:
    try:
        one = Connection.get_connection_from_secrets(conn_id)
        said = [one.host, one.port, one.login, one.password, one.schema, one.extra_dejson]
    except AirflowNotFoundException:
        said = None
    except Exception as error:
        said = type(error).__name__
    print("connection", json.dumps(said))
"""


def opened(config: Config, receivers: Iterable[Receiver]) -> dict[Receiver, Transport | Unavailable]:
    """Return each receiver, opened or with what its connection lacks; raises ClickException without an Airflow."""
    named = {one: CHANNELS[one[0]].connection_id(config.delivery, one[1]) for one in receivers}
    found = dict(_asked(sorted(set(named.values()))))
    return {one: _opened(CHANNELS[one[0]], conn_id, found[conn_id], config.delivery) for one, conn_id in named.items()}


def _opened(
    kind: type[Transport], conn_id: str, connection: Connection | Unavailable | None, delivery: Delivery
) -> Transport | Unavailable:
    return connection if isinstance(connection, Unavailable) else open_by(kind, conn_id, connection, delivery)


def _asked(conn_ids: list[str]) -> Iterator[tuple[str, Connection | Unavailable | None]]:
    """Give connections as Airflow has them, from wherever it keeps them; None: there is none of that id."""
    if not conn_ids:
        return
    asked = subprocess.run([sys.executable, "-c", _ASK, *conn_ids], capture_output=True, text=True, check=False)
    lines = [json.loads(line.partition(" ")[2]) for line in asked.stdout.splitlines() if line.startswith("connection ")]
    if len(lines) != len(conn_ids):
        raise click.ClickException("airflow cannot be asked for connections here; run this where its tasks run")
    for conn_id, said in zip(conn_ids, lines, strict=True):
        if isinstance(said, str):
            yield conn_id, Unavailable(f"Airflow connection {conn_id!r} could not be read ({said})")
        else:
            yield conn_id, None if said is None else Connection(conn_id, *said)
