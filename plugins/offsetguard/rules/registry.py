"""All rules, in the order in which a reader should hear of them when they are equally severe; and what they all say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from offsetguard.rules import (
    accumulation,
    broker_unreachable,
    client_stands_still,
    client_version_mixed,
    clock_skew,
    collection_incomplete,
    config_broken,
    consumer_offline,
    dead_letters,
    delayed_delivery_late,
    disk_filling,
    filter_hides_lag,
    flow_control,
    handlers_hanging,
    idle_consumers,
    lock_contention,
    lock_expiry_too_short,
    lock_not_released,
    loss_ahead,
    master_switched,
    membership_disagrees,
    messages_lost,
    name_server_unreachable,
    never_committed,
    offset_moved_by_retention,
    offset_reset,
    offset_store_not_persisting,
    offsets_violate_invariant,
    poison_message,
    proxy_unreachable,
    queue_parallelism_cap,
    queue_recreated,
    read_write_queues_differ,
    reads_moved_to_slave,
    rebalance_noise,
    retry_limit_too_high,
    retry_storm,
    slave_behind,
    slow_consumption,
    store_slow,
    subscription_mismatch,
    traffic_drop,
    traffic_surge,
    transactions_not_ended,
    unsubscribed_topic,
)
from offsetguard.rules.shares import by_shares
from offsetguard.rules.subsumption import subsume
from offsetguard.rules.unseen_facts import unseen_facts
from offsetguard.windows import judge_queues

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from offsetguard.config import Config
    from offsetguard.facts import IntervalFacts
    from offsetguard.rules.rule import CannotTell, Finding, Rule


class RuleFile(Protocol):
    """What every rule file offers; `cannot_tell(facts, config) -> Iterator[CannotTell]` may stand there too."""

    RULE: Rule

    def find(self, facts: IntervalFacts, config: Config) -> Iterator[Finding]:
        """Give the findings of one cluster and interval."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What all rules together say of one cluster and interval."""

    findings: tuple[Finding, ...]  # worst first; what another one explains is named there only
    cannot_tell: tuple[CannotTell, ...]  # by rule, group; each once


RULE_FILES: tuple[RuleFile, ...] = (
    config_broken,
    name_server_unreachable,
    broker_unreachable,
    proxy_unreachable,
    collection_incomplete,
    offsets_violate_invariant,
    subscription_mismatch,
    master_switched,
    queue_recreated,
    messages_lost,
    loss_ahead,
    offset_moved_by_retention,
    offset_reset,
    offset_store_not_persisting,
    membership_disagrees,
    lock_not_released,
    poison_message,
    handlers_hanging,
    lock_contention,
    read_write_queues_differ,
    client_stands_still,
    queue_parallelism_cap,
    consumer_offline,
    accumulation,
    lock_expiry_too_short,
    never_committed,
    unsubscribed_topic,
    slow_consumption,
    reads_moved_to_slave,
    flow_control,
    filter_hides_lag,
    rebalance_noise,
    idle_consumers,
    retry_limit_too_high,
    client_version_mixed,
    dead_letters,
    retry_storm,
    disk_filling,
    transactions_not_ended,
    delayed_delivery_late,
    store_slow,
    slave_behind,
    clock_skew,
    traffic_drop,
    traffic_surge,
)
ALL_RULES: tuple[Rule, ...] = tuple(file.RULE for file in RULE_FILES)


def judge(facts: IntervalFacts, config: Config) -> Judgement:
    """Run every rule; the same facts always give the same findings in the same order."""
    facts = _with_verdicts(facts, config)
    findings, cannot_tell = look(facts, config)
    return Judgement(worst_first(subsume(worst_first(by_shares(findings, facts, config)))), tuple(cannot_tell))


def look(facts: IntervalFacts, config: Config) -> tuple[list[Finding], list[CannotTell]]:
    """Return what each rule says by itself, before one finding explains another."""
    facts = _with_verdicts(facts, config)
    findings = [finding for file in RULE_FILES for finding in file.find(facts, config)]
    untold: Iterable[Callable[[IntervalFacts, Config], Iterator[CannotTell]]]
    untold = [tell for file in RULE_FILES if (tell := getattr(file, "cannot_tell", None)) is not None]
    cannot_tell = {entry for tell in untold for entry in tell(facts, config)}
    cannot_tell.update(unseen_facts(ALL_RULES, facts, cannot_tell.copy()))
    order = _positions()
    return findings, sorted(
        cannot_tell,
        key=lambda c: (order[c.rule_id], c.consumer_group or "", sorted(c.broker_names), c.because),
    )


def _with_verdicts(facts: IntervalFacts, config: Config) -> IntervalFacts:
    return judge_queues(facts, config) if any(queue.verdict is None for queue in facts.queues) else facts


def rules_by_id() -> dict[str, Rule]:
    """Return all rules by their ids."""
    return {rule.id: rule for rule in ALL_RULES}


def _positions() -> dict[str, int]:
    return {rule.id: position for position, rule in enumerate(ALL_RULES)}


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings in the order in which a reader should hear of them."""
    order = _positions()
    return tuple(
        sorted(
            findings,
            key=lambda f: (-f.severity.rank, order[f.rule.id], -_size(f), f.consumer_group or "", f.topic or ""),
        )
    )


def _size(finding: Finding) -> int:
    """Return the figure that findings of one rule are compared by."""
    figure = finding.figures.get(finding.rule.peak) if finding.rule.peak else None
    return figure if isinstance(figure, int) else 0
