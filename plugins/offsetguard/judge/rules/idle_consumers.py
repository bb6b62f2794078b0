"""A group has more clients than queues, so some clients get none.

Means: each queue belongs to one client; clients beyond the number of queues hold none and do nothing.
Evidence: clients that all told which queues they hold, and the queues of the group's topics.
Not judged: broadcasting groups (every client reads all queues), POP groups (no client holds a queue), a client that has
just joined, members on which the brokers disagree. A warning only when the group is behind beyond its limits: more
clients will not help it. Else INFO: a spare client is no trouble.
Do next: add queues (read and write), or stop the clients.
Source: AllocateMessageQueueAveragely (4.9.8, 5.3.3).
"""

from collections.abc import Iterator
from datetime import timedelta

from offsetguard.judge.evidence import lookups
from offsetguard.judge.evidence.capacity import GroupCapacity, capacities, is_short_of_queues, twice_the_queues
from offsetguard.judge.evidence.judged_groups import waits_unknown
from offsetguard.judge.evidence.lookups import sum_at_least
from offsetguard.judge.rule import CannotTell, Config, Finding, IntervalFacts, Rule, Sentence, Severity, Texts
from offsetguard.judge.windows.windows import above_limit

_IDLE = (
    "{consumer_group} has {online_client_count} client{online_client_count:plural} for {queue_count} "
    "queue{queue_count:plural}: "
    "{idle_client_count} client{idle_client_count:plural} hold none"
)
_IDLE_ZH = (
    "{consumer_group} 有 {online_client_count} 个客户端、{queue_count} 个队列：{idle_client_count} 个客户端未分配到队"
    "列，"
)
_JOINING = timedelta(minutes=1)

RULE = Rule(
    id="idle_consumers",
    severity=Severity.INFO,
    place=330,
    needs=("groups", "queues"),
    means="A group has more clients than its topics have queues: some clients have nothing to do.",
    texts={
        "default": Texts(
            summary="{idle_client_count} client{idle_client_count:plural} of {consumer_group} hold no queue",
            summary_zh="{consumer_group} 有 {idle_client_count} 个客户端未分配到队列",
            cause=_IDLE + " and can only stand by.",
            cause_zh=_IDLE_ZH + "只能待命。",
            do_next="Nothing is wrong if they are spare ones; else stop them, or add queues (read and write).",
            do_next_zh="如果是备用的则没有问题；否则请停掉它们，或增加队列（读和写）。",
        ),
        "behind": Texts(
            summary="{consumer_group} falls behind, and {idle_client_count} of its clients hold no queue",
            summary_zh="{consumer_group} 正在堆积，且有 {idle_client_count} 个客户端未分配到队列",
            cause=_IDLE
            + ", while the group is {effective_lag:messages} message{effective_lag:plural} behind: clients that are "
            "added get "
            "no queue.",
            cause_zh=_IDLE_ZH + "而消费组已堆积 {effective_lag:messages} 条消息：再增加客户端也分配不到队列。",
            do_next="Add queues (read and write) instead of clients; messages of one key may change their queue:",
            do_next_zh="请增加队列（读和写），而不是客户端；同一 key 的消息可能换到其他队列：",
            commands=(lookups.SET_QUEUES_OF_LAGGING,),
        ),
    },
    title="clients without a queue",
    title_zh="有客户端未分配到队列",
    table=("online_client_count", "queue_count", "idle_client_count", "effective_lag"),
    peak="idle_client_count",
    from_clients=True,
    recovered="every client holds a queue",
    recovered_zh="每个客户端都分配到了队列",
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per consumer group, over all its topics."""
    for one in capacities(facts):
        idle = _idle_client_count(one, facts)
        if idle <= 0:
            continue
        policy = config.policy(facts.cluster, one.consumer_group)
        short = (group for group in one.topics if is_short_of_queues(facts, config, group))
        lagging = [group for group in short if above_limit(group, policy)]
        worst = max(lagging, key=lambda group: group.effective_lag or 0, default=None)
        yield RULE.finding(
            facts,
            about=(one.consumer_group, one.topics[0].topic if len(one.topics) == 1 else None),
            severity=Severity.WARNING if lagging else RULE.severity,
            unsure=any(map(waits_unknown, one.topics)),
            variant="behind" if lagging else "default",
            state="FALLING_BEHIND" if lagging else "OK",
            figures={
                "online_client_count": one.online_client_count,
                "queue_count": one.queue_count,
                "idle_client_count": idle,
                "effective_lag": sum_at_least(group.effective_lag for group in one.topics) if lagging else None,
                "lagging_topic": None if worst is None else worst.topic,
                "wanted_queue_nums": None if worst is None else twice_the_queues(facts, worst.topic),
            },
        )


def cannot_tell(facts: IntervalFacts, config: Config) -> Iterator[CannotTell]:
    """Name groups that are behind with more clients than queues, of which not every client told what it holds."""
    for one in capacities(facts):
        policy = config.policy(facts.cluster, one.consumer_group)
        matters = any(above_limit(group, policy) for group in one.topics)
        if matters and one.thread_count is None and (one.online_client_count or 0) > one.queue_count:
            yield RULE.cannot_tell(Sentence("held_queues_untold"), consumer_group=one.consumer_group)


def _idle_client_count(one: GroupCapacity, facts: IntervalFacts) -> int:
    """Return how many clients certainly hold no queue of any topic, because there are too few; 0 = none, or unknown."""
    first = one.topics[0]
    joins = first.newest_client_start_at is not None and facts.now - first.newest_client_start_at < _JOINING
    clients, holding = one.online_client_count, one.holding_client_count
    if clients is None or holding is None or clients <= one.queue_count or joins or first.members_differ:
        return 0
    return clients - holding
