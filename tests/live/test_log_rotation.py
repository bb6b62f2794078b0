"""Real brokers whose own logback rotates and compresses broker.log all the time: every pull is told exactly once."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from offsetguard.collect.landing import Row
from offsetguard.config import LogSource
from offsetguard.sources.logs.events import moves_from
from offsetguard.sources.logs.log_files import LogCursor
from offsetguard.sources.logs.tailing import LogLimits, read_logs
from offsetguard.sources.rocketmq.requests import PullMessage
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.clients import produce
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.rocketmq.jvm import class_path
from offsetguard_peers.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.slow]

PULLS = 1_500
PULLS_PER_ROUND = 130
ROTATING_4 = """<configuration>
  <appender name="broker" class="ch.qos.logback.core.rolling.RollingFileAppender">
    <file>${user.home}/logs/rocketmqlogs/broker.log</file>
    <rollingPolicy class="ch.qos.logback.core.rolling.FixedWindowRollingPolicy">
      <fileNamePattern>${user.home}/logs/rocketmqlogs/otherdays/broker.%i.log.gz</fileNamePattern>
      <minIndex>1</minIndex><maxIndex>20</maxIndex>
    </rollingPolicy>
    <triggeringPolicy class="ch.qos.logback.core.rolling.SizeBasedTriggeringPolicy">
      <maxFileSize>20KB</maxFileSize>
    </triggeringPolicy>
    <encoder><pattern>%d{yyy-MM-dd HH:mm:ss,GMT+8} %p %t - %m%n</pattern></encoder>
  </appender>
  <root><level value="INFO"/><appender-ref ref="broker"/></root>
</configuration>
"""


def rotating_5(version: str) -> str:
    """Return the broker's own configuration, with small files."""
    for jar in class_path(version, "broker").split(os.pathsep):
        if Path(jar).name == f"rocketmq-broker-{version}.jar":
            with zipfile.ZipFile(jar) as content:
                return content.read("rmq.broker.logback.xml").decode().replace("128MB", "20KB")
    raise FileNotFoundError(f"rocketmq-broker-{version}.jar")


@pytest.fixture(params=["4.9.7", "5.5.0"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RocketMQCluster]:
    version: str = request.param
    five = version.startswith("5.")
    configuration = tmp_path / "logback.xml"
    properties = {"rmq.logback.configurationFile": str(configuration)} if five else {}
    own = RocketMQCluster(version, java_properties=properties)
    if five:
        configuration.write_text(rotating_5(version))
    else:
        (own.home / "conf" / "logback_broker.xml").write_text(ROTATING_4)
    with own:
        yield own


class Rounds:
    """What rounds of the reader told of one group."""

    def __init__(self, folder: Path, group: str) -> None:
        self._source = LogSource(name="rotating", files=[f"{folder}/*.log"], broker_name="broker-a")
        self._group = group
        self._cursors: tuple[LogCursor, ...] = ()
        self.moves: list[Row] = []

    def round(self) -> None:
        reading = read_logs([self._source], self._cursors, LogLimits(bytes_per_round=1 << 30))
        assert reading.gaps == ()
        self._cursors = reading.cursors
        moves = moves_from(reading.events, "main", datetime(2026, 11, 21, tzinfo=UTC))
        self.moves += [move for move in moves if move["consumer_group"] == self._group]


def test_every_move_is_told_once_while_logback_rotates(cluster: RocketMQCluster) -> None:
    topic, group = "log-rotation", "log-rotation-group"
    admin = Admin(cluster)
    admin.create_topic(topic, queues=1)
    admin.create_group(group)
    produce(cluster, topic, 3)
    folder = cluster.broker().log_folder
    rounds = Rounds(folder, group)
    rounds.round()
    for number in range(1, PULLS + 1):
        pull = PullMessage(topic=topic, queue_id=0, queue_offset=1_000 + number, consumer_group=group)
        admin.read(cluster.broker().address, pull)
        if number % PULLS_PER_ROUND == 0:
            rounds.round()

    def all_are_read() -> bool:  # brokers of 5.x write their logs behind a queue
        rounds.round()
        return len(rounds.moves) >= PULLS

    wait_until(all_are_read, lambda: f"{PULLS} lines, not {len(rounds.moves)}")
    assert any(folder.glob("otherdays/broker.*.log.gz"))
    keys = {(move["source"], move["position"]) for move in rounds.moves}
    assert len({source for source, _ in keys}) > 2
    assert len(keys) == len(rounds.moves)
    assert sorted(move["requested_offset"] for move in rounds.moves) == list(range(1_001, 1_001 + PULLS))
    assert {(move["topic"], move["broker_name"], move["queue_id"]) for move in rounds.moves} == {
        (topic, "broker-a", None)
    }
    assert {(move["corrected_offset"], move["client_id"].partition(":")[0]) for move in rounds.moves} == {
        (3, "127.0.0.1")
    }
