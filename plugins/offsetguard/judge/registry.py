"""All rules: in which order they are told, what they say in any language, which of them mute which.

Subsumption (`subsumption.py`) is another thing: it works within one judgement, and what it explains is no incident of
its own; an inhibition is between open incidents, whichever interval opened them.

Earlier entries are higher up: they mute what the later ones would tell, never the other way round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Protocol, cast

from offsetguard.catalogue.text import Language
from offsetguard.config import Config
from offsetguard.facts.interval import IntervalFacts
from offsetguard.judge import rules
from offsetguard.judge.evidence.shares import by_shares
from offsetguard.judge.evidence.unseen import unseen_facts
from offsetguard.judge.rule import Finding, Rule
from offsetguard.judge.subsumption import Scope, subsume
from offsetguard.judge.windows.windows import judge_queues
from offsetguard.model.verdicts import CannotTell


def rule_title(rule_id: str, language: Language) -> str:
    """Return the headline of a message about several findings of a rule; the id of one that is gone."""
    rule = RULES.get(rule_id)
    return rule_id if rule is None else rule.said("title", language)


@dataclass(frozen=True, slots=True)
class Inhibition:
    """Open incidents of `muting` mute others within the scope: of the same cluster, all of whose brokers it has, ...

    ... or of the same group and topic; such entries stand last, below those of brokers and clusters.
    """

    muting: str
    scope: Scope  # CLUSTER, BROKER or TOPIC
    variants: tuple[str, ...] = ()  # of the muting rule; empty: all
    muted: tuple[str, ...] = ()  # rules that it mutes; empty: all


INHIBITIONS: tuple[Inhibition, ...] = (
    # while one of several name servers answers, everything is seen
    Inhibition("name_server_unreachable", Scope.CLUSTER, variants=("cluster_unseen",)),
    # masters: a dead slave hides nothing of its master
    Inhibition("broker_unreachable", Scope.BROKER, variants=("default", "groups_unknown")),
    # single unanswered requests hide little; brokers without offsets hide every group on them
    Inhibition("collection_incomplete", Scope.BROKER, variants=("brokers_unseen",)),
    # a group that has just come back is still behind, and may not have committed yet: give it until the end is told
    Inhibition("consumer_offline", Scope.TOPIC, muted=("accumulation", "slow_consumption")),
)


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


def _rule_files() -> tuple[RuleFile, ...]:
    found = (import_module(one.name) for one in iter_modules(rules.__path__, f"{rules.__name__}."))
    return tuple(sorted((cast("RuleFile", one) for one in found), key=lambda one: (one.RULE.place, one.RULE.id)))


RULE_FILES = _rule_files()
RULES: Mapping[str, Rule] = {file.RULE.id: file.RULE for file in RULE_FILES}


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
    cannot_tell.update(unseen_facts(RULES.values(), facts, cannot_tell.copy()))
    return findings, sorted(
        cannot_tell,
        key=lambda c: (RULES[c.rule_id].place, c.consumer_group or "", sorted(c.broker_names), c.because),
    )


def _with_verdicts(facts: IntervalFacts, config: Config) -> IntervalFacts:
    return judge_queues(facts, config) if any(queue.verdict is None for queue in facts.queues) else facts


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings in the order in which a reader should hear of them."""
    return tuple(
        sorted(
            findings,
            key=lambda f: (-f.severity.rank, f.rule.place, -_size(f), f.consumer_group or "", f.topic or ""),
        )
    )


def _size(finding: Finding) -> int:
    """Return the figure that findings of one rule are compared by."""
    figure = finding.figures.get(finding.rule.peak) if finding.rule.peak else None
    return figure if isinstance(figure, int) else 0
