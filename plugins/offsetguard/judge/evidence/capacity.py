"""Load: what a consumer group can do at once, and what is written to a topic beside what is usual.

A group has its clients and threads, and the queues of all its topics. An hour of a topic is compared with the same hour
of earlier weeks: a topic that is written to once an hour, or once a night, has minutes without a message, but each of
its hours is as full as that hour of other weeks. So the figures are there when an hour has passed.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from offsetguard.catalogue import Sentence
from offsetguard.config import Config, EffectivePolicy
from offsetguard.facts.interval import IntervalFacts, QueueFacts, TrafficHour
from offsetguard.judge.evidence.move_causes import just_came
from offsetguard.judge.windows.rules import POP
from offsetguard.judge.windows.windows import above_limit, is_overrun
from offsetguard.model.verdicts import CannotTell, Figure
from offsetguard.tables.facts import TopicFacts
from offsetguard.tables.group_facts import GroupFacts

# Window rules of queues that are consumed and whose lag lasts: not standing still, not set back, not a passing batch.
LASTING = frozenset({"growing", "growth_below_floor", "growth_unknown", "keeps_pace", "shrinking", "loss_ahead"})
CALM_MS = 65 * 60_000  # an hour is judged once, in the first minute of the next one
# Below, a change by chance looks large: an hour of 0.2/s has 720 messages.
LEAST_USUAL_TPS = 0.2
SPREADS = 4.0  # standard deviations: of 10,000 topics x 168 hours, chance alone brings about 50 in a week
NEARLY_NOTHING = 0.02  # of what is usual


@dataclass(frozen=True, slots=True)
class GroupCapacity:
    """One clustering group that does not pop. `topics`: its rows of topics that producers write."""

    consumer_group: str
    topics: tuple[GroupFacts, ...]
    queue_count: int
    orderly: bool | None
    online_client_count: int | None
    thread_count: int | None  # None: not every client told

    @property
    def holding_client_count(self) -> int | None:
        """Clients that hold a queue, at most; None = not every client told."""
        if self.thread_count is None:
            return None
        counts = [group.holding_client_count for group in self.topics if group.holding_client_count is not None]
        return sum(counts) if len(counts) == len(self.topics) else None


def capacities(facts: IntervalFacts) -> Iterator[GroupCapacity]:
    """Yield every group that has a normal topic, in order of their names."""
    by_group: defaultdict[str, list[GroupFacts]] = defaultdict(list)
    for group in facts.groups:
        classic = group.consumption != POP and group.message_model != "BROADCASTING"
        if classic and group.topic_kind == "normal" and not group.system_group:
            by_group[group.consumer_group].append(group)
    for name, topics in sorted(by_group.items()):
        first = topics[0]
        everybody = bool(first.online_client_count) and first.told_client_count == first.online_client_count
        yield GroupCapacity(
            consumer_group=name,
            topics=tuple(topics),
            queue_count=sum(group.queue_count for group in topics),
            orderly=first.orderly,
            online_client_count=first.online_client_count,
            thread_count=first.thread_count if everybody else None,
        )


def wanted_queue_nums(topic: TopicFacts) -> int | None:
    """Return as how many queues each broker would read and write all that it reads or writes now."""
    known = [count for count in (topic.read_queue_count, topic.write_queue_count) if count is not None]
    return max(known) // max(1, topic.broker_count or 1) if known else None


def twice_the_queues(facts: IntervalFacts, topic: str) -> int | None:
    """Return twice the queues that each broker has of a topic; None = not known."""
    wanted = (wanted_queue_nums(one) for one in facts.topics if one.topic == topic)
    return next((2 * nums for nums in wanted if nums is not None), None)


def is_short_of_queues(facts: IntervalFacts, config: Config, group: GroupFacts) -> bool:
    """Whether the lag of a group matters and lies on most queues of the topic, all of which are being consumed.

    It matters beyond the group's limits; and before, where producers write clearly more than is consumed: a batch that
    is just being consumed does not.
    """
    policy = config.policy(facts.cluster, group.consumer_group)
    matters = above_limit(group, policy) or falls_behind_fast(group, policy, facts.now)
    return matters and is_behind_everywhere(facts, config, group)


def is_behind_everywhere(facts: IntervalFacts, config: Config, group: GroupFacts) -> bool:
    """Whether a lag that lasts lies on most queues of the topic, all of which are being consumed.

    Where only some queues are behind, more of them would not help: a key stays on its queue, and a queue that stands
    still has another cause.
    """
    policy = config.policy(facts.cluster, group.consumer_group)
    subject = group.consumer_group, group.topic
    queues = (queue for queue in facts.queues if (queue.consumer_group, queue.message_queue.topic) == subject)
    behind_count = sum(_is_behind(queue, group, policy) for queue in queues)
    return 2 * behind_count >= group.queue_count and group.consume_tps != 0


def falls_behind_fast(group: GroupFacts, policy: EffectivePolicy, now: datetime) -> bool:
    """Whether more than a few messages wait, and clearly more is written than consumed; unknown is neither.

    Not while a client has just come. Of a filtered group the share counts that is known to match.
    """
    share = group.hit_ratio if group.filtered and group.hit_ratio is not None else 1.0
    many = group.effective_lag is not None and group.effective_lag * share >= policy.lag_floor
    return many and is_overrun(group) is True and not just_came(group, now)


def _is_behind(queue: QueueFacts, group: GroupFacts, policy: EffectivePolicy) -> bool:
    """Whether a queue that is consumed has its part of the group's lag, and will not have lost it soon."""
    lag, verdict = queue.offsets.effective_lag or 0, queue.verdict
    if lag <= 0 or verdict is None or verdict.rule not in LASTING or queue.consume_tps == 0:
        return False
    soon = verdict.drain is not None and verdict.drain.high_ms <= policy.window_ms
    return 2 * lag * group.queue_count >= (group.effective_lag or 0) and not soon


def judged_hours(facts: IntervalFacts, config: Config) -> Iterator[TrafficHour]:
    """Give the hours of topics of which enough weeks are known, RocketMQ's own and retry topics left out."""
    kinds = {topic.topic: topic.topic_kind for topic in facts.topics}
    for hour in facts.traffic_hours:
        if hour.week_count >= config.judgement.traffic_weeks and kinds.get(hour.topic, "normal") == "normal":
            yield hour


def is_surge(hour: TrafficHour) -> bool:
    """Twice the usual, and beyond what differs from week to week."""
    usual = max(hour.usual_tps, LEAST_USUAL_TPS)
    return hour.hour_tps > usual + max(SPREADS * hour.usual_spread_tps, usual)


def is_drop(hour: TrafficHour) -> bool:
    """Less than half of the usual, and beyond what differs from week to week."""
    least = hour.usual_tps - max(SPREADS * hour.usual_spread_tps, hour.usual_tps / 2)
    return hour.usual_tps >= LEAST_USUAL_TPS and hour.hour_tps < least


def figures_of(hour: TrafficHour) -> dict[str, Figure]:
    """Return what the texts of both rules name."""
    usual_percent = 100 * hour.hour_tps / hour.usual_tps if hour.usual_tps > 0 else None
    return {
        "hour_tps": hour.hour_tps,
        "usual_tps": hour.usual_tps,
        "usual_spread_tps": hour.usual_spread_tps,
        "usual_percent": usual_percent,
        "week_count": hour.week_count,
        "hour_start_at": hour.hour_start_at,
    }


def not_yet_usual(facts: IntervalFacts, config: Config, rule_id: str) -> Iterator[CannotTell]:
    """Give one entry while no topic has enough weeks behind it: what is usual is not known yet."""
    weeks = config.judgement.traffic_weeks
    known = max((topic.baseline_week_count or 0 for topic in facts.topics), default=None)
    if known is not None and known < weeks and not any(hour.week_count >= weeks for hour in facts.traffic_hours):
        because = Sentence("usual_not_known_yet", weeks=weeks, known=known)
        yield CannotTell(rule_id, None, frozenset(), because)
