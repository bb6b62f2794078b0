"""Which figures are shown; what they are called, and how they read, stands in the catalogue."""

from __future__ import annotations

SILENT_AT_ZERO = frozenset(
    {"beyond", "lost", "repeated"}
)  # "lost messages 0" in a message about something else is noise
