"""A client holds queues of a consumer group, has nothing of them in process, and no longer pulls them.

Means: the client's pull loop for these queues was lost: an exception or an error (memory that ran out) ended it, or a
wake-up was missed; or a pull consumer (DefaultLitePullConsumer) paused them. Heartbeats go on, so the queues stay with
it.
Evidence: the client says that it pulled the queue last more than three minutes before it pulled or finished anything
else (five minutes before now, where nothing else of it is seen), that its cache of it is empty, and messages wait there
while nothing was committed for longer than the queue's rhythm. A client that pulls, that is suspended, that has no
lock, or whose cache is full, says so every few seconds. So it is named three to five minutes after its last pull.
Not judged: queues whose pulls are refused by a setting (consumption_switched_off, group_not_created); POP groups;
clients that say nothing (client_stands_still), or nothing of their queues: pull consumers of 4.x.
Do next: restart that client.
Source: DefaultMQPushConsumerImpl#pullMessage sets lastPullTimestamp before all else; ProcessQueue#isPullExpired (120 s)
lets a client take such a queue anew, where rebalances go on (4.9.7, 5.3.3); alibaba/rocketmq issue 258,
apache/rocketmq issues 1918 and 5441.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from offsetguard.judge.evidence import lookups
from offsetguard.judge.evidence.judged_groups import JudgedGroup, judged_groups, longest_ms, longest_silence
from offsetguard.judge.evidence.lookups import lag_evidence, waiting_in
from offsetguard.judge.rule import Config, Explains, Finding, IntervalFacts, QueueFacts, Rule, Scope, Severity, Texts
from offsetguard.judge.windows.rules import POP

_PULL_EXPIRED = timedelta(minutes=3)  # a client lets go of a queue that it has not pulled for 2 min; a rebalance later
_CLOCKS_DIFFER = timedelta(minutes=2)  # at most, where they are not said to

RULE = Rule(
    id="queue_not_pulled",
    severity=Severity.WARNING,
    place=208,
    needs=("groups", "queues"),
    means="A client holds queues in which messages wait, and no longer pulls them.",
    texts={
        "default": Texts(
            summary="{client_id} of {consumer_group} no longer pulls {queue_count} queue{queue_count:plural} of "
            "{topic}: {effective_lag:messages} message{effective_lag:plural} wait",
            summary_zh="{consumer_group} 的客户端 {client_id} 不再拉取 {topic} 的 {queue_count} 个队列："
            "{effective_lag:messages} 条消息等待",
            cause="Client {client_id} of consumer group {consumer_group} holds {queue_count} "
            "queue{queue_count:plural} of topic {topic} and has not pulled since {last_pull_at:moment}; it has none of "
            "the {effective_lag:messages} message{effective_lag:plural} that wait there in process, and nothing was "
            "committed for {silence}: its pull loop is lost, or a pull consumer has paused it.",
            cause_zh="消费组 {consumer_group} 的客户端 {client_id} 持有主题 {topic} 的 {queue_count} 个队列，自 "
            "{last_pull_at:moment} 起没有再拉取；那里有 {effective_lag:messages} 条消息等待，它一条都没有在处理，"
            "{silence} 内没有提交过位点：其拉取循环已丢失，或被主动拉取的消费者暂停。",
            do_next="See in its log what happened at {last_pull_at:moment} (an exception, memory that ran out), and "
            "restart it: its queues go to the other clients within a minute. What its threads do:",
            do_next_zh="请在其日志中查看 {last_pull_at:moment} 前后发生了什么（异常、内存不足），并重启它：其队列会在一"
            "分钟内分配给其他客户端。查看其线程堆栈：",
            commands=(lookups.STACK_OF_CLIENT,),
        ),
    },
    title="a client no longer pulls its queues",
    title_zh="客户端不再拉取其队列",
    table=("client_id", "queue_count", "effective_lag", "last_pull_at", "silence_ms", "online_client_count"),
    peak="effective_lag",
    group_needs=("effective_lag",),
    from_clients=True,
    recovered="these queues are pulled again, or nothing waits there any more",
    recovered_zh="这些队列已恢复拉取，或已没有消息等待",
    holds_queues=True,
    shows_stacks=True,
    explains=(
        Explains(
            Scope.QUEUES, ("accumulation", "slow_consumption", "flow_control", "client_stands_still", "poison_message")
        ),
    ),
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per (consumer group, topic): of several such clients, about the one with the most that waits."""
    active_at = _active_at(facts)
    for judged in judged_groups(facts, config):
        group = judged.group
        if group.consumption == POP:
            continue
        by_client: defaultdict[str, list[QueueFacts]] = defaultdict(list)
        for queue in _not_pulled(judged, active_at, facts.now):
            by_client[queue.holder_client_id or ""].append(queue)
        if not by_client:
            continue
        client_id, queues = max(by_client.items(), key=lambda one: (waiting_in(one[1]), one[0]))
        yield RULE.finding(
            facts,
            about=(group.consumer_group, group.topic),
            state="STALLED",
            figures={
                "client_id": client_id,
                "queue_count": len(queues),
                "effective_lag": waiting_in(queues),
                "last_pull_at": max(queue.last_pull_at for queue in queues if queue.last_pull_at is not None),
                "silence": longest_silence(queues),
                "silence_ms": longest_ms(queues, "silence_ms"),
                "online_client_count": group.online_client_count,
            },
            queues=lag_evidence(queues),
        )


def _active_at(facts: IntervalFacts) -> Mapping[str, datetime]:
    """Return when each client pulled or finished anything last, by its own clock, as far as suspect queues tell."""
    found: dict[str, datetime] = {}
    for queue in facts.queues:
        moments = [at for at in (queue.last_pull_at, queue.last_consume_at) if at is not None]
        if queue.holder_client_id is not None and moments:
            found[queue.holder_client_id] = max(*moments, found.get(queue.holder_client_id, moments[0]))
    return found


def _not_pulled(judged: JudgedGroup, active_at: Mapping[str, datetime], seen_at: datetime) -> Iterator[QueueFacts]:
    refused = {entry.rpartition(" ")[0] for entry in judged.group.refusals or ()}
    for queue in judged.standing:
        holder, pulled_at = queue.holder_client_id, queue.last_pull_at
        waits = (queue.offsets.effective_lag or 0) > 0 and queue.cached_message_count == 0
        if not waits or holder is None or pulled_at is None or queue.message_queue.broker_name in refused:
            continue
        if max(active_at[holder], seen_at - _CLOCKS_DIFFER) - pulled_at > _PULL_EXPIRED:
            yield queue
