"""Our metrics, sent the way Airflow sends its own: StatsD, DogStatsD or OpenTelemetry, as `[metrics]` says.

`offsetguard.lake.cycle_metrics` names them.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from airflow.sdk.configuration import conf
from airflow.sdk.observability.stats import gauge, incr, timing

from offsetguard.config.workspace import Workspace
from offsetguard.store import cycles
from offsetguard.store.database import open_database
from offsetguard_airflow.task_inputs import interval_at

if TYPE_CHECKING:
    from offsetguard.lake.cycle_metrics import Measurement


def send(measurements: Iterable[Measurement]) -> None:
    """Send values; nothing happens when Airflow's metrics are off."""
    from offsetguard.lake.cycle_metrics import MetricKind

    tagged = receiver_knows_tags()
    for one in measurements:
        name = one.metric.name if tagged else one.dotted_name
        tags = dict(one.tags) if tagged else None
        match one.metric.kind:
            case MetricKind.COUNTER if not one.value:
                pass
            case MetricKind.COUNTER:
                incr(name, int(one.value), tags=tags)
            case MetricKind.GAUGE:
                gauge(name, one.value, tags=tags)
            case MetricKind.TIMING:
                timing(name, one.value, tags=tags)


def send_cycle(cluster: str, interval_start: str, *, since: datetime) -> None:
    """Send what the newest cycle of an interval did, or that it failed; nothing when none has begun since a moment."""
    from offsetguard.lake.cycle_metrics import of_cycle

    engine = open_database(Workspace.from_environment().database_url)
    for cycle in cycles.newest(engine, cluster=cluster, interval=interval_at(interval_start), limit=1):
        if cycle.started_at >= since:
            send(of_cycle(cycle))


def receiver_knows_tags() -> bool:
    """Whether values of one metric can be told apart by tags: plain StatsD drops them, and would mix tables up."""
    if conf.getboolean("metrics", "statsd_datadog_enabled", fallback=False):
        return True
    if conf.getboolean("metrics", "statsd_on", fallback=False):
        return bool(conf.getboolean("metrics", "statsd_influxdb_enabled", fallback=False))
    return True
