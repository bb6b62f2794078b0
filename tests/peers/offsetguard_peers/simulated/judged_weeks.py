"""What the product says of simulated weeks: false alarms of healthy groups, and when injected troubles are found."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from offsetguard.judge.registry import judge
from offsetguard.judge.rule import Finding
from offsetguard.model.verdicts import Severity
from offsetguard_peers.configs import one_team
from offsetguard_peers.simulated import weeks
from offsetguard_peers.simulated.weekly_groups import STEP_S, Trouble, WeeklyGroup, weekly_group

CONFIG = one_team({weeks.CLUSTER: {"name_servers": ["127.0.0.1:9876"]}})
WARM_UP = 70  # cycles before a trouble: a window, and what is left of the one before
PATIENCE = 20  # cycles after the moment when it can be known

NAMES_IT = {  # the rules that say what it is; the others may stay silent
    Trouble.STOPPED: {"consumer_offline"},
    Trouble.STALLED: {"accumulation"},
    Trouble.POISON: {"poison_message"},
    Trouble.FALLING_BEHIND: {"accumulation", "slow_consumption"},
    Trouble.LOST: {"messages_lost"},
    Trouble.RESET: {"offset_reset"},
}


@dataclass(frozen=True)
class Found:
    """How an injected trouble was found; `after` counts cycles from the first that could know it, None = never."""

    group: WeeklyGroup
    after: int | None
    others: set[str] = field(default_factory=set)  # rules that warned of the group for another reason


def healthy_week(numbers: Sequence[int], first: int, last: int, *, seed: int = 1) -> weeks.SimulatedWeek:
    """Make healthy groups, some minutes without a snapshot, and a broker that is restarted now and then."""
    chance = Random(seed)  # noqa: S311 - the same in every run
    times = 1 + (last - first) // 240
    missing = frozenset(
        minute
        for _ in range(times)
        for begins in [chance.randrange(first, last)]
        for minute in range(begins, begins + chance.choice((1, 2, 5, 20)))
    )
    drawn = {(chance.randrange(first, last), chance.choice(weeks.BROKERS)) for _ in range(times)}
    restarts: set[tuple[int, str]] = set()
    for minute, broker in sorted(drawn):  # one that is away in two rounds in a row is not well
        if (weeks.minute_before(minute, missing), broker) not in restarts:
            restarts.add((minute, broker))
    return weeks.SimulatedWeek([weekly_group(number) for number in numbers], missing, frozenset(restarts))


def warnings(week: weeks.SimulatedWeek, first: int, last: int) -> Iterator[tuple[int, Finding]]:
    """Yield (minute, finding) of all that somebody would be told of."""
    for minute, facts in week.cycles(first, last):
        for finding in judge(facts, CONFIG).findings:
            if finding.severity is not Severity.INFO:
                yield minute, finding


def find_troubles(number: int, at: int) -> dict[Trouble, Found]:
    """Inject each trouble at a step into the same group, as groups of one week, and judge until it is found, or late.

    All at once: a cycle takes as long to judge for six groups as for one.
    """
    groups = {trouble: _troubled(trouble, number, at) for trouble in Trouble}
    names_it = {group.name: NAMES_IT[trouble] for trouble, group in groups.items()}
    knowable = {group.name: _knowable(group) for group in groups.values()}
    found = {group.name: Found(group, None) for group in groups.values()}
    first, last = min(knowable.values()) - WARM_UP, max(knowable.values()) + PATIENCE
    for minute, finding in warnings(weeks.SimulatedWeek(list(groups.values())), first, last):
        name = finding.consumer_group or (finding.topic or "").removesuffix("-topic")
        so_far = found[name]
        if so_far.after is not None or minute >= knowable[name] + PATIENCE:
            continue
        if minute * weeks.STEPS_PER_CYCLE < at:
            so_far.others.add(f"{finding.rule.id} before it began")
        elif finding.rule.id in names_it[name]:
            found[name] = replace(so_far, after=max(0, minute - knowable[name]))
        elif minute >= knowable[name]:
            so_far.others.add(finding.rule.id)
    return {trouble: found[group.name] for trouble, group in groups.items()}


def _troubled(trouble: Trouble, number: int, at: int) -> WeeklyGroup:
    group = weekly_group(number, days=at * STEP_S // 86_400 + 1, trouble=trouble, at=at)
    return replace(group, name=f"{group.name}-{trouble}")


def _knowable(group: WeeklyGroup) -> int:
    """Return the minute of the first cycle that can know it: offsets show it, or a limit of the policy is passed.

    Who consumes a third of what is written passes them; that shows as soon as what waits is worth a word.
    """
    first = -(-group.trouble_at // weeks.STEPS_PER_CYCLE)
    if group.trouble in (Trouble.LOST, Trouble.RESET):
        return first
    policy = CONFIG.policy(weeks.CLUSTER, group.name)
    minute = first
    while True:
        waiting, age_ms = _backlog(group, minute)
        if waiting > policy.max_lag_messages or age_ms > policy.max_lag_ms:
            return minute
        overrun = group.trouble is Trouble.FALLING_BEHIND
        if overrun and waiting >= policy.lag_floor and age_ms > policy.lag_floor_ms:
            return minute
        minute += 1


def _backlog(group: WeeklyGroup, minute: int) -> tuple[int, int]:
    """Return how many messages wait, and how old the oldest is, ms, as of the reading, when the minute begins."""
    step = minute * weeks.STEPS_PER_CYCLE
    waiting = group.written[:, step] - group.committed[:, step]
    ages = [
        step - weeks.written_at_step(group.written[number], int(group.committed[number, step]))
        for number in range(group.queue_count)
        if waiting[number]
    ]
    return int(waiting.sum()), max(ages, default=0) * STEP_S * 1000
