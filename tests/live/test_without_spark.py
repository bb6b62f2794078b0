"""Ten minutes without Spark while a group stops: its owner is told within four, and that facts are old.

One Airflow with a warm Spark server, which is stopped as a hanging one is (SIGSTOP), and goes on later.
"""

import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from offsetguard.config import Config
from offsetguard.config.file import load_config
from offsetguard.decide.own_health import troubles_of
from offsetguard.model.incident import EventKind, Incident
from offsetguard.store import cycles, incidents, published_intervals
from offsetguard.store.database import database_time, open_database, reading
from offsetguard_peers.databases import newest_incidents, newest_judged
from offsetguard_peers.demo.world import World
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.clients import producer_of, running_consumer
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.waiting import wait_until
from offsetguard_spark.connect_server import ConnectServer

pytestmark = [pytest.mark.live, pytest.mark.airflow, pytest.mark.slow]

_log = logging.getLogger(__name__)
CLUSTER, GROUP, TOPIC = "main", "without-spark", "without-spark-orders"
OWNER = "orders@example.com"
AWAY_S, TOLD_WITHIN_S, PATIENCE_S = 600, 240, 900
RECOVERY_PATIENCE_S = 1_800  # a publication of 40 s, where others use the machine, gains a minute in two


@pytest.fixture
def world(tmp_path: Path, spark_server: ConnectServer, rocketmq_5: RocketMQCluster) -> Iterator[World]:
    with World(tmp_path / "world", spark=spark_server) as world:
        world.start()
        world.write_config(
            {
                "clusters": {CLUSTER: {"name_servers": [rocketmq_5.namesrv]}},
                "teams": {"orders": {"mail": [OWNER]}, "others": {"mail": ["others@example.com"]}},
                "default_team": "others",
                "groups": [{"match": GROUP, "team": "orders"}],
            }
        )
        yield world


class Watch:
    """What became of the one group and the pipeline so far."""

    def __init__(self, world: World) -> None:
        """Nothing has happened yet."""
        self._world = world
        self.engine = open_database(world.workspace.database_url)

    def mail(self, recipient: str, *words: str) -> str | None:
        """Return the text of the first mail to somebody whose subject or text has all the words."""
        for mail in self._world.smtp.mails:
            said = f"{mail.message['Subject']}\n{mail.text}"
            if mail.recipients == (recipient,) and all(word in said for word in words):
                return said
        return None

    def incident(self, rule_id: str, consumer_group: str | None) -> Incident | None:
        """Return the newest incident of a rule about a group."""
        found = newest_incidents(self.engine)
        return next(
            (i for i in found if (i.subject.rule_id, i.subject.consumer_group) == (rule_id, consumer_group)), None
        )

    def published_until(self) -> Any:
        """Return the end of the newest published interval."""
        newest = published_intervals.newest(self.engine, CLUSTER)
        return newest and newest.interval.end

    def has_published_all(self) -> bool:
        """Whether every judged minute but the newest three is published."""
        judged = {one.interval_start for one in newest_judged(self.engine)}
        return set(sorted(judged)[:-3]) <= set(
            published_intervals.starts(self.engine, CLUSTER, min(judged), max(judged))
        )

    def config(self) -> Config:
        """Return what is configured."""
        return load_config(self._world.workspace.config_file)


def test_ten_minutes_without_spark(world: World, spark_server: ConnectServer, rocketmq_5: RocketMQCluster) -> None:
    Admin(rocketmq_5).create_topic(TOPIC, queues=4)
    producer = producer_of(rocketmq_5)
    watch = Watch(world)
    with running_consumer(rocketmq_5, GROUP, TOPIC) as consumer:
        order = producer.order(TOPIC, 20 * 3_600, rate_per_s=20)
        world.run_dags()
        _until(lambda: len(newest_judged(watch.engine)) >= 3, "three judged minutes", PATIENCE_S)
        _until(watch.published_until, "a published minute", PATIENCE_S)
        assert watch.mail(OWNER, GROUP) is None, "the group is well"
        with _hanging(spark_server):
            consumer.kill()
            stopped = time.monotonic()
            published_until = watch.published_until()
            judged = len(newest_judged(watch.engine))
            _until(lambda: watch.mail(OWNER, GROUP), "the owner's mail", PATIENCE_S)
            told_after = time.monotonic() - stopped
            _until(lambda: watch.mail("others@example.com", "facts_not_published"), "old facts", PATIENCE_S)
            _log.info("told after %.0f s; that facts are old after %.0f s", told_after, time.monotonic() - stopped)
            assert told_after <= TOLD_WITHIN_S
            assert "Not checked yet" in (watch.mail(OWNER, GROUP) or "")
            _until(lambda: time.monotonic() - stopped > AWAY_S, "ten minutes", AWAY_S)
            assert len(newest_judged(watch.engine)) - judged >= 7, "minutes are judged all the while"
            assert watch.published_until() - published_until <= timedelta(minutes=1), "Spark was away"
            assert cycles.newest(watch.engine, failed=True), "each that was ended has left its row"
            (late,) = troubles_of(watch.engine, watch.config(), now=database_time(watch.engine))
            assert late.text.startswith(f"publishing of cluster {CLUSTER} is late: its newest published minute ended ")
        unaudited = watch.incident("consumer_offline", GROUP)
        assert unaudited is not None
        assert not unaudited.evidence.audited
    back = time.monotonic()

    def is_confirmed() -> bool:
        incident = watch.incident("consumer_offline", GROUP)
        return incident is not None and incident.is_open and incident.evidence.audited

    _until(is_confirmed, "published facts that confirm it", RECOVERY_PATIENCE_S)
    _log.info("confirmed %.0f s after Spark was back", time.monotonic() - back)
    with reading(watch.engine) as session:
        kinds = [event.kind for event in incidents.events_of(session, unaudited.incident_id)]
    assert EventKind.CONFIRMED in kinds

    def is_over() -> bool:
        incident = watch.incident("facts_not_published", None)
        return incident is not None and incident.is_over

    _until(is_over, "the end of: facts are not published", PATIENCE_S)
    _until(watch.has_published_all, "every minute of those ten published", RECOVERY_PATIENCE_S)
    _log.info("all published %.0f s after Spark was back", time.monotonic() - back)
    assert producer.process.alive, order
    judged_at = sorted(one.interval_start for one in newest_judged(watch.engine))
    assert {later - earlier for earlier, later in pairwise(judged_at)} == {timedelta(minutes=1)}, "none is left out"


@contextmanager
def _hanging(server: ConnectServer) -> Iterator[None]:
    """Let the Spark server hang, and go on at the end."""
    process_id = server.process_id()
    assert process_id
    process_group = os.getpgid(process_id)
    os.killpg(process_group, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(process_group, signal.SIGCONT)


def _until(condition: Callable[[], object], what: str, timeout_s: float) -> None:
    wait_until(condition, what, timeout_s=timeout_s, every_s=1.0)
