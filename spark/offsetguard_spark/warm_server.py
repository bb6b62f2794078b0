"""The warm Spark of a workspace, which works where no Airflow connection says otherwise.

Whoever needs Spark first starts it; everybody after that finds it. It ends with Airflow, by `offsetguard spark-server
stop`, or when nobody has used it for a quarter of an hour (`server_process.py`). One that somebody started by hand in
the same folder, with more memory say, is used as well, and left to him.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from offsetguard.config.workspace import Workspace
from offsetguard_spark.connect_server import START_PATIENCE_S, ConnectServer
from offsetguard_spark.server_process import ServerRuns, SparkServerFailed

IDLE_S = 900.0
MEMORY = "1g"
ANSWER_PATIENCE_S = 60.0  # for a row that costs Spark nothing
HANGING_PATIENCE_S = 5.0
_LOOKS_APART_S = 0.1


@contextmanager
def warm_server(
    workspace: Workspace, *, idle_s: float = IDLE_S, patience_s: float = ANSWER_PATIENCE_S
) -> Iterator[ConnectServer]:
    """Yield the server of this workspace, started when none runs; it does not end by itself during the block.

    One that gives no row within `patience_s` hangs, and is replaced: each task would be ended by its time-out there.

    Raises SparkServerFailed: it could not be started, does not come up, or runs on another host.
    """
    server = ConnectServer(workspace.spark_server_folder, port=0, memory=MEMORY, idle_s=idle_s)
    with server.files.used():
        yield _found_or_started(server, patience_s)


def _found_or_started(server: ConnectServer, patience_s: float) -> ConnectServer:
    deadline, is_new = time.monotonic() + START_PATIENCE_S, False
    while time.monotonic() < deadline:
        running = server.files.running()
        if running is None:
            with suppress(ServerRuns):  # somebody else was quicker
                server.start()
                is_new = True
        elif running.is_elsewhere:
            raise SparkServerFailed(
                f"the warm Spark of this workspace runs on the host {running.host}: stop it there, or say by the "
                "Airflow connection spark_default where Spark runs for all hosts (docs/engines.md)"
            )
        elif running.listens():
            found = replace(server, port=running.port)
            try:
                if not is_new:
                    found.query(patience_s=patience_s)
            except SparkServerFailed:
                if running.idle_s is None:
                    raise  # whoever started it ends it
                server.files.stop(patience_s=HANGING_PATIENCE_S)
            else:
                return found
        else:
            time.sleep(_LOOKS_APART_S)  # somebody starts it
    raise SparkServerFailed(f"Spark does not listen after {START_PATIENCE_S:.0f} s; its log is {server.log_file}")
