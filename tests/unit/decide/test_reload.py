"""The file is changed between two judged intervals: the next one follows it; a broken one loses nothing and is told."""

from pathlib import Path

import pytest
from sqlalchemy import Engine

from offsetguard.config.file import config_in_use
from offsetguard.config.workspace import Workspace
from offsetguard_peers.judging import records
from offsetguard_peers.judging.records import facts, group

FILE = """\
clusters:
  demo: {name_servers: ["127.0.0.1:9876"]}
teams:
  operators: {mail: [operators@example.com]}
  orders: {mail: [orders@example.com]}
default_team: operators
groups:
  - {match: "*", max_lag_messages: 10000}
delivery: {group_interval_ms: 1}
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    file = tmp_path / "offsetguard.yml"
    file.write_text(FILE, encoding="utf-8")
    return Workspace(tmp_path / "home", file, "")


def judge(engine: Engine, workspace: Workspace, minute: int, *groups: str) -> list[tuple[str, str]]:
    """Judge an interval as the task does; returns (receiver, rule) of each message."""
    in_use = config_in_use(workspace)
    given = facts(minute, *(group(name, 20_000) for name in groups), config_problem=in_use.problem)
    report = records.judge(engine, given, config=in_use.config)
    return [(one.receiver, one.view.rule_id) for one in report.messages]


def change(workspace: Workspace, old: str, new: str) -> None:
    text = workspace.config_file.read_text(encoding="utf-8")
    assert old in text
    workspace.config_file.write_text(text.replace(old, new), encoding="utf-8")


def test_owner_receivers_and_limits_follow_the_file_from_the_next_interval_on(
    engine: Engine, workspace: Workspace
) -> None:
    assert judge(engine, workspace, 0, "a") == [("operators@example.com", "consumer_offline")]
    change(workspace, "operators@example.com", "night@example.com")
    change(
        workspace,
        '{match: "*",',
        '{match: "b", team: orders}\n  - {match: "c", max_lag_messages: 50000}\n  - {match: "*",',
    )
    assert judge(engine, workspace, 1, "a", "b", "c") == [
        ("night@example.com", "consumer_offline"),
        ("orders@example.com", "consumer_offline"),
    ]


def test_a_broken_file_keeps_who_is_told_and_is_told_itself_until_it_is_right_again(
    engine: Engine, workspace: Workspace
) -> None:
    assert judge(engine, workspace, 0) == []
    change(workspace, "max_lag_messages: 10000", "max_lag_messages: 50000")  # would end all of this
    change(workspace, "default_team: operators", "default_taem: operators")
    assert judge(engine, workspace, 1, "a") == [("operators@example.com", "consumer_offline")]
    assert judge(engine, workspace, 2, "a") == [("operators@example.com", "config_broken")]
    assert judge(engine, workspace, 3, "a", "b") == [("operators@example.com", "consumer_offline")]
    change(workspace, "default_taem", "default_team")
    assert judge(engine, workspace, 4, "a", "b") == []
    assert sorted(judge(engine, workspace, 5, "a", "b")) == [
        ("operators@example.com", "config_broken"),
        ("operators@example.com", "consumer_offline"),
    ]
