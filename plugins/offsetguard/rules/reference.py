"""docs/rules.md, made of the rules themselves: `python -m offsetguard.rules.reference > docs/rules.md`."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING

from offsetguard.rules.registry import RULE_FILES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetguard.rules.registry import RuleFile

LABELS = ("Means", "Evidence", "Not judged", "Do next", "Source")
_HEAD = """# Rules

What OffsetGuard finds, and what it says. Made by `make docs` from `plugins/offsetguard/rules/`; a message's footer
carries the rule's id, and the id is the file's name. `{figure:unit}` is filled with the finding's figures.
"""


def reference() -> str:
    """Return the page as Markdown."""
    return "\n".join([_HEAD, *(line for file in RULE_FILES for line in _section(file))])


def _section(file: RuleFile) -> Iterator[str]:
    rule = file.RULE
    yield f"## {rule.id}\n"
    yield f"{rule.means} Severity: {rule.severity}. Reads: {', '.join(rule.needs)}.\n"
    first, _, labelled = (inspect.getdoc(file) or "").partition("\n\n")
    yield f"{first}\n"
    for line in labelled.splitlines():
        label, colon, rest = line.partition(": ")
        yield f"- **{label}**: {rest}" if colon and label in LABELS else f"  {line}"
    yield ""
    for variant, texts in rule.texts.items():
        yield f"### {rule.id}: {variant.replace('_', ' ')}\n"
        yield f"- Summary: `{texts.summary}`"
        yield f"- Cause: `{texts.cause}`"
        yield f"- Do next: `{texts.do_next}`\n"


if __name__ == "__main__":
    sys.stdout.write(reference())
