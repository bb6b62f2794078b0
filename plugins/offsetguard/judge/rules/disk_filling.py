"""A broker's disk fills up: messages go before their time, and at 90 % nothing is written any more.

Means: above 85 % (diskSpaceCleanForciblyRatio) a broker deletes its oldest commit-log files whatever their age, unless
cleanFileForciblyEnable is false; above 90 % it refuses writes.
Evidence: the used share of the commit log's disk; the broker's cleaner run ahead, with the disk's size, how fast the
commit log grows, and what the same hours of yesterday brought.
Not judged: a disk that is sure to stay below the limit for judgement.disk_full_within_ms (4 h) or for the next day, or
reaches it only if the worst comes.
Do next: make room, or keep messages for a shorter time.
Source: DefaultMessageStore.CleanCommitLogService, diskSpaceWarningLevelRatio = 0.90 (4.9.8, 5.3.3).
"""

from collections.abc import Iterable, Iterator, Mapping

from offsetguard.facts.interval import IntervalFacts
from offsetguard.judge.evidence.lookups import replica_name
from offsetguard.judge.evidence.unseen import names
from offsetguard.judge.forecasts import broker_retentions
from offsetguard.judge.forecasts.broker_cleaning import BrokerRetention, Deletion
from offsetguard.judge.forecasts.broker_retentions import DEFAULT_FORCED_PERCENT, forced_ratio
from offsetguard.judge.rule import CannotTell, Config, Explains, Finding, Rule, Scope, Sentence, Severity, Texts
from offsetguard.model.offsets import MASTER_ID
from offsetguard.model.verdicts import Basis
from offsetguard.tables.broker_facts import BrokerFacts

REFUSED_RATIO = 0.90  # diskSpaceWarningLevelRatio: from here on writes are refused
SURELY_MS = 24 * 3_600_000  # at the latest
AT_ONCE_MS = 60_000

_IS = "The disk of {worst_broker} in cluster {cluster} is {disk_percent} % "
_IS_ZH = "集群 {cluster} 的 {worst_broker} 磁盘使用率为 {disk_percent}%"
_GOES = (
    "deletes the oldest messages of all topics whatever their age, although they are to be kept for "
    "{file_reserved_time_hours} hours."
)
_GOES_ZH = "不论消息新旧，所有主题最早的消息都会被删除，尽管设定保留 {file_reserved_time_hours} 小时。"
RULE = Rule(
    id="disk_filling",
    severity=Severity.WARNING,
    place=380,
    needs=("brokers",),
    means="A broker's disk is nearly full: the oldest messages go whatever their age, then writes are refused.",
    texts={
        "default": Texts(
            summary="the disk of {worst_broker} reaches {forced_percent} % in {full_low_ms:duration} to "
            "{full_high_ms:duration}",
            summary_zh="{worst_broker} 的磁盘将在 {full_low_ms:duration} 至 {full_high_ms:duration} 后达到 "
            "{forced_percent}%",
            cause=_IS + "full and reaches {forced_percent} % in {full_low_ms:duration} to {full_high_ms:duration}: "
            "from then on it " + _GOES,
            cause_zh=_IS_ZH
            + "，将在 {full_low_ms:duration} 至 {full_high_ms:duration} 后达到 {forced_percent}%：此后"
            + _GOES_ZH,
            do_next="Make room on the disk of {brokers}, or lower fileReservedTime to what it can hold; the topic that "
            "writes most pushes the others out.",
            do_next_zh="请在 {brokers} 上清理磁盘，或把 fileReservedTime 调低到磁盘能容纳的值；写入最多的主题会挤掉其"
            "他主题的消息。",
        ),
        "forced": Texts(
            summary="{worst_broker} deletes messages before their time: its disk is {disk_percent} % full",
            summary_zh="{worst_broker} 提前删除消息：磁盘使用率 {disk_percent}%",
            cause=_IS + "full: above {forced_percent} % it " + _GOES,
            cause_zh=_IS_ZH + "：超过 {forced_percent}% 后，" + _GOES_ZH,
            do_next="Make room on the disk of {brokers} now, or lower fileReservedTime to what it can hold; consumer "
            "groups that are behind lose messages first.",
            do_next_zh="请立即在 {brokers} 上清理磁盘，或把 fileReservedTime 调低到磁盘能容纳的值；有堆积的消费组会最"
            "先丢失消息。",
        ),
        "not_forced": Texts(
            summary="the disk of {worst_broker} is {disk_percent} % full",
            summary_zh="{worst_broker} 的磁盘使用率为 {disk_percent}%",
            cause=_IS + "full, and cleanFileForciblyEnable is false: no message goes before its time, and at 90 % it "
            "refuses writes.",
            cause_zh=_IS_ZH + "，且 cleanFileForciblyEnable 为 false：不会提前删除消息，达到 90% 时将拒绝写入。",
            do_next="Make room on the disk of {brokers} now, or lower fileReservedTime to what it can hold.",
            do_next_zh="请立即在 {brokers} 上清理磁盘，或把 fileReservedTime 调低到磁盘能容纳的值。",
        ),
        "full": Texts(
            summary="{worst_broker} refuses writes: its disk is {disk_percent} % full",
            summary_zh="{worst_broker} 拒绝写入：磁盘使用率 {disk_percent}%",
            cause=_IS + "full: from 90 % on it refuses writes, and producers fail with SERVICE_NOT_AVAILABLE.",
            cause_zh=_IS_ZH + "：达到 90% 后拒绝写入，生产者会收到 SERVICE_NOT_AVAILABLE。",
            do_next="Make room on the disk of {brokers} at once: delete what is not RocketMQ's, or lower "
            "fileReservedTime and wait for the cleaner (every 10 s).",
            do_next_zh="请马上在 {brokers} 上清理磁盘：删除不属于 RocketMQ 的文件，或调低 fileReservedTime 并等待清理"
            "（每 10 秒一次）。",
        ),
    },
    title="a broker's disk fills up",
    title_zh="Broker 磁盘将满",
    table=("worst_broker", "disk_percent", "forced_percent", "full_low_ms", "full_high_ms"),
    peak="disk_percent",
    recovered="the disk has room again",
    recovered_zh="磁盘空间已恢复",
    calm_ms=30 * 60_000,  # where files go by force, the disk hovers about the limit
    explains=(
        # a broker that refuses writes can neither check transactions nor deliver
        Explains(Scope.BROKER, ("delayed_delivery_late",), variants=("full",)),
        Explains(Scope.BROKER, ("transactions_not_ended",), variants=("full",), explained_variants=("unchecked",)),
    ),
)
_WORST_FIRST = ("full", "forced", "not_forced", "default")


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """At most one finding, about all brokers whose disk fills up."""
    ahead, soon_ms = broker_retentions.retentions(facts, config), config.judgement.disk_full_within_ms
    found = [(variant, one) for one in facts.brokers if (variant := _variant(one, ahead, soon_ms)) is not None]
    if not found:
        return
    variant, worst = min(
        found,
        key=lambda pair: (_WORST_FIRST.index(pair[0]), -(pair[1].commit_log_disk_ratio or 0), replica_name(pair[1])),
    )
    low, high = _forced_in(ahead.get(worst.broker_name)) if variant == "default" else (None, None)
    forced = forced_ratio(worst)
    yield RULE.finding(
        facts,
        severity=Severity.CRITICAL if variant == "full" else RULE.severity,
        variant=variant,
        state="AT_RISK",
        figures={
            "brokers": names(sorted(replica_name(one) for _, one in found)),
            "broker_count": len(found),
            "worst_broker": replica_name(worst),
            "disk_percent": round(100 * (worst.commit_log_disk_ratio or 0)),
            "forced_percent": None if forced is None else round(100 * forced),
            "full_low_ms": low,
            "full_high_ms": high,
            "file_reserved_time_hours": worst.file_reserved_time_hours,
        },
        broker_names=frozenset(one.broker_name for _, one in found),
    )


def cannot_tell(facts: IntervalFacts, config: Config) -> Iterator[CannotTell]:
    """Give the brokers that answered and did not tell how full their disk is."""
    for one in facts.brokers:
        if one.answered and one.commit_log_disk_ratio is None:
            why = "disk_untold" if one.disk_unreadable_at is None else "disk_unreadable"
            yield RULE.cannot_tell(Sentence(why, broker=replica_name(one)), brokers={one.broker_name})


def _variant(broker: BrokerFacts, ahead: Mapping[str, BrokerRetention], soon_ms: int) -> str | None:
    ratio, forced = broker.commit_log_disk_ratio, forced_ratio(broker)
    if ratio is None:
        return None
    if ratio > REFUSED_RATIO:
        return "full"
    if forced is None:
        return "not_forced" if ratio > DEFAULT_FORCED_PERCENT / 100 else None
    if ratio > forced:
        return "forced"
    # a slave has its master's log; only its own disk may be smaller
    if broker.broker_id != MASTER_ID or ratio < forced / 2:
        return None
    low, high = _forced_in(ahead.get(broker.broker_name))
    soon = low is not None and high is not None and low <= soon_ms and high <= max(soon_ms, SURELY_MS)
    return "default" if soon else None


def _forced_in(retention: BrokerRetention | None) -> tuple[int | None, int | None]:
    """Return in how many ms files begin to go by force, at the earliest and at the latest."""
    if retention is None:
        return None, None
    return _first_forced(retention.early), _first_forced(retention.late)


def _first_forced(deletions: Iterable[Deletion]) -> int | None:
    forced = (one.after_ms for one in deletions if one.basis is Basis.DISK or one.after_ms > SURELY_MS)
    after_ms = next(forced, SURELY_MS + 1)
    return None if after_ms > SURELY_MS else max(after_ms, AT_ONCE_MS)
