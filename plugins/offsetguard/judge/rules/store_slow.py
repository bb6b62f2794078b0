"""A broker's store is slow: writes hold its page cache, or requests wait in its queues.

Means: the disk is busy or memory is short (page cache); producers get SYSTEM_BUSY or TIMEOUT_CLEAN_QUEUE and send
again, and consumers get their messages late.
Evidence: the stock figures of the broker at the moment of the round: how long the current write has held the page
cache's lock, how long the first send and pull requests have waited, and how many wait.
It shows in the round that reads them; between rounds, lines of broker.log of requests that were thrown away
unserved, the newest of them within two minutes.
Not judged: one slow moment of writing alone, and requests thrown away within less than a minute, are INFO: it may be
one garbage collection. Long pulls are no waiting.
Do next: look at the broker's disk and memory.
Source: BrokerFastFailure, MessageStoreConfig.osPageCacheBusyTimeOutMills = 1,000, BrokerConfig.waitTimeMillsInSendQueue
= 200 and waitTimeMillsInPullQueue = 5,000 (4.9.8, 5.3.3).
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from offsetguard.judge.evidence.lookups import replica_name
from offsetguard.judge.evidence.unseen import names
from offsetguard.judge.rule import CannotTell, Config, Finding, IntervalFacts, Rule, Sentence, Severity, Texts
from offsetguard.tables.broker_facts import BrokerFacts

BUSY_MS = 1_000  # osPageCacheBusyTimeOutMills: from here on the broker refuses writes
SEND_WAIT_MS = 1_000  # five times the wait after which a stock broker refuses a send request
PULL_WAIT_MS = 5_000  # waitTimeMillsInPullQueue
_LATELY, _LASTS = timedelta(minutes=2), timedelta(minutes=1)

RULE = Rule(
    id="store_slow",
    severity=Severity.WARNING,
    place=410,
    needs=("brokers",),
    means="A broker's store is slow: producers are refused and consumers wait.",
    texts={
        "default": Texts(
            summary="the store of {worst_broker} is slow",
            summary_zh="{worst_broker} 的存储缓慢",
            cause="The store is slow on {broker_count} broker{broker_count:plural} of cluster {cluster} ({brokers}); "
            "on {worst_broker} the current write has held the page cache for {page_cache_lock_time_ms:duration}, the "
            "first of {send_queue_size:messages} send request{send_queue_size:plural} has waited "
            "{send_queue_head_wait_ms:duration}, and the "
            "first of {pull_queue_size:messages} pull request{pull_queue_size:plural} "
            "{pull_queue_head_wait_ms:duration}: producers are "
            "refused, and consumers get their messages late.",
            cause_zh="集群 {cluster} 有 {broker_count} 个 Broker 存储缓慢（{brokers}）；{worst_broker} 上当前写入已占"
            "用 PageCache {page_cache_lock_time_ms:duration}，{send_queue_size:messages} 个发送请求的队首已等待 "
            "{send_queue_head_wait_ms:duration}，{pull_queue_size:messages} 个拉取请求的队首已等待 "
            "{pull_queue_head_wait_ms:duration}：生产者被拒绝，消费者收到消息延迟。",
            do_next="Look at disk and memory of {worst_broker} (iostat, free; PAGECACHERT in store.log): a full or "
            "shared disk, swapping, or consumers that read old messages from disk are the usual causes.",
            do_next_zh="请检查 {worst_broker} 的磁盘和内存（iostat、free；store.log 中的 PAGECACHERT）：常见原因是磁盘"
            "已满或被共用、使用了 swap，或消费者从磁盘读取旧消息。",
        ),
        "a_moment": Texts(
            summary="one write on {worst_broker} was slow",
            summary_zh="{worst_broker} 上有一次写入缓慢",
            cause="On {worst_broker} of cluster {cluster} the current write had held the page cache for "
            "{page_cache_lock_time_ms:duration} when it was looked at, and the first of {send_queue_size:messages} "
            "send request{send_queue_size:plural} had waited {send_queue_head_wait_ms:duration}.",
            cause_zh="观测时，集群 {cluster} 的 {worst_broker} 当前写入已占用 PageCache "
            "{page_cache_lock_time_ms:duration}，{send_queue_size:messages} 个发送请求的队首已等待 "
            "{send_queue_head_wait_ms:duration}。",
            do_next="Nothing, if it does not come again: one garbage collection or one flush looks like this.",
            do_next_zh="如果不再出现则无需处理：一次 GC 或一次刷盘就会这样。",
        ),
        "dropping": Texts(
            summary="{worst_broker} throws requests away that waited too long",
            summary_zh="{worst_broker} 丢弃了等待过久的请求",
            cause="{worst_broker} of cluster {cluster} has thrown {dropped_request_count:messages} "
            "request{dropped_request_count:plural} away since {dropped_first_at:moment}, the last at "
            "{dropped_last_at:moment}: they waited longer than it lets them (200 ms for a send request), so that its "
            "clients get code 2 (TIMEOUT_CLEAN_QUEUE, broker busy); brokers that do so: {brokers}.",
            cause_zh="集群 {cluster} 的 {worst_broker} 自 {dropped_first_at:moment} 起丢弃了 "
            "{dropped_request_count:messages} 个请求，最近一次在 {dropped_last_at:moment}：它们的等待时间超过上限（发送"
            "请求为 200 毫秒），客户端收到 code 2（TIMEOUT_CLEAN_QUEUE）；涉及的 Broker：{brokers}。",
            do_next="Look at disk and memory of {worst_broker} at these moments (iostat, GC log; PAGECACHERT in "
            "store.log). One garbage collection throws away what waited meanwhile; again and again it is the disk, or "
            "more requests than the broker has threads for.",
            do_next_zh="请查看 {worst_broker} 在这些时刻的磁盘和内存（iostat、GC 日志；store.log 中的 PAGECACHERT）。一"
            "次 GC 会丢弃其间等待的请求；反复出现则是磁盘慢，或请求多到处理线程不够。",
        ),
    },
    title="a broker's store is slow",
    title_zh="Broker 存储缓慢",
    table=(
        "worst_broker",
        "page_cache_lock_time_ms",
        "send_queue_head_wait_ms",
        "pull_queue_head_wait_ms",
        "dropped_request_count",
    ),
    peak="page_cache_lock_time_ms",
    recovered="writes and pulls go through quickly again",
    recovered_zh="写入和拉取已恢复正常",
    calm_ms=5 * 60_000,  # what is seen once a minute is a moment's figure
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """At most one finding, about all slow brokers."""
    dropping = {one: lasted for one in facts.brokers if (lasted := _drops_for(one, facts.now)) is not None}
    slow = sorted((one for one in facts.brokers if _signals(one) or one in dropping), key=_worst_first)
    if not slow:
        return
    worst = slow[0]
    lasting = any(map(_is_lasting, slow)) or any(lasted >= _LASTS for lasted in dropping.values())
    seen = _signals(worst) > 0
    yield RULE.finding(
        facts,
        severity=RULE.severity if lasting else Severity.INFO,
        unsure=not facts.logs_read or any(None in _figures(one) for one in slow),
        variant="dropping" if not seen else "default" if lasting else "a_moment",
        state="AT_RISK",
        figures={
            "brokers": names([replica_name(one) for one in slow]),
            "broker_count": len(slow),
            "worst_broker": replica_name(worst),
            "page_cache_lock_time_ms": worst.page_cache_lock_time_ms,
            "send_queue_size": worst.send_queue_size,
            "send_queue_head_wait_ms": worst.send_queue_head_wait_ms,
            "pull_queue_size": worst.pull_queue_size,
            "pull_queue_head_wait_ms": worst.pull_queue_head_wait_ms,
            "dropped_request_count": worst.dropped_request_count,
            "dropped_first_at": worst.dropped_first_at,
            "dropped_last_at": worst.dropped_last_at,
        },
        broker_names=frozenset(one.broker_name for one in slow),
    )


def cannot_tell(facts: IntervalFacts, config: Config) -> Iterator[CannotTell]:
    """Give the brokers that answered and did not tell these figures."""
    for one in facts.brokers:
        if one.answered and one.page_cache_lock_time_ms is None and one.pull_queue_head_wait_ms is None:
            yield RULE.cannot_tell(Sentence("store_untold", broker=replica_name(one)), brokers={one.broker_name})


def _signals(broker: BrokerFacts) -> int:
    """Count what is slow: writing, waiting to write, waiting to read."""
    leasts = (BUSY_MS, SEND_WAIT_MS, PULL_WAIT_MS)
    return sum(figure is not None and figure >= least for figure, least in zip(_figures(broker), leasts, strict=True))


def _figures(broker: BrokerFacts) -> tuple[int | None, int | None, int | None]:
    return broker.page_cache_lock_time_ms, broker.send_queue_head_wait_ms, broker.pull_queue_head_wait_ms


def _drops_for(broker: BrokerFacts, now: datetime) -> timedelta | None:
    """Return from the first to the last request that it threw away; None where the last one is not of late."""
    first, last = broker.dropped_first_at, broker.dropped_last_at
    return None if first is None or last is None or now - last > _LATELY else last - first


def _is_lasting(broker: BrokerFacts) -> bool:
    """Two signals at once, or pulls that wait for seconds: more than one slow moment."""
    return _signals(broker) > 1 or (broker.pull_queue_head_wait_ms or 0) >= PULL_WAIT_MS


def _worst_first(broker: BrokerFacts) -> tuple[int, int, int, str, int]:
    most = -_signals(broker), -(broker.page_cache_lock_time_ms or 0), -(broker.dropped_request_count or 0)
    return (*most, broker.broker_name, broker.broker_id)
