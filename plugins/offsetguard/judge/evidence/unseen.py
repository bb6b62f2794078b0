"""What was not seen, why, and what nobody can tell because of it: what all rules say alike; and what has vanished."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from offsetguard.catalogue import Sentence
from offsetguard.collect.system_names import OFFSET_MOVED_EVENT
from offsetguard.config import Config
from offsetguard.facts.interval import IntervalFacts
from offsetguard.judge.evidence.lookups import message_models
from offsetguard.judge.evidence.move_causes import BROADCASTING
from offsetguard.judge.rule import Finding, Rule, Severity
from offsetguard.model.fact_records import CollectionGap, VanishedFacts
from offsetguard.model.rocketmq import OPERATORS_THREAD
from offsetguard.model.verdicts import CannotTell

# Who is stopped and started in order is back within half a minute. A name server strikes a broker out when its old
# connection closes after it has come back (4.9), until it registers again: at most 40 s.
GRACE = timedelta(seconds=90)
_REASONS_SHOWN = 5
_REASON_LENGTH = 200
_NAMES_SHOWN = 10
_REFUSED = "refused"  # an outcome that only somebody alive can give
Replica = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The gaps of one round by who did not answer."""

    name_servers: tuple[CollectionGap, ...]
    proxies: tuple[CollectionGap, ...]
    dead_masters: tuple[str, ...]  # by name: gave no offsets and no other answer
    dead_slaves: tuple[Replica, ...]
    of_the_dead: tuple[CollectionGap, ...]
    mute_masters: tuple[str, ...]  # by name: answer, and gave no offsets
    rest: tuple[CollectionGap, ...]  # what somebody who answers left unanswered


def unanswered(facts: IntervalFacts, config: Config) -> Unanswered:
    """Sort the gaps: nobody is called dead who answered anything, or refused it."""
    known = config.clusters.get(facts.cluster)
    addresses = set(known.name_servers) if known is not None else set()
    of_no_broker = [gap for gap in facts.gaps if gap.broker_name is None]
    proxies = tuple(gap for gap in of_no_broker if known is not None and gap.address in known.proxies)
    name_servers = tuple(gap for gap in of_no_broker if gap.address in addresses or not addresses)
    sorted_out = {*name_servers, *proxies}
    answered = {(one.broker_name, one.broker_id): one.answered for one in facts.brokers}
    alive = {
        (gap.broker_name, gap.broker_id) for gap in facts.gaps if gap.outcome == _REFUSED and gap.broker_id is not None
    } | {replica for replica, answer in answered.items() if answer}
    dead_masters = tuple(name for name in sorted(facts.unseen_broker_names) if (name, 0) not in alive)
    dead_slaves = tuple(
        replica
        for replica, answer in sorted(answered.items())
        if answer is False and replica[1] != 0 and replica not in alive
    )
    dead = {(name, 0) for name in dead_masters} | set(dead_slaves)
    return Unanswered(
        name_servers=name_servers,
        proxies=proxies,
        dead_masters=dead_masters,
        dead_slaves=dead_slaves,
        of_the_dead=tuple(gap for gap in facts.gaps if _replica(gap) in dead),
        mute_masters=tuple(sorted(facts.unseen_broker_names.difference(dead_masters))),
        rest=tuple(gap for gap in facts.gaps if gap not in sorted_out and _replica(gap) not in dead),
    )


def is_new(gaps: Sequence[CollectionGap], facts: IntervalFacts) -> bool:
    """Whether gaps of their kinds are known to be missed for less than the grace: a restart, or a lost packet."""
    since = [gap.first_missed_at for gap in gaps]
    return bool(gaps) and all(moment is not None and facts.now - moment < GRACE for moment in since)


def reasons(gaps: Iterable[CollectionGap]) -> Sentence:
    """Return who did not answer and why, most frequent first; "reason unknown" without gaps."""
    counted = Counter((gap.broker_name or gap.address, gap.outcome, _reason(gap)) for gap in gaps)
    shown = tuple(
        Sentence("reason_repeated", name=name, outcome=_outcome(outcome), reason=reason, count=count)
        if count > 1
        else Sentence("reason", name=name, outcome=_outcome(outcome), reason=reason)
        for (name, outcome, reason), count in counted.most_common(_REASONS_SHOWN)
    )
    hidden = len(counted) - len(shown)
    if hidden:
        return Sentence("reasons_and_more", shown=shown, hidden=hidden)
    return Sentence("reasons", shown=shown) if shown else Sentence("reason_unknown")


def names(listed: Sequence[str], count: int | None = None) -> str:
    """Return at most ten names, and how many more there are: `a, b (+12)`; `count` has those not listed, too."""
    hidden = (len(listed) if count is None else count) - len(listed[:_NAMES_SHOWN])
    return ", ".join(listed[:_NAMES_SHOWN]) + (f" (+{hidden})" if hidden > 0 else "")


def _outcome(outcome: str) -> Sentence:
    return Sentence(f"outcome_{outcome}")


def _replica(gap: CollectionGap) -> tuple[str | None, int | None]:
    return gap.broker_name, gap.broker_id


def _reason(gap: CollectionGap) -> str:
    """Return the reason without the address where the gap is called by its address already."""
    reason = gap.reason if gap.broker_name else gap.reason.removeprefix(f"{gap.address}: ")
    return reason[:_REASON_LENGTH]


# fields of IntervalFacts that say what was not seen, or are not seen there; everything else comes from brokers
OF_THE_ROUND = frozenset(
    {
        "gaps",
        "unseen_broker_names",
        "unseen_brokers",
        "cluster_unseen",
        "config_problem",
        "unreached",
        "audited",
        "unpublished_since",
        "first_landed_at",
        "publication_ended_at",
        "publication_ms",
    }
)


def unseen_facts(rules: Iterable[Rule], facts: IntervalFacts, known: Iterable[CannotTell]) -> Iterator[CannotTell]:
    """Give an entry for each rule that needs what brokers tell and has not said so itself (`known`)."""
    hidden = facts.unseen_broker_names
    if not hidden and not facts.cluster_unseen:
        return
    said = {entry.rule_id for entry in known if entry.consumer_group is None and entry.broker_names == hidden}
    unseen = facts.cluster_unseen
    because = (
        Sentence("no_name_server_answered") if unseen else Sentence("gave_no_offsets", brokers=names(sorted(hidden)))
    )
    for rule in rules:
        if hidden and rule.unseen is not None:
            yield CannotTell(rule.id, None, hidden, Sentence(rule.unseen))
        elif not OF_THE_ROUND.intersection(rule.needs) and rule.id not in said:
            yield CannotTell(rule.id, None, hidden, because)


def is_log_read(facts: IntervalFacts, config: Config) -> bool:
    """Whether logs are read, or somebody has given lines of them."""
    cluster = config.clusters.get(facts.cluster)
    configured = cluster is not None and bool(cluster.logs)
    moved = any(move.origin == "log" for move in facts.offset_moves)
    return configured or facts.logs_read or bool(facts.log_lines or facts.lock_waits) or moved


def silent_about_corrections(facts: IntervalFacts, config: Config) -> frozenset[str]:
    """Return the masters that tell of corrected offsets in broker.log only (5.x), where there are broadcasting groups.

    Those of clustering groups show in the committed offsets as well. Empty where logs are read.
    """
    if BROADCASTING not in message_models(facts).values() or is_log_read(facts, config):
        return frozenset()
    masters = (one for one in facts.brokers if one.broker_id == 0)
    return frozenset(one.broker_name for one in masters if (one.version or "").startswith("V5"))


def tell_corrections(facts: IntervalFacts, config: Config) -> frozenset[str]:
    """Return the masters of which each correction of a request is told: events of 4.x, or read logs."""
    masters = [one for one in facts.brokers if one.broker_id == 0]
    if is_log_read(facts, config):
        return frozenset(one.broker_name for one in masters)
    with_events = {one.broker_name for one in masters if (one.version or "").startswith("V4")}
    return frozenset(with_events - unread_events(facts))


def unread_events(facts: IntervalFacts) -> frozenset[str]:
    """Return the brokers whose events of corrected offsets (4.x) were asked for and not read."""
    return frozenset(gap.broker_name for gap in facts.gaps if gap.broker_name and OFFSET_MOVED_EVENT in gap.what)


def is_first_look(facts: IntervalFacts) -> bool:
    """Whether no queue of any group was seen before: then nobody knows what moved."""
    written = [group.produce_tps for group in facts.groups if group.unknown_queue_count < group.queue_count]
    seen_before = any(queue.window.sample_count > 1 for queue in facts.queues)
    return bool(written) and all(tps is None for tps in written) and not seen_before


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
