"""`offsetguard check` as people and scripts meet it: arguments, output and an exit code."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from offsetguard import cli
from offsetguard.cli.main import offsetguard
from offsetguard.judge.registry import RULES
from offsetguard.model.verdicts import Severity
from offsetguard_peers.scripted.broker import ScriptedBroker, scripted_cluster

QUICK = ("--every", "50ms")


def run(*arguments: str, brokers: tuple[ScriptedBroker, ...] = ()) -> tuple[int, str, str]:
    """Run the command line; `NAMESRV` in the arguments is the scripted cluster's address."""

    async def start() -> Result:
        async with scripted_cluster(*brokers) as (name_server, _):
            real = [argument.replace("NAMESRV", name_server) for argument in arguments]
            return await asyncio.to_thread(CliRunner().invoke, offsetguard, real)

    result = asyncio.run(start())
    return result.exit_code, result.stdout, result.stderr


def broker_in_trouble() -> ScriptedBroker:
    return ScriptedBroker(
        "broker-a",
        topics={"orders": [(0, 20_000)], "quiet": [(0, 5)]},
        committed={("orders", "billing"): {0: 10}, ("quiet", "report"): {0: 5}, ("quiet", "beyond"): {0: 500}},
    )


def test_findings_are_json_lines_worst_first_and_the_exit_code_is_1() -> None:
    code, out, err = run("check", "--namesrv", "NAMESRV", *QUICK, brokers=(broker_in_trouble(),))
    findings = [json.loads(line) for line in out.splitlines()]
    assert code == 1, err
    assert {one["consumer_group"] for one in findings} == {"beyond", "billing"}
    assert {one["rule"] for one in findings} <= RULES.keys()
    ranks = [Severity(one["severity"]).rank for one in findings]
    assert ranks == sorted(ranks, reverse=True)
    assert findings[0]["severity"] == "critical"
    assert findings[0]["queues"][0]["broker_name"] == "broker-a"
    assert "1 of 1 masters" in err


def test_the_group_option_narrows_and_a_healthy_group_gives_0() -> None:
    code, out, _ = run("check", "--namesrv", "NAMESRV", *QUICK, "--group", "^report$", brokers=(broker_in_trouble(),))
    assert (code, out) == (0, "")


def test_several_looks_and_a_table_for_people() -> None:
    code, out, err = run(
        *("check", "--namesrv", "NAMESRV", "--samples", "2", "--every", "50ms", "--format", "table"),
        brokers=(broker_in_trouble(),),
    )
    assert (code, err) == (1, "")
    assert "2 looks" in out
    assert "CRITICAL" in out
    assert "Do next:" in out


def test_a_cluster_that_cannot_be_seen_gives_2_and_one_finding_that_names_the_address() -> None:
    code, out, _ = run("check", "--namesrv", "127.0.0.1:9")
    (finding,) = [json.loads(line) for line in out.splitlines()]
    assert code == 2
    assert finding["consumer_group"] is None
    assert "127.0.0.1:9" in finding["cause"]


def test_half_a_login_is_one_line_on_stderr_and_no_traceback() -> None:
    command = [sys.executable, "-m", "offsetguard.cli.main", "check", "--namesrv", "127.0.0.1:9"]
    environment = {**os.environ, "OFFSETGUARD_ACCESS_KEY": "key", "OFFSETGUARD_SECRET_KEY": ""}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("offsetguard: environment variable OFFSETGUARD_SECRET_KEY is missing")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "either --namesrv HOST:PORT, or --config FILE"),
        (["--namesrv", "localhost"], "'localhost' is no HOST:PORT"),
        (["--namesrv", ";"], "names no name server"),
        (["--namesrv", "a:1", "--every", "10"], "'10' is no duration"),
        (["--namesrv", "a:1", "--group", "("], "is no regular expression"),
        (["--namesrv", "a:1", "--cluster", "main"], "leave it out with --namesrv"),
        (["--config", "FILE", "--cluster", "other"], "no cluster 'other'"),
    ],
)
def test_wrong_arguments_are_named(tmp_path: Path, arguments: list[str], words: str) -> None:
    file = tmp_path / "offsetguard.yml"
    file.write_text(
        "clusters: {main: {name_servers: ['127.0.0.1:9']}}\n"
        "teams: {ops: {mail: [ops@example.com]}}\n"
        "default_team: ops\n"
    )
    arguments = [argument.replace("FILE", str(file)) for argument in arguments]
    result = CliRunner().invoke(offsetguard, ["check", *arguments])
    assert result.exit_code == 2
    assert words in " ".join(result.output.split())


def test_help_lists_every_command_and_teaches_with_examples() -> None:
    overview = CliRunner().invoke(offsetguard, ["--help"]).output
    files = {file.stem for file in Path(cli.__path__[0]).glob("*.py")} - {"__init__", "main", "output", "parameters"}
    assert [name for name in files if f"  {name.replace('_', '-')} " not in overview] == []
    details = CliRunner().invoke(offsetguard, ["check", "--help"]).output
    assert "Examples:" in details
    assert "Exit code:" in details


@pytest.mark.parametrize("command", ["demo", "spark-server"])
def test_what_lives_outside_of_the_package_is_found_by_the_command(command: str) -> None:
    arguments = [sys.executable, "-m", "offsetguard.cli.main", command, "--help"]
    result = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout.split()[:3]) == (0, ["usage:", "offsetguard", command])
