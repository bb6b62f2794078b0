"""Which figures are shown, and how they read to people; what they are called stands in the catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetguard.catalogue import catalogue
from offsetguard.catalogue.entries import FIGURES, entries
from offsetguard.languages import Language

if TYPE_CHECKING:
    from offsetguard.rules.rule import Figure

LABELS = {name: texts[Language.EN] for name, texts in entries(FIGURES).items()}

SILENT_AT_ZERO = frozenset(
    {"beyond", "lost", "repeated"}
)  # "lost messages 0" in a message about something else is noise


def format_figure(name: str, figure: Figure) -> str:
    """Return a figure as people read it in English; its name's suffix tells the unit, None reads "unknown"."""
    return catalogue().figure(name, figure)
