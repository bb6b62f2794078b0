"""Landing in an object store: a snapshot appears when its attempt is named, whatever is killed, away or done twice."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from offsetguard.collect.landing import (
    collecting_lock,
    has_landed,
    land,
    landed_after,
    landed_intervals,
    newest_manifest,
    read_manifest,
    read_table,
    snapshot_folder,
)
from offsetguard.config.landed_objects import INDEX_FILE_NAME, land_objects, landed
from offsetguard.config.object_store import files_below, remote_path, write_bytes
from offsetguard.lake.upkeep.expiry import delete_landed
from offsetguard.model.errors import SnapshotError
from offsetguard.model.intervals import INTERVAL_LENGTH, Interval
from offsetguard.tables import TOPIC_QUEUE_SNAPSHOTS
from offsetguard_peers.collecting import manifest_of
from offsetguard_peers.object_store import ObjectStore

INTERVAL = Interval(datetime(2026, 11, 21, 10, 39, tzinfo=UTC))
RACING = 8
LAND_AND_HANG = """\
import os, sys, time
from pathlib import Path
from offsetguard.config.landed_objects import land_objects
from offsetguard.config.object_store import remote_path
attempts = remote_path(sys.argv[1])
def hang():
    while not attempts.is_dir():
        time.sleep(0.1)
    print("all but this one are written", flush=True)
    time.sleep(60)
land_objects(attempts, {"a.parquet": lambda: b"half", "manifest.json": hang})
"""


def row(number: int) -> dict[str, object]:
    queue = {"topic": "orders", "broker_name": "broker-a", "queue_id": number, "min_offset": None, "max_offset": 7}
    return {"cluster": "main", "interval_start": INTERVAL.start, "last_update_at": None, "read_at": None} | queue


@pytest.fixture
def folder(object_store: ObjectStore, tmp_path: Path) -> Path:
    """Give the landing folder of a home of the test's own."""
    return remote_path(f"{object_store.home(tmp_path.name)}/landing")


def test_what_has_landed_comes_back_and_nothing_is_listed_for_it(folder: Path, object_store: ObjectStore) -> None:
    assert not has_landed(folder, "main", INTERVAL)
    rows = [row(number) for number in range(3)]
    there = land(folder, manifest_of(INTERVAL), {TOPIC_QUEUE_SNAPSHOTS.name: rows})
    assert land(folder, manifest_of(INTERVAL), {}) == there, "what has landed stays as it is"
    asked = len(object_store.log.read_text().splitlines())
    assert snapshot_folder(folder, "main", INTERVAL) == there
    assert read_table(there, TOPIC_QUEUE_SNAPSHOTS).to_pylist() == rows
    assert landed_intervals(folder, "main", INTERVAL.start, INTERVAL.start) == [INTERVAL]
    assert not landed_after(folder, "main", INTERVAL)
    assert newest_manifest(folder, "main", Interval(INTERVAL.end), on_damage=print) == read_manifest(there)
    requests = object_store.log.read_text().splitlines()[asked:]
    assert requests
    assert not [line for line in requests if "List" in line]


def test_of_many_that_land_one_moment_one_has_landed_and_none_is_torn(folder: Path) -> None:
    def attempt(number: int) -> Path:
        return land_objects(folder / "main" / INTERVAL.name, {f"{one}": str(number).encode for one in range(4)})

    with ThreadPoolExecutor(RACING) as pool:
        (there,) = set(pool.map(attempt, range(RACING)))
    assert len({(there / f"{one}").read_bytes() for one in range(4)}) == 1
    assert landed(folder / "main") == {INTERVAL.name: there.name}


def test_of_many_that_land_different_moments_none_is_lost(folder: Path) -> None:
    moments = [Interval(INTERVAL.start + INTERVAL_LENGTH * number) for number in range(RACING // 2)]
    with ThreadPoolExecutor(len(moments)) as pool:
        list(pool.map(lambda one: land_objects(folder / "main" / one.name, {"a": b"".strip}), moments))
    assert sorted(landed(folder / "main")) == [one.name for one in moments]


def test_what_was_killed_has_not_landed_and_the_next_attempt_lands(folder: Path) -> None:
    command = [sys.executable, "-c", LAND_AND_HANG, str(folder / "main" / INTERVAL.name)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline().startswith("all but this one")
        os.kill(killed.pid, signal.SIGKILL)
    assert files_below(folder), "half of it is there"
    assert not has_landed(folder, "main", INTERVAL)
    there = land(folder, manifest_of(INTERVAL), {})
    assert read_manifest(there) == manifest_of(INTERVAL)


def test_rounds_of_one_host_wait_for_each_other(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFSETGUARD_HOME", "s3://offsets/home")
    monkeypatch.setenv("OFFSETGUARD_LOCAL", str(tmp_path))

    async def twice() -> None:
        async with collecting_lock(folder, "main", wait_s=0.1):
            with pytest.raises(SnapshotError, match="another round of cluster main is running"):
                async with collecting_lock(folder, "main", wait_s=0.1):
                    pass

    asyncio.run(twice())
    assert not files_below(folder)


def test_old_snapshots_go_with_what_was_killed_in_their_time(folder: Path) -> None:
    moments = [Interval(INTERVAL.start + INTERVAL_LENGTH * number) for number in range(4)]
    for one in moments:
        land_objects(folder / "main" / one.name, {"manifest.json": b"{}".strip})
    write_bytes(folder / "main" / moments[0].name / "killed" / "a.parquet", b"half")
    assert delete_landed(folder, moments[1].start) == 1
    assert sorted(landed(folder / "main")) == [one.name for one in moments[1:]]
    assert not [location for location, _ in files_below(folder) if moments[0].name in location]
    assert delete_landed(folder, INTERVAL.start + timedelta(days=9)) == 1, "the newest two stay"
    assert delete_landed(remote_path(f"{folder}-of-nobody"), INTERVAL.start) == 0


def _wrong_secret(_: ObjectStore, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")


def _away(store: ObjectStore, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("AWS_ENDPOINT_URL", store.environment["AWS_ENDPOINT_URL"].rpartition(":")[0] + ":9")


@pytest.mark.parametrize("fault", [_wrong_secret, _away])
def test_a_store_that_refuses_or_is_away_is_named_with_what_to_do(
    object_store: ObjectStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: Callable[[ObjectStore, pytest.MonkeyPatch], None],
) -> None:
    fault(object_store, monkeypatch)
    program = (
        "import sys\nfrom offsetguard.config.object_store import remote_path\n"
        "from offsetguard.collect.landing import land\nfrom offsetguard.model.errors import SnapshotError\n"
        "from offsetguard_peers.collecting import manifest_of\nfrom offsetguard.model.intervals import Interval\n"
        "from datetime import datetime, UTC\n"
        "try: land(remote_path(sys.argv[1]), manifest_of(Interval(datetime(2026, 11, 21, 10, 39, tzinfo=UTC))), {})\n"
        "except SnapshotError as error: print(error)\n"
    )
    home = object_store.home(tmp_path.name)
    said = subprocess.run([sys.executable, "-c", program, home], capture_output=True, text=True, check=True).stdout
    assert said.startswith(f"{home}/"), said
    assert "check OFFSETGUARD_HOME, AWS_ENDPOINT_URL" in said
    assert "offsetguard-secret" not in said


def test_an_index_of_somebody_else_is_named(folder: Path) -> None:
    write_bytes(folder / "main" / INDEX_FILE_NAME, b"[1, 2")
    with pytest.raises(SnapshotError, match=rf"{INDEX_FILE_NAME}: is not what OffsetGuard writes"):
        has_landed(folder, "main", INTERVAL)
