"""`offsetguard forecasts` shows, by kind and basis, how much came within the stated range."""

from datetime import UTC, datetime

from sqlalchemy import Engine

from offsetguard.model.verdicts import Basis, Forecast, Kind, Outcome, Stated
from offsetguard.store import judge_memory as store
from offsetguard.store.database import writing
from offsetguard_peers.command_line import json_lines, run

NOW = datetime.now(UTC)
LOSS = Stated("billing", "orders", Kind.LOSS, NOW, Forecast(0, 60_000, Basis.RESERVED_TIME))


def test_the_share_inside_stands_in_the_table_and_in_json(database: Engine) -> None:
    outcomes = (Outcome.INSIDE, Outcome.INSIDE, Outcome.INSIDE, Outcome.EARLY, Outcome.VOID)
    with writing(database) as session:
        for _ in outcomes:
            store.state_forecast(session, "demo", LOSS)
        for row_id, outcome in zip(store.open_forecasts(session, "demo"), outcomes, strict=True):
            store.score_forecast(session, row_id, outcome, now=NOW)
    table = run("forecasts", "--format", "table").stdout.splitlines()
    assert table[1].split() == ["loss", "reserved_time", "3", "1", "0", "1", "75.0%", "demo"]
    (line,) = json_lines(run("forecasts", "--format", "json", "--cluster", "demo"))
    assert line == {
        "cluster": "demo",
        "kind": "loss",
        "basis": "reserved_time",
        "inside": 3,
        "early": 1,
        "late": 0,
        "void": 1,
        "share_inside": 0.75,
    }


def test_nothing_known_is_said_and_is_no_line_of_json(database: Engine) -> None:
    assert "No forecast" in run("forecasts", "--format", "table").stdout
    assert run("forecasts", "--format", "json").stdout == ""
