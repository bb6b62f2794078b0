"""A real RocketMQ cluster from the published jars: name server, masters and slaves, on free ports, in one folder.

    with RocketMQCluster("4.9.7", masters=1, slaves=1) as cluster:
        client.connect(cluster.namesrv)
        cluster.broker("broker-a").kill()

Layout of the folder: `home/conf` (ROCKETMQ_HOME), `tls/`, and for each process `<name>/` with its `output.log`, its
configuration, `logs/rocketmqlogs/*.log` and, for brokers, `store/`.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from offsetguard.sources.rocketmq.refusals import BrokerSystemError
from offsetguard.sources.rocketmq.requests import GetBrokerClusterInfo
from offsetguard_peers import acl as access_control
from offsetguard_peers.admin import Admin
from offsetguard_peers.broker import Broker
from offsetguard_peers.logback import write_logback_files
from offsetguard_peers.name_server import READY_WITHIN_S, NameServer
from offsetguard_peers.processes import ChildProcess, PeerNotStarted, stop_all
from offsetguard_peers.tls import make_tls_files

VERSIONS = ("4.9.7", "5.3.3", "5.5.0")


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
        tls: bool = False,
        client_certificates: bool = False,
        advertised_host: str | None = None,
        namesrvs: int = 1,
        host: str = "127.0.0.1",
        ports: Mapping[str, int] | None = None,
        controller: bool = False,
    ) -> None:
        """Describe the cluster; entering the context starts it.

        `folder`: where all files go, kept afterwards (default: a temporary one, deleted). `broker_conf` and
        `java_properties` apply to all brokers. `acl`: access control with the accounts of `acl.py`. `tls`: name
        servers and brokers refuse plain connections (`ca_file` is whom to trust), with `client_certificates` also
        clients without a certificate of that authority. `advertised_host`: what all brokers tell the name servers, e.g.
        192.0.2.10, an address that nobody has (see Broker.advertise). `host`: the IP address of this machine where all
        of it is reached (it listens on all of them). `ports`: of `namesrv`, `broker-a-0`, `broker-a-1`, `proxy-grpc`,
        `proxy-remoting`, ..., where they shall not be any that are free. `controller` (5.x): the name server elects a
        master anew when one dies; brokers keep the names of their start, whatever role they get.
        """
        if version not in VERSIONS:
            msg = f"version {version!r}: choose one of {', '.join(VERSIONS)}"
            raise ValueError(msg)
        self.version = version
        self.name = name
        self.acl = acl
        self.controller = controller
        self.host = host
        self.ports = dict(ports or {})
        self.broker_conf = {**(access_control.broker_conf(version) if acl else {}), **(broker_conf or {})}
        self.java_properties = dict(java_properties or {})
        self._keep_folder = folder is not None
        self.folder = (folder or Path(tempfile.mkdtemp(prefix=f"rocketmq-{version}-"))).resolve()
        with_tls = tls or client_certificates
        self.tls = make_tls_files(self.folder / "tls", ask_clients=client_certificates) if with_tls else None
        self.processes: list[ChildProcess] = []
        write_logback_files(self.home / "conf")
        if acl:
            access_control.write_acl_files(self.home / "conf")
        self.namesrvs = [NameServer(self, f"namesrv-{number}" if number else "namesrv") for number in range(namesrvs)]
        names = [f"broker-{chr(ord('a') + index)}" for index in range(masters)]
        self.brokers = [Broker(self, name, broker_id) for broker_id in range(slaves + 1) for name in names]
        if advertised_host is not None:
            for broker in self.brokers:
                broker.advertise(advertised_host)

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
        """Return once all name servers that run list a broker, or, `listed=False`, none of them does."""
        deadline = time.monotonic() + READY_WITHIN_S
        for name_server in self.namesrvs:
            while name_server.is_running and (broker.listed_address in self._listed_by(name_server)) != listed:
                if time.monotonic() > deadline:
                    verb = "does not list" if listed else "still lists"
                    msg = (
                        f"name server {name_server.address} {verb} {broker.name} at {broker.listed_address} "
                        f"after {READY_WITHIN_S:.0f} s"
                    )
                    raise PeerNotStarted(msg)
                time.sleep(0.1)

    def _listed_by(self, name_server: NameServer) -> set[str]:
        for _ in range(9):
            # 4.9.7 walks a map that a broker is just being struck out of (ConcurrentModificationException): ask again
            with suppress(BrokerSystemError):
                return self._asked_who_is_listed(name_server)
        return self._asked_who_is_listed(name_server)

    def _asked_who_is_listed(self, name_server: NameServer) -> set[str]:
        brokers = Admin(self).read(name_server.address, GetBrokerClusterInfo()).brokers
        return {address for data in brokers for address in data.addresses.values()}

    def start_namesrv(self) -> None:
        """Start all name servers side by side; returns when they serve."""
        for name_server in self.namesrvs:
            name_server.start(wait=False)
        for name_server in self.namesrvs:
            name_server.wait_until_ready()

    def stop(self) -> None:
        """Kill all processes, give the ports back and delete a temporary folder. Nothing is left, on any path."""
        stop_all(self.processes, hard=True)
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
