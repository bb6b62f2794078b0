"""A name server does not answer; when none does, nothing at all is known of the cluster.

Means: running clients go on with the routes that they have, but none can start, and no broker that moves is found.
Evidence: the name servers of the configuration that were asked, each with its reason. They are asked in order, and the
first one that lists every broker is enough: one behind it may be dead unseen.
Not judged: missed for less than 90 s while the rounds before had its answer, it is INFO: a restart is no trouble.
Do next: see whether the name server runs and whether this host reaches it.
Source: `collect/name_servers.py`; clients ask name servers every 30 s (pollNameServerInterval, 4.9.8 and 5.3.3).
"""

from collections.abc import Iterator

from offsetguard.judge.evidence.unseen import is_new, names, reasons, unanswered
from offsetguard.judge.rule import Config, Explains, Finding, IntervalFacts, Mutes, Rule, Scope, Severity, Texts

RULE = Rule(
    id="name_server_unreachable",
    severity=Severity.WARNING,
    place=20,
    needs=("gaps", "cluster_unseen"),
    means="A name server does not answer; when none does, every consumer group of the cluster is unknown.",
    texts={
        "default": Texts(
            summary="{silent_count} name server{silent_count:plural} of {cluster} did not answer: {silent}",
            summary_zh="{cluster} 有 {silent_count} 个 NameServer 无应答：{silent}",
            cause="{silent_count} of the name servers of cluster {cluster} gave no answer ({reasons}); another one "
            "did, so the cluster was seen.",
            cause_zh="集群 {cluster} 的 {silent_count} 个 NameServer 没有应答（{reasons}）；其他 NameServer 有应答，集"
            "群仍可观测。",
            do_next="See whether it runs and whether this host reaches it: clients that ask only this one can start "
            "nothing. If it was removed on purpose, remove it from name_servers of {cluster} in "
            "config/offsetguard.yml and from the clients' settings.",
            do_next_zh="请检查它是否在运行、本机能否连通：只配置了这个地址的客户端将无法启动。如果是主动下线的，请从 "
            "config/offsetguard.yml 中 {cluster} 的 name_servers 以及客户端配置里移除。",
        ),
        "cluster_unseen": Texts(
            summary="{cluster} could not be seen at all",
            summary_zh="{cluster} 完全无法观测",
            cause="No name server of cluster {cluster} answered at {name_servers} ({reasons}): every consumer group "
            "of it is unknown, and no warning about them can come.",
            cause_zh="集群 {cluster} 的 NameServer（{name_servers}）均无应答（{reasons}）：该集群所有消费组状态未知，"
            "也无法发出任何相关告警。",
            do_next="Check that these are its addresses, and that this host reaches them; if the name servers are "
            "down, running clients go on, but none can start.",
            do_next_zh="请检查这些地址是否正确，以及本机能否连通；如果 NameServer 已宕机，运行中的客户端可以继续工作，"
            "但新客户端无法启动。",
        ),
    },
    title="a name server does not answer",
    title_zh="有 NameServer 无应答",
    table=("silent", "reasons"),
    recovered="the name servers answer again",
    recovered_zh="NameServer 已恢复应答",
    explains=(Explains(Scope.CLUSTER, ("broker_unreachable", "collection_incomplete")),),
    # while one of several name servers answers, everything is seen
    mutes=Mutes(Scope.CLUSTER, variants=("cluster_unseen",)),
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """At most one finding, about all silent name servers of the cluster."""
    gaps = unanswered(facts, config).name_servers
    if not gaps and not facts.cluster_unseen:
        return
    silent = sorted({gap.address for gap in gaps})
    severity = Severity.CRITICAL if facts.cluster_unseen else RULE.severity
    yield RULE.finding(
        facts,
        severity=Severity.INFO if is_new(gaps, facts) else severity,
        variant="cluster_unseen" if facts.cluster_unseen else "default",
        state="UNKNOWN" if facts.cluster_unseen else "AT_RISK",
        figures={
            "silent": names(silent) or None,
            "silent_count": len(silent),
            "reasons": reasons(gaps),
        },
    )
