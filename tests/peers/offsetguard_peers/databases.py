"""Fresh SQLite databases: migrated once in a process, and copied from then on, which costs a twentieth."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from sqlalchemy import Engine

from offsetguard.store.database import open_database


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
