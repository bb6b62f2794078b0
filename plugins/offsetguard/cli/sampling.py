"""Several looks at a live cluster, each going on where the one before ended, and its logs at the end."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from offsetguard.bundle.log_excerpts import find_log_folders
from offsetguard.cli.log_tails import copy_tails, sources_of_folders
from offsetguard.cli.replica_labels import replica_labels
from offsetguard.collect.collector import collect_round
from offsetguard.collect.earlier_round import EarlierRound
from offsetguard.intervals import Interval
from offsetguard.rocketmq.client import RocketMQClient

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from offsetguard.collect.snapshot import Snapshot
    from offsetguard.config import Config, LogSource
    from offsetguard.rocketmq.signing import Credentials


@dataclass(frozen=True, slots=True)
class SamplingPlan:
    """Whom to look at, how often, and which folders with logs to read."""

    cluster: str
    config: Config
    count: int
    every: timedelta
    credentials: Credentials | None
    logs: Sequence[tuple[str | None, Path]] = ()  # (whose, folder); none: the log sources of the configuration


async def take_samples(plan: SamplingPlan, tell: Callable[[str], None]) -> list[Snapshot]:
    """Look `count` times; a cluster of which no name server answers is not looked at again.

    Raises BundleError when a folder holds no logs, or nothing tells whose they are.
    """
    loop = asyncio.get_running_loop()
    begun = loop.time()
    sources = await _log_sources(plan, tell)
    samples: list[Snapshot] = []
    for number in range(plan.count):
        await asyncio.sleep(begun + number * plan.every.total_seconds() - loop.time())
        tell(f"{plan.cluster}: look {number + 1} of {plan.count}")
        is_last = number == plan.count - 1
        samples.append(await _look(plan, samples[-1] if samples else None, sources if is_last else ()))
        if samples[-1].manifest.cluster_unseen:
            break
    return samples


async def _look(plan: SamplingPlan, before: Snapshot | None, sources: Sequence[LogSource]) -> Snapshot:
    """Take one look; with `sources`, also at the newest lines of the logs."""
    now = datetime.now(UTC)
    since = now - timedelta(milliseconds=plan.config.judgement.log_window_ms)
    with tempfile.TemporaryDirectory(prefix="offsetguard-logs-") as folder:
        tails = await asyncio.to_thread(copy_tails, sources, since, Path(folder)) if sources else ()
        return await collect_round(
            plan.cluster,
            plan.config,
            Interval.containing(now),
            credentials=plan.credentials,
            started_at=now,
            earlier=EarlierRound(before.manifest, before.tables) if before else None,
            log_sources=tails,
        )


async def _log_sources(plan: SamplingPlan, tell: Callable[[str], None]) -> tuple[LogSource, ...]:
    if not plan.logs:
        return tuple(plan.config.clusters[plan.cluster].logs)
    settings = plan.config.clusters[plan.cluster]
    limits = settings.collection
    async with RocketMQClient(
        settings.request_timeout_ms, plan.credentials, limits.max_in_flight, limits.max_requests_per_s, settings.tls
    ) as client:
        labels = await replica_labels(client, settings.name_servers, tell)
    return sources_of_folders(find_log_folders(plan.logs, labels))
