"""A broker delivers delayed messages late: those with a delay level, retries among them, or timer messages of 5.x.

Means: what should be delivered by now lies in the broker; consumers get it late, retries of their groups included.
Evidence: messages of each delay level that were stored longer ago than the level's delay and 2 min, and are not
delivered (scheduleMessageOffset of runtime info, SEARCH_OFFSET_BY_TIMESTAMP); timerReadBehind of 5.x.
Not judged: messages that are not due. Told by INFO: late ones that become fewer, as after a restart.
Do next: find out why the broker does not deliver: mostly it cannot write.
Source: ScheduleMessageService (4.9.7, 5.3.3), TimerMessageStore.getDequeueBehind (5.3.3).
"""

from __future__ import annotations

from collections.abc import Iterator

from offsetguard.catalogue import Sentence, Texts
from offsetguard.config import Config
from offsetguard.facts.interval import IntervalFacts
from offsetguard.judge.evidence.lookups import name_servers_of, rocketmq_cluster_of
from offsetguard.judge.evidence.unseen import names
from offsetguard.judge.rule import Finding, Rule
from offsetguard.model.verdicts import CannotTell, Severity
from offsetguard.tables.broker_facts import BrokerFacts

TIMER_LATE_MS = 120_000  # the wheel is read each second
_LATE = (
    "{delayed_late_count:messages} of {delayed_message_count:messages} messages with a delay level on {worst_broker} "
    "of cluster {cluster} were due 2 min ago or longer and are not delivered (brokers that are late: {brokers}; seen "
    "since {delayed_late_since:moment})"
)
_STATUS = "mqadmin brokerStatus -n {name_servers:shell} -c {rocketmq_cluster:shell}"

RULE = Rule(
    id="delayed_delivery_late",
    severity=Severity.WARNING,
    place=400,
    needs=("brokers",),
    means="A broker delivers delayed messages late, retries of consumer groups among them.",
    texts={
        "default": Texts(
            summary="{worst_broker} delivers {delayed_late_count:messages} delayed message{delayed_late_count:plural} "
            "late",
            cause=_LATE + ": consumers get them late, and retries of consumer groups wait there, too.",
            do_next=_STATUS + " shows how far each level was delivered (scheduleMessageOffset_LEVEL: next, end). Lines "
            "of ScheduleMessageService in the broker's store.log (4.x) or broker.log (5.x) say why not: mostly the "
            "broker cannot write, as its disk is full.",
        ),
        "catching_up": Texts(
            summary="{worst_broker} catches up with {delayed_late_count:messages} delayed "
            "message{delayed_late_count:plural}",
            cause=_LATE + "; they become fewer.",
            do_next="Nothing, as long as they become fewer.",
        ),
        "timers": Texts(
            summary="timer messages on {worst_broker} are {timer_behind_ms:duration} late",
            cause="The timer wheel of {worst_broker} in cluster {cluster} delivers {timer_behind_ms:duration} late "
            "(brokers that are late: {brokers}); {timer_message_count:messages} messages are in it, and "
            "{timer_unread_count:messages} not yet.",
            do_next=_STATUS + " shows timerReadBehind (s) and timerOffsetBehind (messages). Lines of TimerMessageStore "
            "in the broker's store.log say what it waits for: mostly the broker cannot write.",
        ),
    },
    title="a broker delivers delayed messages late",
    table=("worst_broker", "delayed_late_count", "delayed_message_count", "delayed_late_since", "timer_behind_ms"),
    peak="delayed_late_count",
    recovered="delayed messages are delivered in time again",
    bad_cycles=2,  # after a restart the broker catches up within a round
)
_WORST_FIRST = ("default", "timers", "catching_up")


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """At most one finding, about all brokers with the worst that there is."""
    found = [(variant, one) for one in facts.brokers if (variant := _variant(one)) is not None]
    if not found:
        return
    variant = min((variant for variant, _ in found), key=_WORST_FIRST.index)
    brokers = [one for its, one in found if its == variant]
    worst = max(brokers, key=lambda one: (one.delayed_late_count or 0, one.timer_behind_ms or 0, one.broker_name))
    yield Finding(
        rule=RULE,
        cluster=facts.cluster,
        consumer_group=None,
        topic=None,
        severity=Severity.INFO if variant == "catching_up" else RULE.severity,
        variant=variant,
        state="AT_RISK",
        figures={
            "brokers": names(sorted(one.broker_name for one in brokers)),
            "worst_broker": worst.broker_name,
            "delayed_late_count": worst.delayed_late_count,
            "delayed_message_count": worst.delayed_message_count,
            "delayed_late_since": worst.delayed_late_since,
            "timer_behind_ms": worst.timer_behind_ms,
            "timer_message_count": worst.timer_message_count,
            "timer_unread_count": worst.timer_unread_count,
            "name_servers": name_servers_of(config, facts.cluster),
            "rocketmq_cluster": rocketmq_cluster_of(facts),
        },
        broker_names=frozenset(one.broker_name for one in brokers),
    )


def cannot_tell(facts: IntervalFacts, config: Config) -> Iterator[CannotTell]:
    """Give the brokers that hold delayed messages and did not tell which are due.

    Requests without an answer are told as such, by collection_incomplete.
    """
    del config
    for one in facts.brokers:
        if one.delayed_message_count and one.delayed_late_count is None:
            because = Sentence("delayed_late_unknown", broker=one.broker_name)
            yield CannotTell(RULE.id, None, frozenset({one.broker_name}), because)


def _variant(broker: BrokerFacts) -> str | None:
    if (broker.delayed_late_count or 0) > 0:
        return "catching_up" if (broker.delayed_late_growth or 0) < 0 else "default"
    return "timers" if (broker.timer_behind_ms or 0) >= TIMER_LATE_MS else None
