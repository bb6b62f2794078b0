"""A private PostgreSQL server: its own folder, no TCP port, gone with its context."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Self

from sqlalchemy import create_engine, text

from offsetguard_peers.processes import ChildProcess

if TYPE_CHECKING:
    from types import TracebackType

_USER = "offsetguard"
_READY = "database system is ready to accept connections"


def postgresql_binaries() -> Path | None:
    """Return the folder with initdb and postgres, or None: `apt-get install postgresql` gives them."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda file: int(file.parts[4]))
    return versions[-1].parent if versions else None


class PostgresServer:
    """One server; `new_database()` gives an empty database, as often as wanted."""

    def __init__(self) -> None:
        """Make the data folder; nothing runs yet. Raises FileNotFoundError when PostgreSQL is not installed."""
        binaries = postgresql_binaries()
        if binaries is None:
            raise FileNotFoundError("PostgreSQL is not installed: apt-get install postgresql")
        self._binaries = binaries
        # Not below pytest's folder: a socket's path may have 107 bytes, and the server's user must reach it
        self._folder = Path(tempfile.mkdtemp(prefix="og-pg-"))
        self._process: ChildProcess | None = None
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        """Start; ready when this returns."""
        data = self._folder / "data"
        if os.geteuid() == 0:
            account = pwd.getpwnam("postgres")
            os.chown(self._folder, account.pw_uid, account.pw_gid)
        initdb = [
            str(self._binaries / "initdb"),
            "-D",
            str(data),
            "-U",
            _USER,
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-sync",
        ]
        subprocess.run(self._unprivileged(initdb), check=True, capture_output=True, cwd=self._folder)
        command = [str(self._binaries / "postgres"), "-D", str(data), "-k", str(self._folder)]
        settings = ("listen_addresses=", "fsync=off", "synchronous_commit=off", "full_page_writes=off")
        command += [part for setting in settings for part in ("-c", setting)]
        self._process = ChildProcess("PostgreSQL", self._unprivileged(command), self._folder / "server.log", {})
        self._process.wait_for(_READY, timeout_s=180)
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and leave nothing behind."""
        if self._process is not None:
            self._process.stop(hard=True)  # nothing in it is worth a clean shutdown
        shutil.rmtree(self._folder, ignore_errors=True)

    def url(self, database: str) -> str:
        """Return the SQLAlchemy URL of a database."""
        return f"postgresql+psycopg://{_USER}@/{database}?host={self._folder}"

    def new_database(self, *, template: str | None = None) -> str:
        """Create a database, empty or as a copy of another one that nobody is connected to; return its name."""
        name = f"offsetguard_{next(self._numbers)}"
        engine = create_engine(self.url("postgres"), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            # names are ours, and CREATE DATABASE takes no parameters
            connection.execute(text(f'CREATE DATABASE {name} TEMPLATE "{template or "template0"}"'))
        engine.dispose()
        return name

    def _unprivileged(self, command: list[str]) -> list[str]:
        """PostgreSQL refuses to run as root."""
        if os.geteuid() != 0:
            return command
        setpriv = shutil.which("setpriv")
        assert setpriv, "running as root needs setpriv (util-linux)"
        return [setpriv, "--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig=KILL", *command]
