"""What the judge reads: the published facts of one interval as typed records.

`published_facts.py` fills them from the Iceberg tables, `snapshot_facts.py` straight from a snapshot (`offsetguard
check`, without Spark). A record that is a table's row is defined with it, in `tables/`.
"""

from offsetguard.facts.gaps import CollectionGap, UnseenBrokerFacts
from offsetguard.facts.interval import Absences, BrokerMark, IntervalFacts, OnlineGroupFacts, TrafficHour
from offsetguard.facts.queues import QueueFacts
from offsetguard.tables.broker_facts import BrokerFacts, ClusterFacts
from offsetguard.tables.facts import OffsetMoveFacts, TopicFacts
from offsetguard.tables.gate import InvariantResult
from offsetguard.tables.group_facts import GroupFacts
from offsetguard.tables.log_facts import LockWaitFacts, LogLineFacts, SubscriptionFacts

__all__ = [
    "Absences",
    "BrokerFacts",
    "BrokerMark",
    "ClusterFacts",
    "CollectionGap",
    "GroupFacts",
    "IntervalFacts",
    "InvariantResult",
    "LockWaitFacts",
    "LogLineFacts",
    "OffsetMoveFacts",
    "OnlineGroupFacts",
    "QueueFacts",
    "SubscriptionFacts",
    "TopicFacts",
    "TrafficHour",
    "UnseenBrokerFacts",
]
