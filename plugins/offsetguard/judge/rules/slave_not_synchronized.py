"""A slave no longer takes over its master's committed offsets, topics or groups.

Means: the slave cannot reach its master's port for requests, or the master refuses it (access control), while the
commit log may still be copied through another port. After a failover groups read again what they consumed since, and
topics and groups that were created since are missing.
Evidence: "SyncConsumerOffset Exception" and the like in the slave's log: three lines over two minutes or more, the
newest of them within three minutes; so it is told in the third minute.
Not judged: a master that is being restarted; and nothing, where no log of the slave is read.
Do next: see whether the slave reaches its master, and with which rights.
Source: SlaveSynchronize (4.9.7, 5.5.0): every 10 s in 4.x, 60 s in 5.x.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from offsetguard.config import Config
from offsetguard.facts.interval import IntervalFacts
from offsetguard.judge.evidence.lookups import replica_name
from offsetguard.judge.evidence.unseen import names
from offsetguard.judge.rule import Finding, Rule, Severity, Texts
from offsetguard.tables.broker_facts import BrokerFacts

_GOES_ON, _LASTS, _LEAST_LINES = timedelta(minutes=3), timedelta(minutes=2), 3

RULE = Rule(
    id="slave_not_synchronized",
    severity=Severity.WARNING,
    place=425,
    needs=("brokers",),
    means="A slave no longer takes over its master's committed offsets, topics or groups.",
    texts={
        "default": Texts(
            summary="slave {worst_slave} does not take over {what} from its master",
            summary_zh="从节点 {worst_slave} 未能从主节点同步 {what}",
            cause="Slave {worst_slave} of cluster {cluster} has not been able to take over {what} from its master "
            "since {first_failed_at:moment} ({line_count:messages} line{line_count:plural}, last at "
            "{last_failed_at:moment}; slaves concerned: {slaves}). A failover to it would have groups read again what "
            "they have consumed since, and miss topics and groups that were created since.",
            cause_zh="集群 {cluster} 的从节点 {worst_slave} 自 {first_failed_at:moment} 起未能从主节点同步 {what}"
            "（{line_count:messages} 行日志，最近一次在 {last_failed_at:moment}；涉及的从节点：{slaves}）。切换到该从节"
            "点后，消费组会重复消费此后已消费的消息，此后新建的主题和消费组会缺失。",
            do_next="See whether the slave reaches its master's port for requests, and whether access control lets it "
            "in; its log names the exception.",
            do_next_zh="请检查从节点能否连通主节点的服务端口、访问控制是否放行；其日志中有异常详情。",
        ),
    },
    title="a slave is not synchronized",
    title_zh="从节点未同步",
    table=("slaves", "what", "line_count", "first_failed_at", "last_failed_at"),
    began="first_failed_at",
    recovered="no slave's log says so any more",
    recovered_zh="从节点的日志已不再出现此类异常",
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """At most one finding, about all slaves whose logs say so."""
    failing = sorted(
        (one for one in facts.brokers if _fails(one, facts)),
        key=lambda one: (-(one.sync_failure_count or 0), one.broker_name, one.broker_id),
    )
    if failing:
        worst = failing[0]
        yield RULE.finding(
            facts,
            state="AT_RISK",
            figures={
                "slaves": names([replica_name(one) for one in failing]),
                "worst_slave": replica_name(worst),
                "what": worst.sync_failed_what,
                "line_count": worst.sync_failure_count,
                "first_failed_at": worst.sync_first_failed_at,
                "last_failed_at": worst.sync_last_failed_at,
            },
            broker_names=frozenset(one.broker_name for one in failing),
        )


def _fails(one: BrokerFacts, facts: IntervalFacts) -> bool:
    first, last = one.sync_first_failed_at, one.sync_last_failed_at
    if first is None or last is None or (one.sync_failure_count or 0) < _LEAST_LINES:
        return False
    return last - first >= _LASTS and facts.now - last <= _GOES_ON
