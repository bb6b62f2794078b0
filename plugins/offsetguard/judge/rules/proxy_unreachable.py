"""A proxy does not answer: who is connected to it is unknown.

Means: brokers do not see the clients behind a cluster proxy, so whether a gRPC group is online cannot be told.
Evidence: the proxies of the configuration that were asked, each with its reason.
Not judged: missed for less than 90 s while the rounds before had its answer, it is INFO: a restart is no trouble.
Do next: see whether the proxy runs, and whether its remoting port is what the configuration names.
Source: `collect/group_members.py`; ConsumerManagerActivity (proxy 5.5.0).
"""

from __future__ import annotations

from collections.abc import Iterator

from offsetguard.catalogue import Texts
from offsetguard.config import Config
from offsetguard.facts.interval import IntervalFacts
from offsetguard.judge.evidence.unseen import is_new, names, reasons, unanswered
from offsetguard.judge.rule import Finding, Rule
from offsetguard.model.verdicts import Severity

RULE = Rule(
    id="proxy_unreachable",
    severity=Severity.WARNING,
    place=40,
    needs=("gaps",),
    means="A proxy does not answer, so nobody knows which clients are behind it.",
    texts={
        "default": Texts(
            summary="of the proxies of {cluster}, {silent_count} did not answer: {silent}",
            cause="{silent} of cluster {cluster} gave no answer ({reasons}): which clients are connected there is "
            "unknown, and so is whether groups that use gRPC are online.",
            do_next="See whether the proxy runs and whether this host reaches its remoting port (8080 by default); "
            "its clients cannot consume without it. If it was removed on purpose, remove it from proxies of {cluster} "
            "in config/offsetguard.yml.",
        ),
    },
    title="a proxy does not answer",
    table=("silent", "reasons"),
    recovered="the proxies answer again",
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """At most one finding, about all silent proxies of the cluster."""
    gaps = unanswered(facts, config).proxies
    silent = sorted({gap.address for gap in gaps})
    if silent:
        yield Finding(
            rule=RULE,
            cluster=facts.cluster,
            consumer_group=None,
            topic=None,
            severity=Severity.INFO if is_new(gaps, facts) else RULE.severity,
            state="UNKNOWN",
            figures={"silent": names(silent), "silent_count": len(silent), "reasons": reasons(gaps)},
        )
