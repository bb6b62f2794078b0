"""The Iceberg catalog in PostgreSQL: Spark and pyiceberg on one server that asks for passwords."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table as IcebergTable
from sqlalchemy import create_engine, text

from offsetguard.cli.history import history
from offsetguard.config import Retention
from offsetguard.config.workspace import Workspace
from offsetguard.lake.catalog import (
    NAMESPACE,
    catalog_exists,
    check_catalog_is_there,
    load_table,
    open_catalog,
    table_names,
)
from offsetguard.lake.creation import create_missing_tables
from offsetguard.lake.reading import FactReader
from offsetguard.lake.upkeep.clean import Housekeeper
from offsetguard.model.errors import PublishError
from offsetguard.model.intervals import Interval
from offsetguard.store import published_intervals
from offsetguard.store.database import open_database
from offsetguard.tables import GROUP_FACTS, PUBLISHED
from offsetguard_peers.databases import PostgresServer
from offsetguard_spark.connect import TOKEN_VARIABLE
from offsetguard_spark.connect_server import ConnectServer

pytestmark = [pytest.mark.postgres, pytest.mark.slow]
JOB = Path(__file__).parents[2] / "spark" / "jobs" / "publish_interval.py"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer(tcp=True) as server:
        yield server


@dataclass
class Publications:
    """A workspace whose catalog is in PostgreSQL; intervals are published by the job, in a process of its own."""

    workspace: Workspace
    server: PostgresServer

    def start_job(self, snapshot: Any, environment: dict[str, str]) -> subprocess.Popen[str]:
        snapshot.land(self.workspace)
        start = snapshot.interval.start.isoformat()
        return subprocess.Popen(
            [sys.executable, str(JOB), "--cluster", "demo", "--interval-start", start],
            env=os.environ | self.workspace.variables | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def reader(self) -> FactReader:
        return FactReader(self.workspace, open_database(self.workspace.database_url))

    def lags(self, reader: FactReader, interval: Interval) -> dict[str, int]:
        rows = reader.interval(GROUP_FACTS, "demo", interval).to_pylist()
        return {row["consumer_group"]: row["lag"] for row in rows}

    def end_connections(self) -> None:
        """Do what a restart of the server does to those who were connected."""
        engine = create_engine(self.server.url("postgres"))
        with engine.connect() as connection:
            ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name"
            connection.execute(text(ended), {"name": self.workspace.catalog_url.rpartition("/")[2]})
        engine.dispose()


@pytest.fixture
def publications(workspace: Workspace, server: PostgresServer) -> Publications:
    url = server.tcp_url(server.new_database(), password=server.password)
    return Publications(replace(workspace, catalog_url=url), server)


def _ended(job: subprocess.Popen[str], server: PostgresServer) -> str:
    said, _ = job.communicate()
    assert job.returncode == 0, said
    assert server.password[:16] not in said
    return said


def _fill(snapshot: Any) -> None:
    snapshot.broker()
    for group, topic, committed in (("billing", "orders", 400), ("stock", "goods", 1000)):
        snapshot.topic(topic)
        snapshot.group(group)
        snapshot.topic_queue(topic, 0, 0, 1000)
        snapshot.queue(group, topic, 0, (0, committed, 1000))


def test_with_a_password_file_no_url_has_a_password(
    publications: Publications, snapshot: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Local Spark's driver (pgjdbc) and pyiceberg's (libpq) both read what PGPASSFILE names."""
    server = publications.server
    server.write_password_file(tmp_path / "pgpass")
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pgpass"))
    workspace = publications.workspace
    publications.workspace = replace(workspace, catalog_url=server.tcp_url(workspace.catalog_url.rpartition("/")[2]))
    assert server.password not in publications.workspace.catalog_url
    _fill(snapshot)

    _ended(publications.start_job(snapshot, {}), server)

    assert publications.lags(publications.reader(), snapshot.interval) == {"billing": 600, "stock": 0}
    assert not list(workspace.home.glob("catalog.db*"))
    shown = CliRunner().invoke(
        history,
        ["--cluster", "demo", "--group", "billing", "--until", f"{snapshot.interval.end:%Y-%m-%dT%H:%M:%SZ}"],
        env=publications.workspace.variables,
        catch_exceptions=False,
    )
    assert "600" in shown.output

    monkeypatch.delenv("PGPASSFILE")
    with pytest.raises(PublishError, match="no password supplied; check OFFSETGUARD_CATALOG_URL"):
        open_catalog(publications.workspace)


def _commit(table: IcebergTable, name: str) -> bool:
    """Return whether a property was set: not when another commit came first."""
    try:
        with table.transaction() as transaction:
            transaction.set_properties({name: "ours"})
    except CommitFailedException:
        return False
    return True


def _committed(table: IcebergTable) -> int:
    return sum(value == "ours" for value in table.properties.values())


def test_a_warm_server_publishes_while_others_commit_and_housekeeping_and_readers_follow(
    publications: Publications, spark_server: ConnectServer, snapshot: Any
) -> None:
    """Nothing of either is lost, and a reader that is kept outlives the end of its connection."""
    _fill(snapshot)
    connect = {"SPARK_REMOTE": spark_server.remote, TOKEN_VARIABLE: spark_server.token}
    create_missing_tables(publications.workspace)
    catalog = open_catalog(publications.workspace)
    job = publications.start_job(snapshot, connect)
    commits = 0
    while job.poll() is None:
        commits += _commit(load_table(catalog, GROUP_FACTS), f"commit-{commits}")
        time.sleep(0.5)  # Spark gives up after four conflicts in a row
    _ended(job, publications.server)
    assert _committed(load_table(catalog, GROUP_FACTS)) == commits > 0

    reader = publications.reader()
    before = publications.lags(reader, snapshot.interval)
    assert before == {"billing": 600, "stock": 0}
    publications.end_connections()
    assert publications.lags(reader, snapshot.interval) == before

    engine = open_database(publications.workspace.database_url)
    housekeeper = Housekeeper(publications.workspace, Retention(), engine, lambda _: None, keep_snapshots=timedelta(0))
    report = housekeeper.clean(now=snapshot.interval.end + timedelta(hours=25))
    assert set(report.tables) == {table.name for table in PUBLISHED}
    assert publications.lags(publications.reader(), snapshot.interval) == before


def test_where_nothing_was_published_readers_say_so(publications: Publications, snapshot: Any) -> None:
    workspace = publications.workspace
    assert not catalog_exists(workspace)
    with pytest.raises(
        PublishError, match=r"there is no catalog, .*; check OFFSETGUARD_CATALOG_URL, or run"
    ) as refused:
        open_catalog(workspace)
    assert str(refused.value).startswith(f"postgresql+psycopg://offsetguard:***@127.0.0.1:{publications.server.port}/")
    assert publications.lags(publications.reader(), snapshot.interval) == {}


def test_a_catalog_that_is_lost_is_not_begun_anew(publications: Publications, snapshot: Any) -> None:
    """Nobody could read what was published with it; a reader that had it open is told as well."""
    workspace = publications.workspace
    engine = open_database(workspace.database_url)
    row = published_intervals.PublishedInterval(
        "demo", snapshot.interval, "run", snapshot.interval.end, "audited", {GROUP_FACTS.name: 7}, "{}"
    )
    published_intervals.record(engine, row)
    with pytest.raises(PublishError, match=r"missing, although demo 20261121T103900Z was published with it; check OFF"):
        check_catalog_is_there(workspace, row)
    create_missing_tables(workspace)
    check_catalog_is_there(workspace, row)
    reader = FactReader(workspace, engine)
    with pytest.raises(PublishError, match=r"group_facts: the published snapshot 7 of demo .* is not in the table"):
        publications.lags(reader, snapshot.interval)
    tables = create_engine(workspace.catalog_url)
    with tables.begin() as connection:
        connection.execute(text("DROP TABLE iceberg_tables"))
    tables.dispose()
    with pytest.raises(PublishError, match=r'relation "iceberg_tables" does not exist .*; bring it back from a backup'):
        publications.lags(reader, snapshot.interval)


def test_a_wrong_password_is_not_told(publications: Publications) -> None:
    server, name = publications.server, publications.workspace.catalog_url.rpartition("/")[2]
    workspace = replace(publications.workspace, catalog_url=server.tcp_url(name, password="wr0ng:s3cret"))
    for use in (open_catalog, create_missing_tables):
        with pytest.raises(
            PublishError, match=r"password authentication failed for user .*OFFSETGUARD_CATALOG_URL"
        ) as e:
            use(workspace)
        assert "s3cret" not in str(e.value)
        assert "\n" not in str(e.value)


def test_many_may_create_the_tables_at_once(publications: Publications) -> None:
    workspaces = [publications.workspace] * 6
    with ThreadPoolExecutor(len(workspaces)) as pool:
        list(pool.map(create_missing_tables, workspaces))
    assert table_names(open_catalog(publications.workspace)) == {table.name for table in PUBLISHED}
    with open_catalog(publications.workspace).engine.connect() as connection:
        rows = connection.scalar(
            text("SELECT count(*) FROM iceberg_tables WHERE table_namespace = :n"), {"n": NAMESPACE}
        )
    assert rows == len(PUBLISHED)
