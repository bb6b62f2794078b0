"""Messages pile up: a consumer group with clients online is behind, and its queues stand still or fall further behind.

Means: consumers hang, or are slower than producers.
Evidence: effective lag (deleted messages do not count) and the age of the oldest unconsumed message, against the
group's limits; and the windows of its queues: STALLED, FALLING_BEHIND, or neither. Within the limits it is INFO, unless
all queues in which messages wait stand still while more come, or a lag grows while clearly more (1.2 times) is written
than consumed. So is a backlog that shrinks and will be drained within a window's time (30 min), of a newcomer that
consumes what was there before it, or of a group that comes and goes by a rhythm (a batch) and has been back for no
longer than it was ever away.
Not judged: a queue whose end was reached a few samples ago (a burst), or that rests within its own rhythm; groups that
are offline (consumer_offline); broadcasting groups (they keep their offsets on the client), system topics, a lag that
is not known. Of a POP group the lag is what waits to be handed out.
Do next: find what hangs or slows the consumers; on 5.x, inflight tells slow consumption from missing pulls.
Source: ConsumeStats.computeTotalDiff (4.9.8, 5.3.3), which counts deleted messages; we do not.
"""

from collections.abc import Iterator

from offsetguard.judge.evidence import lookups
from offsetguard.judge.evidence.judged_groups import (
    backlog_trend,
    judged_groups,
    longest_ms,
    longest_silence,
)
from offsetguard.judge.evidence.lookups import age_of_oldest, lag_evidence, of_all_queues
from offsetguard.judge.evidence.refused_pulls import addresses, other_settings
from offsetguard.judge.rule import Config, Finding, GroupFacts, IntervalFacts, Rule, Severity, State, Texts
from offsetguard.judge.windows.rules import POP
from offsetguard.model.rocketmq import PULL

_MESSAGES = "{effective_lag:messages} message{effective_lag:plural}"
_BEHIND = "Consumer group {consumer_group} is " + _MESSAGES + " behind on topic {topic}"
_ONLINE = " with {online_client_count} client{online_client_count:plural} online"
_BEHIND_ZH = (
    "消费组 {consumer_group} 在主题 {topic} 上堆积 {effective_lag:messages} 条消息，{online_client_count} 个客户端在线"
)
_ALLOWED = (
    " (age of the oldest: {lag_ms:duration}; allowed: {max_lag_messages:messages} "
    "message{max_lag_messages:plural}, {max_lag_ms:duration})."
)
_ALLOWED_ZH = "（最早消息已等待 {lag_ms:duration}；允许：{max_lag_messages:messages} 条，{max_lag_ms:duration}）。"
_STANDS = "{consumer_group} stands still on {topic}: " + _MESSAGES + " wait"
_STANDS_ZH = "{consumer_group} 在 {topic} 上停滞：{effective_lag:messages} 条消息等待消费"
_STAND_STILL = (
    ", and {stalled_queue_count} of its {queue_count} queue{queue_count:plural} stand still: nothing was committed "
    "there for {silence}"
)
_STAND_STILL_ZH = "，{queue_count} 个队列中有 {stalled_queue_count} 个停滞：{silence} 内没有提交过位点"
_SPEED_UP = "Add clients (or queues, for an orderly group) or speed up the listener. " + lookups.STACKS_GO
_SPEED_UP_ZH = "请增加客户端（顺序消费组请增加队列）或提高监听器的处理速度。" + lookups.STACKS_GO_ZH
_SUMMARY = "{consumer_group} is " + _MESSAGES + " behind on {topic}"
_SUMMARY_ZH = "{consumer_group} 在 {topic} 上堆积 {effective_lag:messages} 条消息"

RULE = Rule(
    id="accumulation",
    severity=Severity.WARNING,
    place=240,
    needs=("groups", "queues"),
    unseen="offsets_not_seen",
    means="A consumer group is behind by more messages, or for longer, than its policy allows, or gets there.",
    texts={
        "default": Texts(
            summary=_SUMMARY,
            summary_zh=_SUMMARY_ZH,
            cause=_BEHIND + _ONLINE + ": it consumes more slowly than producers write, or not at all; what was seen "
            "does not show which" + _ALLOWED,
            cause_zh=_BEHIND_ZH + "：消费慢于生产，或完全没有消费；目前的观测无法区分" + _ALLOWED_ZH,
            do_next="Look at the worst queues first: if their consumer offsets move, add clients (or queues, for an "
            "orderly group) or speed up the listener; if they stand still, see what its threads do. "
            + lookups.STACKS_GO,
            do_next_zh="请先看最严重的队列：如果消费位点在推进，请增加客户端（顺序消费组请增加队列）或提高监听器的处理"
            "速度；如果停滞不动，请查看其线程。" + lookups.STACKS_GO_ZH,
            commands=(lookups.STACKS,),
        ),
        "growing": Texts(
            summary=_SUMMARY + ", and falls further behind",
            summary_zh=_SUMMARY_ZH + "，且仍在增加",
            cause=_BEHIND + _ONLINE + ", {growth:messages} more than at the window's start: it consumes more slowly "
            "than producers write" + _ALLOWED,
            cause_zh=_BEHIND_ZH + "，比窗口开始时多 {growth:messages} 条：消费慢于生产" + _ALLOWED_ZH,
            do_next=_SPEED_UP,
            do_next_zh=_SPEED_UP_ZH,
            commands=(lookups.STACKS,),
        ),
        "stalled": Texts(
            summary=_STANDS,
            summary_zh=_STANDS_ZH,
            cause=_BEHIND + _ONLINE + _STAND_STILL + _ALLOWED,
            cause_zh=_BEHIND_ZH + _STAND_STILL_ZH + _ALLOWED_ZH,
            do_next="A listener that hangs, a message that fails again and again, or a queue that no client holds "
            "looks like this. " + lookups.STACKS_GO,
            do_next_zh="监听器挂起、一条消息反复失败、队列没有客户端持有，都会表现为这样。" + lookups.STACKS_GO_ZH,
            commands=(lookups.STACKS,),
        ),
        "pulled": Texts(
            summary=_STANDS,
            summary_zh=_STANDS_ZH,
            cause=_BEHIND + _ONLINE + _STAND_STILL + _ALLOWED + " Its clients are pull consumers, which do not say "
            "which queues they hold.",
            cause_zh=_BEHIND_ZH + _STAND_STILL_ZH + _ALLOWED_ZH + "其客户端是主动拉取的消费者，不会报"
            "告自己持有哪些队列。",
            do_next="See what the threads of its application do that poll: it no longer polls, has paused these queues "
            "and not resumed them, or does not commit. " + lookups.STACKS_GO,
            do_next_zh="请查看应用中调用 'poll' 的线程：应用可能不再拉取、用 'pause' 暂停了这些队列而没有用 'resume' "
            "恢复，或没有提交位点。" + lookups.STACKS_GO_ZH,
            commands=(lookups.STACKS,),
        ),
        "steady": Texts(
            summary=_SUMMARY + ", and does not catch up",
            summary_zh=_SUMMARY_ZH + "，没有追上",
            cause=_BEHIND + _ONLINE + ": it keeps pace with the producers, and no more" + _ALLOWED,
            cause_zh=_BEHIND_ZH + "：消费只能与生产持平" + _ALLOWED_ZH,
            do_next=_SPEED_UP,
            do_next_zh=_SPEED_UP_ZH,
            commands=(lookups.STACKS,),
        ),
        "draining": Texts(
            summary="{consumer_group} catches up on {topic}: " + _MESSAGES + " left",
            summary_zh="{consumer_group} 正在追上 {topic}：还剩 {effective_lag:messages} 条消息",
            cause=_BEHIND + _ONLINE + " and catches up: it will be drained in {drained_ms:duration} at the latest if "
            "that goes on" + _ALLOWED,
            cause_zh=_BEHIND_ZH + "，正在追上：照此下去，最迟 {drained_ms:duration} 后消费完" + _ALLOWED_ZH,
            do_next="Nothing, if that is soon enough. " + _SPEED_UP,
            do_next_zh="如果这个速度可以接受，则无需处理。" + _SPEED_UP_ZH,
            commands=(lookups.STACKS,),
        ),
        "waiting_to_be_popped": Texts(
            summary=_MESSAGES + " of {topic} wait for {consumer_group}",
            summary_zh="{topic} 有 {effective_lag:messages} 条消息等待 {consumer_group} 消费",
            cause=_MESSAGES + " of topic {topic} wait to be handed out to consumer group {consumer_group} (POP), "
            "besides those in process at its clients ({pop_inflight:messages}): they take more slowly than producers "
            "write, or nothing at all" + _ALLOWED,
            cause_zh="主题 {topic} 有 {effective_lag:messages} 条消息等待分发给消费组 {consumer_group}（POP），另有 "
            "{pop_inflight:messages} 条在客户端处理中：消费慢于生产，或完全没有消费" + _ALLOWED_ZH,
            do_next="Add clients or speed up their handlers. Where it is unknown how much is in process, list the "
            "brokers' metrics pages under metrics_urls in config/offsetguard.yml.",
            do_next_zh="请增加客户端或提高处理速度。如果处理中的消息数未知，请在 config/offsetguard.yml 的 "
            "metrics_urls 中配置 Broker 的 metrics 页面。",
        ),
        "popped_in_order": Texts(
            summary=_MESSAGES + " of {topic} wait for {consumer_group}, which takes them in order",
            summary_zh="{topic} 有 {effective_lag:messages} 条消息等待 {consumer_group} 按顺序消费",
            cause=_MESSAGES + " of topic {topic} wait to be handed out to consumer group {consumer_group} (POP), "
            "besides those in process at its clients ({pop_inflight:messages}). Its messages are handed out one after "
            "the other (consumeMessageOrderly=true): one that hangs or fails holds back those behind it" + _ALLOWED,
            cause_zh="主题 {topic} 有 {effective_lag:messages} 条消息等待分发给消费组 {consumer_group}（POP），另有 "
            "{pop_inflight:messages} 条在客户端处理中。它的消息按顺序逐条分发（consumeMessageOrderly=true）：一条消息卡"
            "住或失败会挡住后面的消息" + _ALLOWED_ZH,
            do_next="Look for a message that fails again and again, and speed up the handlers. If the order was not "
            "meant, hand messages out in any order; the command {other_settings}:",
            do_next_zh="请查找反复失败的消息，并提高处理速度。如果不需要顺序，请改为不按顺序分发；该命令{other_settings}：",
            commands=(lookups.LET_CONSUME,),
        ),
        "clients_unknown": Texts(
            cause=_BEHIND + "; whether clients of it are online could not be seen" + _ALLOWED,
            cause_zh="消费组 {consumer_group} 在主题 {topic} 上堆积 {effective_lag:messages} 条消息；没有读到是否有客户"
            "端在线" + _ALLOWED_ZH,
            do_next="Brokers do not see gRPC clients behind a proxy: list its remoting port under proxies of the "
            "cluster in config/offsetguard.yml. Otherwise start the consumers, or find what slows them. Whether they "
            "run:",
            do_next_zh="Broker 看不到 Proxy 之后的 gRPC 客户端：请在 config/offsetguard.yml 该集群的 proxies 中配置 "
            "Proxy 的 remoting 端口。否则请启动消费者，或查明变慢的原因。查看它们是否在运行：",
            commands=(lookups.MEMBERS,),
        ),
    },
    title="messages pile up",
    title_zh="消息堆积",
    table=(
        *("effective_lag", "beyond", "lag_ms", "inflight", "available", "online_client_count"),
        *("max_lag_messages", "max_lag_ms"),
    ),
    peak="effective_lag",
    group_needs=("effective_lag", "lag_ms"),
    recovered="recovered: the lag is within its limits again",
    recovered_zh="已恢复：堆积回到允许范围内",
    shows_stacks=True,
    after=("consumer_offline",),  # who has just come back stood still because nobody was there
    about_load=True,
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per (consumer group, topic) above a limit, or in trouble."""
    for judged in judged_groups(facts, config):
        trend = backlog_trend(judged, facts.now)
        if trend is None or any(queue.offsets.end_is_impossible for queue in judged.queues):
            continue  # how much waits behind a damaged index nobody knows (queue_index_damaged)
        group, policy = judged.group, judged.policy
        loud = judged.above_limit or judged.is_overrun or judged.stands_still
        had_to_wait = judged.is_newcomer or judged.is_back_by_plan
        soon = trend.drained_ms is not None and (trend.drained_ms <= policy.window_ms or had_to_wait)
        soon = soon or (trend.variant == "default" and had_to_wait)
        yield RULE.finding(
            facts,
            about=(group.consumer_group, group.topic),
            severity=RULE.severity if loud and not soon else Severity.INFO,
            unsure=not loud and judged.waits_unknown,
            variant=_variant(judged.group, trend.variant),
            state=trend.state.value,
            figures={
                "effective_lag": of_all_queues(group, group.effective_lag),
                "beyond": of_all_queues(group, group.beyond_end),
                "lag_ms": age_of_oldest(judged.queues, group),
                "inflight": group.inflight,
                "available": group.available,
                "pop_inflight": group.pop_inflight,
                "enabling_options": (group.enabling_options or "").replace("-o true", "-o false") or None,
                "refusing_addresses": addresses(facts, ()),
                "other_settings": other_settings(group.reset_settings),
                "online_client_count": group.online_client_count,
                "queue_count": group.queue_count,
                "stalled_queue_count": len(judged.in_state(State.STALLED)),
                "silence": longest_silence(judged.in_state(State.STALLED)),
                "silence_ms": longest_ms(judged.in_state(State.STALLED), "silence_ms"),
                "growth": trend.growth,
                "drained_ms": trend.drained_ms,
                "max_lag_messages": policy.max_lag_messages,
                "max_lag_ms": policy.max_lag_ms,
            },
            queues=lag_evidence(judged.queues),
        )


def _variant(group: GroupFacts, variant: str) -> str:
    popped = group.consumption == POP and variant != "clients_unknown"
    if not popped:
        unlisted = group.held_queue_count is None
        return "pulled" if variant == "stalled" and group.consume_type == PULL and unlisted else variant
    return "popped_in_order" if group.consume_message_orderly else "waiting_to_be_popped"
