"""Rounds killed at random moments: what landed is what was written, nothing lost and nothing twice."""

import asyncio
import multiprocessing
import random
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from offsetguard.collect.collector import collect_cluster
from offsetguard.collect.landing import read_table, snapshot_folder
from offsetguard.model.intervals import Interval
from offsetguard.tables import OFFSET_MOVES
from offsetguard_peers.collecting import collect_once
from offsetguard_peers.configs import one_team
from offsetguard_peers.scripted.broker import ScriptedBroker, event_body, scripted_cluster

pytestmark = pytest.mark.slow

START = datetime(2026, 11, 21, 10, 39, tzinfo=UTC)
ROUNDS = 30


def test_killed_anywhere_no_event_is_lost_and_none_counted_twice(tmp_path: Path) -> None:
    """Each round is a process that is killed (-9) at some moment of its life, while events come in."""
    spawner = multiprocessing.get_context("forkserver")
    spawner.set_forkserver_preload(["offsetguard_peers.collecting"])
    chance = random.Random(20261121)  # noqa: S311 no secret
    broker = ScriptedBroker("broker-a")
    exit_codes: list[int | None] = []

    def write_events(count: int) -> None:
        broker.events += [event_body("billing", number, number + 500) for number in range(count)]

    async def run() -> None:
        async with scripted_cluster(broker) as (name_server, _):
            config = one_team({"main": {"name_servers": [name_server]}})
            whole_round_s = 0.0
            for number in range(ROUNDS):
                write_events(chance.randrange(40))
                interval = Interval(START + timedelta(minutes=number))
                process = spawner.Process(
                    target=collect_once,
                    args=(config.model_dump_json(), "main", interval.name, str(tmp_path)),
                )
                begun = time.monotonic()
                process.start()
                patience_s = chance.uniform(0, 1.2 * whole_round_s) if number > 1 else None
                await asyncio.to_thread(process.join, patience_s)
                whole_round_s = whole_round_s if patience_s is not None else time.monotonic() - begun
                process.kill()
                await asyncio.to_thread(process.join)
                exit_codes.append(process.exitcode)
            last = Interval(START + timedelta(minutes=ROUNDS))
            await collect_cluster("main", config, last, tmp_path, started_at=last.end)

    asyncio.run(run())
    assert set(exit_codes) == {0, -9}, "some rounds must have been killed and some not"
    landed = sorted(folder.name for folder in (tmp_path / "main").glob("[0-9]*"))
    moves = [read_table(snapshot_folder(tmp_path, "main", Interval.from_name(name)), OFFSET_MOVES) for name in landed]
    offsets = [offset for table in moves for offset in table["position"].to_pylist()]
    assert offsets == list(range(len(broker.events)))
    assert not [path for path in (tmp_path / "main").glob(".*") if path.is_dir()], "leftovers of killed rounds"
