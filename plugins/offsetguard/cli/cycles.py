"""`offsetguard cycles`: show what each cycle did, and why some failed."""

from collections.abc import Iterator, Mapping

import click

from offsetguard.catalogue.text import format_moment
from offsetguard.cli.output import show
from offsetguard.cli.parameters import check_cluster, format_option
from offsetguard.store import cycles as store
from offsetguard.store.columns import values_of
from offsetguard.store.database import our_database
from offsetguard.store.models import CycleRow


@click.command()
@click.option("--cluster", help="Only of this cluster, by its name in the configuration.")
@click.option("--failed", is_flag=True, help="Only cycles that ended with an error.")
@click.option("--details", is_flag=True, help="Also the seconds of each step, and rows and files of each table.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=20, show_default=True, help="At most so many cycles.")
@format_option("cycle")
def cycles(*, cluster: str | None, failed: bool, details: bool, limit: int, as_json: bool) -> None:
    """Show the newest cycles: one line for each publication of an interval, however it ended.

    Also one that is at work, or was killed: its seconds count to the step that it began last.

    The database is the one that Airflow uses: OFFSETGUARD_DATABASE_URL, or SQLite in OFFSETGUARD_HOME.

    \b
    Examples:
      offsetguard cycles                       the last 20
      offsetguard cycles --failed              what could not be published, and why?
      offsetguard cycles --details --limit 1   which step of the last one took how long?
      offsetguard cycles --format json | jq .seconds.write
    """
    engine = our_database()
    check_cluster(engine, cluster)
    found = store.newest(engine, cluster=cluster, failed=failed, limit=limit)
    nothing = "No cycle failed." if failed else "No cycle has run yet."
    show(map(_document, found), _as_table(found, details=details), as_json=as_json, nothing=nothing, limit=2_000)


def _document(cycle: CycleRow) -> dict[str, object]:
    running = cycle.running_under is not None
    kept = values_of(cycle, "finished_at", "running_under")
    return kept | {"duration_s": round(cycle.duration_s, 3), "running": running}


def _as_table(found: list[CycleRow], *, details: bool) -> Iterator[str]:
    if found:
        figures = f"{'seconds':>8} {'rows':>11} {'violations':>10} {'quarantined':>11}"
        yield f"{'interval':<20} {figures}  cluster: what became of it"
    for cycle in found:
        figures = (
            f"{cycle.duration_s:>8.1f} {_figure(sum(cycle.rows.values()) if cycle.rows else None):>11}"
            f" {_figure(None if cycle.verdict is None else sum(cycle.violations.values())):>10}"
            f" {_figure(cycle.quarantined):>11}"
        )
        became = cycle.verdict or f"at work: {cycle.failed_step or 'start'}"
        if cycle.failed:
            became = f"failed at {cycle.failed_step or 'start'}: {cycle.error}"
        yield f"{format_moment(cycle.interval.start):<20} {figures}  {cycle.cluster}: {became}"
        if details:
            yield f"    seconds  {_listed(cycle.seconds)}"
            yield f"    rows     {_listed(cycle.rows)}"
            yield f"    files    {_listed(cycle.files)}"
            if cycle.violations:
                yield f"    violated {_listed(cycle.violations)}"


def _figure(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _listed(figures: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {figure:,}" for name, figure in figures.items() if figure) or "-"
