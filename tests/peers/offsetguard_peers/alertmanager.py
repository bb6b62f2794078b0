"""A real Alertmanager on a free port, with a receiver that keeps what it is notified of.

with Alertmanager(folder) as alertmanager:
    ...
    assert alertmanager.notified[-1]["status"] == "resolved"
"""

import json
import urllib.request
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Self

from offsetguard_peers.go_programs import built_by_go
from offsetguard_peers.http_server import HttpPeer, Quiet
from offsetguard_peers.processes import ChildProcess, ReservedPort
from offsetguard_peers.waiting import wait_until

VERSION = "0.28.1"
LOGIN, PASSWORD = "offsetguard", "pass:word"
_HASH = "$2b$04$HGaMwg8Ep/0FJV0F1FLD5u7dg9xSU3myVD3pzfvKNZBp/91KwpL2K"  # bcrypt of PASSWORD
_ROUTES = """
route: {{receiver: keeper, group_by: [alertname, cluster], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}}
receivers: [{{name: keeper, webhook_configs: [{{url: "{url}", send_resolved: true}}]}}]
"""


def alertmanager_path() -> Path:
    """Return the program, built by Go and kept in the cache beside the jars; minutes at the first time.

    FileNotFoundError where it has to be built and there is no Go. (Debian's package would start a service.)
    """
    return built_by_go("github.com/prometheus/alertmanager/cmd/alertmanager", VERSION)


class Alertmanager:
    """It groups by rule and cluster and waits for nothing; `login`: it wants LOGIN and PASSWORD."""

    def __init__(self, folder: Path, *, login: bool = False) -> None:
        """Reserve a port; it serves within its context. Raises what `alertmanager_path` raises."""
        program = str(alertmanager_path())
        self.notified: list[dict[str, Any]] = []
        self._keeper = HttpPeer(_handler(self.notified))
        self._port = ReservedPort()
        self._folder = folder
        folder.mkdir(parents=True)
        (folder / "alertmanager.yml").write_text(_ROUTES.format(url=self._keeper.url), "utf-8")
        (folder / "web.yml").write_text(f"basic_auth_users: {{{LOGIN}: {_HASH}}}\n" if login else "{}\n", "utf-8")
        options = {
            "config.file": folder / "alertmanager.yml",
            "web.config.file": folder / "web.yml",
            "storage.path": folder / "data",
            "web.listen-address": f"127.0.0.1:{self._port.port}",
            "cluster.listen-address": "",
        }
        self._command = [program, *(f"--{name}={value}" for name, value in options.items())]
        self._process: ChildProcess | None = None

    def __enter__(self) -> Self:
        self._keeper.__enter__()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._keeper.__exit__()
        self._port.release()

    @property
    def url(self) -> str:
        """The address up to `/api/v2`."""
        return f"http://127.0.0.1:{self._port.port}"

    def start(self) -> None:
        """Start; it keeps silences, and whom it notified, and no alert."""
        self._process = ChildProcess("Alertmanager", self._command, self._folder / "log", {})
        wait_until(self._listens, "Alertmanager to listen")

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def alerts(self) -> list[dict[str, Any]]:
        """Return what it holds for firing, silenced or not."""
        found: list[dict[str, Any]] = self.ask("alerts")
        return found

    def ask(self, path: str, document: object = None) -> Any:
        """Return what its API answers, to a document where one is posted."""
        body = None if document is None else json.dumps(document).encode()
        request = urllib.request.Request(f"{self.url}/api/v2/{path}", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return json.loads(answer.read() or b"null")

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.alive, self._process.printed()
        return "Listening on" in self._process.printed()


def _handler(notified: list[dict[str, Any]]) -> type[BaseHTTPRequestHandler]:
    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            notified.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

    return Handler
