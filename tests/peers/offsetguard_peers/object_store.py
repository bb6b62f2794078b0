"""A real S3 server: versitygw, built once by Go and kept in the cache, with a line for each request in its log."""

from collections.abc import Mapping
from pathlib import Path
from typing import Self

import httpx

from offsetguard_peers.go_programs import built_by_go
from offsetguard_peers.processes import ChildProcess, ReservedPort
from offsetguard_peers.waiting import wait_until

_KEY, _SECRET, REGION, BUCKET = "offsetguard-key", "offsetguard-secret", "us-east-1", "offsets"


def versitygw_path() -> Path:
    """Return the server's program; FileNotFoundError says what is missing to build it."""
    return built_by_go("github.com/versity/versitygw/cmd/versitygw", "1.8.0")


class ObjectStore:
    """The server with one bucket, while the `with` block lasts; objects are plain files below `folder`."""

    def __init__(self, folder: Path) -> None:
        """Nothing runs yet."""
        self._folder = folder
        self._port = ReservedPort()
        self._process: ChildProcess | None = None

    @property
    def log(self) -> Path:
        """A line for each request."""
        return self._folder / "requests.log"

    @property
    def environment(self) -> Mapping[str, str]:
        """What tells a process where it is, and who may use it."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._port.port}",
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_REGION": REGION,
        }

    def home(self, name: str) -> str:
        """Return an OFFSETGUARD_HOME."""
        return f"s3://{BUCKET}/{name}"

    def request_count(self) -> int:
        """Return how many requests it has answered."""
        return len(self.log.read_bytes().splitlines()) if self.log.exists() else 0

    def start(self) -> None:
        """Start it and wait until it answers."""
        (self._folder / "objects" / BUCKET).mkdir(parents=True, exist_ok=True)
        command = [str(versitygw_path()), "--port", f"127.0.0.1:{self._port.port}", "--region", REGION]
        command += ["--access-log", str(self.log), "posix", str(self._folder / "objects")]
        keys = {"ROOT_ACCESS_KEY": _KEY, "ROOT_SECRET_KEY": _SECRET}
        self._process = ChildProcess("versitygw", command, self._folder / "versitygw.out", keys)
        wait_until(self._answers, timeout_s=60, what=lambda: "an answer of versitygw")

    def stop(self, *, hard: bool = False) -> None:
        """End it; the objects stay."""
        if self._process is not None:
            self._process.stop(hard=hard)
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(hard=True)
        self._port.release()

    def _answers(self) -> bool:
        try:
            return httpx.get(self.environment["AWS_ENDPOINT_URL"], timeout=2).status_code < 500
        except httpx.TransportError:
            return False
