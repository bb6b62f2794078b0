"""`offsetguard collect` as scripts meet it: one line of JSON per cluster, progress apart from it, an exit code."""

from __future__ import annotations

import asyncio
from pathlib import Path

from click.testing import Result

from offsetguard.collect.landing import read_manifest, read_table
from offsetguard.sources.rocketmq.header import RemotingCommand
from offsetguard.tables import LANDED, QUEUE_SNAPSHOTS
from offsetguard_peers.command_line import json_lines, run
from offsetguard_peers.configs import one_team_text
from offsetguard_peers.scripted.broker import ScriptedBroker, scripted_cluster
from offsetguard_peers.scripted.peer import Conversation


def healthy(name: str = "broker-a") -> ScriptedBroker:
    return ScriptedBroker(name, topics={"orders": [(0, 10)]}, committed={("orders", "billing"): {0: 10}})


def collect(folder: Path, *brokers: ScriptedBroker, more: tuple[str, ...] = ()) -> Result:
    return run("collect", "--namesrv", "NAMESRV", "--out", folder, *more, brokers=brokers)


def test_one_line_says_what_landed_where(tmp_path: Path) -> None:
    result = collect(tmp_path, healthy())
    (line,) = json_lines(result)
    assert result.exit_code == 0, result.stderr
    folder = tmp_path / line["cluster"] / line["interval"]
    assert line["folder"] == str(folder)
    assert line["complete"]
    assert line["rows"] == {table.name: read_table(folder, table).num_rows for table in LANDED}
    assert line["rows"]["queue_snapshots"] == 1
    assert line["requests_asked"] == line["requests_answered"] == read_manifest(folder).requests.asked > 5
    assert (line["gaps"], line["unseen_brokers"]) == (0, [])
    assert line["seconds"] > 0
    assert "1 of 1 masters, 1 offsets" in result.stderr


def test_quiet_means_quiet(tmp_path: Path) -> None:
    result = collect(tmp_path, healthy(), more=("--quiet",))
    assert (len(json_lines(result)), result.stderr) == (1, "")


def test_a_broker_that_is_not_seen_gives_1_and_is_named(tmp_path: Path) -> None:
    async def hang_up(conversation: Conversation, request: RemotingCommand) -> bool:
        conversation.close()
        return True

    result = collect(tmp_path, healthy(), ScriptedBroker("broker-b", trouble=hang_up))
    (line,) = json_lines(result)
    assert (result.exit_code, line["unseen_brokers"]) == (1, ["broker-b"])
    assert line["gap_kinds"]
    assert "not seen: GET_BROKER_RUNTIME_INFO()" in result.stderr


def test_a_cluster_that_is_not_seen_gives_2_and_lands_what_is_known_of_it(tmp_path: Path) -> None:
    result = run("collect", "--namesrv", "127.0.0.1:9", "--out", tmp_path)
    (line,) = json_lines(result)
    assert (result.exit_code, line["complete"]) == (2, False)
    assert "127.0.0.1:9" in result.stderr


def test_several_clusters_are_collected_at_once_and_one_that_fails_stops_no_other(tmp_path: Path) -> None:
    file, out = tmp_path / "offsetguard.yml", tmp_path / "out"
    broken = out / "broken" / "20200101T000000Z" / "manifest.json"
    broken.parent.mkdir(parents=True)
    broken.write_text("{")

    async def start() -> Result:
        async with scripted_cluster(healthy()) as (first, _), scripted_cluster(healthy("broker-z")) as (second, _):
            file.write_text(one_team_text(one=first, two=second, broken="127.0.0.1:9"))
            return await asyncio.to_thread(run, "collect", "--config", file, "--cluster", "all", "--out", out)

    result = asyncio.run(start())
    landed = {one["cluster"]: read_table(Path(one["folder"]), QUEUE_SNAPSHOTS) for one in json_lines(result)}
    brokers = {cluster: table.column("broker_name").to_pylist() for cluster, table in landed.items()}
    assert (result.exit_code, brokers) == (2, {"one": ["broker-a"], "two": ["broker-z"]})
    assert "offsetguard: broken:" in result.stderr
    assert "20200101T000000Z/manifest.json: not a manifest" in result.stderr
