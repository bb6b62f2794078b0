"""`offsetguard collect` as scripts meet it: one line of JSON per cluster, progress apart from it, an exit code."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from offsetguard.cli.main import offsetguard
from offsetguard.collect.landing import read_manifest, read_table
from offsetguard.sources.rocketmq.header import RemotingCommand
from offsetguard.tables import LANDED, QUEUE_SNAPSHOTS
from offsetguard_peers.scripted.broker import ScriptedBroker, scripted_cluster
from offsetguard_peers.scripted.peer import Conversation


def run(
    *arguments: str, clusters: tuple[tuple[ScriptedBroker, ...], ...] = ()
) -> tuple[int, list[dict[str, Any]], str]:
    """Run the command; `NAMESRV0`, `NAMESRV1`, ... are the clusters' name servers. Returns code, lines, stderr."""

    async def start() -> Result:
        async with AsyncExitStack() as stack:
            real = list(arguments)
            for number, brokers in enumerate(clusters):
                name_server, _ = await stack.enter_async_context(scripted_cluster(*brokers))
                real = [argument.replace(f"NAMESRV{number}", name_server) for argument in real]
            return await asyncio.to_thread(CliRunner().invoke, offsetguard, ["collect", *real])

    result = asyncio.run(start())
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()], result.stderr


def healthy(name: str = "broker-a") -> ScriptedBroker:
    return ScriptedBroker(name, topics={"orders": [(0, 10)]}, committed={("orders", "billing"): {0: 10}})


def config_file(folder: Path, *clusters: str) -> str:
    """Write a configuration of clusters where nobody listens."""
    file = folder / "offsetguard.yml"
    lines = "".join(f"  {cluster}: {{name_servers: ['127.0.0.1:9']}}\n" for cluster in clusters)
    file.write_text(f"clusters:\n{lines}teams: {{ops: {{mail: [ops@example.com]}}}}\ndefault_team: ops\n")
    return str(file)


def test_one_line_says_what_landed_where(tmp_path: Path) -> None:
    code, lines, err = run("--namesrv", "NAMESRV0", "--out", str(tmp_path), clusters=((healthy(),),))
    (line,) = lines
    assert code == 0, err
    folder = tmp_path / line["cluster"] / line["interval"]
    assert line["folder"] == str(folder)
    assert line["complete"]
    assert line["rows"] == {table.name: read_table(folder, table).num_rows for table in LANDED}
    assert line["rows"]["queue_snapshots"] == 1
    assert line["requests_asked"] == line["requests_answered"] == read_manifest(folder).requests.asked > 5
    assert (line["gaps"], line["unseen_brokers"]) == (0, [])
    assert line["seconds"] > 0
    assert "1 of 1 masters, 1 offsets" in err


def test_quiet_means_quiet(tmp_path: Path) -> None:
    _, lines, err = run("--namesrv", "NAMESRV0", "--out", str(tmp_path), "--quiet", clusters=((healthy(),),))
    assert (len(lines), err) == (1, "")


def test_a_broker_that_is_not_seen_gives_1_and_is_named(tmp_path: Path) -> None:
    async def hang_up(conversation: Conversation, request: RemotingCommand) -> bool:
        conversation.close()
        return True

    bad = ScriptedBroker("broker-b", trouble=hang_up)
    code, (line,), err = run("--namesrv", "NAMESRV0", "--out", str(tmp_path), clusters=((healthy(), bad),))
    assert code == 1
    assert line["unseen_brokers"] == ["broker-b"]
    assert line["gap_kinds"]
    assert "not seen: GET_BROKER_RUNTIME_INFO()" in err


def test_a_cluster_that_is_not_seen_gives_2_and_lands_what_is_known_of_it(tmp_path: Path) -> None:
    code, (line,), err = run("--namesrv", "127.0.0.1:9", "--out", str(tmp_path))
    assert code == 2
    assert not line["complete"]
    assert "127.0.0.1:9" in err


def test_several_clusters_are_collected_at_once_and_one_that_fails_stops_no_other(tmp_path: Path) -> None:
    file = tmp_path / "offsetguard.yml"

    async def start() -> Result:
        async with scripted_cluster(healthy()) as (first, _), scripted_cluster(healthy("broker-z")) as (second, _):
            file.write_text(
                f"clusters:\n  one: {{name_servers: ['{first}']}}\n  two: {{name_servers: ['{second}']}}\n"
                "  broken: {name_servers: ['127.0.0.1:9']}\n"
                "teams: {ops: {mail: [ops@example.com]}}\ndefault_team: ops\n"
            )
            (tmp_path / "out" / "broken").mkdir(parents=True)
            (tmp_path / "out" / "broken" / "20200101T000000Z").mkdir()
            (tmp_path / "out" / "broken" / "20200101T000000Z" / "manifest.json").write_text("{")
            arguments = ["collect", "--config", str(file), "--cluster", "all", "--out", str(tmp_path / "out")]
            return await asyncio.to_thread(CliRunner().invoke, offsetguard, arguments)

    result = asyncio.run(start())
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 2
    assert sorted(line["cluster"] for line in lines) == ["one", "two"]
    for line in lines:
        folder = tmp_path / "out" / line["cluster"] / line["interval"]
        (broker,) = set(read_table(folder, QUEUE_SNAPSHOTS).column("broker_name").to_pylist())
        assert broker == {"one": "broker-a", "two": "broker-z"}[line["cluster"]]
    assert "offsetguard: broken:" in result.stderr
    assert "20200101T000000Z/manifest.json: not a manifest" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "either --namesrv HOST:PORT, or --config FILE"),
        (["--namesrv", "localhost"], "'localhost' is no HOST:PORT"),
        (["--namesrv", "a:1", "--cluster", "main"], "leave it out with --namesrv"),
        (["--config", "FILE", "--cluster", "other"], "no cluster 'other'"),
        (["--config", "FILE"], "--cluster: say which one of one, two"),
        (["--bundle", "x", "--state-dir", "y"], "stand alone"),
        (["--bundle", "x", "--namesrv", "a:1"], "stand alone"),
    ],
)
def test_wrong_arguments_are_named(tmp_path: Path, arguments: list[str], words: str) -> None:
    file = config_file(tmp_path, "one", "two")
    real = [argument.replace("FILE", file) for argument in arguments]
    result = CliRunner().invoke(offsetguard, ["collect", *real])
    assert result.exit_code == 2
    assert words in " ".join(result.output.split())


def test_help_teaches_with_examples_and_exit_codes() -> None:
    shown = CliRunner().invoke(offsetguard, ["collect", "--help"]).output
    assert "Examples:" in shown
    assert "Exit code: 0 = everything was seen" in shown
