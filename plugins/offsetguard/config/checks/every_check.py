"""All checks of a file that holds, in the order of the file."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from offsetguard.config.checks.contradictions import contradictions
from offsetguard.config.checks.recipients import limits_of_receivers, receivers_named_twice, teams_of_nothing
from offsetguard.config.checks.shadowing import shadowed
from offsetguard.config.checks.time_windows import windows_of_the_past, wrong_windows
from offsetguard.config.checks.unmatched import groups_of_others, unknown_rules
from offsetguard.config.file import ConfigFile, Problem


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found: problems, which cannot be meant, and notes, which one should know."""

    problems: tuple[Problem, ...]
    notes: tuple[Problem, ...]


def check_file(file: ConfigFile, rule_ids: Collection[str], now: datetime) -> Checked:
    """Check what can be checked without asking anybody."""
    problems = [
        *shadowed(file),
        *unknown_rules(file, rule_ids),
        *groups_of_others(file),
        *contradictions(file, rule_ids),
        *wrong_windows(file),
        *receivers_named_twice(file),
        *teams_of_nothing(file),
    ]
    notes = [*limits_of_receivers(file), *windows_of_the_past(file, now)]
    return Checked(_in_order(problems), _in_order(notes))


def _in_order(problems: list[Problem]) -> tuple[Problem, ...]:
    return tuple(sorted(problems, key=lambda one: one.line))
