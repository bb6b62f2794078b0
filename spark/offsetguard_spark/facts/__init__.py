"""Facts of one interval: suspect queues, groups per topic, topics, brokers, the cluster, usual traffic.

Each maker takes `FactSources` and gives the rows of one published table. The queues, of which there may be millions,
are read once: `pairs.py` adds them up per group, topic and broker, and all levels add up those few rows. So the sums of
all levels agree. NULL is unknown and stays NULL: no figure turns it into 0.
"""

from __future__ import annotations

from offsetguard_spark.facts.brokers import broker_facts, cluster_facts
from offsetguard_spark.facts.topics import topic_facts
from offsetguard_spark.facts.traffic import has_traffic_to_fold, traffic_baselines

__all__ = [
    "broker_facts",
    "cluster_facts",
    "has_traffic_to_fold",
    "topic_facts",
    "traffic_baselines",
]
