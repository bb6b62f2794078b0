"""Clients have as many messages in their caches as they may, and pull no more: they are slow, not stalled.

Means: a client stops pulling a queue above pullThresholdForQueue (1,000) messages, pullThresholdSizeForQueue (100 MiB),
or consumeConcurrentlyMaxSpan (2,000). So a backlog never fills a client's memory, and brokers see pulls pause.
Evidence: the clients' running info says that caches have reached their thresholds, or their logs say "so do flow
control"; messages were finished within the last minute. Lines of lite pull consumers and of POP clients name no queue:
they count for the whole group, unless a queue of it stands still.
Not judged: full caches whose queue stands still (poison_message, accumulation).
Do next: nothing about the pausing; the listener is what is slow.
Source: incident I5; DefaultMQPushConsumerImpl.pullMessage (4.9.8, 5.3.3).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from offsetguard.config import Config
from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.judge.evidence.judged_groups import moves
from offsetguard.judge.evidence.lookups import master_boots, of_all_queues, queue_name, queues_by_group
from offsetguard.judge.rule import CannotTell, Explains, Finding, QueueEvidence, Rule, Scope, Sentence, Severity, Texts
from offsetguard.judge.windows.windows import above_limit
from offsetguard.model.offsets import MessageQueue
from offsetguard.model.rocketmq import FLOW_CONTROL, SILENCE
from offsetguard.tables.log_facts import LogLineFacts

_SLOW = "it is slow, not stalled, and its memory stays bounded."

RULE = Rule(
    id="flow_control",
    severity=Severity.INFO,
    place=300,
    needs=("groups", "queues", "log_lines"),
    means="Clients have reached their cache limits and pause pulling while they go on consuming.",
    texts={
        "default": Texts(
            summary="clients of {consumer_group} pause pulling {topic}: their caches are full",
            summary_zh="{consumer_group} 的客户端暂停拉取 {topic}：本地缓存已满",
            cause="Flow control: clients of consumer group {consumer_group} have reached their cache limits on "
            "{full_queue_count} queue{full_queue_count:plural} of topic {topic} (client {client_id} caches "
            "{cached_message_count:messages} message{cached_message_count:plural} of queue {worst_queue}) while their "
            "offsets move: " + _SLOW,
            cause_zh="流控：消费组 {consumer_group} 的客户端在主题 {topic} 的 {full_queue_count} 个队列上达到缓存上限"
            "（客户端 {client_id} 缓存了队列 {worst_queue} 的 {cached_message_count:messages} 条消息），同时位点在推"
            "进：消费缓慢但没有停滞，内存有上限。",
            do_next="Nothing to do about the pauses. To drain faster speed up the listener; more threads help a "
            "concurrent group, more queues an orderly one. Raising pullThresholdForQueue only fills the clients' "
            "memory.",
            do_next_zh="流控本身无需处理。要更快消费完，请提高监听器的处理速度；并发消费组可增加线程，顺序消费组可增加"
            "队列。调大 pullThresholdForQueue 只会占用更多客户端内存。",
        ),
        "logged": Texts(
            cause="Flow control: the logs of clients of consumer group {consumer_group} say {line_count:messages} "
            "time{line_count:plural} since {first_at:moment} that their caches of topic {topic} are full, on "
            "{full_queue_count} queue{full_queue_count:plural}, while their offsets move: " + _SLOW,
            cause_zh="流控：消费组 {consumer_group} 的客户端日志自 {first_at:moment} 起 {line_count:messages} 次提示主"
            "题 {topic} 的缓存已满，涉及 {full_queue_count} 个队列，同时位点在推进：消费缓慢但没有停滞，内存有上限。",
        ),
        "unnamed": Texts(
            summary="clients of {consumer_group} hold as many messages as they may, and pause",
            summary_zh="{consumer_group} 的客户端持有的消息已达上限，暂停拉取",
            cause="Flow control: logs of clients of consumer group {consumer_group} say {line_count:messages} "
            "time{line_count:plural} since {first_at:moment} that they hold as many messages as they may, or brokers' "
            "that too many wait for their acknowledgement (POP). It goes on when some are finished: " + _SLOW,
            cause_zh="流控：消费组 {consumer_group} 的客户端日志自 {first_at:moment} 起 {line_count:messages} 次提示持"
            "有的消息已达上限，或 Broker 日志提示未确认的消息过多（POP）。处理完一部分后会继续：消费缓慢但没有停滞，"
            "内存有上限。",
            do_next="Nothing to do about the pauses. To drain faster let a lite pull consumer's application poll more "
            "often, and the handlers of POP clients return sooner.",
            do_next_zh="流控本身无需处理。要更快消费完，请让主动拉取的应用更频繁地取走消息，让 POP 客户端"
            "更快地处理完消息。",
        ),
    },
    title="clients pause pulling",
    title_zh="客户端暂停拉取（流控）",
    table=("full_queue_count", "cached_message_count", "effective_lag", "client_id", "line_count"),
    peak="cached_message_count",
    from_clients=True,
    recovered="the clients pull again without pauses",
    recovered_zh="客户端已恢复拉取",
    about_load=True,
    explains=(Explains(Scope.TOPIC, ("accumulation",)),),
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per (consumer group, topic) with full caches that are worked off; else per group by its logs."""
    lines, queues = _recent_lines(facts), queues_by_group(facts)
    pop = {group.consumer_group for group in facts.groups if group.consumption == "pop"}
    groups = {(group.consumer_group, group.topic): group for group in facts.groups}
    boots = master_boots(facts)
    found: set[str] = set()
    standing: set[str] = set()
    for consumer_group, topic in sorted(queues.keys() | lines.keys()):
        own, said = queues.get((consumer_group, topic), []), lines.get((consumer_group, topic), [])
        group = groups.get((consumer_group, topic))
        goes_on = [queue for queue in own if moves(queue, group, boots)]
        full = [queue for queue in goes_on if queue.cache_is_full]
        stands = {queue.message_queue for queue in own} - {queue.message_queue for queue in goes_on}
        said = [line for line in said if _queue(line) not in stands]
        if stands:
            standing.add(consumer_group)
        if consumer_group in pop or not (full or said):
            continue
        found.add(consumer_group)
        worst = max(full, key=lambda one: (one.cached_message_count or 0, one.message_queue), default=None)
        queue_count = len({queue.message_queue for queue in full} | {_queue(line) for line in said})
        yield RULE.finding(
            facts,
            about=(consumer_group, topic),
            variant="default" if worst else "logged",
            figures={
                "full_queue_count": queue_count,
                "client_id": worst.holder_client_id if worst else None,
                "cached_message_count": worst.cached_message_count if worst else None,
                "worst_queue": queue_name(worst.message_queue) if worst else None,
                "effective_lag": of_all_queues(group, group.effective_lag) if group else None,
                "line_count": sum(line.line_count for line in said) or None,
                "first_at": min((line.first_at for line in said), default=None),
            },
            queues=_evidence(full) or tuple(QueueEvidence(q, {}) for q in sorted({_queue(line) for line in said})),
        )

    for consumer_group, unnamed in _unnamed_lines(facts, pop).items():
        if consumer_group not in found | standing:
            yield RULE.finding(
                facts,
                about=(consumer_group, None),
                variant="unnamed",
                figures={
                    "line_count": sum(line.line_count for line in unnamed),
                    "first_at": min(line.first_at for line in unnamed),
                },
            )


def cannot_tell(facts: IntervalFacts, config: Config) -> Iterator[CannotTell]:
    """Name groups above their limits of which neither every client nor a log tells whether caches are full."""
    lines = _recent_lines(facts)
    for group in facts.groups:
        policy = config.policy(facts.cluster, group.consumer_group)
        judged = group.consumption != "pop" and group.message_model == "CLUSTERING" and group.topic_kind == "normal"
        online = group.online_client_count
        unknown = online is None or (group.told_client_count or 0) < online
        said = (group.consumer_group, group.topic) in lines
        if judged and unknown and not said and above_limit(group, policy):
            yield RULE.cannot_tell(Sentence("caches_untold"), consumer_group=group.consumer_group)


def _recent_lines(facts: IntervalFacts) -> Mapping[tuple[str, str], list[LogLineFacts]]:
    """Return the lines of queues that clients held back within the last minute or so; 1,000 pauses print one."""
    found: dict[tuple[str, str], list[LogLineFacts]] = {}
    for line in facts.log_lines:
        if _tells(line, facts) and _names_queue(line):
            found.setdefault((line.consumer_group, line.topic or ""), []).append(line)
    return found


def _unnamed_lines(facts: IntervalFacts, pop: Collection[str]) -> Mapping[str, list[LogLineFacts]]:
    """Return likewise by group the lines that name no queue, and all of groups that pop."""
    found: dict[str, list[LogLineFacts]] = {}
    for line in facts.log_lines:
        if _tells(line, facts) and (line.consumer_group in pop or not _names_queue(line)):
            found.setdefault(line.consumer_group, []).append(line)
    return found


def _tells(line: LogLineFacts, facts: IntervalFacts) -> bool:
    return line.kind in FLOW_CONTROL and facts.now - line.last_at <= 2 * SILENCE


def _names_queue(line: LogLineFacts) -> bool:
    return line.topic is not None and line.broker_name is not None and line.queue_id is not None


def _queue(line: LogLineFacts) -> MessageQueue:
    return MessageQueue(line.topic or "", line.broker_name or "", line.queue_id or 0)


def _evidence(queues: Sequence[QueueFacts]) -> tuple[QueueEvidence, ...]:
    worst_first = sorted(queues, key=lambda one: (-(one.cached_message_count or 0), one.message_queue))
    return tuple(
        QueueEvidence(
            queue.message_queue,
            {
                "cached_message_count": queue.cached_message_count,
                "cached_min_offset": queue.cached_min_offset,
                "client_id": queue.holder_client_id,
                "effective_lag": queue.offsets.effective_lag,
            },
        )
        for queue in worst_first
    )
