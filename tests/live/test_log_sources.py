"""What real brokers and clients of both lines write into their logs, found by the tailing reader in the right files."""

import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from offsetguard.collect.landing import Row
from offsetguard.config import LogSource
from offsetguard.sources.logs.events import LogEvent, moves_from
from offsetguard.sources.logs.log_files import LogCursor
from offsetguard.sources.logs.tailing import LogLimits, read_logs
from offsetguard.sources.rocketmq.requests import PullMessage
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.clients import ConsumerSpec, produce, running_consumer, running_consumers
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.rocketmq.jvm import class_path
from offsetguard_peers.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.slow]


class Tail:
    """Rounds over the logs of one folder; every event is read once."""

    def __init__(self, folder: Path, broker_name: str | None, time_zone: str = "+08:00") -> None:
        files = [f"{folder}/*.log"]
        self._source = LogSource(name="staged", files=files, broker_name=broker_name, time_zone=time_zone)
        self._cursors: tuple[LogCursor, ...] = ()
        self._limits = LogLimits(bytes_per_round=1 << 30, events_per_round=1 << 20)
        self.events: list[LogEvent] = []

    def read(self) -> None:
        """Read what is new."""
        reading = read_logs([self._source], self._cursors, self._limits)
        assert reading.gaps == ()
        self._cursors = reading.cursors
        self.events += reading.events

    def until(self, wanted: Callable[[LogEvent], bool]) -> LogEvent:
        """Read on until an event is what is wanted."""

        def one_of_them() -> LogEvent | None:
            self.read()
            return next(filter(wanted, self.events), None)

        def seen() -> str:
            return f"an event; there were: {', '.join(sorted({event.kind for event in self.events}))}"

        return wait_until(one_of_them, seen)


def broker_tail(cluster: RocketMQCluster) -> Tail:
    return Tail(cluster.broker().log_folder, "broker-a")


def test_a_lock_that_a_killed_client_holds_is_refused_to_its_successor(cluster: RocketMQCluster) -> None:
    """Incident I4: the lines stand in lock.log on 4.x, in filter.log on 5.x."""
    topic, group = "log-orderly", "log-orderly-group"
    Admin(cluster).create_topic(topic, queues=2)
    produce(cluster, topic, 4)
    started_at = datetime.now(UTC) - timedelta(seconds=2)
    tail = broker_tail(cluster)
    with ExitStack() as clients:
        holder = clients.enter_context(running_consumer(cluster, group, topic, orderly=True))
        holder.wait_until_consumed(4)
        # It runs before the holder dies: locks live for a minute, in which a busy machine may not start a client.
        waiter = clients.enter_context(running_consumer(cluster, group, topic, orderly=True))
        (holder_id,), (waiter_id,) = holder.client_ids, waiter.client_ids
        holder.kill()
        refused = tail.until(
            lambda event: event.kind == "lock_refused" and event.fields["topic"] == topic  # not %RETRY%
        )
        local_zone = datetime.now().astimezone().strftime("%z")
        zone = "+08:00" if cluster.version.startswith("5.") else f"{local_zone[:3]}:{local_zone[3:]}"
        said = Tail(waiter.log_file.parent, None, zone).until(
            lambda event: event.kind == "queue_not_taken" and event.fields["topic"] == topic
        )
    assert refused.origin.file.startswith("filter-" if cluster.version.startswith("5.") else "lock-")
    assert refused.fields["consumer_group"] == group
    assert (refused.fields["holder_client_id"], refused.fields["client_id"]) == (holder_id, waiter_id)
    assert refused.fields["broker_name"] == "broker-a"
    for event in (refused, said):
        assert started_at <= event.at <= datetime.now(UTC)
    taken = [event for event in tail.events if event.kind == "lock_taken" and event.fields["topic"] == topic]
    assert (taken[0].fields["consumer_group"], taken[0].fields["client_id"]) == (group, holder_id)


def test_two_clients_that_subscribe_differently_are_told_from_a_rebalance(cluster: RocketMQCluster) -> None:
    topic, group, healthy = "log-subscriptions", "log-subscriptions-group", "log-healthy-group"
    Admin(cluster).create_topic(topic, queues=2)
    tail = broker_tail(cluster)
    specs = [
        ConsumerSpec(group, {topic: "red"}, instance_name="first"),
        ConsumerSpec(healthy, {topic: "*"}, instance_name="third"),
    ]
    with (
        running_consumers(cluster, specs),
        running_consumer(cluster, group, {topic: "red || blue"}, instance_name="second"),
    ):
        changed = tail.until(
            lambda event: event.kind == "subscription_changed" and event.fields["consumer_group"] == group
        )
        tail.until(lambda event: event.kind == "subscription_refreshed" and event.fields["consumer_group"] == healthy)
        tail.until(lambda event: event.kind == "consumer_connected" and event.fields["consumer_group"] == healthy)
    assert {changed.fields["old_sub_string"], changed.fields["new_sub_string"]} == {"red", "red || blue"}
    assert changed.fields["topic"] == topic
    assert not [
        event
        for event in tail.events
        if event.kind == "subscription_changed" and event.fields["consumer_group"] == healthy
    ]


def test_no_line_of_a_real_broker_is_laid_out_in_a_way_that_we_do_not_know(cluster: RocketMQCluster) -> None:
    reading = read_logs(
        [LogSource(name="staged", files=[f"{cluster.broker().log_folder}/*.log"], broker_name="broker-a")],
        (),
        LogLimits(bytes_per_round=1 << 30, events_per_round=1 << 20, routine=True),
    )
    assert [line.text for line in reading.undecodable] == []
    assert reading.gaps == ()
    assert reading.events != ()


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
def rotating_cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RocketMQCluster]:
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


def test_every_move_is_told_once_while_logback_rotates(rotating_cluster: RocketMQCluster) -> None:
    cluster = rotating_cluster
    topic, group = "log-rotation", "log-rotation-group"
    admin = Admin(cluster)
    admin.create_topic(topic, queues=1)
    admin.create_group(group)
    produce(cluster, topic, 3)
    tail = broker_tail(cluster)
    tail.read()
    for number in range(1, PULLS + 1):
        pull = PullMessage(topic=topic, queue_id=0, queue_offset=1_000 + number, consumer_group=group)
        admin.read(cluster.broker().address, pull)
        if number % PULLS_PER_ROUND == 0:
            tail.read()

    def told() -> list[Row]:
        found = moves_from(tail.events, "main", datetime(2026, 11, 21, tzinfo=UTC))
        return [move for move in found if move["consumer_group"] == group]

    def all_are_read() -> bool:  # brokers of 5.x write their logs behind a queue
        tail.read()
        return len(told()) >= PULLS

    wait_until(all_are_read, lambda: f"{PULLS} lines, not {len(told())}")
    moves = told()
    assert any(cluster.broker().log_folder.glob("otherdays/broker.*.log.gz"))
    keys = {(move["source"], move["position"]) for move in moves}
    assert len({source for source, _ in keys}) > 2
    assert len(keys) == len(moves)
    assert sorted(move["requested_offset"] for move in moves) == list(range(1_001, 1_001 + PULLS))
    assert {(move["topic"], move["broker_name"], move["queue_id"]) for move in moves} == {(topic, "broker-a", None)}
    assert {move["corrected_offset"] for move in moves} == {3}
    known = {str(move["client_id"]).partition(":")[0] for move in moves if move["client_id"]}  # not where it was gone
    assert known == {"127.0.0.1"}
