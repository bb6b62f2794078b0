"""A topic has another number of read queues than of write queues.

Means: written and not read: messages in the other queues pile up unread. Read and not written: some clients get queues
that never hold a message. Both numbers are equal except while a topic is being shrunk.
Evidence: the topic's settings on all brokers, and what its queues hold.
Not judged: a topic that is being shrunk, in the right order (fewer write queues first): the queues that are read and
no longer written held messages once. RocketMQ's own topics, retry and dead-letter topics.
Do next: set both to the same number.
Source: TopicConfig, MQClientInstance#topicRouteData2TopicPublishInfo and ...SubscribeInfo (4.9.8, 5.3.3).
"""

from collections.abc import Iterator

from offsetguard.config import Config
from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.judge.evidence import lookups
from offsetguard.judge.evidence.capacity import capacities, wanted_queue_nums
from offsetguard.judge.evidence.judged_groups import waits_unknown
from offsetguard.judge.rule import CannotTell, Explains, Finding, QueueEvidence, Rule, Scope, Sentence, Severity, Texts
from offsetguard.judge.windows.windows import above_limit
from offsetguard.model.offsets import MessageQueue
from offsetguard.tables.facts import TopicFacts

_NUMBERS = (
    "Topic {topic} has {write_queue_count} write queue{write_queue_count:plural} and {read_queue_count} read "
    "queue{read_queue_count:plural} over its {broker_count} broker{broker_count:plural}: "
)
_NUMBERS_ZH = (
    "主题 {topic} 在 {broker_count} 个 Broker 上共有 {write_queue_count} 个写队列、{read_queue_count} 个读队列："
)

RULE = Rule(
    id="read_write_queues_differ",
    severity=Severity.WARNING,
    place=200,
    needs=("topics", "groups", "queues"),
    means="A topic has another number of read queues than of write queues, and is not being shrunk.",
    texts={
        "default": Texts(
            summary="{unreadable_message_count:messages} message{unreadable_message_count:plural} of {topic} lie in "
            "queues that nobody can read",
            summary_zh="{topic} 有 {unreadable_message_count:messages} 条消息位于无法读取的队列中",
            cause=_NUMBERS + "{unreadable_queue_count} queue{unreadable_queue_count:plural} are written and never "
            "read, with {unreadable_message_count:messages} message{unreadable_message_count:plural} in them that no "
            "group can consume and that count "
            "as no lag.",
            cause_zh=_NUMBERS_ZH + "{unreadable_queue_count} 个队列只写不读，其中有 "
            "{unreadable_message_count:messages} 条消息，任何消费组都无法消费，也不计入堆积。",
            do_next="To shrink a topic, lower the write queues first, wait until the others are consumed, then lower "
            "the read queues. Until then, let them be read:",
            do_next_zh="缩容主题时，请先减少写队列，等其余队列消费完，再减少读队列。在此之前，请让它们可读：",
            commands=(lookups.SET_QUEUES,),
        ),
        "unread_soon": Texts(
            summary="{unreadable_queue_count} queue{unreadable_queue_count:plural} of {topic} are written and not read",
            summary_zh="{topic} 有 {unreadable_queue_count} 个队列只写不读",
            cause=_NUMBERS + "{unreadable_queue_count} queue{unreadable_queue_count:plural} are written and never "
            "read; no message lies in them yet.",
            cause_zh=_NUMBERS_ZH + "{unreadable_queue_count} 个队列只写不读；其中还没有消息。",
            do_next="Before producers write there:",
            do_next_zh="请在生产者写入之前执行：",
            commands=(lookups.SET_QUEUES,),
        ),
        "unwritten": Texts(
            summary="{unwritten_queue_count} queue{unwritten_queue_count:plural} of {topic} never hold a message",
            summary_zh="{topic} 有 {unwritten_queue_count} 个队列永远没有消息",
            cause=_NUMBERS + "{unwritten_queue_count} queue{unwritten_queue_count:plural} are read and never written, "
            "so a client that is given only such queues has nothing to do.",
            cause_zh=_NUMBERS_ZH + "{unwritten_queue_count} 个队列只读不写，只分到这些队列的客户端无事可做。",
            do_next="Let producers write them:",
            do_next_zh="让生产者写入它们：",
            commands=(lookups.SET_QUEUES,),
        ),
        "clients_starve": Texts(
            summary="Clients of {group} get queues of {topic} that never hold a message",
            summary_zh="{group} 的客户端分到了 {topic} 上永远没有消息的队列",
            cause=_NUMBERS + "{unwritten_queue_count} queue{unwritten_queue_count:plural} are read and never written; "
            "of the {online_client_count} client{online_client_count:plural} of {group}, which is "
            "{effective_lag:messages} message{effective_lag:plural} behind, some "
            "get such queues and have nothing to do.",
            cause_zh=_NUMBERS_ZH + "{unwritten_queue_count} 个队列只读不写；{group} 已堆积 {effective_lag:messages} 条"
            "消息，而它的 {online_client_count} 个客户端中有的分到了这样的队列，无事可做。",
            do_next="Let producers write them:",
            do_next_zh="让生产者写入它们：",
            commands=(lookups.SET_QUEUES,),
        ),
    },
    title="read and write queues differ",
    title_zh="读写队列数不一致",
    table=("write_queue_count", "read_queue_count", "unreadable_queue_count", "unreadable_message_count"),
    peak="unreadable_message_count",
    recovered="read and write queues are equal again, or the topic is gone",
    recovered_zh="读写队列数已一致，或主题已不存在",
    holds_queues=True,
    explains=(
        Explains(Scope.TOPIC, ("never_committed", "idle_consumers")),
        Explains(Scope.QUEUES, ("accumulation", "slow_consumption")),
    ),
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per topic: messages that nobody can read come before queues that are empty."""
    for topic in facts.topics:
        if topic.topic_kind != "normal" or not topic.read_write_differ:
            continue
        if topic.unreadable_queue_count:
            unread = _unread_count(facts, topic)
            severity = RULE.severity if unread else Severity.INFO
            yield _finding(facts, topic, "default" if unread else "unread_soon", severity, unsure=unread is None)
        elif topic.unwritten_queue_count and topic.unwritten_queues_used is False:
            yield _unwritten(facts, config, topic)


def cannot_tell(facts: IntervalFacts, config: Config) -> Iterator[CannotTell]:
    """Say of which topics it was not seen whether they are being shrunk."""
    for topic in facts.topics:
        used_unknown = topic.unwritten_queues_used is None and topic.topic_kind == "normal"
        if topic.unwritten_queue_count and not topic.unreadable_queue_count and used_unknown:
            yield RULE.cannot_tell(Sentence("queues_between_unknown", topic=topic.topic))


def _unwritten(facts: IntervalFacts, config: Config, topic: TopicFacts) -> Finding:
    """Return the finding about a topic whose last queues never held a message, naming a group that suffers by it."""
    written_count = (topic.read_queue_count or 0) - (topic.unwritten_queue_count or 0)
    for capacity in capacities(facts):
        for group in capacity.topics:
            # the averaging strategies give each client neighbours in the order of queues: the last get the empty ones
            starves = (capacity.online_client_count or 0) > 1 and written_count < (topic.read_queue_count or 0)
            policy = config.policy(facts.cluster, group.consumer_group)
            if group.topic == topic.topic and starves and above_limit(group, policy):
                return _finding(
                    facts,
                    topic,
                    "clients_starve",
                    RULE.severity,
                    group=group.consumer_group,
                    online_client_count=capacity.online_client_count,
                    effective_lag=group.effective_lag,
                )
    readers = [one for one in facts.groups if one.topic == topic.topic]
    unsure = any(waits_unknown(one) or None in (one.online_client_count, one.topic_kind) for one in readers)
    return _finding(facts, topic, "unwritten", Severity.INFO, unsure=unsure)


def _finding(
    facts: IntervalFacts,
    topic: TopicFacts,
    variant: str,
    severity: Severity,
    *,
    unsure: bool = False,
    group: str | None = None,
    online_client_count: int | None = None,
    effective_lag: int | None = None,
) -> Finding:
    return RULE.finding(
        facts,
        about=(None, topic.topic),
        severity=severity,
        variant=variant,
        unsure=unsure,
        state="ANOMALY" if variant == "default" else "OK",
        figures={
            "wanted_queue_nums": wanted_queue_nums(topic),
            "write_queue_count": topic.write_queue_count,
            "read_queue_count": topic.read_queue_count,
            "broker_count": topic.broker_count,
            "unreadable_queue_count": topic.unreadable_queue_count,
            "unreadable_message_count": _unread_count(facts, topic),
            "unwritten_queue_count": topic.unwritten_queue_count,
            "group": group,
            "online_client_count": online_client_count,
            "effective_lag": effective_lag,
        },
        queues=_unread(facts, topic) if topic.unreadable_queue_count else (),
    )


def _unread_count(facts: IntervalFacts, topic: TopicFacts) -> int | None:
    """Return how many messages lie in queues that nobody reads, without those that a group consumed while it could."""
    kept = topic.unreadable_message_count
    consumed: dict[MessageQueue, int] = {}
    for queue in _beyond_the_read(facts, topic):
        low, committed = queue.offsets.min_offset, queue.offsets.consumer_offset
        behind = 0 if low is None or committed is None else committed - low
        consumed[queue.message_queue] = max(0, behind, consumed.get(queue.message_queue, 0))
    return None if kept is None else max(0, kept - sum(consumed.values()))


def _unread(facts: IntervalFacts, topic: TopicFacts) -> tuple[QueueEvidence, ...]:
    """Return the queues in which messages of some group wait and that nobody reads."""
    waiting: dict[MessageQueue, int] = {}
    for queue in _beyond_the_read(facts, topic):
        lag = queue.offsets.effective_lag or 0
        if lag > 0:
            waiting[queue.message_queue] = max(lag, waiting.get(queue.message_queue, 0))
    worst_first = sorted(waiting.items(), key=lambda one: (-one[1], one[0]))
    return tuple(QueueEvidence(place, {"effective_lag": lag}) for place, lag in worst_first)


def _beyond_the_read(facts: IntervalFacts, topic: TopicFacts) -> Iterator[QueueFacts]:
    """Yield suspect queues after the read queues; these are known as a sum over brokers, which are set alike."""
    read_count = (topic.read_queue_count or 0) // max(1, topic.broker_count or 1)
    places = ((queue, queue.message_queue) for queue in facts.queues)
    return (queue for queue, place in places if place.topic == topic.topic and place.queue_id >= read_count)
