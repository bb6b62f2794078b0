"""The parts of docker-compose.yml as a user starts them, with what a test asks and does to them."""

import json
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from offsetguard_peers.docker.engine import DockerFailed, compose, docker
from offsetguard_peers.waiting import wait_until

HEALTHY_WITHIN_S = 900.0  # 1 to 3 min on an idle machine


class Stack:
    """One project of Compose; leave it with `down`, also after a time-out: containers outlive their client."""

    def __init__(self, folder: Path, project: str, environment: Mapping[str, str], *profiles: str) -> None:
        """`folder`: where docker-compose.yml and .env are."""
        self._folder = folder
        self._project = project
        self._environment = dict(environment)
        self._profiles = [word for profile in profiles for word in ("--profile", profile)]

    def compose(self, *arguments: str, timeout_s: float = HEALTHY_WITHIN_S) -> str:
        """Run `docker compose ...`; returns what it printed. DockerFailed when it fails."""
        command = ("--project-name", self._project, *self._profiles, *arguments)
        done = compose(self._folder, *command, environment=self._environment, timeout_s=timeout_s)
        return done.stdout

    def up(self) -> float:
        """Start everything; returns the seconds until every part was healthy."""
        began = time.monotonic()
        self.compose("up", "--detach", "--no-build")
        self.wait_until_healthy()
        return time.monotonic() - began

    def down(self, *options: str) -> float:
        """Stop and remove all containers; returns the seconds. `--volumes`: with everything that was kept."""
        began = time.monotonic()
        self.compose("down", *options)
        return time.monotonic() - began

    def containers(self) -> list[dict[str, Any]]:
        """Return name, service, state, health and exit code of every container."""
        lines = self.compose("ps", "--all", "--format", "json", timeout_s=120).splitlines()
        return [json.loads(line) for line in lines]

    def running(self) -> set[str]:
        """Return the services that run."""
        return {one["Service"] for one in self.containers() if one["State"] == "running"}

    def wait_until_healthy(self) -> None:
        """Wait until every container that stays runs and is healthy; TimeoutError says which is not."""

        def not_yet() -> list[str]:
            return [
                f"{one['Service']}: {one['State']} {one['Health']}"
                for one in self.containers()
                if not (one["State"] == "exited" and one["ExitCode"] == 0)
                and not (one["State"] == "running" and one["Health"] in ("healthy", ""))
            ]

        wait_until(lambda: not not_yet(), timeout_s=HEALTHY_WITHIN_S, what=lambda: f"every part: {not_yet()}")

    def kill(self, service: str) -> None:
        """SIGKILL the first process of a service's container, as the kernel does when memory ends.

        `docker kill` would count as stopped by hand, and nothing would start it again.
        """
        container = self.compose("ps", "--quiet", service, timeout_s=120).split()[0]
        process_id = docker("inspect", "--format", "{{.State.Pid}}", container).stdout
        os.kill(int(process_id), signal.SIGKILL)

    def run(self, *arguments: str) -> tuple[int, str]:
        """Run `docker compose run --rm offsetguard ...`; returns exit code and output."""
        try:
            return 0, self.compose("run", "--rm", "--no-TTY", "offsetguard", *arguments, timeout_s=300)
        except DockerFailed as error:
            return 1, str(error)

    def python(self, program: str) -> Any:
        """Run a program of Python in a container of the command, and return the JSON that it prints last."""
        entrypoint = ("--entrypoint", "/opt/offsetguard/compose/entrypoint")
        command = ("run", "--rm", "--no-TTY", *entrypoint, "offsetguard", "python", "-c", program)
        return json.loads(self.compose(*command, timeout_s=600).splitlines()[-1])

    def sql(self, database: str, query: str) -> list[str]:
        """Return the lines that PostgreSQL answers; [] while it is not there."""
        command = ("exec", "--no-TTY", "postgres", "psql", "--username", "postgres", "--no-align", "--tuples-only")
        try:
            return self.compose(*command, "--dbname", database, "--command", query, timeout_s=120).split("\n")[:-1]
        except DockerFailed:
            return []

    def memory(self) -> dict[str, str]:
        """Return what each container takes now: `287MiB / 1.2GiB`."""
        ids = self.compose("ps", "--quiet", timeout_s=120).split()
        lines = docker("stats", "--no-stream", "--format", "{{json .}}", *ids).stdout.splitlines()
        return {one["Name"].removeprefix(f"{self._project}-"): one["MemUsage"] for one in map(json.loads, lines)}

    def may_write(self) -> dict[str, set[str]]:
        """Return of every service what its containers may write, as Docker says: volumes by name, folders in memory."""
        found: dict[str, set[str]] = {}
        for one in self.containers():
            (inspected,) = json.loads(docker("inspect", one["ID"]).stdout)
            host, mounts = inspected["HostConfig"], [mount for mount in inspected["Mounts"] if mount["RW"]]
            names = {mount.get("Name", mount["Source"]).removeprefix(f"{self._project}_") for mount in mounts}
            everything = set() if host["ReadonlyRootfs"] else {"everything"}
            found[one["Service"]] = names | set(host["Tmpfs"] or {}) | everything
        return found
