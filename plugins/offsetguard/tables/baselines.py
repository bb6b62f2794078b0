"""What traffic is usual at an hour of the week."""

from datetime import datetime
from typing import Annotated, ClassVar

from offsetguard.records import record
from offsetguard.tables.columns import Topic
from offsetguard.tables.table import FACT_RETENTION, Int32, Table, columns_of, row_of


@record
class Baseline:
    """Traffic at one hour of the week, over the weeks in which it was seen."""

    mean_tps: Annotated[float, "mean over the weeks; of many weeks the newer ones count more"]
    spread_tps: Annotated[float, "standard deviation over the weeks"]
    week_count: Annotated[Int32, "weeks in which the hour was seen"]


class _TrafficBaselines:
    topic: Topic
    consumer_group: Annotated[str | None, "the group whose commits are meant; NULL = what is written to the topic"]
    hour_of_week: Annotated[Int32, "hour that has passed: 0 = Monday 00:00 UTC, 167 = Sunday 23:00"]
    hour_start_at: Annotated[datetime, "when that hour began"]
    hour_tps: Annotated[float, "messages per second over that hour"]
    _baseline: ClassVar = columns_of(Baseline)


TRAFFIC_BASELINES = Table(
    "traffic_baselines",
    "usual traffic by hour of the week: one row per topic, and per group in a topic, when an hour has passed;"
    " each goes on from the row of the same hour one week (or a few) before",
    ("cluster", "topic", "consumer_group", "hour_of_week", "interval_start"),
    row_of(_TrafficBaselines),
    retention=FACT_RETENTION,
)
