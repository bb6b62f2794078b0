"""What traffic is usual at an hour of the week."""

from __future__ import annotations

from offsetguard.tables.columns import CLUSTER, INTERVAL_START, TOPIC
from offsetguard.tables.table import FACT_RETENTION, Column, ColumnType, Table

_S, _I4, _F, _T = (
    ColumnType.STRING,
    ColumnType.INT32,
    ColumnType.FLOAT64,
    ColumnType.TIMESTAMP,
)

TRAFFIC_BASELINES = Table(
    "traffic_baselines",
    "usual traffic by hour of the week: one row per topic, and per group in a topic, when an hour has passed;"
    " each goes on from the row of the same hour one week (or a few) before",
    ("cluster", "topic", "consumer_group", "hour_of_week", "interval_start"),
    (
        CLUSTER,
        INTERVAL_START,
        TOPIC,
        Column("consumer_group", _S, "the group whose commits are meant; NULL = what is written to the topic"),
        Column("hour_of_week", _I4, "hour that has passed: 0 = Monday 00:00 UTC, 167 = Sunday 23:00", nullable=False),
        Column("hour_start_at", _T, "when that hour began", nullable=False),
        Column("hour_tps", _F, "messages per second over that hour", nullable=False),
        Column("mean_tps", _F, "mean over the weeks; of many weeks the newer ones count more", nullable=False),
        Column("spread_tps", _F, "standard deviation over the weeks", nullable=False),
        Column("week_count", _I4, "weeks in which the hour was seen", nullable=False),
    ),
    retention=FACT_RETENTION,
)
