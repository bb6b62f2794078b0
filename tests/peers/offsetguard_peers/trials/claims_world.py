"""A live cluster on which things happen that people are told of, judged each minute, and all that is said read.

    world = ClaimsWorld("5.5.0", folder, seed=1)
    checker = world.run(minutes=60)      # checker.false: what was said and is not so

Groups live lives that a seed draws from ACTS: their clients stop and come back, messages that they have not consumed
are deleted, operators reset them or delete them, listeners hang. Somebody acknowledges what is told, and it goes on, or
gets worse. A broker is restarted or stays away, the collector rests. Beside them groups are well all the time.

A minute is that of the pipeline, without Spark: collect and land, make the facts of what has landed, publish them,
judge, plan, deliver to a real SMTP server and to the simulation of Slack, render pages. Mails, messages and pages are
read by `claims.checker.Checker`. What it knows is noted where it is staged, and what brokers say every 5 s.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from fastapi import HTTPException, Request, status

from offsetguard.catalogue import catalogue
from offsetguard.collect.collector import collect_cluster
from offsetguard.collect.landing import read_table, snapshot_folder
from offsetguard.config.file import load_config
from offsetguard.decide.judge import judge_interval
from offsetguard.deliver.deliver import deliver_due
from offsetguard.facts.changes import record_changes
from offsetguard.facts.interval import IntervalFacts
from offsetguard.facts.published import unaudited_facts
from offsetguard.model.errors import RocketMQError, SnapshotError
from offsetguard.model.intervals import Interval
from offsetguard.model.verdicts import Severity
from offsetguard.store import incidents, silences
from offsetguard.store.database import database_time, writing
from offsetguard.tables import (
    BROKER_FACTS,
    CLIENT_SNAPSHOTS,
    CLUSTER_FACTS,
    GROUP_FACTS,
    GROUP_SNAPSHOTS,
    OFFSET_MOVE_FACTS,
    QUEUE_FACTS,
    TOPIC_FACTS,
)
from offsetguard.views.fleet import Wanted
from offsetguard.views.group import AskedGroup
from offsetguard.views.incidents import IncidentSummary, State, WantedIncidents
from offsetguard.views.workspace_views import WorkspaceViews
from offsetguard_airflow.page.fleet import show_fleet, show_group
from offsetguard_peers.delivery.world import DeliveryWorld, delivery_world
from offsetguard_peers.lake.warehouse import Warehouse
from offsetguard_peers.processes import PeerNotStarted
from offsetguard_peers.rocketmq.admin import Admin, CommandFailed, mqadmin
from offsetguard_peers.rocketmq.clients import ConsumerSpec, ProducerRefused, producer_of, running_consumers
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.trials.blind_causes import HANG, THREADS, Cause, Subject
from offsetguard_peers.trials.claims.checker import Checker
from offsetguard_peers.trials.claims.reading import lines_of_html, strings_in
from offsetguard_peers.trials.claims.truth import BUGS, RULES_OF, Kind, Look, Round, Trouble, Truth, trouble_of

CLUSTER, OWNER, CHANNEL = "main", "owner@example.com", "#alerts"
NAMES = ("billing", "ledger", "stock", "mailer", "exports", "images")
WELL = (ConsumerSpec("seat-allocation", {"seats": "*"}, orderly=True), ConsumerSpec("alarm-pager", {"alarms": "red"}))
NOBODY = "no-such-group"
RATE, QUEUES, LOOK_EVERY_S = 5.0, 4, 5.0
COUNTED = 100  # messages that are written or committed while somebody counts
LIFE = Cause("a life", lambda _: None, pods=1, rate=RATE, queues=QUEUES)
SLOW_POD = {"handling_ms": 700, "threads": 1}
NOT_STAGED = (RocketMQError, OSError, LookupError, CommandFailed, ProducerRefused, TimeoutError, PeerNotStarted)
_REQUEST = Request({"type": "http", "headers": [], "query_string": b"", "path": "/"})
_PUBLISHED = (
    GROUP_FACTS,
    GROUP_SNAPSHOTS,
    QUEUE_FACTS,
    TOPIC_FACTS,
    BROKER_FACTS,
    CLUSTER_FACTS,
    OFFSET_MOVE_FACTS,
    CLIENT_SNAPSHOTS,
)


class Over(Exception):
    """The world has ended; whoever acts in it stops."""


def _now() -> datetime:
    return datetime.now(UTC)


class ClaimsWorld:
    """One cluster, its groups, a pipeline and its readers; `run` starts and ends all of it."""

    def __init__(self, version: str, folder: Path, *, seed: int, tell: Callable[[str], None] = print) -> None:
        self._cluster = RocketMQCluster(version, slaves=1, folder=folder / "cluster")
        self._admin, self._tell, self._seed = Admin(self._cluster), tell, seed
        self._chance = random.Random(seed)  # noqa: S311 what happens is no secret
        self._subjects = [Subject(self._cluster, name, (LIFE,)) for name in NAMES]
        groups = frozenset({*(one.group for one in self._subjects), *(one.group for one in WELL)})
        online = {one.group: [(_now(), 1)] for one in WELL}
        self._truth = Truth(groups, clients=online, of_version=BUGS.get(version, frozenset()))
        self._checker = Checker(self._truth)
        self._calm = threading.Lock()  # held by who needs all brokers, and by who takes one away
        self._over = threading.Event()
        self._to_acknowledge: set[str] = set()
        self._warehouse = Warehouse.in_folder(folder, *_PUBLISHED)
        self._folder, self._seen, self._false_shown = folder, 0, 0
        self._before: datetime | None = None  # when the last round began
        self._posted: set[tuple[str, str | None]] = set()
        self._contexts = ExitStack()  # never left: the cluster kills its processes

    def run(self, *, minutes: float) -> Checker:
        """Let everything happen; returns what was read. Raises what breaks an act: it would prove nothing."""
        try:
            self._start(minutes * 60)
            with delivery_world(self._warehouse.engine) as receivers, ThreadPoolExecutor(len(NAMES) + 2) as pool:
                receivers.slack.workspace.clock = time.time
                acting = [pool.submit(self._until_over, self._look), pool.submit(self._until_over, self._brokers)]
                for place, subject in enumerate(self._subjects):
                    chance = random.Random(self._seed * 100 + place)  # noqa: S311
                    acting.append(pool.submit(self._until_over, self._live, subject, place, chance))
                try:
                    self._judge(minutes * 60, receivers, acting)
                finally:
                    self._over.set()
                    self._cluster.stop()
            for one in acting:
                one.result()
        finally:
            self._cluster.stop()
        return self._checker

    def _start(self, seconds: float) -> None:
        if self._cluster.version.startswith("5."):
            for broker in self._cluster.brokers:
                broker.configure({"timerWheelEnable": "true"})
        self._cluster.start()
        for topic in ("seats", "alarms"):
            self._admin.create_topic(topic, queues=QUEUES)
            producer_of(self._cluster).order(
                topic, int(RATE * seconds), rate_per_s=RATE, tags=["red", "green"], never_give_up=True
            )
        self._contexts.enter_context(running_consumers(self._cluster, WELL))
        for subject in self._subjects:
            subject.prepare(seconds + 600)
            self._truth.clients[subject.group] = [(_now(), 1)]
        self._write_config()

    def _write_config(self) -> None:
        logs = [
            {"name": f"{one.name}-{one.broker_id}", "files": [f"{one.log_folder}/*.log"]}
            | {"broker_name": one.name, "broker_id": one.broker_id}
            for one in self._cluster.brokers
        ]
        config = {
            "clusters": {CLUSTER: {"name_servers": [self._cluster.namesrv], "logs": logs}},
            "teams": {"owners": {"mail": [OWNER], "slack": [CHANNEL]}},
            "default_team": "owners",
        }
        workspace = self._warehouse.workspace
        workspace.config_file.write_text(yaml.safe_dump(config), encoding="utf-8")
        os.environ |= workspace.variables  # where pages look
        self._config = load_config(workspace.config_file)

    # ---- the pipeline

    def _judge(self, seconds: float, receivers: DeliveryWorld, acting: Sequence[Future[None]]) -> None:
        ends = time.monotonic() + seconds
        away = time.monotonic() + seconds * self._chance.uniform(0.5, 0.6)
        while time.monotonic() < ends and not any(one.done() and one.exception() for one in acting):
            if time.monotonic() > away:
                away = ends
                with self._trouble(Kind.COLLECTOR, None):
                    self._tell("the collector is away")
                    time.sleep(min(300.0, seconds / 6))
            time.sleep(61.0 - time.time() % 60)  # as the scheduler: at the beginning of a minute
            try:
                self._round(receivers)
            except SnapshotError as error:  # as where the task fails: the next minute is another one
                self._tell(f"{_now():%H:%M:%S} a minute is lost: {error}")

    def _round(self, receivers: DeliveryWorld) -> None:
        began, engine, workspace = _now(), self._warehouse.engine, self._warehouse.workspace
        interval = Interval.containing(began)
        collected = collect_cluster(CLUSTER, self._config, interval, workspace.landing_folder, started_at=began)
        manifest = asyncio.run(collected)
        facts = unaudited_facts(workspace, engine, CLUSTER, interval, self._config, say=self._tell)
        facts = replace(facts, audited=True, unpublished_since=None)  # what follows stands for Spark
        self._warehouse.publish(CLUSTER, interval, self._rows(facts, interval), manifest_json=manifest.to_json())
        record_changes(self._warehouse.reader(), engine, CLUSTER, interval.start)
        judge_interval(engine, facts, self._config, now=database_time(engine))
        deliver_due(engine, receivers.channels)
        self._read(receivers, Round(began, _now(), interval.end, self._before))
        self._before = began

    def _rows(self, facts: IntervalFacts, interval: Interval) -> Mapping[Any, list[dict[str, Any]]]:
        """Return what pages read as rows of the tables that the pipeline publishes."""
        folder = snapshot_folder(self._warehouse.workspace.landing_folder, CLUSTER, interval)
        return {
            GROUP_FACTS: _rows(facts.groups),
            TOPIC_FACTS: _rows(facts.topics),
            BROKER_FACTS: _rows(facts.brokers),
            OFFSET_MOVE_FACTS: _rows(facts.offset_moves),
            CLIENT_SNAPSHOTS: read_table(folder, CLIENT_SNAPSHOTS).to_pylist(),
        }

    def _read(self, receivers: DeliveryWorld, of: Round) -> None:
        mails = receivers.smtp.mails
        for number, mail in enumerate(mails[self._seen :], start=self._seen + 1):
            self._tell(f"{of.began:%H:%M:%S} mail {number}: {mail.text.splitlines()[0]}")
            self._checker.read(f"mail {number}", f"{mail.message['Subject']}\n{mail.text}", of, mail=True)
            is_over = f"{mail.message['Subject']}".startswith("[RESOLVED]")  # the HTML does not say it again
            self._checker.read(f"mail {number} (HTML)", lines_of_html(mail.html), of, past=is_over)
            (self._folder / f"mail-{number:03}.txt").write_text(f"{mail.message['Subject']}\n\n{mail.text}")
        self._seen = len(mails)
        for message in receivers.slack.messages:
            if (message.ts, message.edited_ts) not in self._posted:
                self._posted.add((message.ts, message.edited_ts))
                text = "\n".join([message.text, *strings_in(message.blocks)])
                self._checker.read(f"Slack {message.ts}", text, of, past="[RESOLVED]" in message.text)
        self._checker.read("fleet", lines_of_html(bytes(show_fleet(_REQUEST, Wanted()).body).decode()), of)
        for group in sorted({*self._truth.groups, NOBODY}):
            self._checker.read(f"page of {group}", _page_of(group), of, group=group)
        listed = WorkspaceViews(self._warehouse.workspace, self._warehouse.engine).incidents(
            WantedIncidents(state=State.OPEN), catalogue()
        )
        worst: dict[str, Severity] = {}
        for one in reversed(listed.incidents):  # worst first
            worst[one.consumer_group or ""] = one.severity
            self._acknowledge(one)
        self._checker.see_open(of, worst)
        for said, why in self._checker.false[self._false_shown :]:
            self._tell(f"FALSE {of.began:%H:%M:%S} {said.where}: {said.line!r}: {why}")
        self._false_shown = len(self._checker.false)

    def _acknowledge(self, one: IncidentSummary) -> None:
        group = one.consumer_group
        if group not in self._to_acknowledge or not one.severity.is_sent or one.acknowledged_by:
            return
        if one.rule_id not in RULES_OF[Kind.OFFLINE]:
            return
        self._to_acknowledge.discard(group)
        with writing(self._warehouse.engine) as session:
            incident = incidents.by_id(session, [one.incident_id])[one.incident_id]
            silences.acknowledge(session, incident, author="alice", comment="I look after it", now=_now())
        self._checker.acknowledged[group, trouble_of(one.rule_id)] = _now(), one.severity, one.rule_id
        self._tell(f"{_now():%H:%M:%S} acknowledged: {one.summary}")

    # ---- what happens

    def _until_over(self, act: Callable[..., None], *arguments: Any) -> None:
        try:
            act(*arguments)
        except Over:
            pass
        except Exception:
            if not self._over.is_set():
                raise

    def _rest(self, seconds: float) -> None:
        if self._over.wait(seconds):
            raise Over

    @contextmanager
    def _trouble(self, kind: Kind, on: Subject | None, **figures: tuple[int, int]) -> Iterator[Trouble]:
        """Note that something lasts."""
        trouble = Trouble(kind, on.group if on else None, _now(), figures=figures)
        self._truth.troubles.append(trouble)
        self._tell(f"{_now():%H:%M:%S} {kind}: {trouble.group or 'all'} {figures or ''}")
        try:
            yield trouble
        finally:
            trouble.ended = _now()
            self._tell(f"{_now():%H:%M:%S} {kind} ended: {trouble.group or 'all'}")

    def _look(self) -> None:
        """Note every few seconds what brokers say of each group's queues."""
        while True:
            for subject in self._subjects:
                with suppress(RocketMQError, OSError):
                    looks = self._truth.looks.setdefault(subject.group, [])
                    looks.append(self._look_at(subject))
            self._rest(LOOK_EVERY_S)

    def _look_at(self, on: Subject) -> Look:
        queues = [
            (
                self._admin.min_offset(on.topic, at),
                self._admin.max_offset(on.topic, at),
                self._admin.committed(on.group, on.topic, at),
            )
            for at in range(QUEUES)
        ]
        return Look(_now(), tuple(queues))

    def _brokers(self) -> None:
        while True:
            self._rest(self._chance.uniform(360, 540))
            broker, stays = self._chance.choice(self._cluster.brokers), self._chance.random() < 0.5
            with self._calm, self._trouble(Kind.BROKER, None):
                self._tell(f"{broker.name}-{broker.broker_id} {'stays away' if stays else 'is restarted'}")
                broker.stop()
                if stays:
                    self._rest(self._chance.uniform(120, 200))
                try:
                    broker.start()
                except PeerNotStarted:  # the machine is busy
                    broker.kill()
                    broker.start()

    def _live(self, on: Subject, place: int, chance: random.Random) -> None:
        self._rest(100.0 + 15 * place)  # brokers and judge have seen it well
        deck = [ACTS[place]]
        while True:
            act = deck.pop()
            deck = deck or chance.sample([*ACTS, *HARMLESS], len(ACTS) + len(HARMLESS))
            try:
                act(self, on, chance)
            except NOT_STAGED as failure:  # the machine is busy: it begins anew
                self._tell(f"{on.group}: {act.__name__} could not be staged: {failure!r}"[:300])
                deck.append(ClaimsWorld.roll)
                self._rest(1.0)  # or the world is over
                continue
            self._rest(chance.uniform(90, 200))

    def _stop(self, on: Subject) -> None:
        self._truth.clients[on.group].append((_now(), 0))
        for pod in on.pods:
            pod.stop()

    def _go_on(self, on: Subject, **changed: object) -> None:
        """Start a client, which has begun to consume when this returns."""
        on.start_pod(**{"hang_keys": (), **changed})  # type: ignore[arg-type]
        self._truth.clients[on.group].append((_now(), 1))

    def _replace(self, on: Subject, **changed: object) -> None:
        self._stop(on)
        self._go_on(on, **changed)

    def stay_away(self, on: Subject, chance: random.Random) -> None:
        """Stop all clients; somebody may look after it."""
        with self._trouble(Kind.OFFLINE, on):
            self._stop(on)
            if chance.random() < 0.6:
                self._to_acknowledge.add(on.group)
            self._rest(chance.uniform(200, 420))
            self._go_on(on)

    def lose(self, on: Subject, chance: random.Random) -> None:
        """Stop all clients, and delete what they have not consumed; somebody looks after it before."""
        with self._trouble(Kind.OFFLINE, on):
            self._stop(on)
            self._to_acknowledge.add(on.group)
            self._rest(chance.uniform(150, 240))
            on.order(100.0, 3.0)
            self._rest(20.0)
            with ExitStack() as lost:
                with self._calm, self._trouble(Kind.RETENTION, None):
                    lost.enter_context(self._trouble(Kind.LOST, on))
                    on.delete_what_is_there()
                self._rest(chance.uniform(150, 300))
                self._go_on(on)

    def vanish(self, on: Subject, chance: random.Random) -> None:
        """Stop all clients, delete the group as we tell operators to, and found it anew later."""
        with self._trouble(Kind.OFFLINE, on):
            self._stop(on)
            self._rest(chance.uniform(150, 300))
            with self._calm:
                mqadmin(self._cluster, "deleteSubGroup", "-c", self._cluster.name, "-g", on.group, "-r", "true")
        with self._trouble(Kind.GONE, on):
            self._rest(chance.uniform(180, 300))
            with self._calm:
                self._admin.create_group(on.group)
            self._go_on(on)

    def reset_back(self, on: Subject, chance: random.Random) -> None:
        """Set the group to what it consumed two minutes ago."""
        with self._calm:
            then = _now() - timedelta(seconds=chance.uniform(90, 150))
            looks = self._truth.looks[on.group]
            if looks[0].at > then:  # nobody knows where it was
                return
            before = [one for one in looks if one.at <= then][-1]
            now = sum(queue[1] for queue in self._look_at(on).queues)
            count = now - sum(queue[1] for queue in before.queues)
            # what was skipped since then, or waited, was not consumed: it is no repetition
            went_on = max(
                (one.ended for one in self._truth.of(on.group) if one.ended and one.ended > then), default=then
            )
            since = next((one for one in looks if one.at >= went_on), looks[-1])  # none while its broker was away
            least = now - sum(queue[1] for queue in since.queues)
            repeated = (_about(least)[0], _about(count)[1])
            with self._trouble(Kind.RESET, on, repeated=repeated, skipped=(0, COUNTED)):
                on.reset_to(round(then.timestamp() * 1000))

    def skip(self, on: Subject, chance: random.Random) -> None:
        """Set a group that is behind to the end."""
        with self._trouble(Kind.SLOW, on):
            self._replace(on, **SLOW_POD)
            on.order(100.0, 3.0)
            self._rest(chance.uniform(40, 90))
            with self._calm:
                look = self._look_at(on)
                # clients drop what they hold, also what has been deleted on the broker meanwhile
                held = sum(max(0, high - one) for _, high, one in look.queues if one is not None)
                skipped = _about(look.figure("effective_lag") or 0)[0], _about(held)[1]
                with self._trouble(Kind.RESET, on, skipped=skipped, repeated=(0, COUNTED)):
                    on.reset_to(time.time_ns() // 1_000_000)
            self._rest(60.0)
            self._replace(on)

    def set_beyond(self, on: Subject, chance: random.Random) -> None:
        """Commit offsets that are beyond the end, while no client runs."""
        with self._trouble(Kind.OFFLINE, on):
            self._stop(on)
            with ExitStack() as beyond:
                with self._calm:
                    beyond.enter_context(self._trouble(Kind.BEYOND, on))
                    for at, (_, high, _) in enumerate(self._look_at(on).queues):
                        self._admin.commit(on.group, on.topic, at, high + 2_000)
                self._rest(chance.uniform(200, 300))
                self._go_on(on)

    def hang(self, on: Subject, chance: random.Random) -> None:
        """Send messages from which no thread comes back."""
        self._replace(on, hang_keys=(HANG,))
        with self._trouble(Kind.HANG, on):
            for at in range(QUEUES):
                on.order(10.0, THREADS / 10, key=HANG, queue_id=at)
            self._rest(chance.uniform(300, 480))
            self._stop(on)
            for pod in on.pods:
                pod.kill()
            self._go_on(on)

    def slow_down(self, on: Subject, chance: random.Random) -> None:
        """Let it consume a third of what is written."""
        with self._trouble(Kind.SLOW, on):
            self._replace(on, **SLOW_POD)
            self._rest(chance.uniform(300, 480))
            self._replace(on)

    def roll(self, on: Subject, _: random.Random) -> None:
        """Deploy it anew."""
        self._replace(on)

    def burst(self, on: Subject, _: random.Random) -> None:
        """Send more than usual."""
        on.order(200.0, 4.0)


ACTS: Sequence[Callable[[ClaimsWorld, Subject, random.Random], None]] = (
    ClaimsWorld.stay_away,
    ClaimsWorld.vanish,
    ClaimsWorld.lose,
    ClaimsWorld.reset_back,
    ClaimsWorld.set_beyond,
    ClaimsWorld.hang,
    ClaimsWorld.slow_down,
    ClaimsWorld.skip,
)
HARMLESS = (ClaimsWorld.roll, ClaimsWorld.burst)


def _page_of(group: str) -> str:
    """Return what the page of a group says, or why there is none."""
    try:
        page = show_group(_REQUEST, AskedGroup(cluster=CLUSTER, consumer_group=group))
    except HTTPException as refusal:
        if refusal.status_code != status.HTTP_404_NOT_FOUND:
            raise
        return str(refusal.detail)
    return lines_of_html(bytes(page.body).decode())


def _about(count: int) -> tuple[int, int]:
    return max(0, count - COUNTED), count + COUNTED


def _rows(records: Sequence[Any]) -> list[dict[str, Any]]:
    """Return records as rows: lists for tuples."""
    found = map(asdict, records)
    return [{name: list(one) if isinstance(one, tuple) else one for name, one in row.items()} for row in found]
