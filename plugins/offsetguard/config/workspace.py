"""Where OffsetGuard keeps its files, and how it finds its configuration: one folder, a few environment variables.

OFFSETGUARD_HOME         the folder (default: `.offsetguard` in the working directory), or `s3://BUCKET/PREFIX`: what
                         landed, the facts and Data Docs lie there then, for hosts that share no disk
OFFSETGUARD_LOCAL        with a store as home: the folder for what each host has for itself (default: `.offsetguard`)
OFFSETGUARD_CONFIG       the configuration file (default: `config/offsetguard.yml` in the working directory)
OFFSETGUARD_DATABASE_URL SQLAlchemy URL of incidents, outbox and published intervals (default: SQLite in the folder)
OFFSETGUARD_CATALOG_URL  SQLAlchemy URL of the Iceberg catalog (default: SQLite in the folder); `lake/catalog.py`
OFFSETGUARD_POOL         the Airflow pool of tasks that have Spark work for long (default: Airflow's own)

Also here: files that are replaced whole or not at all, and what is said of a disk that takes nothing more.
"""

import errno
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from offsetguard.config.object_store import STORE_ADVICE, is_remote, remote_path, write_bytes

MANIFEST_FILE_NAME = "manifest.json"
ENDS_AT_VARIABLE = "OFFSETGUARD_TASK_ENDS_AT"  # when the time-out of its Airflow task ends a job, ISO 8601
TASK_PROCESS_VARIABLE = "OFFSETGUARD_TASK_PROCESS"  # its Airflow task's process, with which a job ends
SPARK_TEMPORARY = "tmp"  # in the warm Spark server's folder


@dataclass(frozen=True, slots=True)
class Workspace:
    """The folders below OFFSETGUARD_HOME, the configuration file and the databases. Its `repr` shows no password."""

    home: Path  # on this host
    config_file: Path
    database_url: str = field(repr=False)
    catalog_url: str = field(default="", repr=False)  # empty: SQLite in the folder
    store: str = ""  # `s3://BUCKET/PREFIX`: what all hosts see; empty: the folder

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Workspace":
        """Read the variables; relative paths are taken from the working directory."""
        given = environment.get("OFFSETGUARD_HOME") or ".offsetguard"
        store = given.rstrip("/") if is_remote(given) else ""
        home = Path(environment.get("OFFSETGUARD_LOCAL") or ".offsetguard" if store else given).resolve()
        config_file = Path(environment.get("OFFSETGUARD_CONFIG") or "config/offsetguard.yml").resolve()
        database_url = environment.get("OFFSETGUARD_DATABASE_URL") or f"sqlite:///{home / 'offsetguard.db'}"
        return cls(home, config_file, database_url, environment.get("OFFSETGUARD_CATALOG_URL") or "", store)

    @property
    def shared(self) -> Path:
        """What collector, Spark, judge and pages all see: the folder, or the object store."""
        return remote_path(self.store) if self.store else self.home

    @property
    def variables(self) -> dict[str, str]:
        """The environment by which another process finds the same; with passwords, if there are any."""
        return {
            "OFFSETGUARD_HOME": self.store or str(self.home),
            "OFFSETGUARD_LOCAL": str(self.home),
            "OFFSETGUARD_CONFIG": str(self.config_file),
            "OFFSETGUARD_DATABASE_URL": self.database_url,
            "OFFSETGUARD_CATALOG_URL": self.catalog_url,
        }

    @property
    def last_good_config_file(self) -> Path:
        """The configuration file as it was when it was last found right; `config/file.py`."""
        return self.home / "last_good_config.yml"

    @property
    def heartbeat_file(self) -> Path:
        """When the outbox was last delivered, and what was not well then; `deliver/heartbeat.py`."""
        return self.shared / "heartbeat.json"

    @property
    def landing_folder(self) -> Path:
        """Snapshots as the collector wrote them: `<cluster>/<interval>/`."""
        return self.shared / "landing"

    @property
    def warehouse_folder(self) -> Path:
        """Data files of the Iceberg tables."""
        return self.shared / "warehouse"

    @property
    def catalog_file(self) -> Path:
        """SQLite file of the Iceberg catalog, where `catalog_url` names no other database."""
        return self.home / "catalog.db"

    @property
    def spark_server_folder(self) -> Path:
        """The warm Spark server's token, log and temporary files."""
        return self.home / "spark-server"

    @property
    def handed_over_folder(self) -> Path:
        """Rows that a publication has made and Spark is about to write: where Spark sees them, as what has landed."""
        return self.landing_folder / ".handed_over"

    @property
    def data_docs_folder(self) -> Path:
        """Data Docs, one folder per cluster: `<cluster>/index.html` is the newest run."""
        return self.shared / "data_docs"


_DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
_NEARLY_NOTHING = 1024 * 1024  # bytes: a database may ask for more at once than is left


def replace_text(file: Path, text: str, *, durable: bool = False) -> None:
    """Put a text in a file's place: a reader sees the old or the new one, whole, and an error leaves nothing else.

    `durable`: also after a power cut.
    """
    if is_remote(file):
        write_bytes(file, text.encode())
        return
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as written:
            written.write(text)
            if durable:
                written.flush()
                os.fsync(descriptor)
        temporary.replace(file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def is_disk_error(error: OSError) -> bool:
    """Whether the disk takes nothing more, whatever is written: it is full, over a limit, or read-only."""
    return error.errno in _DISK_ERRORS


def why_unwritten(path: Path, error: OSError) -> str:
    """Say that a path cannot be written, why, and what to do; also for an error of Arrow, whose own text is long."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    if is_remote(path):
        return f"{path}: cannot be written: {error}; {STORE_ADVICE}"
    do_next = disk_advice(path) if is_disk_error(error) else "name another place, or let this user write there"
    return f"{path}: cannot be written: {reason}; {do_next}"


def disk_advice(path: Path) -> str:
    """Say what to do about the disk that a path is on, or would be on."""
    disk = _disk_of(path)
    if disk.f_flag & os.ST_RDONLY:
        return "its disk is mounted read-only: mount it for writing"
    free = _free_bytes(disk)
    return f"{free:,} bytes are free there: make room on the disk (or raise the quota, or the limit of file sizes)"


def takes_nothing(path: Path) -> bool:
    """Whether the disk of a path is read-only or as good as full: databases say neither in a way that can be read."""
    disk = _disk_of(path)
    return bool(disk.f_flag & os.ST_RDONLY) or _free_bytes(disk) < _NEARLY_NOTHING


def _disk_of(path: Path) -> os.statvfs_result:
    return os.statvfs(next(one for one in (path, *path.absolute().parents) if one.exists()))


def _free_bytes(disk: os.statvfs_result) -> int:
    return disk.f_bavail * disk.f_frsize
