"""A warm Spark Connect server on this machine: `offsetguard spark-server run|start|stop|status|query`.

Publications that find Spark running need seconds less than those that start it. The server listens on 127.0.0.1 only
(Spark's own default is every interface), unless it is told another address, as in a container, and only for those who
know its token. In its folder, beside what `server_process.py` says:

token       made once and kept, so that an Airflow connection outlives restarts
server.log  what Spark said since the last start; the one before is `server.log.1`
tmp         Spark's temporary files; those of a server that was killed go when the next one starts
"""

import argparse
import contextlib
import os
import random
import secrets
import shutil
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from offsetguard.config.workspace import SPARK_TEMPORARY, Workspace
from offsetguard.model.errors import OffsetGuardError
from offsetguard_spark.connect import DEFAULT_PORT, TOKEN_VARIABLE
from offsetguard_spark.engines import LOCAL_ENVIRONMENT, SERVER_CONFIG, iceberg_jars, local_master, spark_home
from offsetguard_spark.server_process import Running, ServerFolder, SparkServerFailed, write_running

MAIN_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
START_PATIENCE_S = 300.0
QUERY_PATIENCE_S = 20.0
_OURS_ALONE = 0o600
_FREE_PORTS = range(20_000, 32_000)  # below those of outgoing connections, which could take one while Spark starts
_PORTS_TRIED = 20
_WEEK_MS = 7 * 24 * 3_600_000

_JVM_OPTIONS = "-Djava.net.preferIPv4Stack=true -XX:+ExitOnOutOfMemoryError -Diceberg.scan.plan-in-worker-pool=false"

# The whole heap at once, room for the 33,000 classes of a warm server and for their compiled code (75 MB after an hour;
# what does not fit is thrown away, warm or not), and a collector that pauses: else garbage is collected four times a
# second, with marking in the background, on the cores that the work needs.
_ROOMY_OPTIONS = "-XX:+UseParallelGC -XX:MetaspaceSize=384m -XX:ReservedCodeCacheSize=512m"

# A server that nobody asked for takes little: a heap that grows with what there is to do, and shrinks when Spark's
# cleaner has it collected; and few arenas of malloc for its 280 threads, which would keep 200 MB that are free.
_FRUGAL_OPTIONS = (
    "-XX:+UseSerialGC -XX:MetaspaceSize=384m -XX:ReservedCodeCacheSize=256m -Xms192m -Xmn96m "
    "-XX:MinHeapFreeRatio=20 -XX:MaxHeapFreeRatio=40"
)
_FRUGAL_CONFIG = {"spark.cleaner.periodicGC.interval": "5min"}
_FRUGAL_ENVIRONMENT = {"MALLOC_ARENA_MAX": "2"}

# What a killed client has begun is ended: the server learns that nobody listens when it has closed an answer's stream,
# which living clients open again at once, and then waits for them for a while. By default that takes seven minutes (a
# stream of two, five of waiting), in which nobody else gets the cores. With these it is never more than 16 s.
_DEAD_CLIENTS_CONFIG = {
    "spark.connect.execute.reattachable.senderMaxStreamDuration": "5s",
    "spark.connect.execute.manager.detachedTimeout": "10s",
    "spark.connect.execute.manager.maintenanceInterval": "1s",
}


@dataclass(frozen=True, slots=True)
class ConnectServer:
    """A server by its folder; two servers on one machine have two folders and two ports."""

    folder: Path
    port: int = DEFAULT_PORT  # 0: one that is free
    memory: str = "2g"
    master: str = ""  # empty: the cores of this machine; otherwise what spark-submit takes, e.g. spark://host:7077
    listen: str = "127.0.0.1"  # the address of an interface; Spark's own default is every one
    idle_s: float | None = None  # `start`: it ends by itself when nobody has used it for so long

    @property
    def files(self) -> ServerFolder:
        """Who runs in the folder, and who uses it."""
        return ServerFolder(self.folder)

    @property
    def remote(self) -> str:
        """The address, without the token: SPARK_REMOTE; the token goes into SPARK_CONNECT_AUTHENTICATE_TOKEN."""
        return f"sc://localhost:{self.port}"

    @property
    def token(self) -> str:
        """The token; made when there is none yet."""
        file = self.folder / "token"
        self.files.make()
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OURS_ALONE)
            with os.fdopen(descriptor, "w") as new:
                new.write(secrets.token_hex(32) + "\n")
        return file.read_text(encoding="utf-8").strip()

    @property
    def client_environment(self) -> dict[str, str]:
        """What tells a client where it is."""
        return {"SPARK_REMOTE": self.remote, TOKEN_VARIABLE: self.token}

    @property
    def log_file(self) -> Path:
        """Where Spark's output goes."""
        return self.folder / "server.log"

    @property
    def temporary_folder(self) -> Path:
        """What Spark would leave in /tmp."""
        return self.folder / SPARK_TEMPORARY

    def process_id(self) -> int | None:
        """Return the running server's process id; None when none runs."""
        running = self.files.running()
        return running.process_id if running is not None else None

    def start(self, *, patience_s: float = START_PATIENCE_S) -> int:
        """Start it in the background and wait until it listens; returns the process id.

        Raises ServerRuns; SparkServerFailed: the port is taken, Spark ended or was too slow.
        """
        with self._prepared() as (pid_file, port):
            if self.log_file.exists():
                self.log_file.replace(self.log_file.with_suffix(".log.1"))
            running = Running(0, port, socket.gethostname(), self.idle_s)
            write_running(pid_file, running)
            if self.idle_s is not None:  # first of all: whoever starts the server may be killed while it comes up
                self._begin([sys.executable, "-m", "offsetguard_spark.server_process", str(self.folder)])
            process = self._begin(self._command(port), pid_file.fileno())
            write_running(pid_file, replace(running, process_id=process.pid))
        try:
            self._await(process, port, patience_s)
        except BaseException:
            process.kill()
            process.wait()
            raise
        return process.pid

    def run(self) -> None:
        """Become the server, for systemd and containers; does not return. Raises SparkServerFailed."""
        with self._prepared() as (pid_file, port):
            write_running(pid_file, Running(os.getpid(), port, socket.gethostname()))
            os.set_inheritable(pid_file.fileno(), True)
            command = self._command(port)
            os.execve(command[0], command, self._environment())  # noqa: S606 - no shell is wanted

    def stop(self) -> bool:
        """End it, politely first; returns False when none ran."""
        return self.files.stop()

    def query(self, *, patience_s: float = QUERY_PATIENCE_S) -> None:
        """Ask the running server for one row; raises SparkServerFailed when it gives none in time.

        By gRPC itself: PySpark's session takes seconds to import, and a health check is asked every few seconds.
        """
        import grpc  # noqa: PLC0415 - the other verbs do not need it
        from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc  # noqa: PLC0415

        # Always the same session, never released: Spark leaves a folder behind for each that ends.
        request = base_pb2.ExecutePlanRequest(session_id=str(uuid.uuid5(uuid.NAMESPACE_OID, "offsetguard query")))
        request.user_context.user_id = "health"
        request.plan.root.sql.query = "SELECT 1"
        try:
            with grpc.insecure_channel(f"localhost:{self.port}") as channel:
                spark = base_pb2_grpc.SparkConnectServiceStub(channel)  # type: ignore[no-untyped-call]
                headers = [("authorization", f"Bearer {self.token}")]
                answers = list(spark.ExecutePlan(request, timeout=patience_s, metadata=headers))
        except grpc.RpcError as error:
            raise SparkServerFailed(f"port {self.port}: no answer to a query: {error.details()}") from error
        if sum(answer.arrow_batch.row_count for answer in answers) != 1:
            raise SparkServerFailed(f"port {self.port}: a query for one row gave another number of rows")

    @contextlib.contextmanager
    def _prepared(self) -> Iterator[tuple[IO[str], int]]:
        """Yield the file with the lock that the server inherits, and the port that it can listen on."""
        with self.files.lock() as pid_file:
            port = self._free_port()
            if self.temporary_folder.exists():
                shutil.rmtree(self.temporary_folder)
            self.temporary_folder.mkdir()
            yield pid_file, port

    def _free_port(self) -> int:
        asked = [self.port] if self.port else random.sample(_FREE_PORTS, _PORTS_TRIED)
        for port in asked:
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((self.listen, port))
                except OSError as error:
                    reason = error.strerror
                else:
                    return port
        raise SparkServerFailed(f"port {asked[-1]}: {reason}; choose another with --port")

    def _command(self, port: int) -> list[str]:
        """Return spark-submit's command line; it becomes the server itself (`exec`). No secret is on it."""
        jars = list(map(str, iceberg_jars()))
        of_size = f"{_ROOMY_OPTIONS} -Xms{self.memory}" if self.idle_s is None else _FRUGAL_OPTIONS
        java_options = f'{_JVM_OPTIONS} {of_size} -Djava.io.tmpdir="{self.temporary_folder}"'
        config = {
            **({} if self.idle_s is None else _FRUGAL_CONFIG),
            **SERVER_CONFIG,
            **_DEAD_CLIENTS_CONFIG,
            "spark.connect.grpc.binding.address": self.listen,
            "spark.connect.grpc.binding.port": str(port),
            "spark.driver.extraJavaOptions": java_options,
            "spark.log.level": "WARN",
            "spark.ui.enabled": "false",
            # It remembers jobs, stages and queries even without a page to show them on: a few are enough.
            "spark.ui.retainedJobs": "20",
            "spark.ui.retainedStages": "20",
            "spark.ui.retainedTasks": "200",
            "spark.sql.ui.retainedExecutions": "5",
            "spark.connect.ui.retainedSessions": "5",
            "spark.connect.ui.retainedStatements": "5",
        }
        master = self.master or local_master()
        command = [str(spark_home() / "bin" / "spark-submit"), "--class", MAIN_CLASS, "--name", "offsetguard"]
        command += ["--master", master, "--driver-memory", self.memory, "--driver-class-path", ":".join(jars)]
        if master.startswith("local"):
            config |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
            # It sends heartbeats to itself. After a suspension of the host they would count as missed, and Spark would
            # strike itself out, fail to come back, and end itself after sixty failures, which come at once.
            config |= {"spark.storage.blockManagerHeartbeatTimeoutMs": f"{_WEEK_MS}ms"}
        else:
            command += ["--jars", ",".join(jars)]
        command += [word for name, value in config.items() for word in ("--conf", f"{name}={value}")]
        return [*command, "spark-internal"]

    def _environment(self) -> dict[str, str]:
        """Return our environment with the token, and without what would make spark-submit somebody's client."""
        ours = {
            name: value for name, value in os.environ.items() if name not in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT")
        }
        frugal = {} if self.idle_s is None else _FRUGAL_ENVIRONMENT
        return {**LOCAL_ENVIRONMENT, **frugal, **ours, "SPARK_HOME": str(spark_home()), TOKEN_VARIABLE: self.token}

    def _begin(self, command: Sequence[str], *kept_open: int) -> subprocess.Popen[bytes]:
        """Start a process of the server, which outlives ours and holds nothing of it but these files."""
        with self.log_file.open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment(),
                pass_fds=kept_open,
                # The end of the task that starts it is not meant for it, nor Ctrl-C; that of Airflow's session is.
                process_group=None if self.idle_s is None else 0,
                start_new_session=self.idle_s is None,
            )

    def _await(self, process: subprocess.Popen[bytes], port: int, patience_s: float) -> None:
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise SparkServerFailed(f"Spark ended with code {process.returncode}: {self._last_words()}")
            if Running(port=port).listens():
                return
            time.sleep(0.1)
        raise SparkServerFailed(f"Spark does not listen after {patience_s:.0f} s: {self._last_words()}")

    def _last_words(self) -> str:
        lines = self.log_file.read_text(encoding="utf-8", errors="replace").splitlines()
        return " | ".join(line.strip() for line in lines[-3:]) + f" (all of it: {self.log_file})"


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit code: 0, 1 for an error, 3 for `status` when none runs (as systemd has it)."""
    parsed = _parser().parse_args(arguments)
    workspace = Workspace.from_environment()
    server = ConnectServer(workspace.spark_server_folder, parsed.port, parsed.memory, parsed.master, parsed.listen)
    try:
        match parsed.verb:
            case "run":
                server.run()
            case "start":
                _tell_how_to_use(server, server.start())
            case "stop":
                _say("stopped" if server.stop() else "no server runs")
            case "status" if (process_id := server.process_id()) is None:
                _say(f"no server runs in {server.folder}")
                return 3
            case "status":
                _say(f"process {process_id} runs; log {server.log_file}")
            case "query":
                began = time.monotonic()
                server.query()
                _say(f"answered a query after {time.monotonic() - began:.1f} s")
    except OffsetGuardError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - a command line prints
        return 1
    return 0


def _tell_how_to_use(server: ConnectServer, process_id: int) -> None:
    _say(f"Spark Connect listens at {server.remote} (process {process_id}, log {server.log_file})")
    _say(
        "Tasks on this host use it while Airflow has no connection spark_default; those on others (docs/engines.md) by:"
    )
    _say("  airflow connections add spark_default --conn-type spark_connect --conn-host HOST \\")
    _say(f'    --conn-port {server.port} --conn-password "$(cat {server.folder / "token"})"')


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - a command line prints


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="offsetguard spark-server",
        description="Keep Spark warm on this machine, for jobs that take seconds. docs/engines.md says more.",
        epilog="Examples:\n  offsetguard spark-server start\n  offsetguard spark-server status\n"
        "  offsetguard spark-server stop",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "verb",
        choices=["run", "start", "stop", "status", "query"],
        help="run: in the foreground, for systemd and containers; query: whether it answers one",
    )
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help=f"default: {DEFAULT_PORT}")
    parser.add_argument(
        "--listen",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="of the interface (default: 127.0.0.1, this machine only)",
    )
    parser.add_argument("--memory", default="2g", help="the server's heap (default: 2g)")
    parser.add_argument("--master", default="", help="where it computes (default: the cores of this machine)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
