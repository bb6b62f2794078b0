"""What Airflow keeps of our tasks (logs, rendered fields, XComs: all of its files) holds no secret and no message."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import pytest

from offsetguard.store import outbox
from offsetguard.store.database import open_database, writing
from offsetguard_peers.airflow.standalone import AirflowStandalone
from offsetguard_peers.databases import PostgresServer
from offsetguard_peers.delivery.world import VIEW
from offsetguard_peers.http_server import HeartbeatListener
from offsetguard_peers.slack.server import SlackServer
from offsetguard_peers.smtp.server import SmtpServer
from offsetguard_peers.waiting import wait_until

pytestmark = [pytest.mark.postgres, pytest.mark.airflow, pytest.mark.slow]

TEXT = "marked-words-of-a-message"
SECRETS = {
    "SMTP password": "marked-smtp-password",
    "Slack token": "xoxb-marked-slack-token",
    "ACL secret key": "marked-acl-secret-key",
    "token of Spark Connect": "marked-spark-token",
    "heartbeat key": "marked-heartbeat-key",
    "webhook key": "marked-webhook-key",
}
SAID = (
    "SMTP server 127.0.0.1",
    "invalid_auth",
    "the Slack webhook of the Airflow connection 'hook' refused",
    "the heartbeat was answered with HTTP 503",
    "please report it: ValidationError",
    "Spark Connect server localhost:1 does not answer",
)
WITHIN_S = 600.0
CONFIG = """
clusters:
  main: {name_servers: ["127.0.0.1:1"], connection: main_acl}
teams:
  ops: {mail: [ops@example.org], slack: ["#alerts"], slack_webhooks: [hook]}
default_team: ops
delivery: {heartbeat_connection: heartbeat}
"""


@dataclass(frozen=True)
class Kept:
    """What is left behind: every file of Airflow's folder, and of ours what is no database."""

    files: dict[Path, bytes]
    database_password: str

    def holding(self, text: str) -> list[str]:
        """Return the files in which a text stands, as it is, quoted, in JSON or in base64."""
        forms = {text, quote(text, safe=""), json.dumps(text)[1:-1], b64encode(text.encode()).decode().rstrip("=")}
        return [file.name for file, kept in self.files.items() if any(form.encode() in kept for form in forms)]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    """Let the scheduler run our DAGs: one collects and starts a job, one delivers and fails in each way there is."""
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "offsetguard.yml").write_text(CONFIG)
    with ExitStack() as stack:
        server = stack.enter_context(PostgresServer(tcp=True))
        smtp = stack.enter_context(SmtpServer(user="me", password="another"))
        slack = stack.enter_context(SlackServer())
        heartbeat = stack.enter_context(HeartbeatListener(status=503))
        url = server.tcp_url(server.new_database(), password=server.password)
        _fill_outbox(url)
        airflow = AirflowStandalone(
            folder / "airflow",
            connections={
                "offsetguard_smtp": f"smtp://me:{SECRETS['SMTP password']}@127.0.0.1:{smtp.port}/"
                "?disable_ssl=true&disable_tls=true",
                "offsetguard_slack": f"slack://:{SECRETS['Slack token']}@/?base_url={quote(slack.api_url, safe='')}",
                "hook": json.dumps(
                    {"conn_type": "slackwebhook", "password": f"{slack.url}services/{SECRETS['webhook key']}"}
                ),
                "main_acl": f"generic://access:{SECRETS['ACL secret key']}@",
                "heartbeat": json.dumps(
                    {"conn_type": "http", "password": f"{heartbeat.url}/{SECRETS['heartbeat key']}"}
                ),
                "spark_default": f"sc://:{SECRETS['token of Spark Connect']}@127.0.0.1:1",
            },
            environment={
                "OFFSETGUARD_HOME": str(folder / "home"),
                "OFFSETGUARD_CONFIG": str(folder / "offsetguard.yml"),
                "OFFSETGUARD_DATABASE_URL": url,
                "AIRFLOW__LOGGING__LOGGING_LEVEL": "DEBUG",
            },
        )
        with airflow:
            airflow.api.wait_for_dags("collect_and_judge", "deliver_warnings", timeout_s=WITHIN_S)
            for dag in ("deliver_warnings", "collect_and_judge"):
                airflow.api.unpause(dag)
            wait_until(
                lambda: not _unsaid(airflow.folder), timeout_s=WITHIN_S, what=lambda: str(_unsaid(airflow.folder))
            )
        yield Kept(_files(airflow.folder), server.password)


def _files(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def _unsaid(folder: Path) -> list[str]:
    """Return what no log says yet: only then have the tasks done all that might show what it should not."""
    logs = b"".join(kept for file, kept in _files(folder).items() if file.suffix == ".log")
    return [said for said in SAID if said.encode() not in logs]


def _fill_outbox(url: str) -> None:
    engine = open_database(url)
    incident = VIEW.firing[0].model_copy(update={"summary": TEXT, "cause": TEXT})
    view = VIEW.model_copy(update={"firing": (incident,)})
    receivers = (("mail", "ops@example.org"), ("slack", "#alerts"), ("slack_webhook", "hook"))
    with writing(engine) as session:
        for channel, receiver in receivers:
            key, now = f"{channel} {receiver}", datetime.now(UTC)
            outbox.enqueue(session, idempotency_key=key, channel=channel, receiver=receiver, view=view, now=now)
        outbox.enqueue(session, idempotency_key="damaged", channel="mail", receiver="b@example.org", view=view, now=now)
    with engine.begin() as connection:
        damage = "view_json = replace(view_json, '\"cause\"', '\"unknown\"')"  # as another release would have it
        connection.exec_driver_sql(f"UPDATE outbox SET {damage} WHERE idempotency_key = 'damaged'")
    engine.dispose()


def test_the_database_of_airflow_is_looked_at_too(kept: Kept) -> None:
    assert [name for name in kept.holding("collect_offsets") if name.startswith("airflow.db")], "rendered fields, XComs"


@pytest.mark.parametrize("what", SECRETS)
def test_no_secret_of_a_connection_is_kept(kept: Kept, what: str) -> None:
    assert kept.holding(SECRETS[what]) == []


def test_the_database_s_password_is_not_kept(kept: Kept) -> None:
    assert kept.holding(kept.database_password) == []


def test_no_word_of_a_message_is_kept(kept: Kept) -> None:
    assert kept.holding(TEXT) == []
