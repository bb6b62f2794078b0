"""What the judge reads: the published facts of one interval as typed records.

`published_facts.py` fills them from the Iceberg tables, `snapshot_facts.py` straight from a snapshot (`offsetguard
check`, without Spark). Field names and meanings are those of the columns in `tables/`.
"""

from offsetguard.facts.brokers import BrokerFacts, BrokerMark, ClusterFacts
from offsetguard.facts.gaps import CollectionGap, InvariantResult, UnseenBrokerFacts
from offsetguard.facts.groups import GroupFacts, OnlineGroupFacts
from offsetguard.facts.interval import IntervalFacts
from offsetguard.facts.look_back import LockWaitFacts, LogLineFacts, OffsetMoveFacts, SubscriptionFacts
from offsetguard.facts.queues import QueueFacts
from offsetguard.facts.topics import TopicFacts, TrafficHour

__all__ = [
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
