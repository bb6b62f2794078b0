"""Facts of one interval: suspect queues, groups per topic, topics, brokers, the cluster, usual traffic.

Each maker takes `FactSources` and gives the rows of one published table. The queues, of which there may be millions,
are read once: `pairs.py` adds them up per group, topic and broker, and all levels add up those few rows. So the sums of
all levels agree. NULL is unknown and stays NULL: no figure turns it into 0.
"""

from __future__ import annotations

from offsetguard_spark.facts.groups import group_facts
from offsetguard_spark.facts.queues import queue_facts

__all__ = [
    "group_facts",
    "queue_facts",
]
