"""A private PostgreSQL server, and fresh SQLite databases.

The server has its own folder, no TCP port unless asked for, and is gone with its context. An SQLite database is
migrated once in a process, and copied from then on, which costs a twentieth.
"""

import itertools
import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Self

from sqlalchemy import URL, Engine, create_engine, select, text

from offsetguard.model.incident import Incident
from offsetguard.store import incidents
from offsetguard.store.database import open_database, reading
from offsetguard.store.models import IncidentRow, JudgedIntervalRow, NotificationLogRow
from offsetguard_peers.processes import ChildProcess, ReservedPort

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

    def __init__(self, *, tcp: bool = False, environment: Mapping[str, str] | None = None) -> None:
        """Make the data folder; nothing runs yet. Raises FileNotFoundError when PostgreSQL is not installed.

        `tcp`: listen on 127.0.0.1 as well, where the password is asked for (`tcp_url`).
        `environment` is added to our own.
        """
        binaries = postgresql_binaries()
        if binaries is None:
            raise FileNotFoundError("PostgreSQL is not installed: apt-get install postgresql")
        self._binaries = binaries
        # Not below pytest's folder: a socket's path may have 107 bytes, and the server's user must reach it
        self._folder = Path(tempfile.mkdtemp(prefix="og-pg-"))
        self._environment = environment or {}
        self._process: ChildProcess | None = None
        self._numbers = itertools.count(1)
        self._port = ReservedPort() if tcp else None
        self.password = f"{secrets.token_hex(8)}:@/%"  # with all that URLs and password files must quote

    def __enter__(self) -> Self:
        """Start; ready when this returns."""
        data, password_file = self._folder / "data", self._folder / "password"
        password_file.write_text(self.password, encoding="ascii")
        if os.geteuid() == 0:
            account = pwd.getpwnam("postgres")
            for path in (self._folder, password_file):
                os.chown(path, account.pw_uid, account.pw_gid)
        initdb = [
            str(self._binaries / "initdb"),
            "-D",
            str(data),
            "-U",
            _USER,
            "--auth-local=trust",
            "--auth-host=scram-sha-256",
            f"--pwfile={password_file}",
            "-E",
            "UTF8",
            "--no-sync",
        ]
        subprocess.run(self._unprivileged(initdb), check=True, capture_output=True, cwd=self._folder)
        command = [str(self._binaries / "postgres"), "-D", str(data), "-k", str(self._folder)]
        settings = ["fsync=off", "synchronous_commit=off", "full_page_writes=off"]
        settings += ["listen_addresses="] if self._port is None else ["listen_addresses=127.0.0.1", f"port={self.port}"]
        command += [part for setting in settings for part in ("-c", setting)]
        self._process = ChildProcess(
            "PostgreSQL", self._unprivileged(command), self._folder / "server.log", self._environment
        )
        self._process.wait_for(_READY, timeout_s=180)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.stop(hard=True)  # nothing in it is worth a clean shutdown
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._port is not None:
            self._port.release()

    @property
    def port(self) -> int:
        """The TCP port, and the number in the socket's name."""
        return 5432 if self._port is None else self._port.port

    def url(self, database: str) -> str:
        """Return the SQLAlchemy URL of a database, through the socket."""
        return f"postgresql+psycopg://{_USER}@/{database}?host={self._folder}&port={self.port}"

    def tcp_url(self, database: str, *, password: str | None = None) -> str:
        """Return the SQLAlchemy URL of a database on 127.0.0.1; without a password unless one is given."""
        url = URL.create("postgresql+psycopg", _USER, password, "127.0.0.1", self.port, database)
        return url.render_as_string(hide_password=False)

    def write_password_file(self, file: Path) -> None:
        """Write what libpq's PGPASSFILE names: the user's password for every database."""
        password = self.password.replace("\\", "\\\\").replace(":", "\\:")
        file.write_text(f"127.0.0.1:{self.port}:*:{_USER}:{password}\n", encoding="ascii")
        file.chmod(0o600)  # libpq takes no other

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


def fresh_database(url: str) -> Engine:
    """Open a database that has all tables and no row; `url`: an SQLite file that is not there yet."""
    file = Path(url.removeprefix("sqlite:///"))
    assert not file.exists(), f"{file} is there already"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(_migrated())
    return open_database(url)


class FreshFile:
    """One SQLite file that is made fresh again for each test, with one engine."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.engine = fresh_database(f"sqlite:///{file}")

    def renewed(self) -> Engine:
        """Close all connections, forget all rows."""
        self.engine.dispose()
        for rest in self.file.parent.glob(f"{self.file.name}*"):
            rest.unlink()
        self.file.write_bytes(_migrated())
        return self.engine


@cache
def _migrated() -> bytes:
    with tempfile.TemporaryDirectory(prefix="offsetguard-database-") as folder:
        file = Path(folder) / "offsetguard.db"
        engine = open_database(f"sqlite:///{file}")
        with engine.connect() as connection:  # what the log of writes holds goes into the file
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        engine.dispose()
        return file.read_bytes()


def newest_incidents(engine: Engine) -> list[Incident]:
    """Return all incidents but pending ones, newest first."""
    row = IncidentRow
    query = select(row.incident_id).where(row.is_pending.is_(False)).order_by(row.opened_at.desc(), row.incident_id)
    with reading(engine) as session:
        ids = session.scalars(query).all()
        found = incidents.by_id(session, ids)
    return [found[one] for one in ids]


def newest_judged(engine: Engine) -> list[JudgedIntervalRow]:
    """Return all judged intervals, newest first."""
    query = select(JudgedIntervalRow).order_by(JudgedIntervalRow.interval_start.desc())
    with reading(engine) as session:
        return list(session.scalars(query))


def newest_accepted(engine: Engine) -> list[NotificationLogRow]:
    """Return the notification log, newest first."""
    with reading(engine) as session:
        return list(session.scalars(select(NotificationLogRow).order_by(NotificationLogRow.id.desc())))
