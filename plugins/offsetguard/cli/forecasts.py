"""`offsetguard forecasts`: show how often what was forecast came as stated."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

import click

from offsetguard.cli.output import show
from offsetguard.cli.parameters import DURATION, check_cluster, format_option
from offsetguard.store import judge_memory as store
from offsetguard.store.database import our_database
from offsetguard.store.judge_memory import Coverage


@click.command()
@click.option("--cluster", help="Only of this cluster, by its name in the configuration.")
@click.option("--since", type=DURATION, default="30d", show_default=True, help="How far to look back, e.g. 7d.")
@format_option("kind and basis")
def forecasts(*, cluster: str | None, since: timedelta, as_json: bool) -> None:
    """Show how often what was forecast came within the range that was stated.

    One line for each kind (drain: a backlog is gone; loss: messages are deleted before they are consumed) and basis
    (what the range was made of). `early` came before the range, `late` after it or not by its end; `void` could not
    come any more as it was meant, e.g. a backlog that was drained before its loss, and counts for nothing.

    \b
    Examples:
      offsetguard forecasts
      offsetguard forecasts --cluster main --since 7d
      offsetguard forecasts --format json | jq .share_inside
    """
    engine = our_database()
    check_cluster(engine, cluster)
    found = store.coverage(engine, since=datetime.now(UTC) - since, cluster=cluster)
    documents = ({**asdict(one), "share_inside": one.share_inside} for one in found)
    show(documents, _as_table(found), as_json=as_json, nothing="No forecast has come to its end yet.")


def _as_table(found: Sequence[Coverage]) -> Iterator[str]:
    if found:
        yield f"{'kind':<6} {'basis':<15} {'inside':>8} {'early':>8} {'late':>8} {'void':>8} {'share':>7}  cluster"
    for one in found:
        share = "-" if one.share_inside is None else f"{one.share_inside:.1%}"
        counts = " ".join(f"{count:>8,}" for count in (one.inside, one.early, one.late, one.void))
        yield f"{one.kind:<6} {one.basis:<15} {counts} {share:>7}  {one.cluster}"
