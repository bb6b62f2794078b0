"""docs/rules.md, made of the rules themselves: `python -m offsetguard.judge.reference > docs/rules.md`."""

import inspect
import sys
from collections.abc import Iterator

from offsetguard.catalogue.text import format_duration
from offsetguard.judge.registry import RULE_FILES, RULES, RuleFile
from offsetguard.judge.rule import Explains

LABELS = ("Means", "Evidence", "Not judged", "Do next", "Source")
_HEAD = """# Rules

What OffsetGuard finds, and what it says. Made by `make docs` from `plugins/offsetguard/judge/rules/`; a mail's footer
carries the rule's id, and the id is the file's name. `{figure:unit}` is filled with the finding's figures.

- **Severity**: critical and warning are sent to people; info stands in `check`, in `diagnose` and in the history of
  incidents, and is never sent. A rule may call single findings better or worse than the severity that stands here.
- **Needs**: the facts that the rule reads. What was not seen is neither trouble nor health: the rule then says that it
  *cannot tell*, and why; an incident that this may hide stays open.
- **Explains**: one cause, one finding. A finding of this rule names those of the other ones ("also explains: ...") and
  takes them out of the list, with the worst of their severities, where both are about the same group and topic, group,
  queues (nearly all of the lag lies on them), brokers or cluster. An incident that is explained later stays open.
- **Shows**: the stacks of a client's consume threads, as [docs/incidents.md](incidents.md#thread-stacks) says.
- **Opens**, **Ends**: so many intervals in a row must show a finding before anybody is told, and so many in which its
  rule looked must not show it before its incident ends; where the rule wants calm, nothing must be found for so long.
  An interval in which the evidence was not seen counts as neither. Most rules judge a window of time, and most of those
  that judge one look call what they find INFO at first: they open at once.

| rule | severity | means |
|---|---|---|
{rows}
"""


def reference() -> str:
    """Return the page as Markdown."""
    rows = "\n".join(f"| [{rule.id}](#{rule.id}) | {rule.severity} | {rule.means} |" for rule in RULES.values())
    return "\n".join([_HEAD.replace("{rows}", rows), *(line for file in RULE_FILES for line in _section(file))])


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


if __name__ == "__main__":
    sys.stdout.write(reference())
