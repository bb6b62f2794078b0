"""A slave lacks more of its master's commit log than it can take over soon.

Means: the network or the slave's disk is too slow, or replication stands still. What a slave lacks is lost when the
master's disk is; and consumers that read from it (slaveReadEnable) read late.
Evidence: commit-log ends of master and slave, read in the same round, and how fast the master is written to. What a
failover would lose is reckoned in messages by their mean size, where the master says how many it keeps. Slaves of 5.x
are asked when they last read from their master (GET_BROKER_HA_STATUS), which sends something every 5 s.
Not judged: less than 64 MiB, or less than judgement.slave_behind_ms (1 min) of what the master writes: the two ends are
read seconds apart.
A slave that was started within 10 min catches up: INFO.
Do next: look at the slave's disk and network; see that it is connected to the master.
Source: HAService, HAClient (4.9.8, 5.3.3): asynchronous replication of the commit log.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from offsetguard.catalogue.text import LONGEST_MS
from offsetguard.collect.broker_reading import FAR_BYTES
from offsetguard.judge.evidence import lookups
from offsetguard.judge.evidence.lookups import replica_name
from offsetguard.judge.evidence.unseen import names
from offsetguard.judge.rule import CannotTell, Config, Finding, IntervalFacts, Rule, Sentence, Severity, Texts
from offsetguard.tables.broker_facts import BrokerFacts

LEAST_BYTES_ALONE = 2**30  # one commit-log file, where it is not known how fast the master is written to
CATCHES_UP = timedelta(minutes=10)
_SENDS_NOTHING = timedelta(minutes=1)  # a look may be older than its interval's last moment

_LACKS = (
    "Slave {worst_slave} of cluster {cluster} lacks {slave_behind_bytes:bytes} of its master's commit log (slaves that "
    "are behind: {slaves})"
)
_LACKS_ZH = (
    "集群 {cluster} 的从节点 {worst_slave} 的 CommitLog 比主节点少 {slave_behind_bytes:bytes}（落后的从节点：{slaves}）"
)

RULE = Rule(
    id="slave_behind",
    severity=Severity.WARNING,
    place=420,
    needs=("brokers",),
    means="A slave lacks so much of its master's commit log that reads from it are late and a failover loses messages.",
    texts={
        "default": Texts(
            summary="slave {worst_slave} is {slave_behind_bytes:bytes} behind its master",
            summary_zh="从节点 {worst_slave} 落后主节点 {slave_behind_bytes:bytes}",
            cause=_LACKS + ", which is what the master wrote in the last {behind_ms:duration}: a failover now would "
            "lose {cost}, and consumers that read from the slave are as late. {replication}.",
            cause_zh=_LACKS_ZH
            + "，相当于主节点最近 {behind_ms:duration} 的写入量：此时切换会丢失{cost}，从从节点读取的"
            "消费者也会晚这么久。{replication}。",
            do_next="Look at the slave's disk and at the network between the two; the slave's store.log says whether "
            "it is connected, and so do masters of 5.x.",
            do_next_zh="请检查从节点的磁盘和主从之间的网络；从节点的 store.log 会说明是否已连接，5.x 的主节点也可以查"
            "询。",
            commands=(lookups.REPLICATION,),
        ),
        "standing_still": Texts(
            cause=_LACKS + ", and nothing new is known to be written there: replication seems to stand still. A "
            "failover now would lose {cost}. {replication}.",
            cause_zh=_LACKS_ZH + "，且没有观测到新的写入：主从复制似乎已停滞。此时切换会丢失{cost}。{replication}。",
        ),
        "catching_up": Texts(
            summary="slave {worst_slave} was started lately and is {slave_behind_bytes:bytes} behind",
            summary_zh="从节点 {worst_slave} 刚启动，落后 {slave_behind_bytes:bytes}",
            cause=_LACKS + "; it was started lately and catches up.",
            cause_zh=_LACKS_ZH + "；它刚启动，正在追赶。",
            do_next="Nothing, as long as the distance shrinks.",
            do_next_zh="只要差距在缩小就无需处理。",
        ),
    },
    title="a slave is behind",
    title_zh="从节点落后",
    table=("slaves", "slave_behind_bytes", "behind_ms"),
    peak="slave_behind_bytes",
    recovered="the slaves have caught up",
    recovered_zh="从节点已追上",
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """At most one finding, about all slaves that are behind."""
    masters = {broker.broker_name: broker for broker in facts.brokers if broker.broker_id == 0}
    least_ms = config.judgement.slave_behind_ms
    late = [slave for slave in facts.brokers if _is_late(slave, masters.get(slave.broker_name), least_ms)]
    if not late:
        return
    late.sort(key=lambda one: (-(one.slave_behind_bytes or 0), one.broker_name, one.broker_id))
    started = all(one.boot_at is not None and facts.now - one.boot_at < CATCHES_UP for one in late)
    behind_ms = _behind_ms(late[0], masters.get(late[0].broker_name))
    yield RULE.finding(
        facts,
        severity=Severity.INFO if started else RULE.severity,
        variant="catching_up" if started else "standing_still" if behind_ms is None else "default",
        state="AT_RISK",
        figures={
            "slaves": names([replica_name(one) for one in late]),
            "worst_slave": replica_name(late[0]),
            "slave_behind_bytes": late[0].slave_behind_bytes,
            "behind_ms": behind_ms,
            "cost": _cost(late[0], masters.get(late[0].broker_name)),
            "replication": _replication(late[0], facts.now),
        },
        broker_names=frozenset(one.broker_name for one in late),
    )


def cannot_tell(facts: IntervalFacts, config: Config) -> Iterator[CannotTell]:
    """Give the slaves that answered, and of which one of the two commit-log ends was not seen."""
    for one in facts.brokers:
        if one.broker_id != 0 and one.answered and one.slave_behind_bytes is None:
            yield RULE.cannot_tell(
                Sentence("slave_distance_unknown", broker=replica_name(one)), brokers={one.broker_name}
            )


def _is_late(slave: BrokerFacts, master: BrokerFacts | None, least_ms: int) -> bool:
    behind = slave.slave_behind_bytes
    if slave.broker_id == 0 or behind is None or behind < FAR_BYTES:
        return False
    behind_ms = _behind_ms(slave, master)
    return behind >= LEAST_BYTES_ALONE if behind_ms is None else behind_ms >= least_ms


def _behind_ms(slave: BrokerFacts, master: BrokerFacts | None) -> int | None:
    """Return for how long the master has written what the slave lacks; None where its rate is unknown or next to 0."""
    if master is None or not master.commit_log_growth or not master.commit_log_growth_ms:
        return None
    behind_ms = (slave.slave_behind_bytes or 0) * master.commit_log_growth_ms // master.commit_log_growth
    return behind_ms if behind_ms < LONGEST_MS else None


def _cost(slave: BrokerFacts, master: BrokerFacts | None) -> Sentence:
    """Return how many messages the slave lacks, by the mean size of those that the master keeps."""
    if master is None or not master.message_count:
        return Sentence("messages_not_counted")
    low, high = master.commit_log_min_offset, master.commit_log_max_offset
    if low is None or high is None or high <= low:
        return Sentence("messages_not_counted")
    lacking = (slave.slave_behind_bytes or 0) * master.message_count // (high - low)
    return Sentence("about_messages", count=max(1, lacking))


def _replication(slave: BrokerFacts, now: datetime) -> Sentence:
    """Return whether a slave is connected, as far as it says when it read from its master last."""
    at = slave.replicated_at
    if at is None:
        return Sentence("replication_untold")
    ahead = timedelta(milliseconds=slave.clock_ahead_ms or 0)
    return Sentence("replication_stands" if now + ahead - at > _SENDS_NOTHING else "replication_goes_on", at=at - ahead)
