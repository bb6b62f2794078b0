"""Figures are shown with a name and in a unit that people read."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from offsetguard.rules.figures import LABELS, format_figure
from offsetguard.rules.registry import ALL_RULES


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.id)
def test_every_figure_of_a_rules_table_has_a_name_for_readers(rule: object) -> None:
    shown = {*rule.table, *([rule.peak] if rule.peak else [])}  # type: ignore[attr-defined]
    assert shown <= set(LABELS)


@pytest.mark.parametrize(
    ("name", "figure", "shown"),
    [
        ("effective_lag", 1234567, "1,234,567"),
        ("lag_ms", 754_000, "12 min 34 s"),
        ("first_moved_at", datetime(2026, 11, 21, 6, 45, 30, tzinfo=UTC), "2026-11-21 06:45:30 UTC"),
        ("lag_ms", None, "unknown"),
        ("effective_lag", 0, "0"),
        ("reasons", "no answer", "no answer"),
        ("ratio", 0.25, "0.25"),
        ("orderly", True, "yes"),
    ],
)
def test_a_figure_is_shown_in_its_unit(name: str, figure: object, shown: str) -> None:
    assert format_figure(name, figure) == shown  # type: ignore[arg-type]
