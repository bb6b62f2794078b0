"""Topics and groups that masters had and have no longer: who removed each, and what it was used for."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from offsetguard.facts.interval import IntervalFacts
from offsetguard.judge.evidence.unseen import names
from offsetguard.judge.rule import Finding, Rule, Sentence, Severity
from offsetguard.model.fact_records import VanishedFacts
from offsetguard.model.rocketmq import OPERATORS_THREAD


def vanished(rule: Rule, facts: IntervalFacts, *, groups: bool) -> Iterator[Finding]:
    """Yield one finding per topic, or per group: INFO where an operator did it, or where nobody used it."""
    found: dict[str, list[VanishedFacts]] = defaultdict(list)
    for one in facts.vanished:
        if one.is_group == groups:
            found[one.name].append(one)
    for name, gone in sorted(found.items()):
        variant, severity = _who(gone)
        yield rule.finding(
            facts,
            about=(name, None) if groups else (None, name),
            severity=severity,
            variant=variant,
            state="OK" if severity is Severity.INFO else "LOST",
            figures={
                "on_brokers": names(sorted(one.broker_name for one in gone)),
                "last_seen_at": min((one.last_seen_at for one in gone if one.last_seen_at), default=None),
                "gone_at": min(one.deleted_at or one.gone_at for one in gone),
                "waiting_count": _total([one.waiting_count for one in gone]),
                "thread": next((one.deleted_by for one in gone if one.deleted_by), Sentence("no_line_says_who")),
            },
            broker_names=frozenset(one.broker_name for one in gone),
            last_event_at=max(one.gone_at for one in gone) if severity is Severity.INFO else None,
        )


def _who(gone: Sequence[VanishedFacts]) -> tuple[str, Severity]:
    threads = [one.deleted_by for one in gone if one.deleted_by]
    if threads and len(threads) == len(gone) and all(one.startswith(OPERATORS_THREAD) for one in threads):
        return "by_hand", Severity.INFO
    unused = all(one.online is False and not one.waiting_count for one in gone)
    return ("unused", Severity.INFO) if unused and not threads else ("default", Severity.WARNING)


def _total(counts: Sequence[int | None]) -> int | None:
    known = [one for one in counts if one is not None]
    return sum(known) if len(known) == len(counts) else None
