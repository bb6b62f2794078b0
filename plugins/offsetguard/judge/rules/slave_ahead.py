"""A slave has more commit log than its master, and so cannot follow it: what the master takes is nowhere else.

Means: a former master came back as slave after another replica had taken over without its last messages (asynchronous
replication, 4.x); replication stands, and both hold messages that the other one does not have.
Evidence: the end of the slave's commit log as it was a look before lies beyond its master's end now; a slave that
follows never has what its master did not have then. Where no look before is known, it lies beyond by more than 1 GiB,
which no master takes while both are read. In the second round that shows it.
Not judged: a slave that truncates its log and follows again (controller mode of 5.x) within two rounds.
Do next: keep a copy of the slave's store, and let the slave copy its master's anew.
Source: apache/rocketmq#1675, #323; HAClient.dispatchReadRequest, "master pushed offset not equal the max phy offset in
slave" (4.9.7, 5.5.0).
"""

from collections.abc import Iterator

from offsetguard.judge.evidence.lookups import replica_name
from offsetguard.judge.evidence.unseen import names
from offsetguard.judge.rule import BrokerFacts, Config, Explains, Finding, IntervalFacts, Rule, Scope, Severity, Texts

LEAST_BYTES_ALONE = 2**30
REBUILD = (
    "Keep a copy of the slave's store, where its messages matter. Then rebuild it: stop the slave, empty its store, "
    "and start it, so that it copies its master's; do not let it become the master before."
)
REBUILD_ZH = (
    "如果该从节点上的消息重要，请先备份其存储目录。然后重建：停止该从节点，清空其存储目录后再启动，使其从主节点重新"
    "复制；在此之前不要让它成为主节点。"
)

RULE = Rule(
    id="slave_ahead",
    severity=Severity.WARNING,
    place=415,
    needs=("brokers",),
    bad_cycles=2,
    means="A slave has more commit log than its master and does not follow: a failover loses what the master took.",
    texts={
        "default": Texts(
            summary="slave {worst_slave} is ahead of its master by {ahead_bytes:bytes} and does not follow",
            summary_zh="从节点 {worst_slave} 领先主节点 {ahead_bytes:bytes}，且不再同步",
            cause="The commit log of slave {worst_slave} of cluster {cluster} ends {ahead_bytes:bytes} beyond its "
            "master's (slaves that are ahead: {slaves}): it was a master, and holds messages that the present one does "
            "not have. Replication stands: what the present master has taken since it took over is on no other "
            "replica, and a failover to this slave would lose it.",
            cause_zh="集群 {cluster} 的从节点 {worst_slave} 的 CommitLog 末尾比主节点多 {ahead_bytes:bytes}（领先的从节"
            "点：{slaves}）：它曾是主节点，保存着现任主节点没有的消息。复制已停止：现任主节点接管以来写入的消息没有其他"
            "副本，切换到该从节点会丢失这些消息。",
            do_next=REBUILD,
            do_next_zh=REBUILD_ZH,
        ),
    },
    title="a slave is ahead of its master",
    title_zh="从节点领先主节点",
    table=("slaves", "ahead_bytes"),
    peak="ahead_bytes",
    recovered="no slave is ahead of its master any more",
    recovered_zh="从节点已不再领先主节点",
    explains=(Explains(Scope.BROKER, ("slave_not_synchronized",)),),
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """At most one finding, about all slaves that are ahead."""
    ends = {one.broker_name: one.commit_log_max_offset for one in facts.brokers if one.broker_id == 0}
    ahead = {one: by for one in facts.brokers if (by := _ahead_bytes(one, ends.get(one.broker_name))) > 0}
    if ahead:
        slaves = sorted(ahead, key=lambda one: (-ahead[one], one.broker_name, one.broker_id))
        yield RULE.finding(
            facts,
            state="AT_RISK",
            figures={
                "slaves": names([replica_name(one) for one in slaves]),
                "worst_slave": replica_name(slaves[0]),
                "ahead_bytes": ahead[slaves[0]],
            },
            broker_names=frozenset(one.broker_name for one in slaves),
        )


def _ahead_bytes(slave: BrokerFacts, master_end: int | None) -> int:
    """Return how far a slave was ahead a look before; 0 also where it is not known: both ends are read apart."""
    end, growth = slave.commit_log_max_offset, slave.commit_log_growth
    if slave.broker_id == 0 or end is None or master_end is None:
        return 0
    if growth is not None:
        return end - growth - master_end
    return end - master_end if end - master_end > LEAST_BYTES_ALONE else 0
