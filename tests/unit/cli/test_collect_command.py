"""`offsetguard collect` as scripts meet it: one line of JSON per cluster, progress apart from it, an exit code."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result

from offsetguard.collect.landing import read_manifest, read_table
from offsetguard.model.intervals import Interval
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
    out.mkdir()
    (out / "broken").write_text("a file where its folder should be")

    async def start() -> Result:
        async with scripted_cluster(healthy()) as (first, _), scripted_cluster(healthy("broker-z")) as (second, _):
            file.write_text(one_team_text(one=first, two=second, broken="127.0.0.1:9"))
            return await asyncio.to_thread(run, "collect", "--config", file, "--cluster", "all", "--out", out)

    result = asyncio.run(start())
    landed = {one["cluster"]: read_table(Path(one["folder"]), QUEUE_SNAPSHOTS) for one in json_lines(result)}
    brokers = {cluster: table.column("broker_name").to_pylist() for cluster, table in landed.items()}
    assert (result.exit_code, brokers) == (2, {"one": ["broker-a"], "two": ["broker-z"]})
    assert "offsetguard: broken:" in result.stderr
    assert "out/broken: cannot be written: File exists" in result.stderr


@pytest.mark.parametrize("damaged", ["manifest.json", "queue_snapshots.parquet", "broker_snapshots.parquet"])
def test_a_damaged_round_stops_no_later_one_and_is_told_as_a_gap(tmp_path: Path, damaged: str) -> None:
    """Whoever goes on from it knows nothing of what cannot be read."""
    earlier = tmp_path / "main" / "20200101T000000Z"

    async def start() -> Result:
        async with scripted_cluster(healthy()) as (name_server, _):
            (tmp_path / "offsetguard.yml").write_text(one_team_text(main=name_server))
            named = ("--config", tmp_path / "offsetguard.yml", "--cluster", "main", "--out", tmp_path)
            first = await asyncio.to_thread(run, "collect", *named)
            Path(json_lines(first)[0]["folder"]).rename(earlier)
            manifest = replace(read_manifest(earlier), interval_start=Interval.from_name(earlier.name).start)
            (earlier / "manifest.json").write_text(manifest.to_json())
            (earlier / damaged).write_bytes((earlier / damaged).read_bytes()[:-20])
            return await asyncio.to_thread(run, "collect", *named)

    result = asyncio.run(start())
    (line,) = json_lines(result)
    assert (result.exit_code, line["rows"]["queue_snapshots"]) == (1, 1), result.stderr
    gaps = {gap.address: gap.reason for gap in read_manifest(Path(line["folder"])).gaps}
    assert list(gaps) == [str(earlier / damaged)]
