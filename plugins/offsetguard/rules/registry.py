"""All rules, in the order in which a reader should hear of them when they are equally severe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from offsetguard.rules import (
    accumulation,
    collection_incomplete,
    lock_expiry_too_short,
    offset_moved,
    offsets_violate_invariant,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetguard.config import Config
    from offsetguard.facts import IntervalFacts
    from offsetguard.rules.rule import Finding, Rule


class RuleFile(Protocol):
    """What every rule file offers."""

    RULE: Rule

    def find(self, facts: IntervalFacts, config: Config) -> Iterator[Finding]:
        """Give the findings of one cluster and interval."""


RULE_FILES: tuple[RuleFile, ...] = (
    collection_incomplete,
    offsets_violate_invariant,
    offset_moved,
    accumulation,
    lock_expiry_too_short,
)
ALL_RULES: tuple[Rule, ...] = tuple(file.RULE for file in RULE_FILES)


def find_all(facts: IntervalFacts, config: Config) -> list[Finding]:
    """Run every rule; findings worst first, the same facts always in the same order."""
    order = {rule.id: position for position, rule in enumerate(ALL_RULES)}
    findings = [finding for file in RULE_FILES for finding in file.find(facts, config)]
    return sorted(
        findings,
        key=lambda f: (-f.severity.rank, order[f.rule.id], -_size(f), f.consumer_group or "", f.topic or ""),
    )


def rules_by_id() -> dict[str, Rule]:
    """Return all rules by their ids."""
    return {rule.id: rule for rule in ALL_RULES}


def _size(finding: Finding) -> int:
    """Return the figure that findings of one rule are compared by."""
    figure = finding.figures.get(finding.rule.peak) if finding.rule.peak else None
    return figure if isinstance(figure, int) else 0
