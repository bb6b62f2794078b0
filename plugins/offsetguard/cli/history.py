"""`offsetguard history`: the published past of one consumer group, interval by interval; neither Airflow nor Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any

import click

from offsetguard.catalogue.text import format_moment
from offsetguard.cli.parameters import Duration, format_option
from offsetguard.config.workspace import Workspace
from offsetguard.deliver.messages.wording import harmless
from offsetguard.lake.reading import FactReader
from offsetguard.store.database import open_database
from offsetguard.tables import GROUP_FACTS

_TEXT_LIMIT = 1_000
_ALWAYS = ("interval_start", "topic")
FIGURES = (
    *("lag", "effective_lag", "inflight", "available", "lost", "lag_ms", "produce_tps", "consume_tps"),
    *("online_client_count", "suspect_queue_count", "unknown_queue_count", "violated_invariants"),
)


class _Columns(click.ParamType["tuple[str, ...]"]):
    """Names of columns of `group_facts`, with commas between them."""

    name = "columns"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        names = tuple(name.strip() for name in str(value).split(","))
        known = [column.name for column in GROUP_FACTS.columns]
        for name in names:
            if name not in known:
                similar = ", ".join(get_close_matches(name, known, n=3)) or "see docs/tables.md"
                self.fail(f"group_facts has no column {name!r}; {similar}", param, ctx)
        return names


@click.command(short_help="Show the published past of a consumer group.")
@click.option("--cluster", required=True, help="Name of the cluster in the configuration.")
@click.option("--group", "consumer_group", required=True, help="The consumer group; case matters.")
@click.option("--since", type=Duration(), default="7d", show_default=True, help="How far to look back, e.g. 6h or 7d.")
@click.option("--until", type=click.DateTime(["%Y-%m-%dT%H:%M:%SZ"]), help="UTC; from there it is looked back.")
@click.option("--topic", help="Only this topic.")
@click.option("--columns", type=_Columns(), default=",".join(FIGURES), help="Other columns of group_facts, a,b,c.")
@format_option("interval")
def history(
    *,
    cluster: str,
    consumer_group: str,
    since: timedelta,
    until: datetime | None,
    topic: str | None,
    columns: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show what was published of one consumer group: a line for each interval and topic, oldest first.

    Reads the tables below OFFSETGUARD_HOME as they were published; `-` (null in JSON) is unknown, never 0.

    \b
    Examples:
      offsetguard history --cluster main --group billing --since 6h
      offsetguard history --cluster main --group billing --columns lag,lag_ms,consume_rt_ms
      offsetguard history --cluster main --group billing --since 7d --format json | jq .lag
    """
    workspace = Workspace.from_environment()
    end = datetime.now(UTC) if until is None else until.replace(tzinfo=UTC)
    names = (*_ALWAYS, *(name for name in columns if name not in _ALWAYS))
    reader = FactReader(workspace, open_database(workspace.database_url))
    rows = reader.group_history(cluster, consumer_group, end - since, end, columns=names).select(list(names))
    found = [row for row in rows.to_pylist() if topic in (None, row["topic"])]
    if as_json:
        for row in found:
            click.echo(json.dumps({"cluster": cluster, "consumer_group": consumer_group} | _plain(row)))
        return
    for line in _as_table(found, names):
        click.echo(harmless(line, _TEXT_LIMIT))
    if not found:
        of = f"{consumer_group} in {topic}" if topic else consumer_group
        said = f"Nothing was published of {of} in cluster {cluster} since {format_moment(end - since)}."
        click.echo(harmless(said, _TEXT_LIMIT))


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}


def _as_table(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> Iterator[str]:
    """Yield a head and a line per row, every column as wide as its widest text."""
    if not rows:
        return
    shown = [[_shown(row[name]) for name in names] for row in rows]
    widths = [max(len(name), *(len(line[position]) for line in shown)) for position, name in enumerate(names)]
    for line in (list(names), *shown):
        texts = [
            text.ljust(width) if position < len(_ALWAYS) else text.rjust(width)
            for position, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        yield "  ".join(texts).rstrip()


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return format_moment(value)
    if isinstance(value, list):
        return " ".join(str(one) for one in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}" if isinstance(value, float) else str(value)
