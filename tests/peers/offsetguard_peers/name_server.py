"""One name server process of a test cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetguard_peers.jvm import class_path, java_command
from offsetguard_peers.ports import ReservedPort

if TYPE_CHECKING:
    from offsetguard_peers.processes import ChildProcess
    from offsetguard_peers.rocketmq import RocketMQCluster

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


class NameServer:
    """It can be killed and started again; what it lists is then told anew by the brokers."""

    def __init__(self, cluster: RocketMQCluster, name: str) -> None:
        """Reserve a port; nothing runs yet."""
        self.name = name
        self.folder = cluster.folder / name
        self._cluster = cluster
        self._reserved = ReservedPort(cluster.ports.get(name))
        self._reserved_for_controller = ReservedPort(cluster.ports.get(f"{name}-controller"))
        self._process: ChildProcess | None = None
        self.address = f"{cluster.host}:{self._reserved.port}"
        self.controller_address = f"{cluster.host}:{self._reserved_for_controller.port}"

    @property
    def is_running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.alive

    def start(self, *, wait: bool = True) -> None:
        """Start the process; with `wait` return when it serves. PeerNotStarted with its last output otherwise."""
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
        command = java_command(
            class_path(self._cluster.version, "namesrv"),
            "org.apache.rocketmq.namesrv.NamesrvStartup",
            home=self.folder,
            memory=NAMESRV_MEMORY,
            properties=self._cluster.process_properties,
        )
        self._process = self._cluster.launch(self.name, [*command, "-c", str(conf)], self.folder)
        if wait:
            self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Return once the started process serves."""
        assert self._process is not None
        self._process.wait_for(READY_SIGN, timeout_s=READY_WITHIN_S)

    def kill(self) -> None:
        """SIGKILL and wait."""
        if self._process is not None:
            self._process.stop(hard=True)

    def release(self) -> None:
        """Give the port back."""
        self._reserved.release()
        self._reserved_for_controller.release()
