"""Figures of findings and incidents, for scripts and for people."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from offsetguard.text import format_moment

if TYPE_CHECKING:
    from offsetguard.rules.rule import Figure


def plain(figure: Figure) -> str | float | bool | None:
    """Return what JSON can hold; moments in ISO 8601."""
    return figure.isoformat() if isinstance(figure, datetime) else figure


def shown(figure: Figure) -> str:
    """Return a figure as people read it; one that is not known says so."""
    if figure is None:
        return "unknown"
    if isinstance(figure, datetime):
        return format_moment(figure)
    return f"{figure:,}" if isinstance(figure, int) and not isinstance(figure, bool) else str(figure)
