"""What rules about moved offsets and log lines cannot look at: logs that nobody reads, events and looks that lack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetguard.collect.system_names import OFFSET_MOVED_EVENT
from offsetguard.rules.evidence import message_models
from offsetguard.rules.move_causes import BROADCASTING

if TYPE_CHECKING:
    from offsetguard.config import Config
    from offsetguard.facts import IntervalFacts


def is_log_read(facts: IntervalFacts, config: Config) -> bool:
    """Whether logs are read, or somebody has given lines of them."""
    cluster = config.clusters.get(facts.cluster)
    configured = cluster is not None and bool(cluster.logs)
    moved = any(move.origin == "log" for move in facts.offset_moves)
    return configured or facts.logs_read or bool(facts.log_lines or facts.lock_waits) or moved


def silent_about_corrections(facts: IntervalFacts, config: Config) -> frozenset[str]:
    """Return the masters that tell of corrected offsets in broker.log only (5.x), where there are broadcasting groups.

    Those of clustering groups show in the committed offsets as well. Empty where logs are read.
    """
    if BROADCASTING not in message_models(facts).values() or is_log_read(facts, config):
        return frozenset()
    masters = (one for one in facts.brokers if one.broker_id == 0)
    return frozenset(one.broker_name for one in masters if (one.version or "").startswith("V5"))


def unread_events(facts: IntervalFacts) -> frozenset[str]:
    """Return the brokers whose events of corrected offsets (4.x) were asked for and not read."""
    return frozenset(gap.broker_name for gap in facts.gaps if gap.broker_name and OFFSET_MOVED_EVENT in gap.what)


def is_first_look(facts: IntervalFacts) -> bool:
    """Whether no queue of any group was seen before: then nobody knows what moved."""
    written = [group.produce_tps for group in facts.groups if group.unknown_queue_count < group.queue_count]
    seen_before = any(queue.window is not None and queue.window.sample_count > 1 for queue in facts.queues)
    return bool(written) and all(tps is None for tps in written) and not seen_before
