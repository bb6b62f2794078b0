"""How commands show what they have: JSON for scripts, text for people, progress on stderr.

The JSON is an interface that others script against: fields are only ever added.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

import click

from offsetguard.collect.manifest import Manifest
from offsetguard.deliver.messages.wording import harmless
from offsetguard.model.verdicts import Figure


def show(
    documents: Iterable[Mapping[str, Any]],
    texts: Iterable[str],
    *,
    as_json: bool,
    nothing: str | None = None,
    limit: int = 1_000,
) -> None:
    """Print documents as lines of JSON, or for people texts, or `nothing` where there are none.

    A text has at most `limit` characters, and none that steers the terminal.
    """
    if as_json:
        for document in documents:
            click.echo(json_line(document))
        return
    for text in texts:
        click.echo(harmless(text, limit))
        nothing = None
    if nothing is not None:
        click.echo(nothing)


def json_line(document: Mapping[str, Any]) -> str:
    """Return one line of JSON; moments are ISO 8601 in UTC."""
    return json.dumps(document, default=datetime.isoformat)


def shown(figure: Figure) -> str:
    """Return a figure as people read it; one that is not known says so."""
    if figure is None:
        return "unknown"
    return f"{figure:,}" if isinstance(figure, int) and not isinstance(figure, bool) else str(figure)


def progress(*, shown: bool) -> Callable[[str], None]:
    """Return what says on stderr what goes on, or keeps it to itself."""
    return lambda text: click.echo(text, err=True) if shown else None


def was_unseen(manifest: Manifest) -> bool:
    """Whether nothing can be said: no name server answered, or no master gave its offsets."""
    return manifest.cluster_unseen or set(manifest.master_broker_names) <= set(manifest.unseen_broker_names)


def masters_seen(manifest: Manifest) -> str:
    """Return how many masters gave their offsets, of how many."""
    count = len(manifest.master_broker_names)
    return f"{count - len(manifest.unseen_broker_names)} of {count} masters"
