"""Frightening log lines of a rebalance: "[BUG] ... not in cidAll", code 25, "not latest". Nothing to do.

Means: clients came or went, or a broker was restarted; for two rebalance rounds (40 s) its members do not agree yet.
Evidence: these lines in client and broker logs, each run of them short or close to the last change of the membership.
Not judged: lines that go on for longer while no client comes or goes (membership_disagrees); fewer than three lines of
brokers; lines that are older than 10 min.
Do next: nothing. What else is wrong with the group is not told by these lines.
Source: incident I1; AbstractAllocateMessageQueueStrategy, PullMessageProcessor (4.9.8, 5.3.3).
"""

from collections.abc import Iterator
from datetime import timedelta

from offsetguard.judge.evidence.rebalance_spells import group_noise, line_figures
from offsetguard.judge.evidence.unseen import is_log_read
from offsetguard.judge.rule import CannotTell, Config, Finding, IntervalFacts, Rule, Sentence, Severity, Texts
from offsetguard.model.rocketmq import CLIENT_NOT_LATEST, NOT_IN_MEMBERS

_NORMAL = (
    "{line_count:messages} log line{line_count:plural} about consumer group {consumer_group} between "
    "{first_at:moment} and {last_at:moment} ('not in cidAll': {not_in_members_count:messages}, code 25 or 'not latest' "
    "and the like: {refused_count:messages}) are the normal noise of a rebalance"
)
_NORMAL_ZH = (
    "{first_at:moment} 至 {last_at:moment} 期间关于消费组 {consumer_group} 的 {line_count:messages} 行日志（'not in "
    "cidAll'：{not_in_members_count:messages}，code 25、'not latest' 等：{refused_count:messages}）是重平衡的正常现"
    "象："
)

REMEMBERED = timedelta(minutes=10)  # who reads logs for the trouble of now is not interested in older lines
FEW_LINES = 3  # of brokers; what a client's own log says frightens at once
OF_CLIENTS = (NOT_IN_MEMBERS, CLIENT_NOT_LATEST)

RULE = Rule(
    id="rebalance_noise",
    severity=Severity.INFO,
    place=320,
    needs=("log_lines", "groups", "brokers"),
    means="Log lines that look like errors and are the normal noise of a rebalance or of a broker's restart.",
    texts={
        "default": Texts(
            summary="log lines about {consumer_group} are the noise of a rebalance",
            summary_zh="关于 {consumer_group} 的日志是重平衡的正常现象",
            cause=_NORMAL + ": clients came or went, or a broker was restarted, last at {changed_at:moment}.",
            cause_zh=_NORMAL_ZH + "有客户端加入或退出，或 Broker 重启过，最近一次在 {changed_at:moment}。",
            do_next="Nothing to do: it ends by itself within 40 s (two rebalance rounds). If it goes on while no "
            "client comes or goes, membership_disagrees says so.",
            do_next_zh="无需处理：40 秒内（两轮重平衡）会自行结束。如果在没有客户端加入或退出时仍持续，"
            "membership_disagrees 会告警。",
        ),
        "change_not_seen": Texts(
            cause=_NORMAL + "; which change of the membership they followed was not seen, and they did not last.",
            cause_zh=_NORMAL_ZH + "没有观测到是哪次成员变化引起的，而它们没有持续。",
        ),
    },
    title="log lines are the noise of a rebalance",
    title_zh="重平衡期间的正常日志",
    table=("line_count", "not_in_members_count", "refused_count", "first_at", "last_at", "changed_at"),
    counted=True,
    recovered="no such lines within the look-back window",
    recovered_zh="回看窗口内没有此类日志",
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per consumer group with such lines."""
    for consumer_group, noise in group_noise(facts):
        recent = [line for line in noise.lines if facts.now - line.last_at <= REMEMBERED]
        lines = [line for line in recent if line not in noise.lasting]
        count, clients = line_figures(lines)
        if count < FEW_LINES and all(line.kind not in OF_CLIENTS for line in lines):
            continue
        missing, _ = line_figures([line for line in lines if line.kind == NOT_IN_MEMBERS])
        yield RULE.finding(
            facts,
            about=(consumer_group, None),
            variant="default" if noise.changed_at else "change_not_seen",
            figures={
                "line_count": count,
                "not_in_members_count": missing,
                "refused_count": count - missing,
                "clients": clients or None,
                "first_at": min(line.first_at for line in lines),
                "last_at": max(line.last_at for line in lines),
                "changed_at": noise.changed_at,
            },
        )


def cannot_tell(facts: IntervalFacts, config: Config) -> Iterator[CannotTell]:
    """Name groups whose clients were just started, where no log is read that would have the noise, or more than it."""
    if is_log_read(facts, config):
        return
    started = {one.consumer_group: one.newest_client_start_at for one in facts.groups if one.newest_client_start_at}
    for consumer_group, at in sorted(started.items()):
        if facts.now - at <= REMEMBERED:
            yield RULE.cannot_tell(Sentence("start_not_logged"), consumer_group=consumer_group)
