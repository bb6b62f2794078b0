"""One broker process of a test cluster, from the published jars, with a port and a folder of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetguard_peers import acl
from offsetguard_peers.admin import Admin
from offsetguard_peers.jvm import class_path, java_command
from offsetguard_peers.name_server import READY_SIGN, READY_WITHIN_S
from offsetguard_peers.ports import ReservedPort

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from offsetguard_peers.processes import ChildProcess
    from offsetguard_peers.rocketmq import RocketMQCluster

BROKER_MEMORY = ("-Xms128m", "-Xmx256m", "-XX:MaxDirectMemorySize=256m")

# A test machine's disk may be rather full, which is no reason to refuse writes or to delete files.
BROKER_PROPERTIES = {
    "rocketmq.broker.diskSpaceWarningLevelRatio": "0.99",
    "rocketmq.broker.diskSpaceCleanForciblyRatio": "0.98",
}
BROKER_CONF = {
    "flushDiskType": "ASYNC_FLUSH",
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
        """Reserve a port and write broker.conf; nothing runs yet.

        It listens at `address`; the name server lists it under `listed_address`.
        """
        self.name = name
        self.broker_id = broker_id
        self.folder = cluster.folder / f"{name}-{broker_id}"
        self.java_properties = {**BROKER_PROPERTIES, **cluster.process_properties, **cluster.java_properties}
        self._cluster = cluster
        self._reserved = ReservedPort(cluster.ports.get(f"{name}-{broker_id}"))
        self._process: ChildProcess | None = None
        self._knows_reader = False
        self.address = f"{cluster.host}:{self._reserved.port}"
        self.listed_address = self.address
        self.configure(
            {
                **BROKER_CONF,
                **(BROKER_CONF_5 if cluster.version.startswith("5.") else {}),
                "brokerIP1": cluster.host,
                "brokerIP2": cluster.host,
                "brokerClusterName": cluster.name,
                "brokerName": name,
                "brokerId": str(broker_id),
                "brokerRole": "SLAVE" if broker_id else "ASYNC_MASTER",
                "listenPort": str(self._reserved.port),
                "namesrvAddr": cluster.namesrv_list,
                "storePathRootDir": str(self.store),
                "storePathCommitLog": str(self.store / "commitlog"),
                **(self._controlled(cluster) if cluster.controller else {}),
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

    def _controlled(self, cluster: RocketMQCluster) -> dict[str, str]:
        """Return what lets the controller give the broker its id and its role: the first to come is the master."""
        return {
            "enableControllerMode": "true",
            "controllerAddr": cluster.namesrvs[0].controller_address,
            "brokerId": "-1",
            "brokerRole": "SLAVE",
            "storePathEpochFile": str(self.store / "epochFileCheckpoint"),
        }

    def advertise(self, host: str) -> None:
        """Register with the name servers under another host than the one where it listens, from the next start on.

        Others can then use the broker through an address map only; slaves of it copy messages, but no topics, groups
        and offsets.
        """
        self.configure({"brokerIP1": host})
        self.listed_address = f"{host}:{self._reserved.port}"

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
        if self._cluster.acl and self._cluster.version.startswith("5.") and not self._knows_reader:
            admin = Admin(self._cluster, signed=True)
            admin.create_account(self, acl.READER_ACCESS_KEY, acl.READER_SECRET_KEY, acl.READER_GRANTS)
            self._knows_reader = True

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
