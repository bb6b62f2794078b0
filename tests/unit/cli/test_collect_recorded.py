"""`offsetguard collect` on bundles and state files: the normal path, with the figures and times of the recording."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from offsetguard.cli.main import offsetguard
from offsetguard.collect.landing import read_manifest
from offsetguard.collect.manifest import Outcome

DATA = Path(__file__).parents[2] / "data"
LOCKED_MINUTE = "20261121T075400Z"


def collect(*arguments: str | Path) -> tuple[int, list[dict[str, Any]], str]:
    result = CliRunner().invoke(offsetguard, ["collect", *map(str, arguments)])
    return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()], result.stderr


def rows(folder: str, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(Path(folder) / f"{table}.parquet").to_pylist()
    return found


@pytest.fixture(scope="module")
def orderly_lock(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Collect the bundle of a broken orderly group; interval -> folder of its snapshot."""
    out = tmp_path_factory.mktemp("landing")
    code, lines, _ = collect("--bundle", DATA / "bundles" / "4.9.8-orderly-lock", "--cluster", "pay", "--out", out)
    assert code == 1  # settings of brokers and idle topics were not recorded
    assert all(line["cluster"] == "pay" for line in lines)
    return {line["interval"]: line["folder"] for line in lines}


def test_each_minute_of_a_bundle_lands_once(orderly_lock: dict[str, str]) -> None:
    assert list(orderly_lock) == ["20261121T075300Z", LOCKED_MINUTE, "20261121T075500Z"]


def test_the_figures_of_an_incident_are_those_of_its_ground_truth(orderly_lock: dict[str, str]) -> None:
    """A dead client held four queues of broker-b from 07:54:14 on; 5 messages a second came to each."""
    lags = {}
    for minute, folder in orderly_lock.items():
        own = [one for one in rows(folder, "queue_snapshots") if one["topic"] == "OrderPay"]
        assert all(one["consumer_offset_read_at"] <= one["max_offset_read_at"] for one in own)
        assert {one["origin"] for one in own} == {"broker"}
        for broker in ("broker-a", "broker-b"):
            lags[minute, broker] = [
                one["max_offset"] - one["consumer_offset"] for one in own if one["broker_name"] == broker
            ]
    for (minute, broker), of_queues in lags.items():
        is_stuck = (minute, broker) == (LOCKED_MINUTE, "broker-b")
        assert len(of_queues) == 4
        assert all(200 < lag < 301 if is_stuck else 0 <= lag < 60 for lag in of_queues), (minute, broker, of_queues)


def test_log_lines_land_in_the_minute_in_which_they_were_written(orderly_lock: dict[str, str]) -> None:
    refused = {
        minute: sum(one["kind"] == "lock_refused" for one in rows(folder, "log_events"))
        for minute, folder in orderly_lock.items()
    }
    assert refused == {"20261121T075300Z": 3, LOCKED_MINUTE: 15, "20261121T075500Z": 0}
    for minute, folder in orderly_lock.items():
        assert all(f"{one['at']:%Y%m%dT%H%M}" <= minute[:-3] for one in rows(folder, "log_events") if one["at"])


def test_what_a_bundle_does_not_hold_is_a_gap_and_not_made_up(orderly_lock: dict[str, str]) -> None:
    manifest = read_manifest(Path(orderly_lock[LOCKED_MINUTE]))
    assert {gap.outcome for gap in manifest.gaps} == {Outcome.NOT_RECORDED}
    assert manifest.unseen_broker_names == ()
    idle = [one for one in rows(orderly_lock[LOCKED_MINUTE], "queue_snapshots") if one["topic"] == "Healthy"]
    assert idle
    assert {one["max_offset"] for one in idle} == {None}
    assert f"{manifest.finished_at:%H:%M}" == "07:55"  # the answer that was recorded last, not today


@pytest.mark.parametrize("version", ["5.3.3", "5.5.1"])
def test_healthy_clusters_of_the_5_line_keep_their_order(version: str, tmp_path: Path) -> None:
    code, (line,), _ = collect("--bundle", DATA / "bundles" / f"{version}-healthy", "--out", tmp_path)
    assert code == 1
    own = [one for one in rows(line["folder"], "queue_snapshots") if one["topic"] in ("orders", "payments")]
    assert {one["consumer_group"] for one in own} >= {"billing", "ledger", "vip-mail"}
    for one in own:
        if one["consumer_offset"] is not None:
            assert one["min_offset"] <= one["consumer_offset"] <= one["max_offset"]


def test_a_round_can_be_chosen(tmp_path: Path) -> None:
    bundle = DATA / "bundles" / "4.9.8-orderly-lock"
    code, (line,), _ = collect("--bundle", bundle, "--at", "2026-11-21T07:54:30", "--out", tmp_path)
    assert (code, line["interval"]) == (1, LOCKED_MINUTE)


def test_damage_of_state_files_is_told_and_its_bytes_are_kept(tmp_path: Path) -> None:
    state = shutil.copytree(DATA / "state_files" / "4.9.8", tmp_path / "state")
    torn = state / "broker-b-0" / "consumerOffset.json"
    torn.write_bytes(torn.read_bytes()[:100])
    code, (line,), _ = collect("--state-dir", state, "--cluster", "pay", "--out", tmp_path / "landing")
    assert code == 1
    (gap,) = (gap for gap in read_manifest(Path(line["folder"])).gaps if gap.outcome is Outcome.UNDECODABLE)
    assert (gap.address, gap.broker_name) == (str(torn), "broker-b")
    assert "is torn or damaged" in gap.reason
    assert gap.reason.endswith("consumerOffset.json.bak is used instead")
    (kept,) = rows(line["folder"], "undecodable_records")
    assert kept["source"] == str(torn)
    offsets = rows(line["folder"], "queue_snapshots")
    assert {one["origin"] for one in offsets} == {"state_file"}
    assert any(one["broker_name"] == "broker-b" and one["consumer_offset"] == 272 for one in offsets)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bundle", "x", "--state-dir", "y"], "--bundle and --state-dir stand alone"),
        (["--bundle", "x", "--namesrv", "127.0.0.1:9876"], "--bundle and --state-dir stand alone"),
        (["--state-dir", "x", "--at", "2026-11-21T07:54:30"], "--at chooses a round of --bundle"),
    ],
)
def test_options_that_exclude_each_other_are_refused(arguments: list[str], message: str) -> None:
    code, lines, stderr = collect(*arguments)
    assert (code, lines) == (2, [])
    assert message in stderr
