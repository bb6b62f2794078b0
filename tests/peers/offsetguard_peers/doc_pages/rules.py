"""What docs/rules.md says of each rule."""

from offsetguard.judge.registry import RULES, section_of


def made() -> str:
    """Return all rules as Markdown, a row and a section each."""
    rows = (f"| [{rule.id}](#{rule.id}) | {rule.severity} | {rule.means} |" for rule in RULES.values())
    return "\n".join(("| rule | severity | means |", "|---|---|---|", *rows, "", *map(section_of, RULES)))
