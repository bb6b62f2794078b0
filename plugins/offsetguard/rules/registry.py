"""All rules, in the order in which a reader should hear of them when they are equally severe; and what they all say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from offsetguard.rules import (
    accumulation,
    collection_incomplete,
    lock_expiry_too_short,
    offset_moved,
    offsets_violate_invariant,
)
from offsetguard.rules.subsumption import subsume

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
    collection_incomplete,
    offsets_violate_invariant,
    offset_moved,
    accumulation,
    lock_expiry_too_short,
)
ALL_RULES: tuple[Rule, ...] = tuple(file.RULE for file in RULE_FILES)


def judge(facts: IntervalFacts, config: Config) -> Judgement:
    """Run every rule; the same facts always give the same findings in the same order."""
    findings, cannot_tell = look(facts, config)
    return Judgement(_worst_first(subsume(_worst_first(findings))), tuple(cannot_tell))


def find_all(facts: IntervalFacts, config: Config) -> list[Finding]:
    """Return the findings of `judge`."""
    return list(judge(facts, config).findings)


def look(facts: IntervalFacts, config: Config) -> tuple[list[Finding], list[CannotTell]]:
    """Return what each rule says by itself, before one finding explains another."""
    findings = [finding for file in RULE_FILES for finding in file.find(facts, config)]
    untold: Iterable[Callable[[IntervalFacts, Config], Iterator[CannotTell]]]
    untold = [tell for file in RULE_FILES if (tell := getattr(file, "cannot_tell", None)) is not None]
    cannot_tell = {entry for tell in untold for entry in tell(facts, config)}
    order = _positions()
    return findings, sorted(
        cannot_tell,
        key=lambda c: (order[c.rule_id], c.consumer_group or "", sorted(c.broker_names), c.because),
    )


def rules_by_id() -> dict[str, Rule]:
    """Return all rules by their ids."""
    return {rule.id: rule for rule in ALL_RULES}


def _positions() -> dict[str, int]:
    return {rule.id: position for position, rule in enumerate(ALL_RULES)}


def _worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
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
