"""A group sends back a large share of its messages to be tried again: its listener fails for more than a few.

Means: a service behind the listener is down, or a release broke it. Each failed message comes back up to 16 times, so
the load grows while nothing gets done, and what still fails then becomes a dead letter.
Evidence: messages sent to the group's retry topics since the round before, beside what it consumed in that time. Where
a broker was not seen, those of the others are enough to tell, and never enough for an end. Which share fails, the
clients say; where one of them does not, it is at least the share that came back: a message waits for 10 s to 2 h until
it reaches its retry topic, and each time that it is tried counts as consumed.
Not judged: a few messages that fail (less than 5/s, or less than a tenth of what is consumed): retries are made for
them. Orderly groups retry in place and send nothing back.
Do next: find what the listener throws; pause the group while the service behind it is down.
Source: DefaultMQPushConsumerImpl.sendMessageBack, retry delays of 10 s to 2 h (4.9.8, 5.3.3).
"""

from collections import defaultdict
from collections.abc import Iterator

from offsetguard.facts.interval import IntervalFacts
from offsetguard.judge.evidence import lookups
from offsetguard.judge.evidence.lookups import each_group, growth_unknown
from offsetguard.judge.rule import CannotTell, Config, Explains, Finding, Rule, Scope, Sentence, Severity, Texts
from offsetguard.model.intervals import INTERVAL_LENGTH
from offsetguard.model.offsets import sum_of_known
from offsetguard.tables.group_facts import GroupFacts

LEAST_RETRY_TPS = 5.0
LEAST_SHARE = 0.1  # of what is consumed
# Where consumption is not known, so many are a storm in any group: a broker serves a few thousand per second.
LEAST_TPS_ALONE = 50.0

RULE = Rule(
    id="retry_storm",
    severity=Severity.WARNING,
    place=370,
    needs=("groups",),
    means="A consumer group fails for a large share of its messages and has them sent again.",
    texts={
        "default": Texts(
            summary="{consumer_group} fails for {failed_share} of its messages",
            summary_zh="{consumer_group} 有{failed_share}的消息消费失败",
            cause="Consumer group {consumer_group} sent {retry_growth:messages} message{retry_growth:plural} back to "
            "be tried again since "
            "the round before ({retry_tps:.1f}/s), while it consumed {consume_tps:.1f}/s: its listener fails for "
            "{failed_share} of them; {retry_message_count:messages} are kept in its retry topics.",
            cause_zh="自上一轮以来，消费组 {consumer_group} 有 {retry_growth:messages} 条消息被打回重试（"
            "{retry_tps:.1f}/s），同期消费 {consume_tps:.1f}/s：监听器对其中{failed_share}消费失败；重试主题中"
            "现有 {retry_message_count:messages} 条。",
            do_next="Look in the clients' log for what the listener throws, and at the service that it calls. While "
            "that is down, stop the group rather than let it fail: after retryMaxTimes ({retry_max_times}) the "
            "messages become dead letters. Each client's failures per second go into a file, which this names:",
            do_next_zh="请在客户端日志中查看监听器抛出的异常，并检查它调用的服务。服务故障期间，请停止消费组，不要任其"
            "失败：超过 retryMaxTimes（{retry_max_times}）后消息会成为死信。每个客户端每秒的失败数会写入一个文件，命令"
            "会给出文件名：",
            commands=(lookups.RATES_OF_CLIENTS,),
        ),
        "consumption_unknown": Texts(
            summary="{consumer_group} sends {retry_tps:.0f} messages/s back",
            summary_zh="{consumer_group} 每秒有 {retry_tps:.0f} 条消息被打回重试",
            cause="Consumer group {consumer_group} sent {retry_growth:messages} message{retry_growth:plural} back to "
            "be tried again since "
            "the round before ({retry_tps:.1f}/s): its listener fails; how much it consumed in that time is not known, "
            "{retry_message_count:messages} are kept in its retry topics.",
            cause_zh="自上一轮以来，消费组 {consumer_group} 有 {retry_growth:messages} 条消息被打回重试（"
            "{retry_tps:.1f}/s）：监听器消费失败；同期消费了多少未知，重试主题中现有 {retry_message_count:messages} "
            "条。",
            do_next="Look in the clients' log for what the listener throws, and at the service that it calls. While "
            "that is down, stop the group rather than let it fail: after retryMaxTimes ({retry_max_times}) the "
            "messages become dead letters.",
            do_next_zh="请在客户端日志中查看监听器抛出的异常，并检查它调用的服务。服务故障期间，请停止消费组，不要任其"
            "失败：超过 retryMaxTimes（{retry_max_times}）后消息会成为死信。",
        ),
    },
    title="many messages are tried again",
    title_zh="大量消息重试",
    table=("retry_growth", "retry_tps", "consume_tps", "retry_message_count", "retry_max_times"),
    peak="retry_growth",
    group_needs=("retry_growth",),
    from_clients=True,
    recovered="no more than a few of its messages fail",
    recovered_zh="失败的消息已很少",
    calm_ms=5 * 60_000,  # retries come in waves: 10 s, 30 s, 1 min, 2 min ... after the failure
    explains=(Explains(Scope.GROUP, ("dead_letters",)),),
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per consumer group."""
    consumed, retried = defaultdict[str, list[float | None]](list), defaultdict[str, list[float | None]](list)
    for row in facts.groups:
        consumed[row.consumer_group].append(row.consume_tps)
        if row.topic_kind == "retry":
            retried[row.consumer_group].append(row.produce_tps)
    for group in each_group(facts):
        seen_tps, second = sum_of_known(retried[group.consumer_group]), INTERVAL_LENGTH.total_seconds()
        if group.retry_growth is None and seen_tps is None:
            continue
        retry_tps = (group.retry_growth or 0) / second if seen_tps is None else seen_tps
        consume_tps = sum_of_known(consumed[group.consumer_group])
        if retry_tps < (LEAST_TPS_ALONE if consume_tps is None else LEAST_RETRY_TPS):
            continue
        share, is_exact = _failed_share(group, retry_tps, consume_tps)
        if consume_tps is not None and share < LEAST_SHARE:
            continue
        yield RULE.finding(
            facts,
            about=(group.consumer_group, None),
            variant="consumption_unknown" if consume_tps is None else "default",
            state="FALLING_BEHIND",
            figures={
                "retry_growth": round(retry_tps * second) if group.retry_growth is None else group.retry_growth,
                "retry_tps": retry_tps,
                "consume_tps": consume_tps,
                "failed_percent": 100 * share,
                "failed_share": Sentence("percent" if is_exact else "at_least_percent", percent=100 * share),
                "retry_message_count": group.retry_message_count,
                "retry_max_times": group.retry_max_times,
            },
        )


def _failed_share(group: GroupFacts, retry_tps: float, consume_tps: float | None) -> tuple[float, bool]:
    """Return which share of its messages the group fails for, and whether it is not more than that."""
    sent_back = 1.0 if not consume_tps else min(1.0, retry_tps / consume_tps)
    failed_tps, finished_tps = group.consume_failed_tps, group.consume_ok_tps
    all_told = group.told_client_count is not None and group.told_client_count == group.online_client_count
    if all_told and failed_tps and finished_tps is not None:
        return failed_tps / (failed_tps + finished_tps), True
    return sent_back, sent_back == 1.0


def cannot_tell(facts: IntervalFacts, config: Config) -> Iterator[CannotTell]:
    """Give the groups whose retries could not be compared with those of the round before."""
    yield from growth_unknown(facts, RULE.id, "retry_growth")
