"""A change of the file holds from the next task on; a broken file ends nothing, and somebody hears of it."""

from dataclasses import replace
from pathlib import Path

import pytest

from offsetguard.config.file import config_in_use
from offsetguard.config.workspace import Workspace, disk_advice
from offsetguard.model.errors import ConfigError
from offsetguard_peers.disks import TAKES_NOTHING, TinyDisk

RIGHT = """\
clusters:
  main: {name_servers: ["127.0.0.1:9876"]}
teams:
  operators: {mail: [operators@example.com]}
default_team: operators
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    file = tmp_path / "offsetguard.yml"
    file.write_text(RIGHT, encoding="utf-8")
    home = tmp_path / "home"
    return Workspace(home, file, f"sqlite:///{home / 'offsetguard.db'}")


def mail_of(workspace: Workspace) -> list[str]:
    return config_in_use(workspace).config.teams["operators"].mail


def change(workspace: Workspace, old: str, new: str) -> None:
    text = workspace.config_file.read_text(encoding="utf-8")
    assert old in text
    workspace.config_file.write_text(text.replace(old, new), encoding="utf-8")


def test_a_changed_file_holds_when_it_is_read_next(workspace: Workspace) -> None:
    assert mail_of(workspace) == ["operators@example.com"]
    change(workspace, "operators@example.com", "night@example.com")
    assert mail_of(workspace) == ["night@example.com"]


def test_while_the_file_is_broken_the_last_right_one_holds_and_the_mistake_is_named(workspace: Workspace) -> None:
    assert config_in_use(workspace).problem is None
    change(workspace, "operators@example.com", "night@example.com")
    assert mail_of(workspace) == ["night@example.com"]
    change(workspace, "default_team: operators", "default_taem: operators")
    found = config_in_use(workspace)
    assert found.config.teams["operators"].mail == ["night@example.com"]
    assert found.problem is not None
    assert f"{workspace.config_file}:5: default_taem: unknown key; did you mean 'default_team'?" in found.problem
    change(workspace, "default_taem", "default_team")
    assert config_in_use(workspace).problem is None


def test_a_file_that_is_gone_is_broken_too(workspace: Workspace) -> None:
    config_in_use(workspace)
    workspace.config_file.unlink()
    found = config_in_use(workspace)
    assert found.config.default_team == "operators"
    assert "there is no such file" in str(found.problem)


def test_a_file_that_was_never_right_fails_with_its_lines(workspace: Workspace) -> None:
    change(workspace, "default_team: operators", "default_team: nobody")
    with pytest.raises(ConfigError, match=r"offsetguard\.yml:5: default_team: there is no team 'nobody'"):
        config_in_use(workspace)
    assert not workspace.last_good_config_file.exists()


def test_a_kept_file_that_does_not_hold_any_more_leaves_the_mistake_of_the_file_itself(workspace: Workspace) -> None:
    config_in_use(workspace)
    workspace.last_good_config_file.write_text("what an earlier release kept: 1\n", encoding="utf-8")
    change(workspace, "default_team: operators", "default_team: nobody")
    with pytest.raises(ConfigError, match="there is no team 'nobody'"):
        config_in_use(workspace)


def test_what_is_kept_is_only_written_when_it_changed_and_nothing_else_is_left(workspace: Workspace) -> None:
    config_in_use(workspace)
    before = workspace.last_good_config_file.stat()
    config_in_use(workspace)
    assert workspace.last_good_config_file.stat().st_ino == before.st_ino
    change(workspace, "operators@example.com", "night@example.com")
    config_in_use(workspace)
    assert [one.name for one in workspace.home.iterdir()] == [workspace.last_good_config_file.name]


@pytest.mark.parametrize("how", TAKES_NOTHING)
def test_a_disk_that_takes_nothing_stops_nobody_who_only_reads_the_configuration(
    workspace: Workspace, disk: TinyDisk, how: str
) -> None:
    break_it, said = TAKES_NOTHING[how]
    break_it(disk)
    found = config_in_use(replace(workspace, home=disk.folder / "home"))
    assert (found.config.default_team, found.problem) == ("operators", None)
    assert f"last_good_config.yml: cannot be written: {said}" in str(found.not_kept)
    assert disk.files() == []


def test_it_is_said_how_much_room_a_disk_has_left_also_where_the_path_is_not_made_yet(disk: TinyDisk) -> None:
    disk.fill(but_for_bytes=65_536)
    assert disk_advice(disk.folder / "not" / "there").startswith("65,536 bytes are free there")
