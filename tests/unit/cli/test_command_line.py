"""What holds for every command: its help, what it says to wrong arguments, and how its errors end."""

import asyncio
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from sqlalchemy import Engine

from offsetguard import cli
from offsetguard.cli.parameters import NAMES_SHOWN, check_is_known
from offsetguard.model.views import NotificationReason
from offsetguard.sources.bundle.reader import open_bundle
from offsetguard.store.database import open_database
from offsetguard_peers.command_line import run
from offsetguard_peers.configs import one_team_text
from offsetguard_peers.disks import TinyDisk
from offsetguard_peers.scripted.broker import ScriptedBroker, scripted_cluster

NOBODY = "127.0.0.1:9"  # no name server listens here
LOOKED_UP = ("queue-of", "k", "--topic", "t")
OFFLINE = ("--queues", "4", "--brokers", "broker-b,broker-a")


OUR_COMMAND = (sys.executable, "-m", "offsetguard.cli.main")
WITHOUT_ROOTS_RIGHTS = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()


def started(*arguments: str, by: tuple[str, ...] = (), **environment: str) -> subprocess.CompletedProcess[str]:
    command = [*by, *OUR_COMMAND, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check"], "either --namesrv HOST:PORT, or --config FILE"),
        (["check", "--namesrv", "localhost"], "'localhost' is no HOST:PORT"),
        (["check", "--namesrv", ";"], "names no name server"),
        (["check", "--namesrv", NOBODY, "--every", "10"], "'10' is no duration"),
        (["check", "--namesrv", NOBODY, "--group", "("], "is no regular expression"),
        (["check", "--namesrv", NOBODY, "--cluster", "main"], "leave it out with --namesrv"),
        (["check", "--namesrv", NOBODY, "--logs", "/nowhere"], "/nowhere: is not a folder"),
        (["check", "--config", "FILE", "--cluster", "other"], "no cluster 'other'"),
        (["check", "--config", "FILE"], "--cluster: say which one of one, two"),
        (["check", "--config", "FILE", "--cluster", "all"], "--cluster: say which one of one, two"),
        (["record", "--config", "FILE", "--cluster", "all", "--out", "x"], "--cluster: say which one of one, two"),
        (["collect", "--config", "FILE", "--cluster", "other"], "no cluster 'other'"),
        (["collect", "--bundle", "x", "--state-dir", "y"], "--bundle and --state-dir stand alone"),
        (["collect", "--bundle", "x", "--namesrv", NOBODY], "--bundle and --state-dir stand alone"),
        (["collect", "--state-dir", "x", "--at", "2026-11-21T07:54:30"], "--at chooses a round of --bundle"),
        ([*LOOKED_UP], "either --namesrv HOST:PORT, or --queues N"),
        ([*LOOKED_UP, "--queues", "4"], "belong together"),
        ([*LOOKED_UP, "--queues", "4", "--brokers", " , "], "belong together"),
        ([*LOOKED_UP, *OFFLINE, "--namesrv", NOBODY], "either --namesrv"),
        (["queue-of", "k", *OFFLINE], "--topic: say which topic"),
        ([*LOOKED_UP, *OFFLINE, "--group", "g"], "--group needs a cluster"),
        (["outbox", "redrive"], "--all"),
        (["outbox", "redrive", "--all", "2"], "--all"),
        (["outbox", "dismiss"], "--all"),
        (["outbox", "dismiss", "--all", "2"], "--all"),
        (["routes", "test", "--cluster", "onw"], "no cluster 'onw'; did you mean 'one'?"),
        (
            ["routes", "test", "--cluster", "one", "--rule", "mesages_lost"],
            "--rule: there is no rule 'mesages_lost'; did you mean 'messages_lost'?",
        ),
        (["routes", "test", "--cluster", "one", "--at", "yesterday"], "'yesterday' is no moment"),
        (
            ["history", "--cluster", "one", "--group", "g", "--columns", "lag,efective_lag"],
            "group_facts has no column 'efective_lag'; effective_lag",
        ),
        (
            ["replay", "--from", "2026-11-20", "--to", "2026-11-21", "--rules", "lock_not_relaesed"],
            "there is no rule 'lock_not_relaesed'; lock_not_released",
        ),
        (
            ["replay", "--from", "2026-11-20", "--to", "2026-11-21", "--cluster", "onw"],
            "no cluster 'onw'; did you mean 'one'?",
        ),
        (["chekc"], "No such command 'chekc'. Did you mean 'check'?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_arguments_are_named(folder: Path, arguments: list[str], words: str) -> None:
    file = folder / "offsetguard.yml"
    file.write_text(one_team_text(one=NOBODY, two=NOBODY))
    result = run(*(argument.replace("FILE", str(file)) for argument in arguments))
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    "command",
    ["incidents list", "cycles --failed", "forecasts", "quarantine list", "quarantine redrive", "history --group g"],
)
def test_of_a_cluster_that_is_not_there_nothing_is_said_to_be_well(
    database: Engine, folder: Path, command: str
) -> None:
    (folder / "offsetguard.yml").write_text(one_team_text(one=NOBODY))
    refused = run(*command.split(), "--cluster", "onw")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "--cluster: there is no cluster 'onw'; did you mean 'one'?" in " ".join(refused.stderr.split())
    assert run(*command.split(), "--cluster", "one").exit_code == 0


def test_half_a_login_is_one_line_on_stderr_and_no_traceback() -> None:
    result = started("check", "--namesrv", NOBODY, OFFSETGUARD_ACCESS_KEY="key", OFFSETGUARD_SECRET_KEY="")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("offsetguard: environment variable OFFSETGUARD_SECRET_KEY is missing")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", ["demo", "spark-server"])
def test_what_lives_outside_of_the_package_is_found_by_the_command(command: str) -> None:
    result = started(command, "--help")
    assert (result.returncode, result.stdout.split()[:3]) == (0, ["usage:", "offsetguard", command])


def test_help_lists_every_command_and_teaches() -> None:
    overview = run("--help").stdout
    files = {file.stem for file in Path(cli.__path__[0]).glob("*.py")} - {
        "__init__",
        "connections",
        "finding_output",
        "main",
        "mcp_tools",
        "output",
        "parameters",
    }
    assert [name for name in files if f"  {name.replace('_', '-')} " not in overview] == []
    for command in ("check", "collect"):
        details = run(command, "--help").stdout
        assert "Examples:" in details
        assert "Exit code: 0 = " in details
    assert "4.x clients write the zone of their host" in " ".join(run("parse-log", "--help").stdout.split())
    reasons = run("explain", "notification", "--help").stdout
    assert [one.value for one in NotificationReason if one.value not in reasons] == []


@pytest.mark.parametrize("arguments", [["--help"], ["chekc"], []], ids=" ".join)
def test_no_command_is_loaded_that_is_not_called(arguments: list[str]) -> None:
    """An overview would cost as much as all of them together."""
    loads = [sys.executable, "-X", "importtime", "-m", "offsetguard.cli.main", *arguments]
    said = subprocess.run(loads, capture_output=True, text=True, check=False).stderr
    loaded = {line.rpartition("|")[2].strip() for line in said.splitlines() if line.startswith("import time:")}
    assert "click" in loaded
    assert {one for one in loaded if one.partition(".")[0] in {"pydantic", "pyarrow", "sqlalchemy"}} == set()
    assert {one for one in loaded if one.startswith("offsetguard.cli.")} == set()


ONLY_READ = (
    "incidents list",
    "silences list",
    "outbox list",
    "cycles",
    "forecasts",
    "history --cluster one --group g",
    "quarantine list --cluster one",
    "replay --from 2026-11-20 --to 2026-11-21",
    "health",
)


@pytest.mark.parametrize("command", ONLY_READ)
def test_who_only_reads_makes_nothing(tmp_path: Path, command: str) -> None:
    (tmp_path / "offsetguard.yml").write_text(one_team_text(one=NOBODY))
    environment = {
        "OFFSETGUARD_HOME": str(tmp_path / "home"),
        "OFFSETGUARD_CONFIG": str(tmp_path / "offsetguard.yml"),
    }
    result = started(*command.split(), **environment)
    assert result.returncode == (1 if command == "health" else 2)
    assert "does not exist" in result.stdout + result.stderr
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("command", [*ONLY_READ, "silences add --group g --for 2h --comment c --author me"])
def test_who_has_no_rights_on_our_folder_is_told_so_in_one_line(folder: Path, command: str) -> None:
    (folder / "offsetguard.yml").write_text(one_team_text(one=NOBODY))
    home = folder / "home"
    home.mkdir(mode=0)
    environment = {"OFFSETGUARD_HOME": str(home), "OFFSETGUARD_DATABASE_URL": ""}
    result = started(*command.split(), by=WITHOUT_ROOTS_RIGHTS, **environment)
    home.chmod(0o700)
    said = result.stdout + result.stderr
    assert (result.returncode, len(said.splitlines())) == (1 if command == "health" else 2, 1), said
    assert f"{home}/offsetguard.db: " in said
    assert "Permission denied; " in said


def test_a_database_that_this_user_may_not_open_is_told_from_one_that_is_not_there(folder: Path) -> None:
    """SQLite says nothing of rights."""
    file = folder / "offsetguard.db"
    open_database(f"sqlite:///{file}").dispose()
    file.chmod(0)
    said = started("cycles", by=WITHOUT_ROOTS_RIGHTS).stderr
    assert f"{file}: cannot be opened: unable to open database file; run this as the user that Airflow runs as" in said
    file.chmod(0o600)
    assert started("cycles", by=WITHOUT_ROOTS_RIGHTS).returncode == 0


@pytest.mark.parametrize(
    ("redirected", "words"),
    [
        (
            "> /dev/full",
            "the standard output cannot be written: No space left on device; lead it to where there is room",
        ),
        (">&-", "the standard output is closed; lead it to a file, a pipe or /dev/null"),
    ],
)
@pytest.mark.parametrize("command", ["--help", "explain time-lag", "cycles --format table"])
def test_an_output_that_takes_nothing_is_named(database: Engine, redirected: str, words: str, command: str) -> None:
    line = f"{shlex.join(OUR_COMMAND)} {command} {redirected}"
    result = subprocess.run(["sh", "-c", line], input="{}\n", capture_output=True, text=True, check=False)
    assert result.returncode == 2, result.stderr
    assert result.stderr.splitlines() == [f"offsetguard: {words}"]


def test_what_is_written_can_be_read_by_its_owner_only(folder: Path) -> None:
    """Landed rounds, the configuration that is kept, a bundle; whatever umask a shell or a service has."""

    async def write(*arguments: str) -> None:
        async with scripted_cluster(ScriptedBroker("broker-a", topics={"orders": [(0, 10)]})) as (name_server, _):
            command = [*OUR_COMMAND, *arguments, "--namesrv", name_server, "--quiet"]
            await asyncio.to_thread(subprocess.run, command, umask=0o022, check=True, stdout=subprocess.DEVNULL)

    folder.chmod(0o755)  # of its owner's choice: it stays
    asyncio.run(write("collect"))
    asyncio.run(write("record", "--for", "10ms", "--every", "10ms", "--out", str(folder / "bundle")))
    modes = {str(path.relative_to(folder)): path.stat().st_mode & 0o777 for path in folder.rglob("*")}
    assert {"landing", "bundle", "bundle/meta.json"} <= modes.keys()
    assert {name: oct(mode) for name, mode in modes.items() if mode not in (0o700, 0o600)} == {}
    assert folder.stat().st_mode & 0o777 == 0o755


def on_disk(disk: TinyDisk, *arguments: str) -> str:
    """Run a command on a cluster of one broker; returns the line on stderr that it ends with."""

    async def run_it() -> subprocess.CompletedProcess[str]:
        async with scripted_cluster(ScriptedBroker("broker-a", topics={"orders": [(0, 10)]})) as (name_server, _):
            environment = {"OFFSETGUARD_HOME": str(disk.folder), "OFFSETGUARD_DATABASE_URL": ""}
            real = [argument.replace("NAMESRV", name_server) for argument in arguments]
            return await asyncio.to_thread(started, *real, **environment)

    result = asyncio.run(run_it())
    assert (result.returncode, len(result.stderr.splitlines())) == (2, 1), result.stderr
    return result.stderr


ASKED = ("--namesrv", "NAMESRV", "--quiet")
RECORD = ("record", *ASKED, "--for", "10ms", "--every", "10ms", "--out")


@pytest.mark.parametrize(
    "arguments",
    [
        ("collect", *ASKED),
        (*RECORD, "DISK/bundle"),
        ("silences", "add", "--group", "g", "--for", "2h", "--comment", "c", "--author", "me"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_full_disk_is_one_line_on_stderr_and_no_traceback(disk: TinyDisk, arguments: tuple[str, ...]) -> None:
    disk.fill()
    said = on_disk(disk, *(one.replace("DISK", str(disk.folder)) for one in arguments))
    assert re.search(rf"^offsetguard: .*{disk.folder}.*[;:] 0 bytes are free there: make room on the disk", said)
    assert not any(disk.folder.glob("bundle/*"))


def test_a_disk_that_fills_up_amidst_a_recording_leaves_a_bundle_that_can_be_read(disk: TinyDisk) -> None:
    """Many requests are under way at once, and all of them meet it."""
    disk.fill(but_for_bytes=6 * 4096)
    said = on_disk(disk, *RECORD, str(disk.folder / "bundle"))
    assert said.startswith(f"offsetguard: the bundle {disk.folder}/bundle: cannot be written: No space left on device")
    assert [name for name in disk.files() if (disk.folder / name).stat().st_size == 0] == []
    assert open_bundle(disk.folder / "bundle").meta.rounds_ms


def test_without_a_command_it_says_which_three_one_wants_first() -> None:
    result = started()
    assert result.returncode == 0
    for command in ("offsetguard check", "offsetguard diagnose", "offsetguard incidents list", "offsetguard --help"):
        assert command in result.stdout


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("offsetguard hist", "history"),
        ("offsetguard silences a", "add"),
        ("offsetguard incidents list --res", "--resolved"),
    ],
)
def test_a_shell_completes_commands_and_options(words: str, completed: str) -> None:
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1), "_OFFSETGUARD_COMPLETE": "bash_complete"}
    result = started(**asked)
    assert completed in [line.partition(",")[2] for line in result.stdout.splitlines()]
    for shell in ("bash", "zsh", "fish"):
        script = started(_OFFSETGUARD_COMPLETE=f"{shell}_source")
        assert (script.returncode, "offsetguard" in script.stdout) == (0, True), script.stderr


@pytest.mark.parametrize(("more", "end"), [(0, ""), (1, " and 1 more"), (12, " and 12 more")])
def test_of_many_names_the_first_are_shown_and_the_others_counted(more: int, end: str) -> None:
    known = [f"name-{number:03}" for number in range(NAMES_SHOWN + more)]
    with pytest.raises(click.UsageError) as refused:
        check_is_known("--cluster", "zzz", known)
    assert str(refused.value) == (
        f"--cluster: there is no cluster 'zzz'; there are: {', '.join(known[:NAMES_SHOWN])}{end}"
    )
