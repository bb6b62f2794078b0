"""A broker's clock is wrong: ages of messages, delays and retention by time are wrong with it.

Means: its host has no time service. Messages carry the broker's time, so consumers and we misjudge how old they are;
delayed messages come early or late, and files are deleted early or late.
Evidence: the broker says when it was started and how long it has run, both by its own clock; beside our clock at the
moment of its answer. Exact to about a second.
Not judged: less than judgement.clock_skew_ms (10 s): an answer may take some seconds. When all brokers are off by the
same, our own clock is.
Do next: start a time service (chrony, ntpd) on that host.
Source: StoreStatsService.getFormatRuntime = now - bootTimestamp (4.9.8, 5.3.3).
"""

from collections.abc import Iterator, Sequence

from offsetguard.judge.evidence.lookups import replica_name
from offsetguard.judge.evidence.unseen import names
from offsetguard.judge.rule import CannotTell, Config, Finding, IntervalFacts, Rule, Sentence, Severity, Texts
from offsetguard.tables.broker_facts import BrokerFacts

SAME_WITHIN_MS = 3_000  # brokers whose clocks agree

_SO = (
    " (wrong in all: {broker_count} broker{broker_count:plural} of cluster {cluster}, {brokers}): ages of messages, "
    "delayed messages and retention there are wrong by as much."
)
_SO_ZH = (
    "（共 {broker_count} 个 Broker 时钟有误，集群 {cluster}：{brokers}）：其上的消息时间、延时消息和过期清理都有同样的"
    "偏差。"
)

RULE = Rule(
    id="clock_skew",
    severity=Severity.WARNING,
    place=430,
    needs=("brokers",),
    means="The clock of a broker (or of OffsetGuard's own host) is wrong by more than 10 s.",
    texts={
        "default": Texts(
            summary="the clock of {worst_broker} is {skew_ms:duration} ahead",
            summary_zh="{worst_broker} 的时钟快了 {skew_ms:duration}",
            cause="The clock of {worst_broker} is {skew_ms:duration} ahead" + _SO,
            cause_zh="{worst_broker} 的时钟快了 {skew_ms:duration}" + _SO_ZH,
            do_next="Start or mend the time service (chrony, ntpd) on the host of {worst_broker}, and let it correct "
            "the clock slowly: a jump looks like an outage to brokers and clients.",
            do_next_zh="请在 {worst_broker} 的主机上启动或修复时间同步服务（chrony、ntpd），并让它缓慢校正：时钟跳变对"
            " Broker 和客户端来说如同一次故障。",
        ),
        "behind": Texts(
            summary="the clock of {worst_broker} is {skew_ms:duration} behind",
            summary_zh="{worst_broker} 的时钟慢了 {skew_ms:duration}",
            cause="The clock of {worst_broker} is {skew_ms:duration} behind" + _SO,
            cause_zh="{worst_broker} 的时钟慢了 {skew_ms:duration}" + _SO_ZH,
        ),
        "own_clock": Texts(
            summary="the clock of OffsetGuard's host differs by {skew_ms:duration} from all brokers of {cluster}",
            summary_zh="OffsetGuard 所在主机的时钟与 {cluster} 的所有 Broker 相差 {skew_ms:duration}",
            cause="All {broker_count} broker{broker_count:plural} of cluster {cluster} agree with each other and "
            "differ by "
            "{skew_ms:duration} from the clock of OffsetGuard's host: most likely that one is wrong, and with it all "
            "ages that are told.",
            cause_zh="集群 {cluster} 的 {broker_count} 个 Broker 时钟彼此一致，与 OffsetGuard 所在主机相差 "
            "{skew_ms:duration}：很可能是后者有误，因而所报告的时长也都有误。",
            do_next="Start or mend the time service (chrony, ntpd) on OffsetGuard's host; if its clock is right, on "
            "the brokers' hosts.",
            do_next_zh="请在 OffsetGuard 所在主机上启动或修复时间同步服务（chrony、ntpd）；如果它的时钟正确，请处理各 "
            "Broker 的主机。",
        ),
    },
    title="a clock is wrong",
    title_zh="时钟有误",
    table=("brokers", "worst_broker", "skew_ms"),
    peak="skew_ms",
    recovered="the clocks agree again",
    recovered_zh="时钟已一致",
    bad_cycles=2,  # a process that was held up for ten seconds between two clocks' looks would do
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """At most one finding, about all clocks that are wrong."""
    known = [one for one in facts.brokers if one.clock_ahead_ms is not None]
    wrong = sorted((one for one in known if abs(_skew(one)) >= config.judgement.clock_skew_ms), key=_worst_first)
    if not wrong:
        return
    worst = wrong[0]
    own = len(wrong) == len(known) > 1 and _agree(wrong)
    yield RULE.finding(
        facts,
        variant="own_clock" if own else "default" if _skew(worst) > 0 else "behind",
        state="ANOMALY",
        figures={
            "brokers": names([replica_name(one) for one in wrong]),
            "broker_count": len(wrong),
            "worst_broker": replica_name(worst),
            "skew_ms": abs(_skew(worst)),
        },
        broker_names=frozenset(one.broker_name for one in wrong),
    )


def cannot_tell(facts: IntervalFacts, config: Config) -> Iterator[CannotTell]:
    """Give the brokers that answered and did not say for how long they have run."""
    for one in facts.brokers:
        if one.answered and one.clock_ahead_ms is None:
            yield RULE.cannot_tell(Sentence("clock_untold", broker=replica_name(one)), brokers={one.broker_name})


def _worst_first(broker: BrokerFacts) -> tuple[int, str, int]:
    return (-abs(_skew(broker)), broker.broker_name, broker.broker_id)


def _skew(broker: BrokerFacts) -> int:
    return broker.clock_ahead_ms or 0


def _agree(brokers: Sequence[BrokerFacts]) -> bool:
    skews = [_skew(one) for one in brokers]
    return max(skews) - min(skews) <= SAME_WITHIN_MS
