"""`offsetguard collect` on bundles and state files: the normal path, with the figures and times of the recording."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from offsetguard.collect.landing import read_manifest
from offsetguard.collect.manifest import Outcome
from offsetguard_peers.command_line import json_lines, run

DATA = Path(__file__).parents[2] / "data"
BUNDLES = DATA / "bundles"
LOCKED_MINUTE = "20261121T075400Z"


def collect(out: Path, *arguments: str | Path) -> list[dict[str, Any]]:
    result = run("collect", "--out", out, *arguments)
    assert result.exit_code == 1, result.output  # settings of brokers and idle topics were not recorded
    return json_lines(result)


def rows(folder: str, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(Path(folder) / f"{table}.parquet").to_pylist()
    return found


@pytest.fixture(scope="module")
def orderly_lock(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Collect the bundle of a broken orderly group; interval -> folder of its snapshot."""
    out = tmp_path_factory.mktemp("landing")
    lines = collect(out, "--bundle", BUNDLES / "4.9.8-orderly-lock", "--cluster", "pay")
    assert all(line["cluster"] == "pay" for line in lines)
    return {line["interval"]: line["folder"] for line in lines}


def test_the_figures_of_an_incident_are_those_of_its_ground_truth(orderly_lock: dict[str, str]) -> None:
    """A dead client held four queues of broker-b from 07:54:14 on; 5 messages a second came to each."""
    for minute, folder in orderly_lock.items():
        own = [one for one in rows(folder, "queue_snapshots") if one["topic"] == "OrderPay"]
        assert all(one["consumer_offset_read_at"] <= one["max_offset_read_at"] for one in own)
        assert {one["origin"] for one in own} == {"broker"}
        for broker in ("broker-a", "broker-b"):
            lags = [one["max_offset"] - one["consumer_offset"] for one in own if one["broker_name"] == broker]
            is_stuck = (minute, broker) == (LOCKED_MINUTE, "broker-b")
            assert len(lags) == 4
            assert all(200 < lag < 301 if is_stuck else 0 <= lag < 60 for lag in lags), (minute, broker, lags)


def test_each_minute_lands_once_and_log_lines_in_the_one_in_which_they_were_written(
    orderly_lock: dict[str, str],
) -> None:
    refused = {}
    for minute, folder in orderly_lock.items():
        events = rows(folder, "log_events")
        refused[minute] = sum(one["kind"] == "lock_refused" for one in events)
        assert all(f"{one['at']:%Y%m%dT%H%M}" <= minute[:-3] for one in events if one["at"])
    assert list(refused.items()) == [("20261121T075300Z", 3), (LOCKED_MINUTE, 15), ("20261121T075500Z", 0)]


def test_what_a_bundle_does_not_hold_is_a_gap_and_not_made_up(orderly_lock: dict[str, str]) -> None:
    manifest = read_manifest(Path(orderly_lock[LOCKED_MINUTE]))
    assert {gap.outcome for gap in manifest.gaps} == {Outcome.NOT_RECORDED}
    assert manifest.unseen_broker_names == ()
    idle = [one for one in rows(orderly_lock[LOCKED_MINUTE], "queue_snapshots") if one["topic"] == "Healthy"]
    assert {one["max_offset"] for one in idle} == {None}
    assert f"{manifest.finished_at:%H:%M}" == "07:55"  # the answer that was recorded last, not today


@pytest.mark.parametrize("version", ["5.3.3", "5.5.1"])
def test_healthy_clusters_of_the_5_line_keep_their_order(version: str, tmp_path: Path) -> None:
    (line,) = collect(tmp_path, "--bundle", BUNDLES / f"{version}-healthy")
    own = [one for one in rows(line["folder"], "queue_snapshots") if one["topic"] in ("orders", "payments")]
    assert {one["consumer_group"] for one in own} >= {"billing", "ledger", "vip-mail"}
    for one in own:
        if one["consumer_offset"] is not None:
            assert one["min_offset"] <= one["consumer_offset"] <= one["max_offset"]


def test_a_round_can_be_chosen(tmp_path: Path) -> None:
    (line,) = collect(tmp_path, "--bundle", BUNDLES / "4.9.8-orderly-lock", "--at", "2026-11-21T07:54:30")
    assert line["interval"] == LOCKED_MINUTE


def test_damage_of_state_files_is_told_and_its_bytes_are_kept(tmp_path: Path) -> None:
    state = shutil.copytree(DATA / "state_files" / "4.9.8", tmp_path / "state")
    torn = state / "broker-b-0" / "consumerOffset.json"
    torn.write_bytes(torn.read_bytes()[:100])
    (line,) = collect(tmp_path / "landing", "--state-dir", state, "--cluster", "pay")
    (gap,) = (gap for gap in read_manifest(Path(line["folder"])).gaps if gap.outcome is Outcome.UNDECODABLE)
    assert (gap.address, gap.broker_name) == (str(torn), "broker-b")
    assert "is torn or damaged" in gap.reason
    assert gap.reason.endswith("consumerOffset.json.bak is used instead")
    (kept,) = rows(line["folder"], "undecodable_records")
    assert kept["source"] == str(torn)
    offsets = rows(line["folder"], "queue_snapshots")
    assert {one["origin"] for one in offsets} == {"state_file"}
    assert any(one["broker_name"] == "broker-b" and one["consumer_offset"] == 272 for one in offsets)
