"""Something of a cluster could not be seen, so nothing is known about the groups behind it.

Means: a broker or name server did not answer, refused, or answered what is not RocketMQ's protocol.
Evidence: the gaps that the collector counted, with their reasons; masters that gave no offsets at all.
Not judged: what answered. Groups behind what did not are UNKNOWN, never OK: their incidents stay open.
Do next: see whether the broker runs and whether this host reaches it.
Source: the manifest of the landed snapshot (`collect/manifest.py`).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from offsetguard.rules.evidence import name_servers_of
from offsetguard.rules.rule import Finding, Rule, Severity, Texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from offsetguard.config import Config
    from offsetguard.facts import CollectionGap, IntervalFacts

_REASONS_SHOWN = 5
_REASON_LENGTH = 200

RULE = Rule(
    id="collection_incomplete",
    severity=Severity.WARNING,
    needs=("gaps", "unseen_broker_names", "cluster_unseen"),
    means="A broker or name server could not be seen, or only in part: the groups behind it are unknown, not healthy.",
    texts={
        "default": Texts(
            summary="{gap_count} request{gap_count:plural} to {cluster} unanswered",
            cause="{gap_count} request{gap_count:plural} to cluster {cluster} gave no usable answer: {reasons}; every "
            "master gave its offsets, what those requests would have told is unknown.",
            do_next="Look at the broker's log around the interval; if it only times out, raise request_timeout_ms of "
            "{cluster} in config/offsetguard.yml.",
        ),
        "brokers_unseen": Texts(
            summary="{broker_count} broker{broker_count:plural} of {cluster} could not be seen: {brokers}",
            cause="{brokers} of cluster {cluster} gave no offsets ({reasons}): consumer groups with queues there are "
            "unknown, and no warning about them can come.",
            do_next="See whether the broker process runs and whether this host reaches its address; then "
            "mqadmin clusterList -n {name_servers:shell} shows what the name server knows.",
        ),
        "cluster_unseen": Texts(
            summary="{cluster} could not be seen at all",
            cause="No name server of cluster {cluster} answered at {name_servers} ({reasons}): every consumer group "
            "of it is unknown, and no warning about them can come.",
            do_next="Check name_servers of {cluster} in config/offsetguard.yml, and that this host reaches them; if "
            "the name servers are down, running clients go on, but none can start.",
        ),
    },
    title="collection is incomplete",
    table=("brokers", "gap_count", "reasons"),
    peak="gap_count",
    recovered="everything that was asked for answered again",
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """At most one finding: whatever is missing, it concerns the cluster."""
    if not (facts.gaps or facts.unseen_broker_names or facts.cluster_unseen):
        return
    brokers = sorted(facts.unseen_broker_names)
    variant = "cluster_unseen" if facts.cluster_unseen else "brokers_unseen" if brokers else "default"
    yield Finding(
        rule=RULE,
        cluster=facts.cluster,
        consumer_group=None,
        topic=None,
        severity=RULE.severity if variant == "default" else Severity.CRITICAL,
        variant=variant,
        state="UNKNOWN",
        figures={
            "brokers": ", ".join(brokers) or None,
            "broker_count": len(brokers),
            "gap_count": len(facts.gaps),
            "reasons": _reasons(_relevant(facts)) or "reason unknown",
            "name_servers": name_servers_of(config, facts.cluster),
        },
    )


def _relevant(facts: IntervalFacts) -> Sequence[CollectionGap]:
    """Return the gaps that explain the variant, where there are any: an unseen master counts more than a slave."""
    behind = [gap for gap in facts.gaps if gap.broker_name in facts.unseen_broker_names]
    return behind or facts.gaps


def _reasons(gaps: Sequence[CollectionGap]) -> str:
    counted = Counter((gap.broker_name or gap.address, gap.outcome, _reason(gap)) for gap in gaps)
    shown = [
        f"{name} {outcome.replace('_', ' ')}: {reason}" + (f" ({count} times)" if count > 1 else "")
        for (name, outcome, reason), count in counted.most_common(_REASONS_SHOWN)
    ]
    hidden = len(counted) - len(shown)
    return "; ".join(shown) + (f"; and {hidden} more" if hidden else "")


def _reason(gap: CollectionGap) -> str:
    """Return the reason without the address where the gap is called by its address already."""
    reason = gap.reason if gap.broker_name else gap.reason.removeprefix(f"{gap.address}: ")
    return reason[:_REASON_LENGTH]
