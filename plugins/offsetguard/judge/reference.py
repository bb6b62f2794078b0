"""What docs/rules.md and assistants are told of a rule, made of the rule itself."""

import inspect
from collections.abc import Iterator

from offsetguard.catalogue.text import format_duration
from offsetguard.judge.registry import RULE_FILES, RULES, RuleFile
from offsetguard.judge.rule import Explains

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
