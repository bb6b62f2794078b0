"""`offsetguard health`: say whether OffsetGuard itself does its work."""

from pathlib import Path

import click
from sqlalchemy.exc import OperationalError

from offsetguard.cli.output import show
from offsetguard.cli.parameters import format_option
from offsetguard.config.file import load_config
from offsetguard.config.workspace import Workspace
from offsetguard.decide.own_health import Trouble, find_troubles, read_signs
from offsetguard.model.errors import StoreError
from offsetguard.store.database import database_time, our_database
from offsetguard.store.database_errors import what_failed


@click.command()
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    help="Default: OFFSETGUARD_CONFIG, or config/offsetguard.yml.",
)
@format_option("verdict", "text")
def health(*, config_file: Path | None, as_json: bool) -> None:
    """Say whether clusters are judged and published and messages go out.

    The limits stand in `delivery:` of the configuration; publishing is late after three minutes. Reads nothing but our
    database, so that it tells the truth also when Airflow is dead. Exit code 0: well, 1: not.

    \b
    Examples:
      offsetguard health
      offsetguard health || mail -s "OffsetGuard has stopped" ops@example.org < /dev/null
    """
    workspace = Workspace.from_environment()
    config = load_config(config_file or workspace.config_file)
    try:
        engine = our_database()
        now = database_time(engine)
        signs = read_signs(engine, config, now)
        troubles = find_troubles(signs, config.delivery, now=now)
    except (StoreError, OperationalError) as error:  # then nothing else is known
        said = what_failed(error) if isinstance(error, OperationalError) else str(error)
        signs, troubles = None, (Trouble(None, said),)
    document = {
        "healthy": not troubles,
        "troubles": [{"cluster": one.cluster, "text": one.text} for one in troubles],
        "judged_until": signs and signs.judged_until,
        "published_until": signs and signs.published_until,
        "waiting_count": signs and signs.waiting_count,
        "failed_count": signs and signs.failed_count,
    }
    well = "Every cluster is judged and published, and the outbox drains."
    show([document], (one.text for one in troubles), as_json=as_json, nothing=well)
    if troubles:
        raise SystemExit(1)
