"""docs/verdicts.md, of what was measured."""
