"""Our metrics arrive where Airflow's own do: at a real OTLP receiver, and at a real StatsD listener."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from offsetguard.store import cycles
from offsetguard.store.database import open_database
from offsetguard.store.locks import only_publisher
from offsetguard.store.models import CycleRow
from offsetguard_peers.http_server import HttpPeer, Quiet

START = datetime(2026, 11, 21, 10, 39, tzinfo=UTC)
# As a task does it: the runner configures the backend, the operator sends, and the process ends.
SEND = """
from airflow.sdk.configuration import conf
from airflow.sdk.observability.metrics import stats_utils
from airflow.sdk.observability.stats import initialize
initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=True)
import os
from datetime import datetime, UTC
from offsetguard.store.database import open_database
from offsetguard_airflow.metrics import send_cycles
engine = open_database(os.environ["OFFSETGUARD_DATABASE_URL"])
send_cycles(engine, since=datetime(2026, 11, 21, 10, 39, tzinfo=UTC))
send_cycles(engine, since=datetime(2026, 11, 21, 10, 39, tzinfo=UTC), clusters=["other"])
send_cycles(engine, since=datetime(2026, 11, 21, 10, 40, tzinfo=UTC))  # not of this task
"""


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    url = f"sqlite:///{tmp_path / 'offsetguard.db'}"
    published = CycleRow(
        "demo",
        START,
        "run",
        START,
        START + timedelta(seconds=2.5),
        "published",
        rows={"queue_facts": 3, "group_facts": 5},
        quarantined=4,
    )
    engine = open_database(url)
    cycles.record(engine, published)
    with only_publisher(engine, print) as lock:
        runs = CycleRow("demo", START, "runs", START, START, None, failed_step="write", running_under=lock.token)
        cycles.record(engine, runs)
        yield {**os.environ, "OFFSETGUARD_DATABASE_URL": url, "AIRFLOW_HOME": str(tmp_path / "airflow")}
    engine.dispose()


def send(environment: dict[str, str], **settings: str) -> None:
    variables = {f"AIRFLOW__METRICS__{name.upper()}": value for name, value in settings.items()}
    done = subprocess.run(
        [sys.executable, "-c", SEND], env=environment | variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_with_opentelemetry_each_value_has_its_tags(environment: dict[str, str]) -> None:
    received: list[ExportMetricsServiceRequest] = []

    class Receiver(Quiet, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append(ExportMetricsServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

    with HttpPeer(Receiver) as server:
        port = str(urlsplit(server.url).port)
        send(environment, otel_on="True", otel_host="127.0.0.1", otel_port=port)

    values = {
        (metric.name, *sorted((tag.key, tag.value.string_value) for tag in point.attributes)): (
            getattr(point, point.WhichOneof("value"))
        )
        for request in received
        for resource in request.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in (*metric.gauge.data_points, *metric.sum.data_points)
    }
    rows = "airflow.offsetguard.cycle.rows"
    assert values[rows, ("cluster", "demo"), ("table", "queue_facts")] == 3
    assert values[rows, ("cluster", "demo"), ("table", "group_facts")] == 5
    assert values["airflow.offsetguard.cycle.quarantined", ("cluster", "demo")] == 4


def test_with_plain_statsd_the_tags_are_part_of_the_name(environment: dict[str, str]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(60)
        send(environment, statsd_on="True", statsd_host="127.0.0.1", statsd_port=str(listener.getsockname()[1]))
        listener.setblocking(False)
        lines = []
        while True:
            try:
                lines.append(listener.recv(65_536).decode())
            except BlockingIOError:
                break
    assert "airflow.offsetguard.cycle.rows.demo.queue_facts:3|g" in lines
    assert "airflow.offsetguard.cycle.rows.demo.group_facts:5|g" in lines
    assert "airflow.offsetguard.cycle.published.demo:1|c" in lines
    assert any(line.startswith("airflow.offsetguard.cycle.duration.demo:2500.0") for line in lines)
    assert len([line for line in lines if ".cycle.duration.demo:" in line]) == 1, "the other one runs still"
