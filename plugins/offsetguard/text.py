"""Texts with figures: `{lag:messages}`, `{lag_ms:duration}`, `{moved_at:moment}`, `{behind:bytes}`, `{topic:shell}`.

Unknown figures read "unknown".
"""

from __future__ import annotations

import shlex
import string
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_UNITS_MS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))


def render_text(template: str, figures: Mapping[str, Any]) -> str:
    """Fill a template; raises KeyError when it names a figure that the finding does not have."""
    return _FORMATTER.vformat(template, (), dict(figures))


def format_messages(count: int) -> str:
    """12345 -> '12,345': every digit, since 1.2 and 1.3 thousand are different news."""
    return f"{count:,}"


def format_duration(duration_ms: float) -> str:
    """Two largest units: 754000 -> '12 min 34 s'; below one second in ms."""
    rest = round(duration_ms)
    if rest < 1_000:
        return f"{rest} ms"
    parts: list[str] = []
    for unit, length_ms in _UNITS_MS:
        count, rest = divmod(rest, length_ms)
        if count:
            parts.append(f"{count} {unit}")
        elif parts:
            break
        if len(parts) == 2:
            break
    return " ".join(parts)


def format_moment(moment: datetime) -> str:
    """'2026-11-21 06:45:30 UTC'."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def format_bytes(count: int) -> str:
    """1288490188 -> '1.2 GiB'."""
    size, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if abs(size) < 1_024:
            break
        size, unit = size / 1_024, larger
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"


_FORMATS: dict[str, Callable[[Any], str]] = {
    "messages": format_messages,
    "duration": format_duration,
    "moment": format_moment,
    "bytes": format_bytes,
    "plural": lambda count: "" if count == 1 else "s",
    # a word of a command that the reader may paste: RocketMQ allows | and % in names
    "shell": lambda word: shlex.quote(str(word)),
}


class _FigureFormatter(string.Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        if value is None:
            return "unknown"
        figure_format = _FORMATS.get(format_spec)
        return str(super().format_field(value, format_spec)) if figure_format is None else figure_format(value)


_FORMATTER = _FigureFormatter()
