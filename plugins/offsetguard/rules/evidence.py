"""Looking up what the facts of an interval and the configuration say about one group, topic or cluster."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offsetguard.config import Config
    from offsetguard.facts import IntervalFacts, QueueFacts


def queues_by_group(facts: IntervalFacts) -> Mapping[tuple[str, str], list[QueueFacts]]:
    """Return the suspect queues of each (consumer group, topic)."""
    found: defaultdict[tuple[str, str], list[QueueFacts]] = defaultdict(list)
    for queue in facts.queues:
        found[queue.consumer_group, queue.message_queue.topic].append(queue)
    return found


def message_models(facts: IntervalFacts) -> Mapping[str, str]:
    """Return CLUSTERING or BROADCASTING per consumer group; a group of which no client was online is left out."""
    return {g.consumer_group: g.message_model for g in facts.groups if g.message_model is not None}


def online_clients(facts: IntervalFacts) -> Mapping[str, int]:
    """Return the connected clients per consumer group; a group whose connections were not seen is left out."""
    return {g.consumer_group: g.online_client_count for g in facts.groups if g.online_client_count is not None}


def name_servers_of(config: Config, cluster: str) -> str:
    """Return the cluster's name servers as mqadmin's -n takes them."""
    known = config.clusters.get(cluster)
    return ";".join(known.name_servers) if known is not None else "HOST:PORT"
