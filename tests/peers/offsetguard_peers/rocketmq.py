"""A real RocketMQ cluster from the published jars: name server, masters and slaves, on free ports, in one folder.

    with RocketMQCluster("4.9.7", masters=1, slaves=1) as cluster:
        client.connect(cluster.namesrv)
        cluster.broker("broker-a").kill()

Layout of the folder: `home/conf` (ROCKETMQ_HOME), and for each process `<name>/` with its `output.log`, its
configuration, `logs/rocketmqlogs/*.log` and, for brokers, `store/`.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from offsetguard.errors import RocketMQError
from offsetguard.rocketmq.requests import GetBrokerClusterInfo
from offsetguard_peers.acl import write_acl_files
from offsetguard_peers.admin import Admin
from offsetguard_peers.jvm import class_path, java_command
from offsetguard_peers.logback import write_logback_files
from offsetguard_peers.ports import ReservedPort
from offsetguard_peers.processes import ChildProcess, PeerNotStarted, stop_all

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

VERSIONS = ("4.9.7", "5.3.3", "5.5.0")
READY_SIGN = "boot success"
READY_WITHIN_S = 180.0  # 2 to 8 s on an idle machine

NAMESRV_MEMORY = ("-Xms64m", "-Xmx128m", "-XX:MaxDirectMemorySize=64m")
BROKER_MEMORY = ("-Xms128m", "-Xmx256m", "-XX:MaxDirectMemorySize=256m")

# A test machine's disk may be rather full, which is no reason to refuse writes or to delete files.
BROKER_PROPERTIES = {
    "rocketmq.broker.diskSpaceWarningLevelRatio": "0.99",
    "rocketmq.broker.diskSpaceCleanForciblyRatio": "0.98",
}
BROKER_CONF = {
    "flushDiskType": "ASYNC_FLUSH",
    "brokerIP1": "127.0.0.1",
    "brokerIP2": "127.0.0.1",
    "mappedFileSizeCommitLog": "4194304",
    "mappedFileSizeConsumeQueue": "60000",
    "autoCreateTopicEnable": "true",
    "autoCreateSubscriptionGroup": "true",
    "slaveReadEnable": "true",
    "fileReservedTime": "72",
    "flushConsumerOffsetInterval": "1000",
    "registerNameServerPeriod": "10000",
    "diskMaxUsedSpaceRatio": "95",
}
# What keeps a fresh 5.x broker busy: TransactionMetricsFlushService spins for one flush interval (10 s of a whole core
# by default), and the timer wheel, which nothing here uses, writes 37 MB.
BROKER_CONF_5 = {"transactionMetricFlushInterval": "500", "timerWheelEnable": "false"}


class Broker:
    """One broker process: `broker_id` 0 is the master. It can be killed, stopped and started again."""

    def __init__(self, cluster: RocketMQCluster, name: str, broker_id: int) -> None:
        """Reserve a port and write broker.conf; nothing runs yet."""
        self.name = name
        self.broker_id = broker_id
        self.folder = cluster.folder / f"{name}-{broker_id}"
        self.java_properties = {**BROKER_PROPERTIES, **cluster.java_properties}
        self._cluster = cluster
        self._reserved = ReservedPort()
        self._process: ChildProcess | None = None
        self.address = f"127.0.0.1:{self._reserved.port}"
        self.configure(
            {
                **BROKER_CONF,
                **(BROKER_CONF_5 if cluster.version.startswith("5.") else {}),
                "brokerClusterName": cluster.name,
                "brokerName": name,
                "brokerId": str(broker_id),
                "brokerRole": "SLAVE" if broker_id else "ASYNC_MASTER",
                "listenPort": str(self._reserved.port),
                "namesrvAddr": cluster.namesrv,
                "storePathRootDir": str(self.store),
                "storePathCommitLog": str(self.store / "commitlog"),
                **cluster.broker_conf,
            }
        )

    @property
    def store(self) -> Path:
        """Commit log, consume queues and `config/*.json`."""
        return self.folder / "store"

    @property
    def log_folder(self) -> Path:
        """broker.log, lock.log (4.x) or filter.log (5.x), stats.log, store.log, ..."""
        return self.folder / "logs" / "rocketmqlogs"

    @property
    def is_running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.alive

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._process.pid if self._process is not None and self._process.alive else None

    def configure(self, conf: Mapping[str, str]) -> None:
        """Set keys of broker.conf, which a broker reads when it starts (and rewrites on request code 25)."""
        file = self.folder / "broker.conf"
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = file.read_text().splitlines() if file.exists() else []
        kept = [line for line in lines if line.partition("=")[0].strip() not in conf]
        file.write_text("\n".join([*kept, *(f"{key}={value}" for key, value in conf.items())]) + "\n")

    def start(self, *, wait: bool = True) -> None:
        """Start the process; with `wait` return when it serves. PeerNotStarted with its last output otherwise."""
        command = java_command(
            class_path(self._cluster.version, "broker"),
            "org.apache.rocketmq.broker.BrokerStartup",
            home=self.folder,
            memory=BROKER_MEMORY,
            properties=self.java_properties,
        )
        command += ["-c", str(self.folder / "broker.conf")]
        self._process = self._cluster.launch(f"{self.name}-{self.broker_id}", command, self.folder)
        if wait:
            self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Return once the started process serves and the name server lists it: a 5.x broker says ready before."""
        assert self._process is not None
        self._process.wait_for(READY_SIGN, timeout_s=READY_WITHIN_S)
        self._cluster.wait_until_listed(self)

    def stop(self) -> None:
        """SIGTERM and wait: the broker unregisters and flushes, which takes 5 to 10 s."""
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        """SIGKILL and wait, also for the name server to notice: it would strike out a successor that is faster."""
        if self._process is not None:
            self._process.stop(hard=True)
            self._cluster.wait_until_listed(self, listed=False)

    def restart(self, *, hard: bool = True) -> None:
        """Kill (or stop softly) and start again on the same port and store; returns when it serves."""
        if hard:
            self.kill()
        else:
            self.stop()
        self.start()

    def release(self) -> None:
        """Give the port back."""
        self._reserved.release()


class RocketMQCluster:
    """Name server, masters `broker-a`, `broker-b`, ... and `slaves` slaves for each of them."""

    def __init__(
        self,
        version: str = "4.9.7",
        *,
        masters: int = 1,
        slaves: int = 0,
        name: str = "DefaultCluster",
        folder: Path | None = None,
        broker_conf: Mapping[str, str] | None = None,
        java_properties: Mapping[str, str] | None = None,
        acl: bool = False,
    ) -> None:
        """Describe the cluster; entering the context starts it.

        `folder`: where all files go, kept afterwards (default: a temporary one, deleted). `broker_conf` and
        `java_properties` apply to all brokers. `acl`: 4.x access control with the accounts of `acl.py`.
        """
        if version not in VERSIONS:
            msg = f"version {version!r}: choose one of {', '.join(VERSIONS)}"
            raise ValueError(msg)
        if acl and not version.startswith("4."):
            msg = f"version {version}: access control is offered for 4.x only"
            raise ValueError(msg)
        self.version = version
        self.name = name
        self.broker_conf = {**({"aclEnable": "true"} if acl else {}), **(broker_conf or {})}
        self.java_properties = dict(java_properties or {})
        self._keep_folder = folder is not None
        self.folder = (folder or Path(tempfile.mkdtemp(prefix=f"rocketmq-{version}-"))).resolve()
        self.processes: list[ChildProcess] = []
        self._reserved = ReservedPort()
        self.namesrv = f"127.0.0.1:{self._reserved.port}"
        write_logback_files(self.home / "conf")
        if acl:
            write_acl_files(self.home / "conf")
        names = [f"broker-{chr(ord('a') + index)}" for index in range(masters)]
        self.brokers = [Broker(self, name, broker_id) for broker_id in range(slaves + 1) for name in names]

    @property
    def home(self) -> Path:
        """ROCKETMQ_HOME of all processes."""
        return self.folder / "home"

    @property
    def masters(self) -> list[Broker]:
        """Brokers with id 0."""
        return [broker for broker in self.brokers if broker.broker_id == 0]

    def broker(self, name: str = "broker-a", broker_id: int = 0) -> Broker:
        """Find one broker; KeyError when there is none."""
        for broker in self.brokers:
            if (broker.name, broker.broker_id) == (name, broker_id):
                return broker
        raise KeyError((name, broker_id))

    def __enter__(self) -> Self:
        """Start everything; on a failure stop what was started."""
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything."""
        self.stop()

    def start(self) -> None:
        """Name server, then all masters side by side, then all slaves: each finds what it registers with."""
        self.start_namesrv()
        slave_ids = {broker.broker_id for broker in self.brokers}
        for broker_id in sorted(slave_ids):
            together = [broker for broker in self.brokers if broker.broker_id == broker_id]
            for broker in together:
                broker.start(wait=False)
            for broker in together:
                broker.wait_until_ready()

    def wait_until_listed(self, broker: Broker, *, listed: bool = True) -> None:
        """Return once the name server lists a broker, or, `listed=False`, does not (or is down itself)."""
        deadline = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < deadline:
            try:
                brokers = Admin(self).read(self.namesrv, GetBrokerClusterInfo()).brokers
            except RocketMQError:
                if not listed:
                    return
                raise
            if listed == (broker.address in {address for data in brokers for address in data.addresses.values()}):
                return
            time.sleep(0.1)
        verb = "does not list" if listed else "still lists"
        msg = f"name server {self.namesrv} {verb} {broker.name} at {broker.address} after {READY_WITHIN_S:.0f} s"
        raise PeerNotStarted(msg)

    def start_namesrv(self) -> None:
        """Start the name server on its port; returns when it serves."""
        folder = self.folder / "namesrv"
        folder.mkdir(parents=True, exist_ok=True)
        conf = folder / "namesrv.conf"
        conf.write_text(f"listenPort={self._reserved.port}\nkvConfigPath={folder}/kvConfig.json\n")
        command = java_command(
            class_path(self.version, "namesrv"),
            "org.apache.rocketmq.namesrv.NamesrvStartup",
            home=folder,
            memory=NAMESRV_MEMORY,
            properties={},
        )
        self.launch("namesrv", [*command, "-c", str(conf)], folder).wait_for(READY_SIGN, timeout_s=READY_WITHIN_S)

    def stop(self) -> None:
        """Kill all processes, give the ports back and delete a temporary folder. Nothing is left, on any path."""
        stop_all(self.processes, hard=True)
        self.processes.clear()
        for broker in self.brokers:
            broker.release()
        self._reserved.release()
        if not self._keep_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def launch(self, name: str, command: list[str], folder: Path) -> ChildProcess:
        """Start a process of this cluster, to be ended with it; its output goes to `<folder>/output.log`."""
        self.processes = [process for process in self.processes if process.alive]
        environment = {"ROCKETMQ_HOME": str(self.home), "NAMESRV_ADDR": self.namesrv}
        process = ChildProcess(f"{name} ({self.version})", command, folder / "output.log", environment)
        self.processes.append(process)
        return process


def main() -> None:
    """Start a cluster from a shell and keep it until Ctrl-C: `python -m offsetguard_peers.rocketmq 5.5.0`."""
    version = sys.argv[1] if len(sys.argv) > 1 else VERSIONS[0]
    started = time.monotonic()
    with RocketMQCluster(version, slaves=1) as cluster:
        print(f"RocketMQ {version} ready after {time.monotonic() - started:.1f} s, name server {cluster.namesrv}")
        for broker in cluster.brokers:
            print(f"  {broker.name}-{broker.broker_id} {broker.address} {broker.folder}", flush=True)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            print("stopping")


if __name__ == "__main__":
    main()
