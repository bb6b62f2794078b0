"""A proxy does not answer: who is connected to it is unknown.

Means: brokers do not see the clients behind a cluster proxy, so whether a gRPC group is online cannot be told.
Evidence: the proxies of the configuration that were asked, each with its reason.
Not judged: missed for less than 90 s while the rounds before had its answer, it is INFO: a restart is no trouble.
Do next: see whether the proxy runs, and whether its remoting port is what the configuration names.
Source: `collect/group_members.py`; ConsumerManagerActivity (proxy 5.5.0).
"""

from collections.abc import Iterator

from offsetguard.judge.evidence.unseen import is_new, names, reasons, unanswered
from offsetguard.judge.rule import Config, Finding, IntervalFacts, Rule, Severity, Texts

RULE = Rule(
    id="proxy_unreachable",
    severity=Severity.WARNING,
    place=40,
    needs=("gaps",),
    means="A proxy does not answer, so nobody knows which clients are behind it.",
    texts={
        "default": Texts(
            summary="of the proxies of {cluster}, {silent_count} did not answer: {silent}",
            summary_zh="集群 {cluster} 有 {silent_count} 个 Proxy 没有应答：{silent}",
            cause="{silent} of cluster {cluster} gave no answer ({reasons}): which clients are connected there is "
            "unknown, and so is whether groups that use gRPC are online.",
            cause_zh="集群 {cluster} 的 {silent} 没有给出应答（{reasons}）：有哪些客户端连接在那里未知，使用 gRPC 的消"
            "费组是否在线也未知。",
            do_next="See whether the proxy runs and whether this host reaches its remoting port (8080 by default); "
            "its clients cannot consume without it. If it was removed on purpose, remove it from proxies of {cluster} "
            "in config/offsetguard.yml.",
            do_next_zh="请检查该 Proxy 是否在运行，以及本机能否连接其 remoting 端口（默认 8080）；没有它，其客户端无法"
            "消费。如果是有意移除，请从 config/offsetguard.yml 中 {cluster} 的 proxies 里删除。",
        ),
    },
    title="a proxy does not answer",
    title_zh="Proxy 没有应答",
    table=("silent", "reasons"),
    recovered="the proxies answer again",
    recovered_zh="Proxy 已恢复应答",
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """At most one finding, about all silent proxies of the cluster."""
    gaps = unanswered(facts, config).proxies
    silent = sorted({gap.address for gap in gaps})
    if silent:
        yield RULE.finding(
            facts,
            severity=Severity.INFO if is_new(gaps, facts) else RULE.severity,
            state="UNKNOWN",
            figures={"silent": names(silent), "silent_count": len(silent), "reasons": reasons(gaps)},
        )
