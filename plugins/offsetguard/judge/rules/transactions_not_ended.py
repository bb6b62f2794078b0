"""Transactions that nobody ends: their half messages pile up in the broker, which gives them up in the end.

Means: a producer began transactions and neither commits nor rolls them back, or the broker's check does not come by.
What is given up is never delivered: for consumers these messages are lost.
Evidence: growth of TRANS_CHECK_MAX_TIME_TOPIC since the round before; half messages behind the offset of the broker's
check (CID_RMQ_SYS_TRANS), their number over the rounds, and how many were stored 2 min ago or longer.
Not judged: half messages as such: a broker holds what its producers began since the last check (60 s in 4.x, 30 s in
5.x), ended or not; those of a broker that was started less than 2 min ago. Told by INFO: their number has not fallen
for 10 min, or late ones become fewer, or there were none in the round before.
Do next: find the producer group, and why it does not answer the broker's checks.
Source: TransactionalMessageServiceImpl.check, BrokerConfig.transactionCheckMax = 15 (4.9.7, 5.3.3).
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from offsetguard.judge.evidence import lookups
from offsetguard.judge.evidence.lookups import sum_at_least, worst_brokers
from offsetguard.judge.evidence.unseen import names
from offsetguard.judge.rule import CannotTell, Config, Finding, IntervalFacts, Rule, Sentence, Severity, Texts
from offsetguard.tables.broker_facts import BrokerFacts

GROWS = timedelta(minutes=10)  # ten checks of 4.x
_PRODUCERS = "a producer of that group must be online, and its checkLocalTransaction must say how the transaction ended"
_PRODUCERS_ZH = "该组必须有生产者在线，并且其 checkLocalTransaction 必须返回事务的结果。"

RULE = Rule(
    id="transactions_not_ended",
    severity=Severity.WARNING,
    place=390,
    never_muted=True,
    needs=("brokers",),
    means="Transactions are not ended: their messages wait in the broker, and are thrown away in the end.",
    texts={
        "default": Texts(
            summary="{half_message_count:messages} half message{half_message_count:plural} on {worst_broker}, and more "
            "in each round",
            summary_zh="{worst_broker} 上有 {half_message_count:messages} 条半消息，且每轮都在增加",
            cause="{half_message_count:messages} half message{half_message_count:plural} lie on {worst_broker} of "
            "cluster {cluster} (brokers with more and more of them: {brokers}); since {since:moment} there were in no "
            "round fewer than in the one before: producers begin transactions and do not end them.",
            cause_zh="集群 {cluster} 的 {worst_broker} 上有 {half_message_count:messages} 条半消息（半消息持续增加的 "
            "Broker：{brokers}）；自 {since:moment} 起没有任何一轮减少：生产者开启了事务却没有结束它们。",
            do_next="The lines of checks in the broker's transaction.log name topic and producer group; "
            + _PRODUCERS
            + ".",
            do_next_zh="Broker 的 transaction.log 中的回查日志会给出主题和生产者组；" + _PRODUCERS_ZH,
        ),
        "unchecked": Texts(
            summary="the check of transactions on {worst_broker} is late for {half_late_count:messages} half "
            "message{half_late_count:plural}",
            summary_zh="{worst_broker} 的事务回查滞后，涉及 {half_late_count:messages} 条半消息",
            cause="{half_late_count:messages} of {half_message_count:messages} half "
            "message{half_message_count:plural} on {worst_broker} of "
            "cluster {cluster} were stored 2 min ago or longer, and the broker's check has not passed them (brokers "
            "with such messages: {brokers}; seen since {since:moment}): transactions whose producer did not end them "
            "are neither asked for nor given up.",
            cause_zh="集群 {cluster} 的 {worst_broker} 上 {half_message_count:messages} 条半消息中有 "
            "{half_late_count:messages} 条写入已达 2 分钟以上，而 Broker 的回查尚未处理到它们（有此类消息的 Broker："
            "{brokers}；自 {since:moment} 起观测到）：生产者未结束的事务既不会被回查，也不会被放弃。",
            do_next="Look at the broker's transaction.log for what the check does, and whether the broker can write: "
            "it stores each such message again. Its disk, among others:",
            do_next_zh="请在 Broker 的 transaction.log 中查看回查的情况，并确认 Broker 能够写入：回查会重新写入每条这样"
            "的消息。其磁盘等信息：",
            commands=(lookups.BROKER_STATUS,),
        ),
        "given_up": Texts(
            summary="{given_up_growth:messages} transaction{given_up_growth:plural} given up on {brokers}",
            summary_zh="{brokers} 放弃了 {given_up_growth:messages} 个事务",
            cause="{given_up_growth:messages} transaction{given_up_growth:plural} that no producer ended were given up "
            "since the round before in cluster {cluster} ({brokers}), after as many checks as transactionCheckMax "
            "allows (15 if it is not set): their messages lie in TRANS_CHECK_MAX_TIME_TOPIC and are never delivered; "
            "{half_message_count:messages} half message{half_message_count:plural} wait on {worst_broker}.",
            cause_zh="自上一轮以来，集群 {cluster}（{brokers}）有 {given_up_growth:messages} 个生产者未结束的事务被放"
            "弃，回查次数已达到 transactionCheckMax（默认 15）：它们的消息在 TRANS_CHECK_MAX_TIME_TOPIC 中，不会再投"
            "递；{worst_broker} 上还有 {half_message_count:messages} 条半消息在等待。",
            do_next="Send again what matters. REAL_TOPIC and PGROUP of the messages name topic and producer group; "
            + _PRODUCERS
            + ". This prints them:",
            do_next_zh="请重新发送其中重要的消息。消息的 REAL_TOPIC 和 PGROUP 是主题和生产者组；"
            + _PRODUCERS_ZH
            + "打印这些消息：",
            commands=(lookups.PRINT_GIVEN_UP,),
        ),
    },
    title="transactions are not ended",
    title_zh="事务未结束",
    table=("worst_broker", "half_message_count", "half_late_count", "given_up_growth", "since"),
    peak="half_message_count",
    recovered="no transaction was given up for 30 min, and half messages do not pile up",
    recovered_zh="30 分钟内没有事务被放弃，半消息也不再堆积",
    calm_ms=30 * 60_000,  # they are given up one by one, each after a quarter of an hour of checks: that is one trouble
)
_WORST_FIRST = ("given_up", "unchecked", "default")


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """At most one finding, about all brokers with the worst that there is."""
    found = worst_brokers(facts, lambda one: _variant(one, facts.now), _WORST_FIRST)
    if found is None:
        return
    variant, brokers = found
    worst = max(brokers, key=lambda one: (_amount(one, variant), one.broker_name))
    yield RULE.finding(
        facts,
        severity=RULE.severity if variant == "given_up" or _is_late(brokers) else Severity.INFO,
        variant=variant,
        state="LOST" if variant == "given_up" else "AT_RISK",
        figures={
            "brokers": names(sorted(one.broker_name for one in brokers)),
            "worst_broker": worst.broker_name,
            "half_message_count": worst.half_message_count,
            "half_late_count": worst.half_late_count,
            "given_up_growth": sum_at_least(one.given_up_growth for one in brokers),
            "since": worst.half_late_since if variant == "unchecked" else worst.half_growing_since,
        },
        broker_names=frozenset(one.broker_name for one in brokers),
    )


def cannot_tell(facts: IntervalFacts, config: Config) -> Iterator[CannotTell]:
    """Give the brokers that hold half messages and did not tell how long.

    Requests without an answer are told as such, by collection_incomplete.
    """
    for one in facts.brokers:
        if one.half_message_count and one.half_late_count is None:
            yield RULE.cannot_tell(Sentence("half_late_unknown", broker=one.broker_name), brokers={one.broker_name})


def _variant(broker: BrokerFacts, now: datetime) -> str | None:
    if (broker.given_up_growth or 0) > 0:
        return "given_up"
    if (broker.half_late_count or 0) > 0:
        return "unchecked"
    since = broker.half_growing_since
    return "default" if since is not None and now - since >= GROWS else None


def _amount(broker: BrokerFacts, variant: str) -> int:
    figures = {"given_up": broker.given_up_growth, "unchecked": broker.half_late_count}
    return figures.get(variant, broker.half_message_count) or 0


def _is_late(brokers: list[BrokerFacts]) -> bool:
    """Whether messages of one of them were late in the round before as well, and do not become fewer.

    Where no round was before, they count as such.
    """
    late = [(one.half_late_count, one.half_late_growth) for one in brokers if one.half_late_count]
    return any(growth is None or 0 <= growth < count for count, growth in late)
