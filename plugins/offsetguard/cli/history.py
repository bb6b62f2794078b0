"""`offsetguard history`: show the published past of a consumer group."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import click
from sqlalchemy import Engine

from offsetguard.catalogue.text import format_moment
from offsetguard.cli.output import show
from offsetguard.cli.parameters import DURATION, Read, check_cluster, check_is_known, format_option, refuse_unknown
from offsetguard.config.workspace import Workspace
from offsetguard.lake.reading import FactReader
from offsetguard.store import published_intervals
from offsetguard.store.database import our_database
from offsetguard.tables import GROUP_FACTS

_ALWAYS = ("interval_start", "topic")
FIGURES = (
    *("lag", "effective_lag", "inflight", "available", "lost", "beyond_end", "lag_ms", "produce_tps", "consume_tps"),
    *("online_client_count", "suspect_queue_count", "unknown_queue_count", "violated_invariants"),
)


def _columns(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    refuse_unknown(names, {one.name for one in GROUP_FACTS.columns}, "group_facts has no column", "docs/tables.md")
    return names


@click.command()
@click.option("--cluster", required=True, help="Name of the cluster in the configuration.")
@click.option("--group", "consumer_group", required=True, help="The consumer group; case matters.")
@click.option("--since", type=DURATION, default="7d", show_default=True, help="How far to look back, e.g. 6h or 7d.")
@click.option("--until", type=click.DateTime(["%Y-%m-%dT%H:%M:%SZ"]), help="UTC; from there it is looked back.")
@click.option("--topic", help="Only this topic.")
@click.option(
    "--columns", type=Read("columns", _columns), default=",".join(FIGURES), help="Other columns of group_facts, a,b,c."
)
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
    engine = our_database()
    reader = FactReader(workspace, engine)
    rows = reader.group_history(cluster, consumer_group, end - since, end, columns=names).select(list(names))
    found = [row for row in rows.to_pylist() if topic in (None, row["topic"])]
    if not rows:
        _check_names(reader, engine, cluster, consumer_group)
    of = f"{consumer_group} in {topic}" if topic else consumer_group
    nothing = f"Nothing was published of {of} in cluster {cluster} since {format_moment(end - since)}."
    about = {"cluster": cluster, "consumer_group": consumer_group}
    show((about | row for row in found), _as_table(found, names) if found else [nothing], as_json=as_json)


def _check_names(reader: FactReader, engine: Engine, cluster: str, consumer_group: str) -> None:
    """Raise UsageError for a cluster that is not known, or a group that its newest facts do not have."""
    check_cluster(engine, cluster)
    newest = published_intervals.newest(engine, cluster)
    if newest is None:
        return
    rows = reader.interval(GROUP_FACTS, cluster, newest.interval)
    check_is_known("--group", consumer_group, set(rows["consumer_group"].to_pylist()))


def _as_table(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> Iterator[str]:
    """Yield a head and a line per row, every column as wide as its widest text."""
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
