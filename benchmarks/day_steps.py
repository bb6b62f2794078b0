"""What a minute of the played day consists of: each step with the product's own functions, in a process of its own."""

import asyncio
import os
import resource
import sys
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from offsetguard.collect.collector import collect_cluster
from offsetguard.collect.manifest import Manifest
from offsetguard.config import Config
from offsetguard.config.workspace import Workspace
from offsetguard.decide.judge import judge_interval
from offsetguard.facts.published import read_interval_facts, unaudited_facts
from offsetguard.lake.upkeep.clean import Housekeeper
from offsetguard.model.errors import OffsetGuardError
from offsetguard.model.intervals import Interval
from offsetguard.sources.rocketmq.client import RocketMQClient
from offsetguard.store import published_intervals
from offsetguard.store.database import open_database
from offsetguard_spark.publish import Publisher
from offsetguard_spark.publish_waiting import publish_waiting
from offsetguard_spark.reports import Progress
from offsetguard_spark.session import session_when_needed

CLUSTER = "day"
CRASHED = 3  # exit code of a step that ended by an error that is none of ours


class PlayedClient(RocketMQClient):
    """Asks for real; what it is told was told at the played time."""

    def __init__(self, began: datetime) -> None:
        super().__init__(timeout_ms=10_000, max_in_flight=64)
        self._began, self._at = began, time.monotonic()

    def now(self, address: str | None = None) -> datetime:
        """Return the played time."""
        return self._began + timedelta(seconds=time.monotonic() - self._at)


def collect(home: Workspace, config: Config, interval: Interval, now: datetime) -> None:
    """Step: collect the minute."""

    async def run() -> None:
        async with PlayedClient(now) as client:
            await collect_cluster(
                CLUSTER, config, interval, home.landing_folder, started_at=now, transport=client, deadline_s=60
            )

    asyncio.run(run())


def publish(home: Workspace, config: Config, interval: Interval, now: datetime) -> None:
    """Step: publish it by Spark, after what had no turn."""
    engine = open_database(home.database_url)
    with session_when_needed(home) as start_spark:
        publisher = Publisher(home, config, engine, start_spark, Progress(print))
        publish_waiting(publisher, lambda: now, live_only=True)
        publisher.publish(CLUSTER, interval, now=now)


def judge(home: Workspace, config: Config, interval: Interval, now: datetime) -> None:
    """Step: judge it by what is published, or has landed."""
    engine = open_database(home.database_url)
    published = published_intervals.get(engine, CLUSTER, interval)
    if published is not None:
        facts = read_interval_facts(home, published, Manifest.from_json(published.manifest_json))
    else:
        facts = unaudited_facts(home, engine, CLUSTER, interval, config, say=print)
    judge_interval(engine, facts, config, now=now)


def clean(home: Workspace, config: Config, interval: Interval, now: datetime) -> None:
    """Step: housekeeping."""
    Housekeeper(home, config.retention, open_database(home.database_url), lambda _: None).clean(now=now)


Step = Callable[[Workspace, Config, Interval, datetime], None]


def in_process(step: Step, environment: dict[str, str], log: str, config_json: str, *arguments: Any) -> None:
    os.environ.update(environment)
    with open(log, "ab", buffering=0) as written:  # noqa: PTH123
        os.dup2(written.fileno(), 1), os.dup2(written.fileno(), 2)
    home, interval, now = arguments
    print(f"--- {step.__name__} {interval.name} at {now:%H:%M:%S}, in truth {datetime.now(UTC):%H:%M:%S}", flush=True)
    try:
        step(home, Config.model_validate_json(config_json), interval, now)
    except OffsetGuardError as error:
        print(f"refused: {error}", flush=True)
        sys.exit(1)
    except Exception:  # noqa: BLE001 - that is what is counted
        traceback.print_exc()
        sys.exit(CRASHED)
    finally:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(f"peak {step.__name__} {peak}", flush=True)
