"""All rules, found by their files, in the order in which they are told; what they say together, and what each means."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pkgutil import iter_modules
from typing import Protocol, cast

from offsetguard.catalogue.text import Language, format_duration
from offsetguard.config import Config
from offsetguard.facts.interval import IntervalFacts
from offsetguard.judge import rules
from offsetguard.judge.evidence.lookups import command_figures
from offsetguard.judge.evidence.unseen import unseen_facts
from offsetguard.judge.rule import Explains, Finding, Rule
from offsetguard.judge.subsumption import by_shares, subsume
from offsetguard.judge.windows.windows import judge_queues
from offsetguard.model.fact_records import of_text
from offsetguard.model.verdicts import CannotTell


def rule_title(rule_id: str, language: Language) -> str:
    """Return the headline of a message about several findings of a rule; the id of one that is gone."""
    rule = RULES.get(rule_id)
    return rule_id if rule is None else rule.said("title", language)


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
    findings, cannot_tell = run_rules(facts, config)

    def about_load(part: IntervalFacts) -> Iterator[Finding]:
        return (finding for file in RULE_FILES if file.RULE.about_load for finding in found_by(file, part, config))

    told = worst_first(subsume(worst_first(by_shares(findings, facts, about_load))))
    return Judgement(tuple(_with_stacks(told, facts)), tuple(cannot_tell))


def run_rules(facts: IntervalFacts, config: Config) -> tuple[list[Finding], list[CannotTell]]:
    """Return what each rule says by itself, before one finding explains another."""
    facts = _with_verdicts(facts, config)
    findings = [finding for file in RULE_FILES for finding in found_by(file, facts, config)]
    find_unknown: Iterable[Callable[[IntervalFacts, Config], Iterator[CannotTell]]]
    find_unknown = [find for file in RULE_FILES if (find := getattr(file, "cannot_tell", None)) is not None]
    cannot_tell = {entry for find in find_unknown for entry in find(facts, config)}
    cannot_tell.update(unseen_facts(RULES.values(), facts, cannot_tell.copy()))
    return findings, sorted(
        cannot_tell,
        key=lambda c: (RULES[c.rule_id].place, c.consumer_group or "", sorted(c.broker_names), c.because),
    )


def found_by(file: RuleFile, facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """Yield a rule's findings, with what mqadmin needs to be told where their texts name commands."""
    named = file.RULE.named_figures
    of_commands = {name: figure for name, figure in command_figures(facts, config).items() if name in named}
    for finding in file.find(facts, config):
        yield replace(finding, figures=of_commands | dict(finding.figures))


def _with_stacks(findings: Iterable[Finding], facts: IntervalFacts) -> Iterator[Finding]:
    """Yield findings with what the threads of a client of their group did."""
    texts = {one.consumer_group: one.client_stacks for one in facts.groups if one.client_stacks is not None}
    for finding in findings:
        text = texts.get(finding.consumer_group or "") if finding.rule.shows_stacks else None
        stacks = of_text(text)
        yield finding if stacks is None or not stacks.is_known else replace(finding, stacks=stacks)


def _with_verdicts(facts: IntervalFacts, config: Config) -> IntervalFacts:
    return judge_queues(facts, config) if any(queue.verdict is None for queue in facts.queues) else facts


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings in the order in which a reader should hear of them."""
    return tuple(sorted(findings, key=urgency))


def urgency(finding: Finding) -> tuple[int, int, int, str, str]:
    """Return what findings are ordered by, the worst first."""
    of_rule = -finding.severity.rank, finding.rule.place, -_size(finding)
    return *of_rule, finding.consumer_group or "", finding.topic or ""


def _size(finding: Finding) -> int:
    """Return the figure that findings of one rule are compared by."""
    figure = finding.figures.get(finding.rule.peak) if finding.rule.peak else None
    return figure if isinstance(figure, int) else 0


LABELS = ("Means", "Evidence", "Not judged", "Do next", "Source")


def section_of(rule_id: str) -> str:
    """Return what the page says of one rule; `rule_id`: a key of RULES."""
    return "\n".join(line for file in RULE_FILES if file.RULE.id == rule_id for line in _section(file))


def _section(file: RuleFile) -> Iterator[str]:
    rule = file.RULE
    yield f"## {rule.id}\n"
    yield f"{rule.means}\n"
    first, _, labelled = (inspect.getdoc(file) or "").partition("\n\n")
    yield f"{first}\n"
    for line in labelled.splitlines():
        label, colon, rest = line.partition(": ")
        yield f"- **{label}**: {rest}" if colon and label in LABELS else f"  {line}"
    yield from _facts_of(file)
    yield ""
    for variant, texts in rule.texts.items():
        yield f"### {rule.id}: {variant.replace('_', ' ')}\n"
        yield f"- Summary: `{texts.summary}`"
        yield f"- Cause: `{texts.cause}`"
        yield f"- Do next: `{texts.do_next}`"
        yield from (f"- Command: `{command}`" for command in texts.commands)
        yield ""


def _facts_of(file: RuleFile) -> Iterator[str]:
    rule = file.RULE
    says_so = "; says when it cannot tell" if hasattr(file, "cannot_tell") or rule.unseen else ""
    yield f"- **Severity**: {rule.severity}"
    yield f"- **Needs**: {', '.join(f'`{name}`' for name in rule.needs)}{says_so}"
    if explains := [_pair(how, other) for how in rule.explains for other in how.rules]:
        yield f"- **Explains**: {', '.join(explains)}"
    if by := [_pair(how, one.id) for one in RULES.values() for how in one.explains if rule.id in how.rules]:
        yield f"- **Explained by**: {', '.join(by)}"
    later = f"; an interval later where that is the first after {' or '.join(rule.after)}" if rule.after else ""
    if rule.shows_stacks:
        yield "- **Shows**: what the threads of a client do that holds its group up, where one was asked"
    yield f"- **Opens**: when {_intervals(rule.bad_cycles)} it{later}"
    calm = f"after {format_duration(rule.calm_ms)} without it"
    yield f"- **Ends**: {calm if rule.calm_ms else f'when {_intervals(rule.good_cycles, negated=True)} it'}"


def _intervals(count: int, *, negated: bool = False) -> str:
    if count == 1:
        return f"an interval {'does not show' if negated else 'shows'}"
    return f"{count} intervals in a row {'do not show' if negated else 'show'}"


def _pair(how: Explains, other: str) -> str:
    return f"[{other}](#{other}) ({how.scope}{', which is then no trouble' if how.quiets else ''})"
