"""Peers that several tests share: for a session one cluster per RocketMQ line and one warm Spark; others for a test."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from offsetguard_peers.alertmanager import Alertmanager
from offsetguard_peers.cases.running import load_profile
from offsetguard_peers.needs import fail_or_skip, put_longest_first, refuse_or_skip, say_needs
from offsetguard_peers.object_store import ObjectStore, versitygw_path
from offsetguard_peers.processes import ReservedPort, SessionGuard
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.slack.server import SlackServer
from offsetguard_peers.smtp.server import SmtpServer
from offsetguard_spark.connect_server import ConnectServer
from offsetguard_spark.engines import QUICK_COMPILER_OPTIONS

load_profile()
gc.set_threshold(200_000, 20, 20)  # the collector of garbage took a tenth of the time


def pytest_collection_finish() -> None:
    """Let the collector of garbage leave alone what was imported: it would walk through all of it again and again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let it free them all the same: DuckDB's classes that nobody freed would be named one by one at the end."""
    gc.unfreeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before pytest-xdist reads the groups, and after tests were shuffled
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Mark each test with what it needs, and with the worker that gets it."""
    for item in items:
        say_needs(item)
    yield
    put_longest_first(items)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what this machine cannot run; where CI is set, fail."""
    refuse_or_skip(item)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say where the logs of peers lie, right above the names of the tests that failed."""
    if terminalreporter.stats.get("failed") or terminalreporter.stats.get("error"):
        folder = config._tmp_path_factory.getbasetemp()
        terminalreporter.write_line(f"Logs of brokers, Spark and Airflow, by test and by worker: {folder}")


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """Run a server of S3, and let this process use it. Shared: use a home of your own, and leave it running."""
    try:
        versitygw_path()
    except FileNotFoundError as none:
        fail_or_skip(str(none))
    with ObjectStore(tmp_path_factory.mktemp("object_store")) as store, pytest.MonkeyPatch.context() as patch:
        for name, value in store.environment.items():
            patch.setenv(name, value)
        yield store


@pytest.fixture(scope="session")
def rocketmq_4() -> Iterator[RocketMQCluster]:
    """RocketMQ 4.9.7: a master and its slave. Shared: use topics and groups of your own, and leave it running."""
    with RocketMQCluster("4.9.7", slaves=1) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def rocketmq_5() -> Iterator[RocketMQCluster]:
    """RocketMQ 5.5.0: a master and its slave. Shared: use topics and groups of your own, and leave it running."""
    with RocketMQCluster("5.5.0", slaves=1) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def spark_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    """Run a warm Spark Connect server. Shared: use a workspace of your own, and leave it running."""
    port = ReservedPort()
    folder = tmp_path_factory.mktemp("server") / "spark-server"
    server = ConnectServer(folder, port.port, memory="1g", master="local[2]")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", QUICK_COMPILER_OPTIONS)  # the collector is the server's own
        process_id = server.start()
    guard = SessionGuard()  # a server outlives whoever started it, also a run of tests that was killed
    guard.add(process_id)
    yield server
    assert server.stop()
    assert server.process_id() is None
    guard.close()
    port.release()


@pytest.fixture
def alertmanager(tmp_path: Path) -> Iterator[Alertmanager]:
    """Run a real one, with a receiver of what it notifies."""
    with Alertmanager(tmp_path / "alertmanager") as started:
        yield started


@pytest.fixture
def smtp_server() -> Iterator[SmtpServer]:
    """Receive mail on a free port; accepts everything until told otherwise."""
    with SmtpServer() as server:
        yield server


@pytest.fixture
def slack_server() -> Iterator[SlackServer]:
    """Stand in for Slack: strict, empty, with the channels alerts, ops, not-invited and archived."""
    with SlackServer() as server:
        yield server
