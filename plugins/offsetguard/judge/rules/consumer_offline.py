"""No client of a consumer group is online while its messages wait.

Means: the consumers are not running, or do not reach the brokers.
Evidence: no client on any broker (nor on a proxy), effective lag, and a committed offset that has not moved for longer
than the group's own rhythm, also where retention has passed it; of messages whose age is not known that silence counts.
A deployment that starts a client again within that time is not found.
Not judged: groups whose connections were not seen, as gRPC clients behind a proxy that is not configured; broadcasting
groups; groups that have consumed everything. Within the limits it is WARNING where more messages come, else INFO. A
group that comes and goes by plan (batches) is INFO while it is away for no longer than before: it went at regular
times, at least three in the last days. It is WARNING at most while it has been seen to come and go once or twice. Who
goes at odd times, and often, is no batch. Nor can it be told of a group that was not away before, where all its masters
were started less than 60 s ago: they forget all clients, and learn of each by its next heartbeat.
Do next: see where it stands and start the consumers; only a group that is retired is to be deleted.
Source: mqcloud skips exactly these groups (code 206), and so never tells of a consumer that is stopped.
"""

from collections.abc import Iterator
from datetime import timedelta

from offsetguard.config import Config
from offsetguard.facts.interval import IntervalFacts
from offsetguard.judge.evidence import lookups
from offsetguard.judge.evidence.judged_groups import (
    RHYTHM,
    JudgedGroup,
    has_rhythm,
    judged_groups,
    longest_ms,
    longest_silence,
)
from offsetguard.judge.evidence.lookups import age_of_oldest, lag_evidence, of_all_queues
from offsetguard.judge.rule import (
    CannotTell,
    Explains,
    Finding,
    Mutes,
    Rule,
    Scope,
    Sentence,
    Severity,
    Stage,
    State,
    Texts,
)
from offsetguard.judge.windows.figures import EVENLY
from offsetguard.model.fact_records import Absences

_WAITING = (
    "{effective_lag:messages} message{effective_lag:plural} of topic {topic} wait (age of the oldest: "
    "{lag_ms:duration}; allowed: {max_lag_messages:messages} message{max_lag_messages:plural}, {max_lag_ms:duration})"
)
_WAITING_ZH = (
    "主题 {topic} 有 {effective_lag:messages} 条消息等待消费（最早消息已等待 {lag_ms:duration}；允许："
    "{max_lag_messages:messages} 条，{max_lag_ms:duration}）。"
)
_AWAY = (
    "No client of consumer group {consumer_group} is online, first seen so at {away_since:moment}: " + _WAITING + ". "
)
_AWAY_ZH = "消费组 {consumer_group} 没有客户端在线（首次发现于 {away_since:moment}）：" + _WAITING_ZH
_DO_NEXT = (
    "See where {consumer_group} stands, and start its consumers; if they run, see in their logs why these brokers lack "
    "their heartbeats. Only a group that is retired is to be deleted, with its offsets, so that it is no longer "
    "judged:"
)
_DO_NEXT_ZH = (
    "请先查看 {consumer_group} 的消费进度，再启动它的消费者；如果它们在运行，请从其日志中查明这些 Broker 为何没有收到心"
    "跳。只有已下线的消费组才应连同位点一起删除，以免继续告警："
)

_LONGER = 1.25
_AT_MOST = {"comes_and_goes": Severity.INFO, "came_and_went": Severity.WARNING}  # by variant

RULE = Rule(
    id="consumer_offline",
    severity=Severity.CRITICAL,
    place=230,
    needs=("groups", "queues"),
    unseen="offsets_not_seen",
    means="No client of a consumer group is online while its messages wait.",
    texts={
        "default": Texts(
            summary="{consumer_group} is offline and {effective_lag:messages} message{effective_lag:plural} behind on "
            "{topic}",
            summary_zh="{consumer_group} 不在线，{topic} 堆积 {effective_lag:messages} 条消息",
            cause="No client of consumer group {consumer_group} is online and nothing was committed for {silence}: "
            + _WAITING
            + ".",
            cause_zh="消费组 {consumer_group} 没有客户端在线，{silence} 内没有提交过位点：" + _WAITING_ZH,
            do_next=_DO_NEXT,
            do_next_zh=_DO_NEXT_ZH,
            commands=(lookups.PROGRESS, lookups.DELETE_GROUP),
        ),
        "one_look": Texts(
            cause="No client of consumer group {consumer_group} is online: " + _WAITING + ". One look does not show "
            "since when.",
            cause_zh="消费组 {consumer_group} 没有客户端在线：" + _WAITING_ZH + "仅凭一次观测无法得知从何时开始。",
        ),
        "comes_and_goes": Texts(
            summary="{consumer_group} is away, as it is now and then; {effective_lag:messages} "
            "message{effective_lag:plural} of {topic} wait",
            summary_zh="{consumer_group} 照例暂时不在线；{topic} 有 {effective_lag:messages} 条消息等待",
            cause=_AWAY
            + "It has been away {absence_count} time{absence_count:plural} in the last days, for up to about "
            "{longest_absence_ms:duration}, and came back each time.",
            cause_zh=_AWAY_ZH
            + "近几天它离开过 {absence_count} 次，最长约 {longest_absence_ms:duration}，每次都自行恢复。",
            do_next="Nothing, if it is a batch that starts again by itself; a warning comes when it is away for longer "
            "than ever.",
            do_next_zh="如果是会自行重新启动的批处理任务，则无需处理；离开时间超过以往时会发出警告。",
        ),
        "came_and_went": Texts(
            cause=_AWAY
            + "It has been seen to come and go: away {absence_count} time{absence_count:plural} in the last days, "
            "for up to about {longest_absence_ms:duration}; whether that is its rhythm is not known yet.",
            cause_zh=_AWAY_ZH
            + "它曾离开后又恢复：近几天离开过 {absence_count} 次，最长约 {longest_absence_ms:duration}；"
            "这是否是它的规律尚不清楚。",
            do_next="If it is a batch that starts again by itself, nothing. Otherwise: " + _DO_NEXT,
            do_next_zh="如果是会自行重新启动的批处理任务，则无需处理。否则：" + _DO_NEXT_ZH,
            commands=(lookups.PROGRESS, lookups.DELETE_GROUP),
        ),
    },
    title="consumers are offline",
    title_zh="消费者不在线",
    table=("effective_lag", "beyond", "lag_ms", "silence_ms", "stopped_queue_count", "max_lag_messages", "max_lag_ms"),
    peak="effective_lag",
    group_needs=("effective_lag", "online_client_count"),
    recovered="recovered: clients are online, or nothing waits any more",
    recovered_zh="已恢复：有客户端在线，或不再有消息等待",
    stage=Stage("loss", 0),
    explains=(Explains(Scope.TOPIC, ("accumulation", "never_committed", "unsubscribed_topic")),),
    # a group that has just come back is still behind, and may not have committed yet: give it until the end is told
    mutes=Mutes(Scope.TOPIC, rules=("accumulation", "slow_consumption")),
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per (consumer group, topic) with queues that stopped."""
    for judged in judged_groups(facts, config):
        stopped = judged.standing
        if judged.client_count != 0 or not (stopped or _is_above_at_one_look(judged)):
            continue
        known = facts.absences.get(judged.group.consumer_group)
        silent = stopped or judged.queues
        silence_ms = longest_ms(silent, "silence_ms") or None  # no time has passed: one look does not show since when
        group, policy, variant = judged.group, judged.policy, _variant(known, facts, one_look=silence_ms is None)
        at_most = _AT_MOST.get(variant, RULE.severity)
        yield RULE.finding(
            facts,
            about=(group.consumer_group, group.topic),
            severity=min(_severity(judged, silence_ms), at_most, key=_rank),
            variant=variant,
            state=State.STOPPED.value,
            unsure=silence_ms is None or judged.waits_unknown,
            figures={
                "effective_lag": of_all_queues(group, group.effective_lag),
                "beyond": of_all_queues(group, group.beyond_end),
                "lag_ms": age_of_oldest(judged.queues, group),
                "silence": None if silence_ms is None else longest_silence(silent),
                "silence_ms": silence_ms,
                "stopped_queue_count": len(stopped) or None,
                "away_since": known.away_since or facts.now if known else None,
                "absence_count": len(known.began_at) if known else None,
                "longest_absence_ms": known.longest // timedelta(milliseconds=1) if known else None,
                "max_lag_messages": policy.max_lag_messages,
                "max_lag_ms": policy.max_lag_ms,
            },
            queues=lag_evidence(stopped or judged.queues),
        )


def cannot_tell(facts: IntervalFacts, config: Config) -> Iterator[CannotTell]:
    """Give the groups whose clients may be about to tell their brokers of themselves again."""
    for judged in judged_groups(facts, config):
        if judged.offline and judged.client_count is None:
            yield RULE.cannot_tell(Sentence("clients_forgotten"), consumer_group=judged.group.consumer_group)


def _rank(severity: Severity) -> int:
    return severity.rank


def _is_above_at_one_look(judged: JudgedGroup) -> bool:
    """Whether a limit is exceeded, and no queue was seen to move since the first look, however short ago that was."""
    windows = [queue.window for queue in judged.queues if queue.verdict is not None and queue.verdict.samples_used > 1]
    return judged.above_limit and all(window.advanced_at is None for window in windows)


def _severity(judged: JudgedGroup, silence_ms: int | None) -> Severity:
    """Nobody misses a group of which little waits; a short look may meet a client that is just being started again."""
    group, policy = judged.group, judged.policy
    age_ms = silence_ms if group.lag_ms is None else group.lag_ms
    waits_too_long = age_ms is not None and age_ms > policy.max_lag_ms
    if not (judged.above_limit or waits_too_long):
        lasts = silence_ms is not None and silence_ms >= EVENLY * policy.lag_floor_ms
        is_missed = lasts and judged.stands_still
        return Severity.WARNING if is_missed else Severity.INFO
    stands_long = silence_ms is not None and silence_ms >= policy.lag_floor_ms
    return RULE.severity if waits_too_long or stands_long else Severity.WARNING


def _is_usual(known: Absences, facts: IntervalFacts) -> bool:
    """Whether it is not away for longer than ever; a batch does not take equally long each time."""
    away = facts.now - (known.away_since or facts.now)
    return has_rhythm(known) and away <= _LONGER * known.longest


def _variant(known: Absences | None, facts: IntervalFacts, *, one_look: bool) -> str:
    if known is not None and _is_usual(known, facts):
        return "comes_and_goes"
    if known is not None and 0 < len(known.began_at) < RHYTHM:
        return "came_and_went"
    return "one_look" if one_look else "default"
