"""A running rocketmq-exporter, and what one of its warm rounds takes.

It collects in the 15th second of every minute, several tasks at once, and does so while others are measured: so it runs
alone, when they are done. Its own log says when its longest task, the offsets of all consumer groups, starts and ends;
what it asks of clients goes on for longer and is not counted in its favour or against it.
"""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.rocketmq.jvm import java

WITHIN_S = 600
_STARTED = re.compile(r"INFO consumer offset collection task starting\.+")
_FINISHED = re.compile(r"INFO consumer offset collection task finished\.+([0-9]+)")


class WarmExporter:
    """Entered, it has done its first round."""

    def __init__(self, jar: Path, cluster: RocketMQCluster, out: Path) -> None:
        self._log = out / "exporter.log"
        self._command = [
            java(),
            f"-Duser.home={out}",
            "-jar",
            str(jar),
            f"--rocketmq.config.namesrvAddr={cluster.namesrv}",
            "--server.port=0",
            "--grpc.server.port=0",
        ]

    def __enter__(self) -> WarmExporter:
        self._output = self._log.open("w")
        self._process = subprocess.Popen(self._command, stdout=self._output, stderr=subprocess.STDOUT)
        self.wait_for_start()
        self.wait_for_end()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        self._output.close()

    def wait_for_start(self) -> None:
        """Return when a further round has started."""
        self._wait_for(_STARTED, 1 + len(_STARTED.findall(self._log.read_text())))

    def wait_for_end(self) -> float:
        """Return how long the round took that was waited for, seconds, as its log says."""
        self._wait_for(_FINISHED, len(_STARTED.findall(self._log.read_text())))
        return int(_FINISHED.findall(self._log.read_text())[-1]) / 1000

    def _wait_for(self, line: re.Pattern[str], count: int) -> None:
        deadline = time.monotonic() + WITHIN_S
        while len(line.findall(self._log.read_text())) < count:
            assert self._process.poll() is None, f"the exporter ended: {self._log.read_text()[-2000:]}"
            assert time.monotonic() < deadline, f"no {line.pattern} within {WITHIN_S} s: {self._log}"
            time.sleep(0.05)
