"""A real RocketMQ cluster from the published jars: name server, masters and slaves, on free ports, in one folder.

    with RocketMQCluster("4.9.7", masters=1, slaves=1) as cluster:
        client.connect(cluster.namesrv)
        cluster.broker("broker-a").kill()

Layout of the folder: `home/conf` (ROCKETMQ_HOME), `tls/`, and for each process `<name>/` with its `output.log`, its
configuration, `logs/rocketmqlogs/*.log` and, for brokers, `store/`.
"""

from __future__ import annotations

import shutil
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Self

from offsetguard.sources.rocketmq.codes import BrokerSystemError
from offsetguard.sources.rocketmq.requests import GetBrokerClusterInfo
from offsetguard_peers.processes import ChildProcess, ReservedPort
from offsetguard_peers.rocketmq import security
from offsetguard_peers.rocketmq.jvm import class_path, java_command, write_logback_files
from offsetguard_peers.rocketmq.requests import ask, create_account
from offsetguard_peers.rocketmq.security import make_tls_files
from offsetguard_peers.waiting import wait_until

# It takes 10 s (by default) to believe that a broker is dead, and looks every 5 s: here a fifth of that.
CONTROLLER_CONF = {
    "enableControllerInNamesrv": "true",
    "controllerDLegerGroup": "controllers",
    "controllerDLegerSelfId": "n0",
    "scanNotActiveBrokerInterval": "1000",
}
READY_SIGN = "boot success"
READY_WITHIN_S = 180.0  # 2 to 8 s on an idle machine
NAMESRV_MEMORY = ("-Xms64m", "-Xmx128m", "-XX:MaxDirectMemorySize=64m")


class _Server:
    """A Java process of a cluster with a folder and a port of its own; it can be killed and started again."""

    def __init__(self, cluster: RocketMQCluster, name: str) -> None:
        """Reserve a port; nothing runs yet."""
        self.folder = cluster.folder / name
        self._cluster = cluster
        self._reserved = ReservedPort(cluster.ports.get(name))
        self._process: ChildProcess | None = None
        self.address = f"{cluster.host}:{self._reserved.port}"

    @property
    def is_running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.alive

    def _start(
        self, role: str, main_class: str, conf: Path, *, memory: Sequence[str], properties: Mapping[str, str]
    ) -> None:
        """Start the process; it serves once `wait_until_ready` returns."""
        jars = class_path(self._cluster.version, role)
        command = java_command(jars, main_class, home=self.folder, memory=memory, properties=properties)
        self._process = self._cluster.launch(self.folder.name, [*command, "-c", str(conf)], self.folder)

    def wait_until_ready(self) -> None:
        """Return once the started process serves; PeerNotStarted with its last output otherwise."""
        assert self._process is not None
        self._process.wait_for(READY_SIGN, timeout_s=READY_WITHIN_S)

    def kill(self) -> None:
        """SIGKILL and wait."""
        if self._process is not None:
            self._process.stop(hard=True)

    def release(self) -> None:
        """Give the port back."""
        self._reserved.release()


class NameServer(_Server):
    """What it lists is told anew by the brokers after a start."""

    def __init__(self, cluster: RocketMQCluster, name: str) -> None:
        """Reserve ports of it and of a controller in it; nothing runs yet."""
        super().__init__(cluster, name)
        self._reserved_for_controller = ReservedPort(cluster.ports.get(f"{name}-controller"))
        self.controller_address = f"{cluster.host}:{self._reserved_for_controller.port}"

    def start(self) -> None:
        """Start the process; it serves once `wait_until_ready` returns."""
        self.folder.mkdir(parents=True, exist_ok=True)
        conf = self.folder / "namesrv.conf"
        settings = {"listenPort": str(self._reserved.port), "kvConfigPath": f"{self.folder}/kvConfig.json"}
        if self._cluster.controller:
            settings |= {
                **CONTROLLER_CONF,
                "controllerDLegerPeers": f"n0-{self.controller_address}",
                "controllerStorePath": f"{self.folder}/controller",
            }
        conf.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        main_class, properties = "org.apache.rocketmq.namesrv.NamesrvStartup", self._cluster.process_properties
        self._start("namesrv", main_class, conf, memory=NAMESRV_MEMORY, properties=properties)

    def release(self) -> None:
        """Give the ports back."""
        super().release()
        self._reserved_for_controller.release()


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


class Broker(_Server):
    """One broker process: `broker_id` 0 is the master. It can be killed, stopped and started again."""

    def __init__(self, cluster: RocketMQCluster, name: str, broker_id: int) -> None:
        """Reserve a port and write broker.conf; nothing runs yet.

        It listens at `address`; the name server lists it under `listed_address`.
        """
        super().__init__(cluster, f"{name}-{broker_id}")
        self.name = name
        self.broker_id = broker_id
        self.java_properties = {**BROKER_PROPERTIES, **cluster.process_properties, **cluster.java_properties}
        self._knows_reader = False
        host = cluster.advertised_host or cluster.host
        self.listed_address = f"{host}:{self._reserved.port}"
        self.configure(
            {
                **BROKER_CONF,
                **(BROKER_CONF_5 if cluster.version.startswith("5.") else {}),
                "brokerIP1": host,
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

    def start(self, *, wait: bool = True) -> None:
        """Start the process; with `wait` return when it serves. PeerNotStarted with its last output otherwise."""
        main_class, conf = "org.apache.rocketmq.broker.BrokerStartup", self.folder / "broker.conf"
        self._start("broker", main_class, conf, memory=BROKER_MEMORY, properties=self.java_properties)
        if wait:
            self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Return once the started process serves and the name server lists it: a 5.x broker says ready before."""
        super().wait_until_ready()
        self._cluster.wait_until_listed(self)
        if self._cluster.acl and self._cluster.version.startswith("5.") and not self._knows_reader:
            create_account(self.address, security.READER, security.READER_GRANTS, tls=self._cluster.tls_context)
            self._knows_reader = True

    def stop(self) -> None:
        """SIGTERM and wait: the broker unregisters and flushes, which takes 5 to 10 s."""
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        """SIGKILL and wait, also for the name server to notice: it would strike out a successor that is faster."""
        if self._process is not None:
            super().kill()
            self._cluster.wait_until_listed(self, listed=False)

    def restart(self) -> None:
        """Stop and start again on the same port and store; returns when it serves."""
        self.stop()
        self.start()


VERSIONS = ("4.9.7", "5.3.3", "5.5.0")


class RocketMQCluster:
    """Name server, masters `broker-a`, `broker-b`, ... and `slaves` slaves for each of them."""

    name = "DefaultCluster"

    def __init__(
        self,
        version: str = "4.9.7",
        *,
        masters: int = 1,
        slaves: int = 0,
        folder: Path | None = None,
        broker_conf: Mapping[str, str] | None = None,
        java_properties: Mapping[str, str] | None = None,
        acl: bool = False,
        tls: bool = False,
        advertised_host: str | None = None,
        namesrvs: int = 1,
        host: str = "127.0.0.1",
        ports: Mapping[str, int] | None = None,
        controller: bool = False,
    ) -> None:
        """Describe the cluster; entering the context starts it.

        `folder`: where all files go, kept afterwards (default: a temporary one, deleted). `broker_conf` and
        `java_properties` apply to all brokers. `acl`: access control with the accounts of `security.py`. `tls`: name
        servers and brokers refuse plain connections (`ca_file` is whom to trust). `advertised_host`: what all brokers
        tell the name servers instead of `host`: others can use them through an address map only, and slaves copy
        messages, but no topics, groups and offsets. `host`: the IP
        address of this machine where all of it is reached (it listens on all of them). `ports`: of `namesrv`,
        `broker-a-0`, `broker-a-1`, `proxy-grpc`, `proxy-remoting`, ..., where they shall not be any that are free.
        `controller` (5.x): the name server elects a master anew when one dies; brokers keep the names of their start,
        whatever role they get.
        """
        if version not in VERSIONS:
            msg = f"version {version!r}: choose one of {', '.join(VERSIONS)}"
            raise ValueError(msg)
        self.version = version
        self.acl = acl
        self.controller = controller
        self.advertised_host = advertised_host
        self.host = host
        self.ports = dict(ports or {})
        self.broker_conf = {**(security.broker_conf(version) if acl else {}), **(broker_conf or {})}
        self.java_properties = dict(java_properties or {})
        self._keep_folder = folder is not None
        self.folder = (folder or Path(tempfile.mkdtemp(prefix=f"rocketmq-{version}-"))).resolve()
        self.tls = make_tls_files(self.folder / "tls") if tls else None
        self.processes: list[ChildProcess] = []
        write_logback_files(self.home / "conf")
        if acl:
            security.write_acl_files(self.home / "conf")
        self.namesrvs = [NameServer(self, f"namesrv-{number}" if number else "namesrv") for number in range(namesrvs)]
        names = [f"broker-{chr(ord('a') + index)}" for index in range(masters)]
        self.brokers = [Broker(self, name, broker_id) for broker_id in range(slaves + 1) for name in names]

    @property
    def home(self) -> Path:
        """ROCKETMQ_HOME of all processes."""
        return self.folder / "home"

    @property
    def namesrv(self) -> str:
        """Address of the first name server that runs (of the first one while none does)."""
        return next((each for each in self.namesrvs if each.is_running), self.namesrvs[0]).address

    @property
    def namesrv_list(self) -> str:
        """Addresses of all name servers as RocketMQ writes them: `host:port;host:port`."""
        return ";".join(each.address for each in self.namesrvs)

    @property
    def ca_file(self) -> Path:
        """PEM file of the authority that a cluster with TLS trusts; ValueError without TLS."""
        if self.tls is None:
            msg = "the cluster was started without tls=True"
            raise ValueError(msg)
        return self.tls.ca_file

    @property
    def tls_context(self) -> ssl.SSLContext | None:
        """What our own connections to the cluster use; None without TLS."""
        return self.tls.context() if self.tls else None

    @property
    def process_properties(self) -> dict[str, str]:
        """Java properties of every process: those of TLS."""
        return self.tls.java_properties if self.tls else {}

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

    def __exit__(self, *_: object) -> None:
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
        """Return once all name servers that run list a broker, or, `listed=False`, none of them does."""
        for name_server in self.namesrvs:
            what = f"name server {name_server.address} {'' if listed else 'not '}to list {broker.listed_address}"
            is_so = partial(self._is_so, name_server, broker, listed=listed)
            wait_until(is_so, what, timeout_s=READY_WITHIN_S)

    def _is_so(self, name_server: NameServer, broker: Broker, *, listed: bool) -> bool:
        return not name_server.is_running or (broker.listed_address in self._listed_by(name_server)) == listed

    def _listed_by(self, name_server: NameServer) -> set[str]:
        for _ in range(9):
            # 4.9.7 walks a map that a broker is just being struck out of (ConcurrentModificationException): ask again
            with suppress(BrokerSystemError):
                return self._asked_who_is_listed(name_server)
        return self._asked_who_is_listed(name_server)

    def _asked_who_is_listed(self, name_server: NameServer) -> set[str]:
        brokers = ask(name_server.address, GetBrokerClusterInfo(), tls=self.tls_context).brokers
        return {address for data in brokers for address in data.addresses.values()}

    def start_namesrv(self) -> None:
        """Start all name servers side by side; returns when they serve."""
        for name_server in self.namesrvs:
            name_server.start()
        for name_server in self.namesrvs:
            name_server.wait_until_ready()

    def stop(self) -> None:
        """Kill all processes, give the ports back and delete a temporary folder. Nothing is left, on any path."""
        for process in self.processes:
            process.stop(hard=True)
        self.processes.clear()
        for broker in self.brokers:
            broker.release()
        for name_server in self.namesrvs:
            name_server.release()
        if not self._keep_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def launch(self, name: str, command: list[str], folder: Path) -> ChildProcess:
        """Start a process of this cluster, to be ended with it; its output goes to `<folder>/output.log`."""
        self.processes = [process for process in self.processes if process.alive]
        environment = {"ROCKETMQ_HOME": str(self.home), "NAMESRV_ADDR": self.namesrv_list}
        process = ChildProcess(f"{name} ({self.version})", command, folder / "output.log", environment)
        self.processes.append(process)
        return process
