"""A slave no longer takes over its master's committed offsets, topics or groups, or its commit log.

Means: the slave cannot reach its master's port for requests, or the master refuses it (access control), while the
commit log may still be copied through another port. After a failover groups read again what they consumed since, and
topics and groups that were created since are missing. Or its commit log does not end where its master's goes on, so
that the two cannot be brought together: what the master takes is on no other replica.
Evidence: "SyncConsumerOffset Exception" and the like in the slave's log, or "master pushed offset not equal the max phy
offset in slave": three lines about one thing over two
minutes or more, without three minutes of silence; so it is told in the third minute. Slaves of 5.5.0 cannot read what
their masters answer, by a bug.
Not judged: a master that is being restarted; a commit log that grows all the same, or of which that is not
known since its slave does not answer or was started within 90 s; and nothing, where no log of the slave is read.
Do next: see whether the slave reaches its master, and with which rights; upgrade 5.5.0; rebuild a slave whose commit
log differs.
Source: HAClient, SlaveSynchronize (4.9.7, 5.5.0): every 10 s in 4.x, 60 s in 5.x; apache/rocketmq#10284.
"""

from collections.abc import Iterator
from datetime import datetime

from offsetguard.judge.evidence.lookups import replica_name
from offsetguard.judge.evidence.unseen import GRACE, names
from offsetguard.judge.rule import BrokerFacts, Config, Finding, IntervalFacts, Rule, Severity, Texts
from offsetguard.judge.rules.slave_ahead import REBUILD, REBUILD_ZH

_CANNOT_READ = "V5_5_0"
_COMMIT_LOG = "CommitLog"
_CAUSE = (
    "Slave {worst_slave} of cluster {cluster} has not been able to take over {what} from its master since "
    "{first_failed_at:moment} ({line_count:messages} line{line_count:plural}, last at {last_failed_at:moment}; slaves "
    "concerned: {slaves})"
)
_CAUSE_ZH = (
    "集群 {cluster} 的从节点 {worst_slave} 自 {first_failed_at:moment} 起未能从主节点同步 {what}"
    "（{line_count:messages} 行日志，最近一次在 {last_failed_at:moment}；涉及的从节点：{slaves}）"
)
_FAILOVER = (
    " A failover to it would have groups read again what they have consumed since, and miss topics and groups that "
    "were created since."
)
_FAILOVER_ZH = "切换到该从节点后，消费组会重复消费此后已消费的消息，此后新建的主题和消费组会缺失。"

RULE = Rule(
    id="slave_not_synchronized",
    severity=Severity.WARNING,
    place=425,
    needs=("brokers",),
    means="A slave no longer takes over its master's committed offsets, topics or groups, or its commit log.",
    texts={
        "default": Texts(
            summary="slave {worst_slave} does not take over {what} from its master",
            summary_zh="从节点 {worst_slave} 未能从主节点同步 {what}",
            cause=_CAUSE + "." + _FAILOVER,
            cause_zh=_CAUSE_ZH + "。" + _FAILOVER_ZH,
            do_next="See whether the slave reaches its master's port for requests, and whether access control lets it "
            "in; its log names the exception.",
            do_next_zh="请检查从节点能否连通主节点的服务端口、访问控制是否放行；其日志中有异常详情。",
        ),
        "cannot_read": Texts(
            cause=_CAUSE + ": RocketMQ 5.5.0 has a bug by which slaves cannot read the committed offsets "
            "that their masters answer (apache/rocketmq#10284)." + _FAILOVER,
            cause_zh=_CAUSE_ZH + "：RocketMQ 5.5.0 存在缺陷，从节点无法解析主节点返回的消费位点"
            "（apache/rocketmq#10284）。" + _FAILOVER_ZH,
            do_next="Upgrade the slaves to a later version, which has the fix; until then, a failover repeats messages."
            ' If their logs name another exception than "not support unquoted name", see whether they reach their '
            "masters' port for requests.",
            do_next_zh="请将从节点升级到包含修复的更高版本；在此之前，主从切换会导致重复消费。如果日志中的异常不是"
            "“not support unquoted name”，请检查从节点能否连通主节点的服务端口。",
        ),
        "diverged": Texts(
            summary="slave {worst_slave} cannot follow the commit log of its master",
            summary_zh="从节点 {worst_slave} 无法跟上主节点的 CommitLog",
            cause="The commit log of slave {worst_slave} of cluster {cluster} does not end where its master's goes on, "
            "by its own log, which has told since {first_failed_at:moment} what it cannot take over: {what} "
            "({line_count:messages} line{line_count:plural}, last at {last_failed_at:moment}; slaves concerned: "
            "{slaves}). It has what its master does not have, or lacks something between. Replication stands: what the "
            "master takes is on no other replica, and a failover would lose it.",
            cause_zh="集群 {cluster} 的从节点 {worst_slave} 的 CommitLog 末尾与主节点推送的位置不一致；其日志自 "
            "{first_failed_at:moment} 起提示无法同步 {what}（{line_count:messages} 行，最近一次在 "
            "{last_failed_at:moment}；涉及的从节点：{slaves}）。它保存着主节点没有的内容，或缺少中间的一段。复制已停止：主节点写入的消息没有其他副本，"
            "切换会丢失它们。",
            do_next=REBUILD,
            do_next_zh=REBUILD_ZH,
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
        ((one, failed) for one in facts.brokers if (failed := _failed(one, facts.now))),
        key=lambda both: (_COMMIT_LOG not in both[1], -(both[0].sync_failure_count or 0), replica_name(both[0])),
    )
    if failing:
        worst, what = failing[0]
        yield RULE.finding(
            facts,
            variant=_variant(worst, what),
            state="AT_RISK",
            figures={
                "slaves": names([replica_name(one) for one, _ in failing]),
                "worst_slave": replica_name(worst),
                "what": ", ".join(what),
                "line_count": worst.sync_failure_count,
                "first_failed_at": worst.sync_first_failed_at,
                "last_failed_at": worst.sync_last_failed_at,
            },
            broker_names=frozenset(one.broker_name for one, _ in failing),
        )


def _failed(one: BrokerFacts, now: datetime) -> list[str]:
    """Return what the slave cannot take over; each restart of either costs a line about a commit log that goes on.

    Whether it goes on is not known of a slave that does not answer, nor of one that has just been started.
    """
    growth, failed = one.commit_log_growth, (one.sync_failed_what or "").split(", ")
    is_started = one.answered is False or (one.boot_at is not None and now - one.boot_at < GRACE)
    may_go_on = is_started if growth is None else growth > 0
    return [what for what in failed if what and not (what == _COMMIT_LOG and may_go_on)]


def _variant(one: BrokerFacts, failed: list[str]) -> str:
    if _COMMIT_LOG in failed:
        return "diverged"
    return "cannot_read" if one.version == _CANNOT_READ and failed == ["ConsumerOffset"] else "default"
