"""One landed round in a process of its own, for tests that kill it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pyarrow as pa

from offsetguard.collect.collector import collect_cluster
from offsetguard.config import Config
from offsetguard.model.intervals import Interval

pa.array([0])  # imports pandas, once for all forked rounds instead of once in each


def collect_once(config_json: str, cluster: str, interval_name: str, landing_folder: str) -> None:
    """Collect and land one interval, as if it had just ended."""
    interval = Interval.from_name(interval_name)
    config = Config.model_validate(json.loads(config_json))
    asyncio.run(collect_cluster(cluster, config, interval, Path(landing_folder), started_at=interval.end))
