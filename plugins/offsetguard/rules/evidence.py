"""Looking up what the facts of an interval and the configuration say about one group, topic or cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offsetguard.config import Config
    from offsetguard.facts import IntervalFacts, QueueFacts


def queues_of(facts: IntervalFacts, consumer_group: str, topic: str) -> list[QueueFacts]:
    """Return the suspect queues of one group and topic."""
    return [q for q in facts.queues if q.consumer_group == consumer_group and q.message_queue.topic == topic]


def message_model_of(facts: IntervalFacts, consumer_group: str) -> str | None:
    """Return CLUSTERING or BROADCASTING; None when no client was online to tell."""
    for group in facts.groups:
        if group.consumer_group == consumer_group and group.message_model is not None:
            return group.message_model
    return None


def online_clients_of(facts: IntervalFacts, consumer_group: str) -> int | None:
    """Return how many clients of a group are connected; None = could not be seen."""
    counts = [g.online_client_count for g in facts.groups if g.consumer_group == consumer_group]
    known = [count for count in counts if count is not None]
    return max(known) if known else None


def name_servers_of(config: Config, cluster: str) -> str:
    """Return the cluster's name servers as mqadmin's -n takes them."""
    known = config.clusters.get(cluster)
    return ";".join(known.name_servers) if known is not None else "HOST:PORT"
