"""How bad something is: rules say it, routes match it, and it decides who hears of it and when."""

from __future__ import annotations

from enum import StrEnum


class Severity(StrEnum):
    """How bad; ordered by `rank`. INFO stands in pages and the history, and is never sent to people."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """0 = info, 2 = critical."""
        return list(Severity).index(self)

    @property
    def is_sent(self) -> bool:
        """Whether people get a message about it."""
        return self is not Severity.INFO
