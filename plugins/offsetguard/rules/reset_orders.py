"""What log lines say of a reset: who ordered it, to which moment, when."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offsetguard.facts import LogLineFacts
    from offsetguard.verdicts import Figure

TO_THE_END = -1  # AdminBrokerProcessor.resetOffset: timestamp -1 means the max offset
_LATEST_MS = 253_402_300_799_000  # the year 9999


def reset_figures(lines: Sequence[LogLineFacts]) -> dict[str, Figure]:
    """Return the figures of the newest reset; what no line says is None. There is at least one line."""
    said: dict[str, Any] = {}
    for line in sorted(lines, key=lambda one: one.last_at):
        known = json.loads(line.newest_fields_json)
        said |= {name: value for name, value in known.items() if value is not None}
    target_ms = said.get("target_timestamp_ms")
    target_at = None
    if isinstance(target_ms, int) and 0 < target_ms <= _LATEST_MS:
        target_at = datetime.fromtimestamp(target_ms / 1000, UTC)
    return {
        "caller": said.get("caller_address"),
        "target_at": target_at,
        "first_moved_at": min(line.first_at for line in lines),
        "last_moved_at": max(line.last_at for line in lines),
    }


def is_to_the_end(lines: Sequence[LogLineFacts]) -> bool:
    """Whether the newest order that names a target says: to the end."""
    for line in sorted(lines, key=lambda one: one.last_at, reverse=True):
        target_ms = json.loads(line.newest_fields_json).get("target_timestamp_ms")
        if target_ms is not None:
            return bool(target_ms == TO_THE_END)
    return False
