"""Clients of one consumer group subscribe differently: messages are skipped, silently.

Means: a broker keeps one subscription per group and topic, that of the client with the highest subVersion. It filters
for all clients by it, and each client filters once more by its own: only what matches both is delivered, while the
offsets pass the rest. A client that does not subscribe to the topic at all leaves its share of the queues unread.
Evidence: the running info of each client (tags compared as sets, never subVersion); what the brokers hold; log lines
"subscription changed" whose expressions differ.
Not judged: lines in which only subVersion differs (every rebalance); a new expression that all members have by now;
POP groups. For two rebalance rounds (40 s) after a member's start it is told as INFO: a deployment may go on.
Do next: give all clients of the group the same subscription, or different groups.
Source: incident "broadcasting", tell apart; ConsumerGroupInfo.updateSubscription (4.9.8, 5.3.3).
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime

from offsetguard.config import Config
from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.judge.evidence import lookups
from offsetguard.judge.evidence.lookups import each_group, message_models, queues_by_group
from offsetguard.judge.evidence.rebalance_spells import REBALANCE_ROUNDS
from offsetguard.judge.rule import CannotTell, Explains, Finding, QueueEvidence, Rule, Scope, Sentence, Severity, Texts
from offsetguard.model.offsets import MessageQueue
from offsetguard.tables.log_facts import SubscriptionFacts

_DIFFER = (
    "{member_count} client{member_count:plural} of consumer group {consumer_group} subscribe to topic {topic} by "
    "different expressions: "
    "{member_expressions}"
)
_DIFFER_ZH = "消费组 {consumer_group} 的 {member_count} 个客户端以不同的表达式订阅主题 {topic}：{member_expressions}；"
_LOSING = "; brokers filter by {broker_expressions}, so {losing_member_count} client{losing_member_count:plural} "

RULE = Rule(
    id="subscription_mismatch",
    severity=Severity.WARNING,
    place=70,
    needs=("subscriptions", "groups", "queues"),
    means="Clients of one consumer group subscribe to different messages, so that some are skipped.",
    texts={
        "default": Texts(
            summary="clients of {consumer_group} subscribe differently to {topic}: messages are skipped",
            summary_zh="{consumer_group} 的客户端对 {topic} 的订阅关系不一致：有消息被跳过",
            cause=_DIFFER + _LOSING + "({losing_clients}) get only what matches both; since {since:moment} their "
            "offsets passed about {passed:messages} message{passed:plural} on {passed_queue_count} "
            "queue{passed_queue_count:plural}.",
            cause_zh=_DIFFER_ZH + "Broker 按 {broker_expressions} 过滤，因此 {losing_member_count} 个客户端（"
            "{losing_clients}）只能收到同时匹配两者的消息；自 {since:moment} 起，它们在 {passed_queue_count} 个队列上的"
            "位点越过了约 {passed:messages} 条消息。",
            do_next="Give all clients of {consumer_group} the same subscription, or another group to those that want "
            "other messages. What was skipped is still on the broker: once they agree, set the group back to "
            "{since:moment} if it must be consumed:",
            do_next_zh="请让 {consumer_group} 的所有客户端使用相同的订阅关系，或为需要其他消息的客户端使用另一个消费组"
            "。被跳过的消息仍在 Broker 上：订阅关系一致后，如需补消费，可将消费组重置到 {since:moment}：",
            commands=(lookups.RESET_TO_SINCE,),
        ),
        "uncounted": Texts(
            cause=_DIFFER + "; brokers filter by {broker_expressions}, and clients get only what matches both (losing: "
            "{losing_clients}), at least since {since:moment}.",
            cause_zh=_DIFFER_ZH + "Broker 按 {broker_expressions} 过滤，客户端只能收到同时匹配两者的消息（丢消息的客户"
            "端：{losing_clients}），至少从 {since:moment} 开始。",
        ),
        "topics_differ": Texts(
            summary="{unsubscribed_member_count} of {member_count} client{member_count:plural} of {consumer_group} "
            "do not read {topic}",
            summary_zh="{consumer_group} 的 {member_count} 个客户端中有 {unsubscribed_member_count} 个没有订阅 {topic}",
            cause="{unsubscribed_member_count} of {member_count} client{member_count:plural} of consumer group "
            "{consumer_group} do not "
            "subscribe to topic {topic} ({unsubscribed_clients}), others do: the queues that the rebalance gives to "
            "them are not consumed.",
            cause_zh="消费组 {consumer_group} 的 {member_count} 个客户端中有 {unsubscribed_member_count} 个没有订阅主题"
            " {topic}（{unsubscribed_clients}），其他客户端订阅了：重平衡分配给前者的队列无人消费。",
            do_next="Give each application a group of its own, or all clients of {consumer_group} the same topics.",
            do_next_zh="请让每个应用使用各自的消费组，或让 {consumer_group} 的所有客户端订阅相同的主题。",
        ),
        "rolling": Texts(
            summary="clients of {consumer_group} subscribe differently to {topic} at the moment",
            summary_zh="{consumer_group} 的客户端对 {topic} 的订阅关系暂时不一致",
            cause=_DIFFER + "; the youngest was started at {since:moment}, so a deployment may go on.",
            cause_zh=_DIFFER_ZH + "最新的客户端启动于 {since:moment}，可能正在发布。",
            do_next="Nothing to do if a deployment is going on: meanwhile messages may be skipped. If it is not, this "
            "becomes a warning after 40 s.",
            do_next_zh="如果正在发布则无需处理，但期间可能有消息被跳过。否则 40 秒后会升级为警告。",
        ),
        "alternating": Texts(
            summary="the subscription of {consumer_group} to {topic} alternates",
            summary_zh="{consumer_group} 对 {topic} 的订阅关系反复变化",
            cause="Brokers changed the subscription of consumer group {consumer_group} to topic {topic} "
            "{changed_count} time{changed_count:plural} since {since:moment}, between {changed_expressions}: clients "
            "subscribe "
            "differently, and get only what matches both. What each client subscribes to could not be seen.",
            cause_zh="自 {since:moment} 起，消费组 {consumer_group} 对主题 {topic} 的订阅关系在 Broker 上变化了 "
            "{changed_count} 次，在 {changed_expressions} 之间切换：客户端的订阅关系不一致，只能收到同时匹配两者的"
            "消息。没有读到每个客户端各自的订阅关系。",
        ),
    },
    title="clients of one group subscribe differently",
    title_zh="同一消费组的客户端订阅关系不一致",
    table=("member_expressions", "broker_expressions", "losing_clients", "passed", "skipped_at_most", "since"),
    peak="passed",
    recovered="all its clients subscribe to the same",
    recovered_zh="所有客户端的订阅关系已一致",
    explains=(
        Explains(Scope.TOPIC, ("filter_hides_lag",)),
        Explains(Scope.TOPIC, ("accumulation",), variants=("topics_differ",)),
        Explains(Scope.GROUP, ("unsubscribed_topic", "idle_consumers")),
        # each client's heartbeat makes the subscription of the others an older one
        Explains(Scope.GROUP, ("membership_disagrees",), explained_variants=("pulls_refused",)),
    ),
)

LEAST_ALTERNATIONS = 3  # to another expression, back, and again: one deployment changes it once


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per (consumer group, topic)."""
    models, queues = message_models(facts), queues_by_group(facts)
    pop = {group.consumer_group for group in facts.groups if group.consumption == "pop"}
    ratios = {(group.consumer_group, group.topic): group.hit_ratio for group in facts.groups}
    for one in facts.subscriptions:
        broadcasting = models.get(one.consumer_group) == "BROADCASTING"
        passed = _passed_by(one.losing_client_ids, queues.get((one.consumer_group, one.topic), ()), _begun_at(one))
        variant = _variant(one, facts.now, counted=bool(passed), broadcasting=broadcasting)
        if variant is None or one.consumer_group in pop:
            continue
        yield RULE.finding(
            facts,
            about=(one.consumer_group, one.topic),
            severity=_severity(variant, one),
            variant=variant,
            state="OK" if variant == "rolling" else "LOST",
            figures={
                "member_count": one.member_count,
                "member_expressions": _listed(one.member_expressions),
                "broker_expressions": _listed(one.broker_expressions) or None,
                "losing_member_count": one.losing_member_count,
                "losing_clients": ", ".join(one.losing_client_ids) or None,
                "unsubscribed_member_count": one.unsubscribed_member_count,
                "unsubscribed_clients": ", ".join(one.unsubscribed_client_ids) or None,
                "changed_count": one.changed_count,
                "changed_expressions": _listed(one.changed_expressions),
                "since": one.first_changed_at if variant == "alternating" else _begun_at(one),
                "passed": sum(passed.values()) if passed else None,
                "passed_queue_count": len(passed),
                "skipped_at_most": _skipped_at_most(passed, ratios.get((one.consumer_group, one.topic))),
            },
            queues=_evidence(passed),
        )


def _variant(one: SubscriptionFacts, now: datetime, *, counted: bool, broadcasting: bool) -> str | None:
    """Return the kind of mismatch; None = all that were seen agree, or nothing was seen.

    `counted`: whether it is known what the losing clients passed. `broadcasting`: each client reads all queues of its
    own topics, so a client that does not subscribe to one takes nothing from the others.
    """
    if not one.mismatch:
        return "alternating" if one.member_count == 0 and _alternates(one, now) else None
    differ = len(one.member_expressions) > 1
    if not differ and broadcasting:
        return None
    if one.newest_member_start_at is not None and now - one.newest_member_start_at <= REBALANCE_ROUNDS:
        return "rolling"
    if not differ:
        return "topics_differ"
    return "default" if counted else "uncounted"


def _begun_at(one: SubscriptionFacts) -> datetime | None:
    """Return since when the members differ at least."""
    return one.newest_member_start_at or one.last_changed_at


def _alternates(one: SubscriptionFacts, now: datetime) -> bool:
    """Whether log lines alone show that it went on changing to and fro until a moment ago."""
    if one.first_changed_at is None or one.last_changed_at is None or len(one.changed_expressions) < 2:
        return False
    lasts = one.last_changed_at - one.first_changed_at > REBALANCE_ROUNDS
    return lasts and one.changed_count >= LEAST_ALTERNATIONS and now - one.last_changed_at <= 2 * REBALANCE_ROUNDS


def _passed_by(
    client_ids: Collection[str], queues: Iterable[QueueFacts], since: datetime | None
) -> Mapping[MessageQueue, int]:
    """Return by queue that one of the clients holds about how far its committed offset moved since that moment.

    A window keeps few samples: between the last one before the moment and the newest the offset is taken to have moved
    evenly. Where no sample is as old, it is what the offset moved since the oldest.
    """
    passed: dict[MessageQueue, int] = {}
    for queue in queues:
        newest = queue.window.seen
        if newest is None or since is None or queue.holder_client_id not in client_ids:
            continue
        known = [point for point in queue.window.points if point.committed_offset is not None]
        earlier = next((point for point in known if point.at <= since), known[-1] if known else None)
        if earlier is not None and earlier.committed_offset is not None and newest.committed_offset is not None:
            share = min(1.0, (newest.at - since) / (newest.at - earlier.at))
            passed[queue.message_queue] = round(share * (newest.committed_offset - earlier.committed_offset))
    return {queue: count for queue, count in passed.items() if count > 0}


def _skipped_at_most(passed: Mapping[MessageQueue, int], hit_ratio: float | None) -> int | None:
    """Return how many of the passed messages brokers kept back; what the clients wanted is among them.

    `hit_ratio`: share of all messages that brokers hand out by the expression that they hold; None = not known.
    """
    if hit_ratio is None or not passed:
        return None
    return math.ceil(sum(passed.values()) * (1.0 - hit_ratio))


def _evidence(passed: Mapping[MessageQueue, int]) -> tuple[QueueEvidence, ...]:
    """Return the queues, worst first."""
    worst_first = sorted(passed.items(), key=lambda one: (-one[1], one[0]))
    return tuple(QueueEvidence(queue, {"passed": count}) for queue, count in worst_first)


def _severity(variant: str, one: SubscriptionFacts) -> Severity:
    if variant == "rolling":
        return Severity.INFO
    return Severity.CRITICAL if variant != "topics_differ" and one.losing_member_count else RULE.severity


def _listed(expressions: tuple[str, ...]) -> str:
    return "; ".join(f"[{one}]" for one in expressions)


def cannot_tell(facts: IntervalFacts, config: Config) -> Iterator[CannotTell]:
    """Say of which groups that were looked at in detail not all clients told what they subscribe to."""
    for group in each_group(facts):
        online, answered = group.online_client_count or 0, group.told_client_count or 0
        if group.in_detail and group.consumption != "pop" and online > 1 and answered < online:
            yield RULE.cannot_tell(Sentence("subscriptions_partly_told"), consumer_group=group.consumer_group)
