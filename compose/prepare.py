"""What has to be there before the parts of docker-compose.yml start: run at every `up`, does only what is missing.

    python compose/prepare.py secrets   passwords and keys, made at random by the first start, each in the volume of
                                        those that need it: none is a default, and none stands in the environment
    python compose/prepare.py databases roles and empty databases alone, for what a backup holds
    python compose/prepare.py airflow   looks whether this can work at all; then databases and roles, migrations,
                                        connections, the pool, the first login

What cannot work ends with one line that names the thing and says what to do; nothing else starts then.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

import psycopg
from cryptography.fernet import Fernet
from psycopg import sql
from sqlalchemy import Engine

from offsetguard.config import Config
from offsetguard.config.file import load_config
from offsetguard.config.workspace import Workspace
from offsetguard.model.errors import ConfigError, StoreError
from offsetguard.model.views import FLEET_PATH, URL_PREFIX
from offsetguard.store import published_intervals
from offsetguard.store.database import open_database

SECRETS = Path("/secrets")
SUPERUSER_PASSWORD = SECRETS / "postgres" / "superuser-password"
PASSWORD_FILE = "pgpass"  # noqa: S105 the name of libpq's file; pgjdbc and asyncpg read it, too
DEMO = Path("/demo")
OURS = "postgres"  # the host of the service; another one is somebody else's server, which has its roles already
ROLES = ("airflow", "offsetguard", "iceberg")  # each owns the database of its name, and sees no other
NEEDED_GIB = 5.5  # of a machine of 6 GiB, the system takes some
NAME_SERVER_PATIENCE_S = 5.0
POSTED_TO = ("dingtalk", "wecom", "feishu", "webhook")
TOLD_BY = ("SMTP_HOST", "SLACK_TOKEN", *(f"{name.upper()}_URL" for name in (*POSTED_TO, "alertmanager")))


def main() -> None:
    """Run the step that the command line names."""
    {"secrets": make_secrets, "databases": make_databases, "airflow": prepare_airflow}[sys.argv[1]]()


def fail(line: str) -> NoReturn:
    """End with one line."""
    say(f"error: {line}")
    sys.exit(1)


def say(line: str) -> None:
    """Say a line at once."""
    print(line, flush=True)  # noqa: T201 this is a command


# ---- secrets


def make_secrets() -> None:
    """Write what is missing. Postgres runs under another user: its file is for all, in a volume that only it has."""
    _once(SUPERUSER_PASSWORD, secrets.token_urlsafe(32), mode=0o644)
    lines = {role: f"*:*:{role}:{role}:{secrets.token_urlsafe(32)}\n" for role in ROLES}
    _once(SECRETS / "airflow" / PASSWORD_FILE, "".join(lines.values()))
    kept = (SECRETS / "airflow" / PASSWORD_FILE).read_text(encoding="ascii").splitlines(keepends=True)
    of_catalog = "".join(line for line in kept if line.split(":")[3:4] == ["iceberg"])
    if not of_catalog:
        fail(f"{SECRETS}/airflow/{PASSWORD_FILE}: no line of the role iceberg: write it anew, as docs/compose.md says")
    _once(SECRETS / "spark" / PASSWORD_FILE, of_catalog)
    _once(SECRETS / "airflow" / "fernet-key", Fernet.generate_key().decode())
    for name in ("jwt-secret", "secret-key", "admin-password"):
        _once(SECRETS / "airflow" / name, secrets.token_urlsafe(48))  # 64 characters: Airflow's tokens want SHA-512
    _once(DEMO / "slack-token", f"xoxb-{secrets.token_urlsafe(24)}", mode=0o600)


def _once(file: Path, text: str, *, mode: int = 0o600) -> None:
    """Write a file unless it is there; whole or not at all, since a half password would be kept for ever."""
    if file.exists():
        return
    whole = file.with_name(f".{file.name}")
    whole.write_text(text, encoding="ascii")
    whole.chmod(mode)
    whole.replace(file)
    say(f"made {file}")


# ---- Airflow


def prepare_airflow() -> None:
    """Check, then make; the order is that of what a person would have to mend first."""
    check_memory()
    check_environment()
    config = read_config()
    if urlsplit(os.environ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]).hostname == OURS:
        make_databases()
    _run("airflow", "db", "migrate", what="migrating Airflow's database")
    engine, workspace = open_store()
    check_name_servers(config, engine, workspace)
    make_connections()
    make_pool()
    make_first_login()
    fleet = f"{os.environ['OFFSETGUARD_PAGE_URL'].rstrip('/')}{URL_PREFIX}{FLEET_PATH}/"
    say(f"ready: {fleet} (Airflow's menu: Fleet), user admin; the password:")
    say("  docker compose exec api-server cat /secrets/airflow/admin-password")


def check_memory(meminfo: Path = Path("/proc/meminfo")) -> None:
    """Fail on a machine on which the parts would be killed one by one."""
    facts = dict(line.split(":") for line in meminfo.read_text(encoding="ascii").splitlines())
    gib = int(facts["MemTotal"].split()[0]) / 1024**2
    if gib < NEEDED_GIB and os.environ.get("OFFSETGUARD_LITTLE_MEMORY") != "yes":
        fail(
            f"memory: Docker's machine has {gib:.1f} GiB and all parts together take up to 6: give it more (Docker "
            "Desktop: Settings, Resources), or set OFFSETGUARD_LITTLE_MEMORY=yes in .env and see what is killed"
        )


def check_environment() -> None:
    """Fail where nobody would hear of anything."""
    if is_demo():
        try:
            socket.getaddrinfo("receivers", None)
        except OSError:
            fail(
                "volumes: they are those of the demo, and the demo does not run: `docker compose --profile demo down "
                "--volumes` deletes them, then start again"
            )
    elif not any(os.environ.get(f"OFFSETGUARD_{name}") for name in TOLD_BY):
        fail(
            f".env: missing or not edited: none of {', '.join(TOLD_BY)} is set (each begins with OFFSETGUARD_), so "
            "nobody would hear of anything: `cp .env.example .env` and fill in one of them (each line is explained "
            "there)"
        )


def is_demo() -> bool:
    """Whether the profile `demo` has written its configuration; compose/entrypoint looks for the same file."""
    return (DEMO / "offsetguard.yml").exists()


def read_config() -> Config:
    """Read the configuration; fail with its first problem: file, line, field, what to do."""
    try:
        return load_config(Workspace.from_environment().config_file)
    except ConfigError as error:
        problems = str(error).splitlines()
        more = f" (and {len(problems) - 1} more: `offsetguard config check`)" if len(problems) > 1 else ""
        fail(f"{problems[0]}{more}")


def make_databases() -> None:
    """Create roles and databases on our own server; passwords become those of the secrets, whatever they were."""
    password = SUPERUSER_PASSWORD.read_text(encoding="ascii").strip()
    passwords = dict(_role_passwords())
    try:
        connection = psycopg.connect(host=OURS, user="postgres", password=password, dbname="postgres", autocommit=True)
    except psycopg.OperationalError as error:
        fail(
            f"postgres: {str(error).splitlines()[0]}: start it, or say in .env where PostgreSQL is: "
            "AIRFLOW_DATABASE_URL, OFFSETGUARD_DATABASE_URL, OFFSETGUARD_CATALOG_URL"
        )
    with connection as server:
        for role in ROLES:
            name = sql.Identifier(role)
            if server.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone() is None:
                server.execute(sql.SQL("CREATE ROLE {} LOGIN").format(name))
                say(f"made the role {role}")
            server.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(name, sql.Literal(passwords[role])))
            if server.execute("SELECT 1 FROM pg_database WHERE datname = %s", [role]).fetchone() is None:
                server.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(name, name))
                say(f"made the database {role}")
            server.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(name))


def _role_passwords() -> Iterator[tuple[str, str]]:
    for line in (SECRETS / "airflow" / PASSWORD_FILE).read_text(encoding="ascii").splitlines():
        _, _, _, role, password = line.split(":")
        yield role, password


def open_store() -> tuple[Engine, Workspace]:
    """Migrate our own database; fail with what it says."""
    workspace = Workspace.from_environment()
    say("migrating OffsetGuard's database")
    try:
        return open_database(workspace.database_url), workspace
    except StoreError as error:
        fail(str(error))


def check_name_servers(config: Config, engine: Engine, workspace: Workspace) -> None:
    """Fail when a cluster that was never seen has no name server that answers: its address is wrong, most likely.

    One that was seen before may be down: to say so is what the rest is started for.
    """
    for name, cluster in config.clusters.items():
        troubles = {address: _trouble_with(address) for address in cluster.name_servers}
        if None in troubles.values():
            continue
        said = "; ".join(f"{address} {trouble}" for address, trouble in troubles.items())
        if published_intervals.newest(engine, name) is None:
            fail(
                f"{workspace.config_file.name}: clusters.{name}.name_servers: {said}: correct the address, or start "
                "the cluster (127.0.0.1 is the container itself: the Docker host is host.docker.internal)"
            )
        say(f"cluster {name}: {said}; it has been seen before, so the rest starts")


def _trouble_with(address: str) -> str | None:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), NAME_SERVER_PATIENCE_S).close()
    except OSError as error:
        return f"does not answer ({error.strerror or error})"
    return None


def make_connections() -> None:
    """Write the connections that .env speaks of; others, and those that it says nothing of, stay as they are."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(connections(), file)
        file.flush()
        _run("airflow", "connections", "import", "--overwrite", file.name, what="making Airflow's connections")


def connections() -> dict[str, dict[str, Any]]:
    """Return Airflow's connections by id."""
    from offsetguard_spark.connect_server import ConnectServer  # noqa: PLC0415 it needs pyspark: `secrets` has 128 MiB

    environment = os.environ.get
    made: dict[str, dict[str, Any]] = {
        "spark_default": {
            "conn_type": "spark_connect",
            "host": environment("OFFSETGUARD_SPARK_HOST") or "spark-connect",
            "port": int(environment("OFFSETGUARD_SPARK_PORT") or 15002),
            "password": ConnectServer(Workspace.from_environment().spark_server_folder).token,
            # with another host than ours, TLS ends at a proxy before it
            "extra": json.dumps({"use_ssl": bool(environment("OFFSETGUARD_SPARK_HOST"))}),
        }
    }
    if is_demo():
        token = (DEMO / "slack-token").read_text(encoding="ascii")
        plain = json.dumps({"disable_ssl": True, "disable_tls": True})
        made["offsetguard_smtp"] = {"conn_type": "smtp", "host": "receivers", "port": 1025, "extra": plain}
        slack = json.dumps({"base_url": "http://receivers:8026/api/"})
        made["offsetguard_slack"] = {"conn_type": "slack", "password": token, "extra": slack}
        robot = {
            "password": "robot-token-0123",
            "extra": json.dumps({"secret": "SEC-robot-secret"}),
        }  # the simulation's
        for name in ("dingtalk", "wecom", "feishu"):
            made[f"offsetguard_{name}"] = {"conn_type": "generic", "host": "http://receivers:8027", **robot}
        return made
    if host := environment("OFFSETGUARD_SMTP_HOST"):
        tls = environment("OFFSETGUARD_SMTP_TLS") or "starttls"
        if tls not in ("starttls", "tls", "none"):
            fail(f".env: OFFSETGUARD_SMTP_TLS: {tls!r} is not one of starttls, tls, none")
        made["offsetguard_smtp"] = {
            "conn_type": "smtp",
            "host": host,
            "port": int(environment("OFFSETGUARD_SMTP_PORT") or {"starttls": 587, "tls": 465, "none": 25}[tls]),
            "login": environment("OFFSETGUARD_SMTP_USER") or None,
            "password": environment("OFFSETGUARD_SMTP_PASSWORD") or None,
            "extra": json.dumps({"disable_ssl": tls != "tls", "disable_tls": tls != "starttls"}),
        }
    if bot_token := environment("OFFSETGUARD_SLACK_TOKEN"):
        made["offsetguard_slack"] = {"conn_type": "slack", "password": bot_token}
    for name in POSTED_TO:
        if url := environment(f"OFFSETGUARD_{name.upper()}_URL"):
            secret = environment(f"OFFSETGUARD_{name.upper()}_SECRET")
            extra = json.dumps({"secret": secret} if secret else {})
            made[f"offsetguard_{name}"] = {"conn_type": "generic", "password": url, "extra": extra}
    if url := environment("OFFSETGUARD_ALERTMANAGER_URL"):
        made["offsetguard_alertmanager"] = {"conn_type": "generic", "host": url}
    return made


def make_pool() -> None:
    """Create the pool of what has Spark work for long, unless there is one: slots that were changed stay changed."""
    from airflow.models.pool import Pool  # noqa: PLC0415

    name = os.environ["OFFSETGUARD_POOL"]
    if Pool.get_pool(name) is None:
        Pool.create_or_update_pool(
            name, 1, "tasks of OffsetGuard that have Spark work for long", include_deferred=False
        )
        say(f"made the pool {name}")


def make_first_login() -> None:
    """Create the user `admin`, unless there is one; a password that was changed stays changed."""
    from airflow.providers.fab.auth_manager.cli_commands.utils import get_application_builder  # noqa: PLC0415

    password = (SECRETS / "airflow" / "admin-password").read_text(encoding="ascii")
    with get_application_builder() as builder:
        logins = builder.sm
        if logins.find_user("admin") is None:
            logins.add_user("admin", "Admin", "", "admin@localhost", logins.find_role("Admin"), password)
            say("made the login admin")


def _run(*command: str, what: str) -> None:
    """Run a command of Airflow; what it says is shown when it fails, and its last line is the error."""
    say(what)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        say(done.stdout)
        told = [line for line in done.stdout.splitlines() if line.strip()]
        errors = [line for line in told if re.match(r"[\w.]+Error: ", line)]  # SQLAlchemy says more after it
        fail(f"{what}: {([*told, *errors] or ['ended without a word'])[-1]}")


if __name__ == "__main__":
    main()
