"""What our channels and Spark make of Airflow connections."""

import sys
from operator import attrgetter

import pytest
from airflow.sdk._shared.secrets_masker import redact
from airflow.sdk.exceptions import AirflowFailException

from offsetguard.config.routes import Delivery
from offsetguard.deliver.channels.channel import Unavailable
from offsetguard.deliver.channels.mail import MailChannel, TlsMode
from offsetguard.deliver.channels.slack import SlackChannel
from offsetguard.deliver.channels.slack_webhook import SlackWebhookChannel
from offsetguard.deliver.deliver import CHANNELS
from offsetguard.model.errors import ConfigError
from offsetguard.model.notification import Channel
from offsetguard_airflow.hooks import opened_by, rocketmq_credentials
from offsetguard_airflow.operators.spark_job import (
    spark_connect,
    workspace_variables,
)
from offsetguard_airflow.operators.spark_jobs import PublishIntervalOperator

SLACK_API = "http%3A%2F%2F127.0.0.1%3A1%2Fapi%2F"
HOOK = "https://hooks.slack.com/services/T/B/x"
OPENED: list[tuple[Channel, str, type, dict[str, object]]] = [
    (
        "mail",
        "smtp://mail.example.com/?disable_ssl=true&disable_tls=true",
        MailChannel,
        {"host": "mail.example.com", "port": 25, "user": None, "tls_mode": TlsMode.NONE},
    ),
    (
        "mail",
        "smtp://mail.example.com/?disable_ssl=true",
        MailChannel,
        {"port": 587, "tls_mode": TlsMode.STARTTLS},
    ),
    ("mail", "smtp://mail.example.com", MailChannel, {"port": 465, "tls_mode": TlsMode.TLS}),
    (
        "mail",
        "smtp://me:word@mail.example.com:2525/?disable_ssl=True",
        MailChannel,
        {"port": 2525, "user": "me", "tls_mode": TlsMode.STARTTLS},
    ),
    (
        "slack",
        f"slack://:xoxb-1@/?base_url={SLACK_API}&timeout=3",
        SlackChannel,
        {"client.token": "xoxb-1", "client.base_url": "http://127.0.0.1:1/api/", "client.timeout": 3},
    ),
    (
        "slack_webhook",
        f'{{"conn_type": "slackwebhook", "password": "{HOOK}"}}',
        SlackWebhookChannel,
        {"name": "given", "url": HOOK, "timeout_s": 10},
    ),
    (
        "slack_webhook",
        '{"conn_type": "slackwebhook", "password": "T/B/x", "extra": {"timeout": 3}}',
        SlackWebhookChannel,
        {"url": HOOK, "timeout_s": 3},
    ),
    (
        "slack_webhook",
        '{"conn_type": "slackwebhook", "host": "http://127.0.0.1:1/services", "password": "/T/B/x"}',
        SlackWebhookChannel,
        {"url": "http://127.0.0.1:1/services/T/B/x"},
    ),
]


@pytest.mark.parametrize(("kind", "connection", "way", "expected"), OPENED)
def test_a_connection_means_what_its_provider_says(
    kind: Channel, connection: str, way: type, expected: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_GIVEN", connection)
    channel = opened_by(CHANNELS[kind], "given", Delivery())
    assert isinstance(channel, way)
    assert {name: attrgetter(name)(channel) for name in expected} == expected
    assert "T/B/x" not in repr(channel)


LACKING = "create one of type"
MALFORMED = [
    ("mail", "smtp://", LACKING),
    ("slack", "slack://", LACKING),
    ("slack_webhook", '{"conn_type": "slackwebhook"}', "has not got a password; create one of type slackwebhook"),
    ("mail", '{"conn_type": "smtp", "host": "h", "password": "hunter2", "extra": {"timeout": "10s"}}', "'10s'"),
    ("mail", '{"conn_type": "smtp", "host": "h", "password": "hunter2", "extra": {"timeout": "nan"}}', "'nan'"),
    ("slack", '{"conn_type": "slack", "password": "hunter2", "extra": {"timeout": -1}}', "not -1"),
    ("slack", '{"conn_type": "slack", "password": "hunter2", "extra": {"timeout": null}}', "not None"),
    ("slack", '{"conn_type": "slack", "password": "hunter2", "extra": "[1]"}', "is malformed"),
    (
        "slack_webhook",
        '{"conn_type": "slackwebhook", "password": "hunter2", "extra": {"timeout": "1e9"}}',
        "'1e9'",
    ),
    ("slack_webhook", '{"conn_type": "slackwebhook", "password": "hunter2", "nonsense": ', "'half'"),
]


@pytest.mark.parametrize(("kind", "connection", "said"), MALFORMED)
def test_a_malformed_connection_stops_only_its_own_channel_and_shows_no_secret(
    kind: Channel, connection: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_HALF", connection)
    channel = opened_by(CHANNELS[kind], "half", Delivery())
    assert isinstance(channel, Unavailable)
    assert "Airflow connection 'half'" in channel.reason
    assert said in channel.reason
    assert "hunter2" not in channel.reason


def test_rocketmq_credentials_are_login_password_and_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_MQ", '{"login": "key", "password": "secret", "extra": {"security_token": "t"}}')
    credentials = rocketmq_credentials("mq")
    assert credentials is not None
    assert (credentials.access_key, credentials.secret_key, credentials.security_token) == ("key", "secret", "t")
    assert "secret" not in repr(credentials)
    monkeypatch.setenv("AIRFLOW_CONN_MQ", '{"login": "key"}')
    with pytest.raises(ConfigError, match="'mq' needs the RocketMQ access key as login and the secret key as password"):
        rocketmq_credentials("mq")


SUBMITTED_TO = {
    '{"conn_type": "spark", "host": "yarn"}': "yarn",
    '{"conn_type": "spark", "host": "local[4]"}': "local[4]",
    "spark://spark.example.com:7077": "spark://spark.example.com:7077",
}


@pytest.mark.parametrize("connection", SUBMITTED_TO)
def test_a_connection_that_names_a_master_submits_to_it(connection: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_TEST", connection)
    assert spark_connect("spark_test") is None
    assert _operator()._get_hook()._connection["master"] == SUBMITTED_TO[connection]


@pytest.mark.parametrize("connection", [None, '{"conn_type": "spark"}'])
def test_without_a_connection_or_a_host_in_it_spark_is_that_of_the_workspace(
    connection: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if connection is not None:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_TEST", connection)
    server = spark_connect("spark_test")
    assert server is not None
    assert server.environment == {}


SERVERS = {
    '{"conn_type": "spark_connect", "host": "localhost", "port": 15002, "password": "a/b=c"}': (
        "sc://localhost:15002/",
        "a/b=c",
    ),
    '{"conn_type": "spark_connect", "host": "sc://spark.example.com", "extra": {"use_ssl": true, "token": "secret"}}': (
        "sc://spark.example.com/;use_ssl=True",
        "secret",
    ),
    '{"conn_type": "spark", "host": "sc://10.0.0.1", "port": 4}': ("sc://10.0.0.1:4/", None),
    "sc://me:word@localhost:15002/?x-region=a%3Bb": ("sc://localhost:15002/;x-region=a%3Bb;user_id=me", "word"),
}


@pytest.mark.parametrize("connection", SERVERS)
def test_a_spark_connect_connection_gives_an_address_without_its_token(
    connection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_TEST", connection)
    server = spark_connect("spark_test")
    assert server is not None
    assert (server.remote, server.token) == SERVERS[connection]
    assert server.environment["SPARK_REMOTE"] == server.remote
    assert server.token is None or server.token not in server.remote
    assert server.token is None or server.token not in repr(server)


def test_a_driver_on_the_cluster_is_refused_because_our_files_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = '{"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}'
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_TEST", connection)
    with pytest.raises(AirflowFailException, match="deploy-mode cluster would start the job where neither"):
        _operator()._get_hook()


def test_secrets_reach_a_cluster_s_driver_by_its_environment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider would write environment variables on the command line of a submission to YARN or Kubernetes."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_TEST", '{"conn_type": "spark", "host": "yarn"}')
    hook = _operator()._get_hook()
    command = hook._build_spark_submit_command("job.py")
    assert command[:3] == ["spark-submit", "--master", "yarn"]
    assert "iceberg-spark-runtime" in command[command.index("--jars") + 1]
    assert "secret" not in " ".join(command)
    assert hook._env["OFFSETGUARD_DATABASE_URL"] == "postgresql://me:secret@db/og"
    assert f"spark.pyspark.driver.python={sys.executable}" in command


def test_passwords_of_both_databases_are_masked_in_task_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are, and as URLs quote them."""
    monkeypatch.setenv("OFFSETGUARD_DATABASE_URL", "postgresql+psycopg://og:first%40secret@db/og")
    monkeypatch.setenv("OFFSETGUARD_CATALOG_URL", "postgresql+psycopg://iceberg:second%2Fsecret@db/iceberg")
    variables = workspace_variables()
    assert variables["OFFSETGUARD_CATALOG_URL"] == "postgresql+psycopg://iceberg:second%2Fsecret@db/iceberg"
    said = str(redact(f"{variables} first@secret second/secret"))
    assert "secret" not in said
    monkeypatch.setenv("OFFSETGUARD_CATALOG_URL", "postgresql+psycopg://iceberg@db:none/iceberg")
    assert "db:none" in workspace_variables()["OFFSETGUARD_CATALOG_URL"], "the job says what is wrong with it"


def _operator() -> PublishIntervalOperator:
    return PublishIntervalOperator(
        task_id="publish",
        cluster="demo",
        interval_start="2026-11-21T10:39:00Z",
        conn_id="spark_test",
        env_vars={"OFFSETGUARD_DATABASE_URL": "postgresql://me:secret@db/og"},
    )
