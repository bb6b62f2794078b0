"""A standalone Spark cluster on 127.0.0.1 from the installed PySpark: one master and some small workers."""

from pathlib import Path
from typing import Self

from offsetguard_peers.processes import ChildProcess, ReservedPort
from offsetguard_spark.engines import spark_home

PATIENCE_S = 300.0
_DAEMON = {
    "SPARK_DAEMON_MEMORY": "128m",
    "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.net.preferIPv4Stack=true",
    "SPARK_LOCAL_IP": "127.0.0.1",
}


class StandaloneSpark:
    """Master and workers while the `with` block lasts; each worker has one core and room for one executor."""

    def __init__(self, folder: Path, *, workers: int = 2, worker_memory: str = "600m") -> None:
        """`folder`: logs, and what the workers keep of each application (`worker-<n>/app-*`)."""
        self._folder = folder
        self._worker_count = workers
        self._worker_memory = worker_memory
        self._port = ReservedPort()
        self._processes: list[ChildProcess] = []

    @property
    def master(self) -> str:
        """The address of the master: spark://127.0.0.1:port."""
        return f"spark://127.0.0.1:{self._port.port}"

    @property
    def worker_folders(self) -> list[Path]:
        """What each worker keeps of the applications that it worked for."""
        return [self._folder / f"worker-{number}" for number in range(self._worker_count)]

    def __enter__(self) -> Self:
        """Start all of them at once, and wait until every worker is registered; PeerNotStarted otherwise."""
        here = ["--host", "127.0.0.1", "--webui-port", "0"]
        port = ["--port", str(self._port.port)]
        self._start("master", ["org.apache.spark.deploy.master.Master", *here, *port])
        for folder in self.worker_folders:
            options = [*here, "--cores", "1", "--memory", self._worker_memory, "--work-dir", str(folder)]
            self._start(folder.name, ["org.apache.spark.deploy.worker.Worker", *options, self.master])
        for worker in self._processes[1:]:
            worker.wait_for("Successfully registered with master", timeout_s=PATIENCE_S)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.stop(hard=True)
        self._port.release()

    def _start(self, name: str, arguments: list[str]) -> None:
        home = spark_home()
        command = [str(home / "bin" / "spark-class"), *arguments]
        log = self._folder / f"{name}.log"
        self._processes.append(ChildProcess(name, command, log, _DAEMON | {"SPARK_HOME": str(home)}))
