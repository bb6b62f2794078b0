"""One cause, one finding: findings that another one explains are named under it and taken out of the list.

What a rule explains is its own data (`Rule.explains`); whether two findings meet is decided by the scope. It never
makes trouble quieter: the explaining finding takes the worst severity of what it explains, except where its rule says
that nothing is wrong (`quiets`). Of what several findings explain, the first of them names it; of findings that
explain each other the first stays. Pure and independent of the order in which the findings come.

A cause explains the queues that it accounts for, no more: the rest of the group is judged by itself. Where it holds
some of a group's waiting queues (`Rule.holds_queues`: a poison message, a lock, queues that nobody can read), what the
rules about load say of the whole group is taken back, and they are asked twice (`by_shares`): about these queues,
which the cause explains (scope QUEUES), and about all others, where what is found stands beside it.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.judge.evidence.lookups import queues_by_group
from offsetguard.judge.rule import Explains, Finding, Scope
from offsetguard.judge.windows.windows import age_at_least_ms
from offsetguard.tables.group_facts import GroupFacts

# How much of a finding's lag must lie on the queues that another one explains: the rest is what healthy queues have.
_EXPLAINED_SHARE = 0.9
_COUNTS = ("lag", "effective_lag", "inflight", "available", "lost")
_RATES = ("cached_message_count", "produce_tps", "consume_tps")
_Subject = tuple[str, str]  # consumer group, topic
_Halves = tuple[Sequence[QueueFacts], Sequence[QueueFacts]]  # held by a cause, and all others


def subsume(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that no other one explains, each naming all that it explains, directly or through others.

    `findings`: those of one cluster, best explanation first (it decides between several).
    """
    ordered = list(findings)
    explained_by = _edges(ordered)
    has_cause = {position for found in explained_by.values() for position in found}
    kept: dict[int, Finding] = {}
    settled: set[int] = set()
    # first what nothing explains; what is left then explains each other in circles, and the first of each circle stays
    for position in (*(p for p in range(len(ordered)) if p not in has_cause), *range(len(ordered))):
        if position not in settled:
            settled.add(position)
            kept[position] = _named(position, ordered, explained_by, settled)
    return [kept[position] for position in sorted(kept)]


def _named(
    start: int, ordered: Sequence[Finding], edges: Mapping[int, Mapping[int, Explains]], settled: set[int]
) -> Finding:
    """Return the finding at `start` with all that it explains and no other finding has named; they become settled."""
    finding = ordered[start]
    severity = finding.severity
    named: list[int] = []
    reached = deque([(start, False)])
    while reached:
        position, quieted = reached.popleft()
        for explained, how in edges.get(position, {}).items():
            if explained in settled:
                continue
            settled.add(explained)
            named.append(explained)
            quiet = quieted or how.quiets
            reached.append((explained, quiet))
            if not quiet and ordered[explained].severity.rank > severity.rank:
                severity = ordered[explained].severity
    of_it = tuple(ordered[position] for position in sorted(named))
    return replace(finding, severity=severity, explained=of_it) if of_it else finding


def _edges(ordered: Sequence[Finding]) -> dict[int, dict[int, Explains]]:
    """Return by position which findings each one explains, and by what its rule says."""
    by_rule: dict[str, list[int]] = defaultdict(list)
    by_subject: dict[tuple[str, str | None, str | None], list[int]] = defaultdict(list)
    for position, finding in enumerate(ordered):
        by_rule[finding.rule.id].append(position)
        by_subject[finding.rule.id, finding.consumer_group, None].append(position)
        by_subject[finding.rule.id, None, finding.topic].append(position)
    edges: dict[int, dict[int, Explains]] = defaultdict(dict)
    for position, finding in enumerate(ordered):
        group, topic = finding.consumer_group, None if finding.consumer_group is not None else finding.topic
        for how in finding.rule.explains:
            of_the_cluster = how.scope in (Scope.BROKER, Scope.CLUSTER)
            for rule_id in how.rules:
                near = by_rule.get(rule_id, ()) if of_the_cluster else by_subject.get((rule_id, group, topic), ())
                for explained in near:
                    if explained != position and _meets(how, finding, ordered[explained]):
                        edges[position].setdefault(explained, how)
    return edges


def _explains(cause: Finding, finding: Finding) -> bool:
    """Whether one finding explains another one by itself."""
    return any(finding.rule.id in how.rules and _meets(how, cause, finding) for how in cause.rule.explains)


def _meets(how: Explains, explaining: Finding, explained: Finding) -> bool:
    said = not how.variants or explaining.variant in how.variants
    asked = not how.explained_variants or explained.variant in how.explained_variants
    return said and asked and explaining.cluster == explained.cluster and _MEETS[how.scope](explaining, explained)


def _same_group(explaining: Finding, explained: Finding) -> bool:
    return explaining.consumer_group is not None and explaining.consumer_group == explained.consumer_group


def _same_topic(explaining: Finding, explained: Finding) -> bool:
    same = explaining.topic is not None and explaining.topic == explained.topic
    return same and (explaining.consumer_group is None or _same_group(explaining, explained))


def _same_brokers(explaining: Finding, explained: Finding) -> bool:
    brokers = explained.all_broker_names
    return bool(brokers) and brokers <= explaining.all_broker_names


def _same_queues(explaining: Finding, explained: Finding) -> bool:
    """Whether nearly all of the explained lag lies on the explaining queues; without known lags: all its queues."""
    queues = {evidence.message_queue for evidence in explaining.queues}
    of_all_groups = explaining.consumer_group is None and explaining.topic == explained.topic
    lags = {evidence.message_queue: evidence.figures.get("effective_lag") for evidence in explained.queues}
    if not lags or not (of_all_groups or _same_group(explaining, explained)):
        return False
    known = {queue: lag for queue, lag in lags.items() if isinstance(lag, int) and lag > 0}
    if not known:
        return set(lags) <= queues
    if any(lag is None and queue not in queues for queue, lag in lags.items()):
        return False
    return sum(lag for queue, lag in known.items() if queue in queues) >= _EXPLAINED_SHARE * sum(known.values())


_MEETS: dict[Scope, Callable[[Finding, Finding], bool]] = {
    Scope.QUEUES: _same_queues,
    Scope.TOPIC: _same_topic,
    Scope.GROUP: _same_group,
    Scope.BROKER: _same_brokers,
    Scope.CLUSTER: lambda explaining, explained: explaining.cluster == explained.cluster,
}


def by_shares(
    findings: Sequence[Finding], facts: IntervalFacts, about_load: Callable[[IntervalFacts], Iterable[Finding]]
) -> list[Finding]:
    """Return the findings, those about load in two parts where a cause accounts for some of a group's queues.

    `about_load`: what the rules about load find in facts.
    """
    of_load = {(one.consumer_group, one.topic) for one in findings if one.rule.about_load}
    causes = [one for one in findings if one.rule.holds_queues and one.queues]
    shares = {}
    for subject, queues in (queues_by_group(facts) if causes else {}).items():
        held, others = _halves(subject, queues, causes)
        if subject in of_load and any(map(_waits, held)) and not all(map(_nothing_waits, others)):
            shares[subject] = held, others
    if not shares:
        return list(findings)
    kept = [one for one in findings if not one.rule.about_load or (one.consumer_group, one.topic) not in shares]
    of_held, of_others = (
        [one for one in about_load(_part(facts, shares, inside=inside)) if (one.consumer_group, one.topic) in shares]
        for inside in (True, False)
    )
    elsewhere = {_subject(one) for one in of_others}
    explained = [
        one for one in of_held if _subject(one) not in elsewhere or any(_explains(cause, one) for cause in causes)
    ]
    return [*kept, *explained, *of_others]


def _subject(finding: Finding) -> tuple[str, str | None, str | None]:
    return finding.rule.id, finding.consumer_group, finding.topic


def _halves(
    subject: _Subject, queues: Sequence[QueueFacts], causes: Iterable[Finding]
) -> tuple[list[QueueFacts], list[QueueFacts]]:
    """Part a group's queues into those that a cause names, of the group or of all groups of the topic, and others."""
    group, topic = subject
    concerning = [one for one in causes if one.topic == topic and one.consumer_group in (None, group)]
    named = {evidence.message_queue for one in concerning for evidence in one.queues}
    held = [queue for queue in queues if queue.message_queue in named]
    return held, [queue for queue in queues if queue.message_queue not in named]


def _part(facts: IntervalFacts, shares: Mapping[_Subject, _Halves], *, inside: bool) -> IntervalFacts:
    """Return the facts in which these groups have only the queues that are held, or only all others."""
    left_out = {
        (queue.consumer_group, queue.message_queue)
        for held, others in shares.values()
        for queue in (others if inside else held)
    }
    return replace(
        facts,
        queues=tuple(one for one in facts.queues if (one.consumer_group, one.message_queue) not in left_out),
        groups=tuple(
            _group(one, *shares[one.consumer_group, one.topic], inside=inside)
            if (one.consumer_group, one.topic) in shares
            else one
            for one in facts.groups
        ),
    )


def _group(group: GroupFacts, held: Sequence[QueueFacts], others: Sequence[QueueFacts], *, inside: bool) -> GroupFacts:
    """Return a group's row with the figures of the held queues, or without them. How many queues it has stays.

    A cause explains no message that it is not known to hold: it counts among the others. A rate without some queues
    whose rates are not known is not known.
    """

    def share(total: float | None, figures: Sequence[float | None], *, at_most: bool) -> float | None:
        known = [figure for figure in figures if figure is not None]
        if total is None or (len(known) < len(figures) and (inside or not at_most)):
            return None
        return sum(known) if inside else max(0, total - sum(known))

    ages = [age for age in map(age_at_least_ms, held if inside else others) if age is not None]
    counts = {
        name: share(getattr(group, name), [getattr(one.offsets, name) for one in held], at_most=True)
        for name in _COUNTS
    }
    rates = {name: share(getattr(group, name), [getattr(one, name) for one in held], at_most=False) for name in _RATES}
    return replace(group, lag_ms=max(ages, default=None), **counts, **rates)  # type: ignore[arg-type]


def _waits(queue: QueueFacts) -> bool:
    return (queue.offsets.effective_lag or 0) > 0


def _nothing_waits(queue: QueueFacts) -> bool:
    return queue.offsets.effective_lag == 0
