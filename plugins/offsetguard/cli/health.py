"""`offsetguard health`: say whether OffsetGuard itself does its work."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from offsetguard.cli.output import show
from offsetguard.cli.parameters import format_option
from offsetguard.config.file import load_config
from offsetguard.config.workspace import Workspace
from offsetguard.decide.own_health import SignsOfLife, Trouble, find_troubles, read_signs
from offsetguard.model.errors import StoreError
from offsetguard.store.database import database_time, our_database


@click.command()
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    help="Default: OFFSETGUARD_CONFIG, or config/offsetguard.yml.",
)
@format_option("verdict", "text")
def health(*, config_file: Path | None, as_json: bool) -> None:
    """Say whether clusters are judged and messages go out; the limits stand in `delivery:` of the configuration.

    Reads nothing but our database, so that it tells the truth also when Airflow is dead. Exit code 0: well, 1: not.

    \b
    Examples:
      offsetguard health
      offsetguard health || mail -s "OffsetGuard has stopped" ops@example.org < /dev/null
    """
    workspace = Workspace.from_environment()
    config = load_config(config_file or workspace.config_file)
    now = datetime.now(UTC)  # where the database, which knows better, cannot be read
    unread: tuple[Trouble, ...] = ()
    try:
        engine = our_database()
        now = database_time(engine)
        signs = read_signs(engine, config, now)
    except StoreError as error:
        unread, signs = (Trouble(None, str(error)),), SignsOfLife(dict.fromkeys(config.clusters), {}, None, 0, 0)
    troubles = unread + find_troubles(
        signs,
        now=now,
        silent_after_ms=config.delivery.silent_after_ms,
        undelivered_after_ms=config.delivery.undelivered_after_ms,
    )
    document = {
        "healthy": not troubles,
        "troubles": [{"cluster": one.cluster, "text": one.text} for one in troubles],
        "judged_until": signs.judged_until,
        "waiting_count": signs.waiting_count,
        "failed_count": signs.failed_count,
    }
    well = "Every cluster is judged, and the outbox drains."
    show([document], (one.text for one in troubles), as_json=as_json, nothing=well)
    if troubles:
        raise SystemExit(1)
