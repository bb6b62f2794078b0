"""`offsetguard forecasts` shows, by kind and basis, how much came within the stated range."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from click.testing import CliRunner

from offsetguard.cli.main import offsetguard
from offsetguard.model.forecast import Basis, Forecast, Kind, Outcome, Stated
from offsetguard.store import judge_memory as store
from offsetguard.store.database import writing
from offsetguard_peers.databases import fresh_database

LOSS = Stated("billing", "orders", Kind.LOSS, datetime.now(UTC), Forecast(0, 60_000, Basis.RESERVED_TIME))


def _database(folder: Path, *outcomes: Outcome) -> dict[str, str]:
    url = f"sqlite:///{folder / 'offsetguard.db'}"
    engine = fresh_database(url)
    with writing(engine) as session:
        for _ in outcomes:
            store.state_forecast(session, "demo", LOSS)
    with writing(engine) as session:
        for row_id, outcome in zip(store.open_forecasts(session, "demo"), outcomes, strict=True):
            store.score_forecast(session, row_id, outcome, now=datetime.now(UTC))
    engine.dispose()
    return {"OFFSETGUARD_DATABASE_URL": url, "OFFSETGUARD_HOME": str(folder)}


def test_the_share_inside_stands_in_the_table_and_in_json(tmp_path: Path) -> None:
    environment = _database(tmp_path, Outcome.INSIDE, Outcome.INSIDE, Outcome.INSIDE, Outcome.EARLY, Outcome.VOID)
    table = CliRunner().invoke(offsetguard, ["forecasts", "--format", "table"], env=environment)
    assert table.exit_code == 0, table.output
    assert table.output.splitlines()[1].split() == ["loss", "reserved_time", "3", "1", "0", "1", "75.0%", "demo"]
    told = CliRunner().invoke(offsetguard, ["forecasts", "--format", "json", "--cluster", "demo"], env=environment)
    (line,) = (json.loads(line) for line in told.output.splitlines())
    assert (line["share_inside"], line["void"], line["basis"]) == (0.75, 1, "reserved_time")


def test_nothing_known_is_said_and_is_no_line_of_json(tmp_path: Path) -> None:
    environment = _database(tmp_path)
    assert "No forecast" in CliRunner().invoke(offsetguard, ["forecasts", "--format", "table"], env=environment).output
    assert CliRunner().invoke(offsetguard, ["forecasts", "--format", "json"], env=environment).output == ""
