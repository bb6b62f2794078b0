"""Figures and sentences as JSON: what they are is kept, so that another reader can be told in another language.

A moment is `{"moment": "..."}`, a sentence `{"said": key, "figures": [...], "text": English}`, several are a list.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from offsetguard.catalogue import Sentence

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from offsetguard.rules.rule import Figure


def figures_to_json(figures: Mapping[str, Any]) -> list[list[Any]]:
    """Keep names, order and kinds: `[name, value]`."""
    return [[name, _to_json(figure)] for name, figure in figures.items()]


def figures_from_json(figures: Iterable[tuple[str, Any]]) -> dict[str, Figure]:
    """Return what `figures_to_json` kept."""
    return {name: _from_json(figure) for name, figure in figures}


def said_to_json(text: str | None) -> Any:
    """Keep a sentence with its key and figures, any other text as it is."""
    return _to_json(text)


def said_from_json(kept: Any) -> Any:
    """Return a sentence, or a text as releases before kept them."""
    return _from_json(kept)


def _to_json(figure: Any) -> Any:
    if isinstance(figure, datetime):
        return {"moment": figure.astimezone(UTC).isoformat()}
    if isinstance(figure, Sentence):
        return {"said": figure.key, "figures": figures_to_json(figure.figures), "text": str(figure)}
    return [_to_json(one) for one in figure] if isinstance(figure, tuple) else figure


def _from_json(kept: Any) -> Any:
    if isinstance(kept, list):
        return tuple(_from_json(one) for one in kept)
    if not isinstance(kept, dict):
        return kept
    if "moment" in kept:
        return datetime.fromisoformat(kept["moment"])
    try:
        return Sentence(kept["said"], **figures_from_json(kept["figures"]))
    except KeyError:  # of a release that has other sentences
        return kept["text"]
