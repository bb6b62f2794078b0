"""A cluster that hangs, lies or breaks costs the others nothing, and the task says which one it was."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException, TaskDeferred
from airflow.sdk.module_loading import import_string

from offsetguard.collect.landing import land, read_manifest, snapshot_folder
from offsetguard.lake.catalog import NO_SNAPSHOT
from offsetguard.lake.creation import create_missing_tables
from offsetguard.model.intervals import Interval
from offsetguard.store import judged_intervals, published_intervals
from offsetguard.store.database import reading
from offsetguard.store.published_intervals import PublishedInterval
from offsetguard.tables import PUBLISHED
from offsetguard_airflow.defaults import OUTBOX, OUTBOX_CHANGES
from offsetguard_airflow.operators.collect import CollectOffsetsOperator
from offsetguard_airflow.operators.judge import JudgeOperator
from offsetguard_airflow.task_inputs import Opened, has_landed, open_workspace
from offsetguard_peers.collecting import manifest_of


@pytest.fixture
def dripping() -> Iterator[str]:
    """Listen as a name server that announces a long answer and sends a byte of it a second; gives its address."""
    over = threading.Event()

    def drip(connection: socket.socket) -> None:
        with connection, suppress(OSError):  # whoever asked has hung up
            connection.sendall((1 << 20).to_bytes(4, "big"))
            while not over.wait(1.0):
                connection.sendall(b"x")

    def accept(server: socket.socket) -> None:
        while not over.is_set():
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=drip, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=accept, args=(server,), daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        over.set()


def clusters(config_file: Path, **name_servers: str) -> Opened:
    """Write a configuration of these clusters."""
    configured = {name: {"name_servers": [address]} for name, address in name_servers.items()}
    team = {"teams": {"operators": {"mail": ["operators@example.com"]}}, "default_team": "operators"}
    config_file.write_text(yaml.safe_dump({"clusters": configured, **team}))
    return open_workspace(print)


def collect(cluster: str = "all") -> Interval:
    """Collect the present minute; a minute that ends meanwhile is collected again."""
    now = Interval.containing(datetime.now(UTC))
    CollectOffsetsOperator(task_id="collect", cluster=cluster, interval_start=now.start.isoformat()).execute({})
    return now


def test_a_name_server_that_drips_holds_no_other_cluster_up(config_file: Path, dripping: str) -> None:
    ours, began = clusters(config_file, away="127.0.0.1:9", dripping=dripping), time.time()
    now = collect()
    ended = {
        name: read_manifest(snapshot_folder(ours.workspace.landing_folder, name, now)).finished_at.timestamp() - began
        for name in ours.config.clusters
    }
    assert ended["away"] < ended["dripping"], "it landed while the other one dripped"
    for name in ours.config.clusters:
        manifest = read_manifest(snapshot_folder(ours.workspace.landing_folder, name, now))
        assert not manifest.complete, "it has no name server, which is no failure of the task"


def test_a_cluster_that_cannot_land_is_named_and_the_others_have_landed(config_file: Path) -> None:
    ours = clusters(config_file, sound="127.0.0.1:9", stuck="127.0.0.1:9")
    ours.workspace.landing_folder.mkdir(parents=True)
    (ours.workspace.landing_folder / "stuck").write_text("a file where its folder should be")
    with pytest.raises(AirflowException, match=r"^stuck: ") as raised:
        collect()
    assert "sound" not in str(raised.value)
    assert has_landed(ours.workspace, "sound", Interval.containing(datetime.now(UTC)))


def test_the_clusters_are_dealt_out_to_as_many_tasks_as_the_configuration_says(
    config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = clusters(config_file, **dict.fromkeys(("a", "b", "c", "d", "e"), "127.0.0.1:9"))
    config_file.write_text(config_file.read_text() + "collection: {tasks: 2}\n")
    monkeypatch.setenv("OFFSETGUARD_CONFIG", str(config_file))
    dag = DagBag(str(Path(__file__).parents[2] / "dags" / "collect_and_judge.py")).dags["collect_and_judge"]
    tasks = [dag.get_task(name) for name in ("collect_offsets", "collect_offsets_2")]
    interval, landed = Interval.containing(datetime.now(UTC)), []
    for task in tasks:
        assert task.downstream_task_ids == {"publish_interval", "judge_interval"}
        task.cluster, task.interval_start = "all", interval.start.isoformat()
        before = set(landed)
        task.execute({})
        landed = [name for name in ours.config.clusters if has_landed(ours.workspace, name, interval)]
        assert len(set(landed) - before) in {2, 3}, "its own share"
    assert landed == ["a", "b", "c", "d", "e"]
    for task, asked in zip(tasks, (True, False), strict=True):
        task.cluster = "e"
        with nullcontext() if asked else pytest.raises(AirflowSkipException, match="other tasks collect"):
            task.execute({})


def test_a_minute_that_has_passed_for_all_of_them_is_skipped(config_file: Path) -> None:
    clusters(config_file, main="127.0.0.1:9", backup="127.0.0.1:9")
    with pytest.raises(AirflowSkipException):
        CollectOffsetsOperator(task_id="collect", cluster="all", interval_start="2026-11-21T10:39:00Z").execute({})


def judge_context() -> tuple[Any, list[object]]:
    """Return what Airflow gives a task, and what it will have announced."""
    announced: list[object] = []
    ti = SimpleNamespace(dag_id="dag", run_id="run", get_task_states=lambda *_, **__: {"run": {"publish": None}})
    return {"ti": ti, "outlet_events": {OUTBOX_CHANGES: SimpleNamespace(add=announced.append)}}, announced


def judge_operator(interval: Interval, **more: Any) -> JudgeOperator:
    arguments = {"cluster": "all", "interval_start": interval.start.isoformat(), "publish_task_id": "publish"}
    return JudgeOperator(task_id="judge", **(arguments | more))


def judge(interval: Interval, **more: Any) -> list[object]:
    """Judge; returns what was announced, unless it raises."""
    context, announced = judge_context()
    judge_operator(interval, **more).execute(context)
    return announced


def judged(ours: Opened, interval: Interval) -> set[str]:
    with reading(ours.engine) as session:
        return {name for name in ours.config.clusters if judged_intervals.is_judged(session, name, interval)}


@pytest.fixture
def waiting(config_file: Path) -> tuple[Opened, Interval]:
    """Give three clusters whose facts nobody publishes: of one a minute waits in vain, so that none is waited for."""
    ours = clusters(config_file, lying="127.0.0.1:9", sound="127.0.0.1:9", unseen="127.0.0.1:9")
    interval = Interval.containing(datetime.now(UTC))
    for name in ("lying", "sound"):
        for minutes_ago in (3, 0):
            at = Interval(interval.start - timedelta(minutes=minutes_ago))
            land(ours.workspace.landing_folder, manifest_of(at, cluster=name), {})
    damaged = snapshot_folder(ours.workspace.landing_folder, "lying", interval) / "manifest.json"
    damaged.write_text("not one")
    return ours, interval


def test_a_cluster_whose_snapshot_is_damaged_is_named_and_the_others_are_judged(
    waiting: tuple[Opened, Interval],
) -> None:
    ours, interval = waiting
    with pytest.raises(AirflowException, match=r"^lying: ") as raised:
        judge(interval)
    assert "sound" not in str(raised.value)
    assert judged(ours, interval) == {"sound"}
    assert published_intervals.newest(ours.engine, "sound") is None


def test_messages_of_any_cluster_start_the_delivery_once(waiting: tuple[Opened, Interval]) -> None:
    """Facts that nobody publishes are what is told of here."""
    _, interval = waiting
    assert judge(interval, cluster="sound") == [OUTBOX]


def test_with_an_alertmanager_every_judged_minute_starts_the_delivery(
    waiting: tuple[Opened, Interval], config_file: Path
) -> None:
    _, interval = waiting
    assert judge(interval, cluster="sound") == [OUTBOX]
    assert judge(interval, cluster="sound") == [], "nothing is new"
    config = yaml.safe_load(config_file.read_text())
    config_file.write_text(yaml.safe_dump({**config, "delivery": {"alertmanagers": ["am"]}}))
    assert judge(interval, cluster="sound") == [OUTBOX]


def test_clusters_of_which_nothing_has_landed_are_not_judged(waiting: tuple[Opened, Interval]) -> None:
    _, interval = waiting
    with pytest.raises(AirflowSkipException, match=f"nothing has landed of {interval.name}"):
        judge(interval, cluster="unseen")


def test_a_judge_that_waits_leaves_its_place_and_goes_on_with_what_it_has_not_judged(config_file: Path) -> None:
    """`sound` has waited for its publication long enough, `fresh` is published while the triggerer watches."""
    ours = clusters(config_file, fresh="127.0.0.1:9", sound="127.0.0.1:9")
    interval = Interval.containing(datetime.now(UTC))
    for name, minutes_ago in (("sound", 3), ("sound", 0), ("fresh", 0)):
        at = Interval(interval.start - timedelta(minutes=minutes_ago))
        land(ours.workspace.landing_folder, manifest_of(at, cluster=name), {})
    context, announced = judge_context()
    operator = judge_operator(interval, deferrable=True)
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(context)
    assert judged(ours, interval) == {"sound"}
    assert announced == [], "what is announced now would be lost with the process"

    path, arguments = deferred.value.trigger.serialize()
    trigger = import_string(path)(**json.loads(json.dumps(arguments)))
    assert trigger.clusters == ["fresh"]
    create_missing_tables(ours.workspace)

    def open_connections() -> int:
        opened = [one.readlink() for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
        return sum(one.name.endswith(".db") for one in opened)

    async def watched() -> Any:
        watching = asyncio.ensure_future(anext(trigger.run()))
        await asyncio.sleep(1.5)
        opened = open_connections()
        await asyncio.sleep(2.5)
        assert open_connections() == opened, "the triggerer lives for weeks: no look leaves a connection open"
        assert not watching.done(), "nothing is to be judged yet"
        snapshot_ids = dict.fromkeys([table.name for table in PUBLISHED], NO_SNAPSHOT)
        manifest = manifest_of(interval, cluster="fresh").to_json()
        row = PublishedInterval("fresh", interval, "run", datetime.now(UTC), "audited", snapshot_ids, manifest)
        published_intervals.record(ours.engine, row)
        event = await watching
        assert open_connections() <= opened, "nor does the last one"
        return event

    event = asyncio.run(watched())
    kwargs = json.loads(json.dumps(deferred.value.kwargs))
    getattr(operator, deferred.value.method_name)(context, event.payload, **kwargs)
    assert judged(ours, interval) == {"fresh", "sound"}
    assert announced == [OUTBOX]


def test_a_pattern_that_matches_in_no_cluster_is_not_tried_again(waiting: tuple[Opened, Interval]) -> None:
    _, interval = waiting
    with pytest.raises(AirflowFailException, match=r"^sound: no consumer group"):
        judge(interval, cluster="sound", group_pattern="order-*")
