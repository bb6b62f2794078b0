"""The catalog of our Iceberg tables: written by Spark (JDBC catalog), read by pyiceberg (SQL catalog).

Both keep the same two tables in one database, an SQLite file or PostgreSQL; `jdbc.schema-version=V1` is the layout
that pyiceberg knows. What is wrong with it is said with the database and the table.
"""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from pyiceberg.avro import file as avro_file
from pyiceberg.avro.decoder import StreamingBinaryDecoder
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import CommitTableResponse
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import Identifier
from sqlalchemy import URL, NullPool, create_engine, inspect, make_url, select
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from offsetguard.config.object_store import is_remote, remote_path
from offsetguard.config.workspace import Workspace
from offsetguard.model.errors import PublishError
from offsetguard.store import database_errors
from offsetguard.store.published_intervals import PublishedInterval
from offsetguard.tables import Table

# Its compiled decoder reads beyond the end of a damaged manifest, and so may end the process. That is mended after
# pyiceberg 0.12.0 (github.com/apache/iceberg-python/pull/3955); until then its decoder in Python, 0.12 ms a data file.
avro_file.new_decoder = StreamingBinaryDecoder  # type: ignore[attr-defined,assignment]

CATALOG_NAME = "offsetguard"
NAMESPACE = "facts"
BUSY_TIMEOUT_MS = 10_000
IDLE_TIMEOUT_MS = 60_000
URL_VARIABLE = "OFFSETGUARD_CATALOG_URL"

_USE = "use sqlite:///FILE or postgresql+psycopg://USER@HOST/DATABASE"
_POSTGRESQL_PORT = 5432
_ENDED_BY_SERVER = "57P01,57P05"  # admin_shutdown, idle_session_timeout: PostgreSQL's documentation, appendix A
# What may stand behind the `?` of a URL: parameters of libpq that Spark's driver knows as well, with its name for them.
# https://jdbc.postgresql.org/documentation/use/
_JDBC_NAMES = {
    "application_name": "ApplicationName",
    "channel_binding": "channelBinding",
    "connect_timeout": "connectTimeout",
    "options": "options",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
}
_ADVICE = {"locked": "another process holds it: run it again", "full": "make room on the disk"}
_FILES = "pyiceberg.io.fsspec.FsspecFileIO"  # its other one imports 54 MiB into each worker of the API server, this 7
NO_SNAPSHOT = -1  # published before anything was ever written to the table; Iceberg's own number for that

logging.getLogger("pyiceberg.io").setLevel(logging.WARNING)  # else it says for each table what reads its files


class FactsCatalog(SqlCatalog):
    """pyiceberg's, which reads the metadata of a table once: no file of them ever changes.

    The database says which file holds. A cycle loads its tables sixty times, each a request or two in an object store,
    and milliseconds of parsing everywhere.
    """

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        self._known: dict[str, IcebergTable] = {}  # by the table's name, as it was last loaded or committed

    def load_table(self, identifier: str | Identifier) -> IcebergTable:
        """Load a table as it is now; raises NoSuchTableError."""
        name, rows = Catalog.table_name_from(identifier), IcebergTables
        namespace = Catalog.namespace_to_string(Catalog.namespace_from(identifier))
        where = (rows.catalog_name == self.name, rows.table_namespace == namespace, rows.table_name == name)
        with self.engine.connect() as connection:
            location = connection.execute(select(rows.metadata_location).where(*where)).scalar()
        known = self._known.get(name)
        if known is None or known.metadata_location != location:
            known = self._known[name] = super().load_table(identifier)
        return IcebergTable(known.name(), known.metadata, known.metadata_location, known.io, self)

    def commit_table(
        self, table: IcebergTable, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Commit changes as pyiceberg does; what it has written is known then."""
        done = super().commit_table(table, requirements, updates)
        known = IcebergTable(table.name(), done.metadata, done.metadata_location, table.io, self)
        self._known[table.name()[-1]] = known
        return done


def catalog_exists(workspace: Workspace) -> bool:
    """Whether there is a catalog: SQLite's file, or its tables in PostgreSQL. Raises PublishError when that is away."""
    file = sqlite_file(workspace)
    if file is not None:
        return file.exists()
    engine = create_engine(sql_properties(workspace)["uri"], poolclass=NullPool, hide_parameters=True)
    with catalog_errors_named(catalog_shown(workspace)), engine.connect() as connection:
        return inspect(connection).has_table(IcebergTables.__tablename__)


def open_catalog(workspace: Workspace) -> SqlCatalog:
    """Open the catalog that Spark writes; raises PublishError when there is none."""
    if not catalog_exists(workspace):
        raise PublishError(
            f"{catalog_shown(workspace)}: there is no catalog, so nothing was published in this workspace;"
            f" check {_variable(workspace)}, or run spark/jobs/publish_interval.py first"
        )
    with catalog_errors_named(catalog_shown(workspace)):
        return sql_catalog(workspace)


def sql_catalog(workspace: Workspace) -> SqlCatalog:
    """Return pyiceberg's catalog, whether or not its tables are there; its errors show no values."""
    catalog = FactsCatalog(CATALOG_NAME, **sql_properties(workspace))
    catalog.engine.hide_parameters = True  # pyiceberg makes the engine itself
    return catalog


def check_catalog_is_there(workspace: Workspace, newest: PublishedInterval | None) -> None:
    """Refuse to begin a new catalog where intervals were published: nobody could read them any more.

    `newest`: the newest published interval, None when there is none. Raises PublishError.
    """
    if newest is not None and not catalog_exists(workspace):
        raise PublishError(
            f"{catalog_shown(workspace)}: missing, although {newest.cluster} {newest.interval.name} was published with"
            f" it; check {_variable(workspace)} and OFFSETGUARD_DATABASE_URL, or bring it back from a backup"
        )


def load_table(catalog: Catalog, table: Table) -> IcebergTable:
    """Load one of our tables; raises PublishError naming the catalog's database and the table when it cannot be."""
    database = database_of(catalog)
    with damage_named(f"{database}: table {NAMESPACE}.{table.name}", lambda: _metadata_file(catalog, table)):
        try:
            with catalog_errors_named(database):
                return catalog.load_table((NAMESPACE, table.name))
        except NoSuchTableError:
            raise PublishError(f"{database}: table {NAMESPACE}.{table.name} does not exist") from None


@contextmanager
def damage_named(what: str, file: Callable[[], str]) -> Iterator[None]:
    """Raise PublishError naming the file for whatever pyiceberg raises of a table's metadata and manifests.

    Damaged bytes end in EOFError, KeyError, zlib.error and others.
    """
    try:
        yield
    except PublishError:
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:500]
        raise PublishError(
            f"{what}: cannot be read: {file()}: {type(error).__name__}: {said}; if its folder is lost or the file is"
            " damaged, bring it back from a backup"
        ) from error


def _metadata_file(catalog: Catalog, table: Table) -> str:
    """Return the file that the catalog names for a table."""
    where = (IcebergTables.table_namespace == NAMESPACE) & (IcebergTables.table_name == table.name)
    with create_engine(
        str(catalog.properties["uri"]), poolclass=NullPool, hide_parameters=True
    ).connect() as connection:
        location = connection.execute(select(IcebergTables.metadata_location).where(where)).scalar()
    return str(path_of(location or "no file"))


def table_names(catalog: SqlCatalog) -> set[str]:
    """Return the names of the tables that were created; raises PublishError when the catalog cannot be read."""
    with catalog_errors_named(database_of(catalog)):
        return {name[-1] for name in catalog.list_tables(NAMESPACE)}


@contextmanager
def catalog_errors_named(database: str) -> Iterator[None]:
    """Raise PublishError naming the catalog's database (`catalog_shown`) when it cannot be read or written."""
    try:
        yield
    except SQLAlchemyError as error:
        reason = database_errors.what_failed(error)
        advice = next((advised for said, advised in _ADVICE.items() if said in reason), "bring it back from a backup")
        if database.startswith("postgresql") and isinstance(error, OperationalError):
            advice = f"check {URL_VARIABLE}, its password file, and that the server runs"
        raise PublishError(f"{database}: the catalog cannot be used: {reason}; {advice}") from error


def location_of(path: Path) -> str:
    """Return a path as Spark and pyiceberg both read it; `as_uri` would escape, which Hadoop does not undo."""
    return str(path) if is_remote(path) else f"file://{path}"


def path_of(location: str) -> Path:
    """Return the path of a location as Iceberg has it: `s3:`, or `file:` and a path in which nothing is escaped."""
    if is_remote(location):
        return remote_path(location)
    return Path(location.removeprefix("file://").removeprefix("file:"))


def database_of(catalog: Catalog) -> str:
    """Name the database of an open catalog in errors, without its password."""
    return database_errors.shown(make_url(str(catalog.properties["uri"])))


def _variable(workspace: Workspace) -> str:
    """Return the environment variable that says where the catalog is."""
    return URL_VARIABLE if workspace.catalog_url else "OFFSETGUARD_HOME"


def jdbc_properties(workspace: Workspace) -> dict[str, str]:
    """Return the properties of Spark's catalog, without their `spark.sql.catalog.<name>.` prefix.

    The password is in `jdbc.password`, a name that Spark redacts, and nowhere else. Raises PublishError.
    """
    return {
        "type": "jdbc",
        **_jdbc_address(workspace),
        "jdbc.schema-version": "V1",
        "warehouse": location_of(workspace.warehouse_folder),
        # One process writes at a time and reads what it has just written: a cache could only be stale.
        "cache-enabled": "false",
        **(_s3_properties() if workspace.store else {}),
    }


def _s3_properties() -> dict[str, str]:
    """Return how Iceberg reaches a store; credentials it finds as the SDK does, in the environment of each process."""
    properties = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}
    if endpoint := os.environ.get("AWS_ENDPOINT_URL"):
        properties |= {"s3.endpoint": endpoint, "s3.path-style-access": "true"}
    if region := os.environ.get("AWS_REGION"):
        properties["client.region"] = region
    return properties


def sql_properties(workspace: Workspace) -> dict[str, str]:
    """Return the properties of pyiceberg's catalog; a reader creates no tables in it. Raises PublishError.

    `uri` has the password, if there is one: `catalog_shown` names it for people.
    """
    file = sqlite_file(workspace)
    properties = {
        "uri": f"sqlite:///{file}" if file else _postgresql_url(workspace).render_as_string(hide_password=False),
        "warehouse": location_of(workspace.warehouse_folder),
        "init_catalog_tables": "false",
        "py-io-impl": _FILES,
    }
    if file is None:
        properties["pool_pre_ping"] = "true"  # a connection may have been ended meanwhile
    return properties


def sqlite_file(workspace: Workspace) -> Path | None:
    """Return the file that the catalog is in; None where it is in PostgreSQL. Raises PublishError for a wrong URL."""
    if not workspace.catalog_url:
        return workspace.catalog_file
    url = _parse(workspace.catalog_url)
    if url.get_backend_name() != "sqlite":
        return None
    if not url.database or url.database == ":memory:":
        raise PublishError(
            f"{URL_VARIABLE}: an SQLite catalog needs a file: Spark and readers must see the same tables"
        )
    return Path(url.database).resolve()


def catalog_shown(workspace: Workspace) -> str:
    """Name the catalog's database in errors: the file, or the URL without its password. Raises PublishError."""
    return database_errors.shown(make_url(sql_properties(workspace)["uri"]))


def _jdbc_address(workspace: Workspace) -> dict[str, str]:
    if file := sqlite_file(workspace):
        return {"uri": f"jdbc:sqlite:{file}?journal_mode=WAL&busy_timeout={BUSY_TIMEOUT_MS}"}
    url = _postgresql_url(workspace)
    host = f"[{url.host}]" if ":" in (url.host or "") else url.host
    properties = {"uri": f"jdbc:postgresql://{host}:{url.port}/{quote(url.database or '', safe='')}"}
    properties |= {f"jdbc.{_JDBC_NAMES[name]}": str(value) for name, value in url.query.items()}
    if url.username:
        properties["jdbc.user"] = url.username
    if url.password:  # else the driver looks into libpq's password file: https://jdbc.postgresql.org/documentation/use/
        properties["jdbc.password"] = str(url.password)
    properties["retryable_status_codes"] = _ENDED_BY_SERVER
    return properties


def _postgresql_url(workspace: Workspace) -> URL:
    """Return the URL with all that two drivers would take from different places, and with an end to idle connections.

    Nobody closes the catalog of an ended session: a warm Spark server would keep its connections for hours. PostgreSQL
    ends them instead, and both catalogs open a new one when they meet one that was ended.
    """
    url = _parse(workspace.catalog_url or "")
    unknown = sorted(name for name, value in url.query.items() if name not in _JDBC_NAMES or not isinstance(value, str))
    if not url.host or "host" in unknown:
        raise PublishError(
            f"{URL_VARIABLE}: names no host, and Spark's driver knows no Unix sockets: {_USE} (127.0.0.1 for this"
            " machine)"
        )
    if not url.database:
        raise PublishError(f"{URL_VARIABLE}: names no database: {_USE}")
    if unknown:
        raise PublishError(
            f"{URL_VARIABLE}: {', '.join(unknown)}: not a parameter that both drivers know; leave it out, they know"
            f" {', '.join(_JDBC_NAMES)}"
        )
    options = f"{url.query.get('options', '')} -c idle_session_timeout={IDLE_TIMEOUT_MS}".strip()
    url = url.set(drivername="postgresql+psycopg", port=url.port or _POSTGRESQL_PORT)  # libpq would ask PGPORT
    return url.update_query_dict({"options": options})


def _parse(url: str) -> URL:
    try:
        parsed = database_errors.read_url(url)
    except ValueError as error:
        raise PublishError(f"{URL_VARIABLE} {error}: {_USE}") from None
    if parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise PublishError(f"{URL_VARIABLE}: {parsed.get_backend_name()} is not supported: {_USE}")
    return parsed
