"""Every table, once: columns with type, unit and meaning, key, partition and retention.

The collector's Parquet files (pyarrow), the Iceberg tables (Spark) and docs/tables.md are made from these constants;
their classes are the records that rules read.
LANDED tables are what a collection round writes; PUBLISHED tables are what Spark makes of them.
Every row carries `cluster` and `interval_start`: the transaction that it belongs to.
"""

from offsetguard.tables.broker_facts import BROKER_FACTS, CLUSTER_FACTS
from offsetguard.tables.facts import (
    INVARIANT_RESULTS,
    MANIFEST,
    OFFSET_MOVE_FACTS,
    QUARANTINE,
    QUEUE_FACTS,
    TOPIC_FACTS,
    TRAFFIC_BASELINES,
)
from offsetguard.tables.group_facts import GROUP_FACTS
from offsetguard.tables.log_facts import (
    LOCK_WAIT_FACTS,
    LOG_EVENTS,
    LOG_LINE_FACTS,
    OFFSET_MOVES,
    SUBSCRIPTION_FACTS,
    UNDECODABLE_RECORDS,
)
from offsetguard.tables.queue_state import QUEUE_STATE
from offsetguard.tables.snapshots import (
    BROKER_SNAPSHOTS,
    BROKER_STATS,
    CLIENT_QUEUE_SNAPSHOTS,
    CLIENT_SNAPSHOTS,
    GROUP_SNAPSHOTS,
    QUEUE_SNAPSHOTS,
    TOPIC_QUEUE_SNAPSHOTS,
    TOPIC_SETTINGS,
)
from offsetguard.tables.table import Column, ColumnType, Table

_SEEN = (
    QUEUE_SNAPSHOTS,
    TOPIC_QUEUE_SNAPSHOTS,
    TOPIC_SETTINGS,
    GROUP_SNAPSHOTS,
    CLIENT_SNAPSHOTS,
    CLIENT_QUEUE_SNAPSHOTS,
    BROKER_SNAPSHOTS,
    BROKER_STATS,
    OFFSET_MOVES,
    LOG_EVENTS,
)
LANDED = (*_SEEN, UNDECODABLE_RECORDS)
PUBLISHED = (
    *_SEEN,
    QUEUE_STATE,
    QUEUE_FACTS,
    GROUP_FACTS,
    TOPIC_FACTS,
    BROKER_FACTS,
    CLUSTER_FACTS,
    TRAFFIC_BASELINES,
    OFFSET_MOVE_FACTS,
    LOCK_WAIT_FACTS,
    SUBSCRIPTION_FACTS,
    LOG_LINE_FACTS,
    INVARIANT_RESULTS,
    QUARANTINE,
)
