"""A warm Spark Connect server on this machine: `offsetguard spark-server run|start|stop|status|query`.

Jobs that find Spark running need seconds less than those that start it. The server listens on 127.0.0.1 only (Spark's
own default is every interface), unless it is told another address, as in a container, and only for those who know its
token. In its folder, which only its owner may read:

token       made once and kept, so that the Airflow connection outlives restarts
pid         the server's process; it holds a lock on this file for as long as it lives, whatever becomes of the number
server.log  what Spark said since the last start; the one before is `server.log.1`
tmp         Spark's temporary files; those of a server that was killed go when the next one starts
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from offsetguard.config.workspace import SPARK_TEMPORARY, Workspace
from offsetguard.model.errors import OffsetGuardError
from offsetguard_spark.class_archive import class_archive_options, spark_home
from offsetguard_spark.connect import DEFAULT_PORT, TOKEN_VARIABLE
from offsetguard_spark.jars import jar_paths
from offsetguard_spark.session import LOCAL_ENVIRONMENT, SERVER_CONFIG, local_master

MAIN_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
START_PATIENCE_S = 300.0
STOP_PATIENCE_S = 30.0
QUERY_PATIENCE_S = 20.0
_OURS_ALONE = 0o600
_WEEK_MS = 7 * 24 * 3_600_000

# The whole heap at once, room for the 33,000 classes of a warm server and for their compiled code (75 MB after an hour;
# what does not fit is thrown away, warm or not), and a collector that pauses: else garbage is collected four times a
# second, with marking in the background, on the cores that the work needs. Iceberg plans a small table's scan quicker
# than it hands it to other threads.
_JVM_OPTIONS = (
    "-Djava.net.preferIPv4Stack=true -XX:+UseParallelGC -XX:MetaspaceSize=384m -XX:ReservedCodeCacheSize=512m "
    "-Diceberg.scan.plan-in-worker-pool=false"
)

# What a killed client has begun is ended: the server learns that nobody listens when it has closed an answer's stream,
# which living clients open again at once, and then waits for them for a while. By default that takes seven minutes (a
# stream of two, five of waiting), in which nobody else gets the cores. With these it is never more than 16 s.
_DEAD_CLIENTS_CONFIG = {
    "spark.connect.execute.reattachable.senderMaxStreamDuration": "5s",
    "spark.connect.execute.manager.detachedTimeout": "10s",
    "spark.connect.execute.manager.maintenanceInterval": "1s",
}


class SparkServerFailed(OffsetGuardError):
    """The server could not be started or stopped; the text says why and where its log is."""


@dataclass(frozen=True, slots=True)
class ConnectServer:
    """A server by its folder; two servers on one machine have two folders and two ports."""

    folder: Path
    port: int = DEFAULT_PORT
    memory: str = "2g"
    master: str = ""  # empty: the cores of this machine; otherwise what spark-submit takes, e.g. spark://host:7077
    listen: str = "127.0.0.1"  # the address of an interface; Spark's own default is every one

    @property
    def remote(self) -> str:
        """The address, without the token: SPARK_REMOTE; the token goes into SPARK_CONNECT_AUTHENTICATE_TOKEN."""
        return f"sc://localhost:{self.port}"

    @property
    def token(self) -> str:
        """The token; made when there is none yet."""
        file = self.folder / "token"
        self._make_folder()
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OURS_ALONE)
            with os.fdopen(descriptor, "w") as new:
                new.write(secrets.token_hex(32) + "\n")
        return file.read_text(encoding="utf-8").strip()

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
        try:
            with (self.folder / "pid").open() as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return int(file.read() or 0)
        except FileNotFoundError:
            pass
        return None

    def start(self, *, patience_s: float = START_PATIENCE_S) -> int:
        """Start it in the background and wait until it listens; returns the process id.

        Raises SparkServerFailed: one runs already, the port is taken, Spark ended or was too slow.
        """
        with self._lock() as pid_file:
            if self.log_file.exists():
                self.log_file.replace(self.log_file.with_suffix(".log.1"))
            with self.log_file.open("ab") as log:
                process = subprocess.Popen(
                    self._command(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=self._environment(),
                    pass_fds=[pid_file.fileno()],
                    start_new_session=True,
                )
            _write_pid(pid_file, process.pid)
        try:
            self._await(process, patience_s)
        except BaseException:
            process.kill()
            process.wait()
            raise
        return process.pid

    def run(self) -> None:
        """Become the server, for systemd and containers; does not return. Raises SparkServerFailed."""
        pid_file = self._lock()
        _write_pid(pid_file, os.getpid())
        os.set_inheritable(pid_file.fileno(), True)
        command = self._command()
        os.execve(command[0], command, self._environment())  # noqa: S606 - no shell is wanted

    def stop(self, *, patience_s: float = STOP_PATIENCE_S) -> bool:
        """End it, politely first; returns False when none ran."""
        process_id = self.process_id()
        if not process_id:
            return False
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process_id, signal_number)
            deadline = time.monotonic() + patience_s
            while time.monotonic() < deadline:
                if self.process_id() is None:
                    return True
                time.sleep(0.1)
        raise SparkServerFailed(f"process {process_id} does not end; its log is {self.log_file}")

    def query(self) -> None:
        """Ask the running server for one row; raises SparkServerFailed when it gives none within 20 s.

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
                answers = list(spark.ExecutePlan(request, timeout=QUERY_PATIENCE_S, metadata=headers))
        except grpc.RpcError as error:
            raise SparkServerFailed(f"port {self.port}: no answer to a query: {error.details()}") from error
        if sum(answer.arrow_batch.row_count for answer in answers) != 1:
            raise SparkServerFailed(f"port {self.port}: a query for one row gave another number of rows")

    def _make_folder(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)

    def _lock(self) -> IO[str]:
        """Take the lock that the server will inherit, once it is clear that it can listen."""
        self._make_folder()
        file = (self.folder / "pid").open("a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise SparkServerFailed(f"a server runs already (process {self.process_id()}); stop it first") from None
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((self.listen, self.port))
            except OSError as error:
                file.close()
                raise SparkServerFailed(f"port {self.port}: {error.strerror}; choose another with --port") from error
        if self.temporary_folder.exists():
            shutil.rmtree(self.temporary_folder)
        self.temporary_folder.mkdir()
        return file

    def _command(self) -> list[str]:
        """Return spark-submit's command line; it becomes the server itself (`exec`). No secret is on it."""
        jar_files = jar_paths("iceberg")
        jars = [str(path) for path in jar_files]
        own = f'-Xms{self.memory} -Djava.io.tmpdir="{self.temporary_folder}"'
        java_options = f"{_JVM_OPTIONS} {own}{class_archive_options(jar_files)}"
        config = {
            **SERVER_CONFIG,
            **_DEAD_CLIENTS_CONFIG,
            "spark.connect.grpc.binding.address": self.listen,
            "spark.connect.grpc.binding.port": str(self.port),
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
        return {**LOCAL_ENVIRONMENT, **ours, "SPARK_HOME": str(spark_home()), TOKEN_VARIABLE: self.token}

    def _await(self, process: subprocess.Popen[bytes], patience_s: float) -> None:
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise SparkServerFailed(f"Spark ended with code {process.returncode}: {self._last_words()}")
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)
        raise SparkServerFailed(f"Spark does not listen after {patience_s:.0f} s: {self._last_words()}")

    def _last_words(self) -> str:
        lines = self.log_file.read_text(encoding="utf-8", errors="replace").splitlines()
        return " | ".join(line.strip() for line in lines[-3:]) + f" (all of it: {self.log_file})"


def _write_pid(file: IO[str], process_id: int) -> None:
    file.truncate(0)
    file.write(str(process_id))
    file.flush()


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
    _say("Airflow uses it as soon as its connection says so (replace an older one: `airflow connections delete ...`):")
    _say("  airflow connections add spark_default --conn-type spark_connect --conn-host localhost \\")
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
