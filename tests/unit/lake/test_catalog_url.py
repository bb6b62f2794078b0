"""OFFSETGUARD_CATALOG_URL: what Spark's driver and pyiceberg's make of it, and what is refused, without a server."""

from pathlib import Path

import pytest
from sqlalchemy import make_url

from offsetguard.config.workspace import Workspace
from offsetguard.lake.catalog import catalog_shown, jdbc_properties, open_catalog, sql_properties
from offsetguard.model.errors import PublishError


def _workspace(url: str) -> Workspace:
    return Workspace.from_environment({"OFFSETGUARD_HOME": "/srv/og", "OFFSETGUARD_CATALOG_URL": url})


@pytest.mark.parametrize(
    ("url", "file"), [("", "/srv/og/catalog.db"), ("sqlite:////srv/shared/tables.db", "/srv/shared/tables.db")]
)
def test_sqlite_is_in_the_folder_unless_another_file_is_named(url: str, file: str) -> None:
    workspace = _workspace(url)
    assert jdbc_properties(workspace)["uri"].startswith(f"jdbc:sqlite:{file}?")
    assert sql_properties(workspace)["uri"] == f"sqlite:///{file}"
    assert "pool_pre_ping" not in sql_properties(workspace)
    with pytest.raises(PublishError, match=f"^{file}: there is no catalog"):
        open_catalog(workspace)


@pytest.mark.parametrize(
    ("url", "jdbc"),
    [
        ("postgresql+psycopg://iceberg@pg/facts", {"uri": "jdbc:postgresql://pg:5432/facts", "jdbc.user": "iceberg"}),
        ("postgresql://pg:5433/facts", {"uri": "jdbc:postgresql://pg:5433/facts"}),
        ("postgresql://u@[::1]/a%20b", {"uri": "jdbc:postgresql://[::1]:5432/a%20b", "jdbc.user": "u"}),
        (
            "postgresql://u:p%40ss%2Fw@pg/facts?sslmode=verify-full&connect_timeout=5",
            {
                "uri": "jdbc:postgresql://pg:5432/facts",
                "jdbc.user": "u",
                "jdbc.password": "p@ss/w",
                "jdbc.sslmode": "verify-full",
                "jdbc.connectTimeout": "5",
            },
        ),
    ],
)
def test_both_drivers_get_the_same_of_a_url(url: str, jdbc: dict[str, str]) -> None:
    properties = jdbc_properties(_workspace(url))
    ours = ("jdbc.schema-version", "jdbc.options")
    assert {k: v for k, v in properties.items() if k == "uri" or (k.startswith("jdbc.") and k not in ours)} == jdbc
    assert sql_properties(_workspace(url))["pool_pre_ping"] == "true", "the server may have been started anew"
    read_by = make_url(sql_properties(_workspace(url))["uri"])
    assert read_by.drivername == "postgresql+psycopg"
    assert read_by.port == int(jdbc["uri"].rpartition(":")[2].partition("/")[0])
    assert read_by.query["options"] == properties["jdbc.options"]
    assert read_by.query.get("sslmode") == jdbc.get("jdbc.sslmode")


def test_own_options_of_the_server_stay() -> None:
    options = jdbc_properties(_workspace("postgresql://u@pg/facts?options=-csearch_path%3Diceberg"))["jdbc.options"]
    assert options.split(" -c ")[0] == "-csearch_path=iceberg"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (
            "postgresql+psycopg://u:s3cret@/facts?host=/run/postgresql",
            "names no host, and Spark's driver knows no Unix",
        ),
        ("postgresql+psycopg://u:s3cret@/facts", "names no host, and Spark's driver knows no Unix"),
        ("postgresql+psycopg://u:s3cret@pg", "names no database"),
        ("postgresql+psycopg://u@pg/facts?password=s3cret&sslmode=require", "password: not a parameter that both"),
        ("postgresql+psycopg://u:x@pg:s3cret/facts", "is not an SQLAlchemy URL"),
        ("s3cret", "is not an SQLAlchemy URL"),
        ("mysql://u:s3cret@pg/facts", "mysql is not supported"),
        ("sqlite://", "an SQLite catalog needs a file"),
    ],
)
def test_what_cannot_be_meant_so_is_refused_without_the_password(url: str, said: str) -> None:
    for use in (jdbc_properties, open_catalog):
        with pytest.raises(PublishError, match=f"^OFFSETGUARD_CATALOG_URL.*{said}") as refused:
            use(_workspace(url))
        assert "s3cret" not in str(refused.value)
        assert refused.value.__cause__ is None


def test_no_password_is_shown() -> None:
    workspace = Workspace(Path("/srv"), Path("/c"), "postgresql://u:s3cret@pg/og", "postgresql://u:s3cret@pg/facts")
    assert "s3cret" not in repr(workspace)
    assert catalog_shown(workspace) == "postgresql+psycopg://u:***@pg:5432/facts"
