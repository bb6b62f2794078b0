"""What figures are called and in which unit they are shown; every figure of a table or a queue has a line here."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from offsetguard.rules.text import format_duration, format_messages, format_moment

if TYPE_CHECKING:
    from offsetguard.rules.rule import Figure

LABELS = {
    "available": "available",
    "beyond": "beyond the end",
    "brokers": "unseen brokers",
    "client_id": "client",
    "consumer_offset": "consumer offset",
    "corrected_offset": "sent to offset",
    "effective_lag": "lag",
    "first_moved_at": "first moved",
    "gap_count": "unanswered requests",
    "inflight": "inflight",
    "lag_ms": "oldest unconsumed",
    "last_moved_at": "last moved",
    "last_timestamp": "last consumed, stored at",
    "least_lock_max_live_time_ms": "lock expiry, at least",
    "lock_interval_ms": "lock interval",
    "lock_max_live_time_ms": "lock expiry",
    "lost": "lost messages",
    "max_lag_messages": "allowed lag",
    "max_lag_ms": "allowed age",
    "max_offset": "max offset",
    "min_offset": "min offset",
    "missing": "lost and skipped",
    "move_count": "times",
    "online_client_count": "clients online",
    "pull_offset": "pull offset",
    "queue_count": "queues",
    "reasons": "reasons",
    "repeated": "consumed again",
    "requested_offset": "asked for offset",
    "violated_invariants": "violates",
}

SILENT_AT_ZERO = frozenset(
    {"beyond", "lost", "repeated"}
)  # "lost messages 0" in a message about something else is noise


def format_figure(name: str, figure: Figure) -> str:
    """Return a figure as people read it; its name's suffix tells the unit, None reads "unknown"."""
    if figure is None:
        return "unknown"
    if isinstance(figure, bool):
        return "yes" if figure else "no"
    if isinstance(figure, datetime):
        return format_moment(figure)
    if isinstance(figure, str):
        return figure
    if name.endswith("_ms"):
        return format_duration(figure)
    return format_messages(figure) if isinstance(figure, int) else f"{figure:g}"
