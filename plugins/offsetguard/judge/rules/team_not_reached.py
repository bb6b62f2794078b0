"""Nothing that was written to a team has arrived: none of its receivers accepts messages.

Means: whatever happens to the groups of this team, nobody of it is warned. The default team is told instead.
Evidence: messages of a minute that wait for `delivery.undelivered_after_ms`, or were refused for good, while no
receiver of the team has accepted one of that minute.
Not judged: the default team itself, of which the heartbeat tells; a receiver that fails beside one that works.
Do next: run offsetguard outbox list and offsetguard channels list, and correct the team's connections.
Source: `store/outbox.py`.
"""

from collections.abc import Iterator

from offsetguard.config import Config
from offsetguard.facts.interval import IntervalFacts
from offsetguard.judge.rule import Figure, Finding, Rule, Severity, Texts
from offsetguard.model.offsets import milliseconds_between

RULE = Rule(
    id="team_not_reached",
    severity=Severity.WARNING,
    place=12,
    never_muted=True,
    needs=("unreached",),
    means="Nothing that was written to a team has arrived for a quarter of an hour: nobody of it is warned.",
    texts={
        "default": Texts(
            summary="no message has reached team {teams} for {unreached_ms:duration}",
            summary_zh="已有 {unreached_ms:duration} 没有消息送达团队 {teams}",
            cause="No receiver of team {teams} has accepted what was written since {unreached_since:moment}: "
            "{unreached_count:messages} message{unreached_count:plural} about cluster {cluster}. The reason of one: "
            "{undelivered_because}",
            cause_zh="自 {unreached_since:moment} 起写给团队 {teams} 的消息没有任何通知对象接收：关于集群 {cluster} 共 "
            "{unreached_count:messages} 条。其中一条的原因：{undelivered_because}",
            do_next="Run offsetguard outbox list, which has the reason of each message, and offsetguard channels list, "
            "which says what the connections lack; correct them. What waits goes out by itself, what was refused for "
            "good with offsetguard outbox redrive. Until then tell the team what this says of its groups.",
            do_next_zh="请运行 offsetguard outbox list 查看每条消息的原因，并运行 offsetguard channels list 查看连接缺"
            "少什么，然后修正。等待中的消息会自动发出，被拒绝的消息需运行 offsetguard outbox redrive。在此之前，请将该"
            "团队消费组的情况转告该团队。",
        ),
    },
    title="a team is not reached",
    title_zh="团队收不到消息",
    table=("teams", "unreached_since", "unreached_ms", "unreached_count"),
    peak="unreached_ms",
    recovered="the team is reached again",
    recovered_zh="该团队已恢复收到消息",
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """At most one finding for the cluster."""
    teams = [one for one in facts.unreached if one.team != config.default_team]
    if teams:
        since = min(one.since for one in teams)
        figures: dict[str, Figure] = {
            "teams": ", ".join(one.team for one in teams),
            "unreached_since": since,
            "unreached_ms": milliseconds_between(since, facts.now),
            "unreached_count": sum(one.message_count for one in teams),
            "undelivered_because": teams[0].because or None,
        }
        yield RULE.finding(facts, figures, state="UNKNOWN")
