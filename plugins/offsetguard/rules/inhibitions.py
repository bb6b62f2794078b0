"""Which findings mute what lies below them while they are open.

Subsumption (`subsumption.py`) is another thing: it works within one judgement, and what it explains is no incident of
its own; an inhibition is between open incidents, whichever interval opened them.

Earlier entries are higher up: they mute what the later ones would tell, never the other way round.
"""

from __future__ import annotations

from dataclasses import dataclass

from offsetguard.rules.subsumption import Scope


@dataclass(frozen=True, slots=True)
class Inhibition:
    """Open incidents of `muting` mute others within the scope: of the same cluster, all of whose brokers it has, ...

    ... or of the same group and topic; such entries stand last, below those of brokers and clusters.
    """

    muting: str
    scope: Scope  # CLUSTER, BROKER or TOPIC
    variants: tuple[str, ...] = ()  # of the muting rule; empty: all
    muted: tuple[str, ...] = ()  # rules that it mutes; empty: all


INHIBITIONS: tuple[Inhibition, ...] = (
    # while one of several name servers answers, everything is seen
    Inhibition("name_server_unreachable", Scope.CLUSTER, variants=("cluster_unseen",)),
    # masters: a dead slave hides nothing of its master
    Inhibition("broker_unreachable", Scope.BROKER, variants=("default", "groups_unknown")),
    # single unanswered requests hide little; brokers without offsets hide every group on them
    Inhibition("collection_incomplete", Scope.BROKER, variants=("brokers_unseen",)),
    # a group that has just come back is still behind, and may not have committed yet: give it until the end is told
    Inhibition("consumer_offline", Scope.TOPIC, muted=("accumulation", "slow_consumption")),
)

NEVER_MUTED: frozenset[str] = frozenset(
    {
        # no trouble of a cluster breaks a file of ours
        "config_broken",
        # what was lost, moved or thrown away is no consequence of what cannot be seen, and nobody may learn of it late
        "messages_lost",
        "loss_ahead",
        "offset_moved_by_retention",
        "offset_reset",
        "queue_recreated",
        "master_switched",
        "dead_letters",
        "transactions_not_ended",
        "offset_store_not_persisting",
    }
)
