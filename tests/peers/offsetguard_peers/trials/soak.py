"""A busy cluster to which happens what happens to healthy ones, groups that stand still, and a judge of each round.

    soak = Soak("5.5.0", folder, seed=1)
    result = soak.run(minutes=30, every_s=15)
    result.warnings       # what people would have been told of who is well: should be nothing
    result.stood_still    # who was made to stand still, and by which round that was named

Pods are JVMs with one consumer each. What happens is drawn from ACTIONS, again and again, by a seed that is kept: a run
can be repeated. Every topic gets messages all the time but for the idle one; bursts come on top. Orderly pods are only
stopped as they should be: a killed one is incident I4. Beside all this

- the collector is away now and then (`draw_outages`), while everything goes on;
- a batch group comes every BATCH_EVERY_S, consumes what has come and leaves. Nobody configures it: its rhythm is
  learned, and until it was seen to come back once it may be a WARNING, and no more (`learning`);
- newcomers start at the first offset of a large backlog, go on, and leave for good: their groups are deleted;
- in each outage, and between any two, one group is made to stand still, and deleted when it was named. Of a deleted
  group nobody may be told anything from the next round on.

Two judges look. One looks every `every_s`; the other one once a minute, as the pipeline does, and knows these rounds
only. What either of them says above INFO of who is well counts. Who stands still must be named by the second one, in
the 4th round at the latest that begins after it stopped, or after the collector came back, whichever is later.
"""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

from offsetguard.judge.rule import Finding
from offsetguard.model.verdicts import Severity
from offsetguard_peers.rocketmq.admin import Admin, CommandFailed, mqadmin
from offsetguard_peers.rocketmq.clients import (
    ConsumerSpec,
    ProducerRefused,
    RunningConsumers,
    producer_of,
    running_consumers,
)
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.trials.blind_causes import Cause, Subject
from offsetguard_peers.trials.judged_rounds import LiveRounds, kept_locks, went_back
from offsetguard_peers.trials.soak_plan import (
    NAMED_BY_ROUND,
    SoakResult,
    StoodStill,
    Warned,
    draw_outages,
    draw_standstills,
    well_from_s,
)

ORDERS, PAYMENTS, SEATS, ALARMS, AUDITS, PRICES, IDLE = (
    "orders",
    "payments",
    "seats",
    "alarms",
    "audits",
    "prices",
    "idle-topic",
)
TRAFFIC_PER_S = {ORDERS: 20, PAYMENTS: 10, SEATS: 12, ALARMS: 9, PRICES: 5}  # AUDITS: one in a while
AUDIT_EVERY_S = 20.0
BURST = 4_000
QUEUES = 4
MOST_PODS = 3

STANDING = (
    ConsumerSpec("seat-allocation", {SEATS: "*"}, orderly=True, handling_ms=200, threads=4),  # 60 % busy
    ConsumerSpec("alarm-pager", {ALARMS: "red"}),  # one message in three
    ConsumerSpec("audit-mail", {AUDITS: "*"}),
    ConsumerSpec("price-cache", {PRICES: "*"}, broadcasting=True, instance_name="price-cache"),
    ConsumerSpec("idle-reader", {IDLE: "*"}),
)
ORDER_POD = ConsumerSpec("order-billing", {ORDERS: "*"}, handling_ms=5)
PAYMENT_POD = ConsumerSpec("payment-ledger", {PAYMENTS: "*"}, orderly=True)

PIPELINE_EVERY_S = 60.0
BATCH_EVERY_S, FIRST_BATCH_S, LEARNED_S = 150.0, 30.0, 60.0
NEWCOMER_STAYS_S = (240.0, 420.0)
BACKLOG = 40_000
TAKEN_AGAIN_WITHIN = timedelta(minutes=2)  # after a client that began at a slave's old offsets found the master


BATCH = Cause("batch", lambda _: None, spec={"handling_ms": 50}, pods=0)
NEWCOMER = Cause("newcomer", lambda _: None, spec={"handling_ms": 200, "threads": 20}, pods=0)


class Soak:
    """One cluster with its pods; `run` starts and ends all of it."""

    def __init__(
        self, version: str, folder: Path, *, seed: int = 0, outages: bool = True, tell: Callable[[str], None] = print
    ) -> None:
        self._cluster = RocketMQCluster(version, slaves=1, folder=folder)
        self._admin = Admin(self._cluster)
        self._random = random.Random(seed)  # noqa: S311 what happens is no secret
        self._tell = tell
        self._with_outages = outages
        self._no_restart = threading.Lock()  # held by who restarts a broker, and by who cannot have that now
        self._batch = Subject(self._cluster, "nightly", (BATCH,))
        self._batch_known_s: float | None = None
        self._removed: dict[str, float] = {}  # consumer group -> unix seconds
        self._ended = threading.Event()
        self._pods: dict[str, RunningConsumers] = {}
        self._stopped: defaultdict[str, list[str]] = defaultdict(list)  # by group the clients of its pods that ended
        self._contexts = ExitStack()  # never left: the cluster kills its processes
        self._started_at = 0.0
        self.result = SoakResult(version, 0.0)

    def run(self, *, minutes: float, every_s: float) -> SoakResult:
        """Soak; returns what was said. Raises what breaks an action: a soak in which nothing happens proves nothing."""
        self.result.minutes = minutes
        if self._with_outages:
            self.result.outages = draw_outages(self._random, minutes * 60)
        still = draw_standstills(self._random, self._cluster, self.result.outages, minutes * 60)
        try:
            self._start()
            with ThreadPoolExecutor(len(still) + 5) as pool:
                try:
                    loops = (self._send, self._audit, self._act_on, self._run_batches, self._run_newcomers)
                    acting = [pool.submit(one) for one in loops]
                    acting += [pool.submit(self._stand_still, one) for one in still]
                    self._judge(minutes * 60, every_s, acting)
                finally:
                    self._ended.set()
            for one in acting:
                one.result()
        finally:
            self._cluster.stop()
        return self.result

    def _start(self) -> None:
        if self._cluster.version.startswith("5."):
            for broker in self._cluster.brokers:
                broker.configure({"timerWheelEnable": "true"})  # 5.3.3 deletes no topic without it
        self._cluster.start()
        for topic in (*TRAFFIC_PER_S, AUDITS, IDLE):
            self._admin.create_topic(topic, queues=QUEUES)
        producer_of(self._cluster)
        self._start_pod("standing", STANDING)
        for number in range(2):
            self._start_pod(f"orders-{number}", [ORDER_POD])
            self._start_pod(f"payments-{number}", [PAYMENT_POD])
        self._batch.prepare(self.result.minutes * 60)
        self._started_at = time.monotonic()

    def _judge(self, seconds: float, every_s: float, acting: Sequence[Future[None]]) -> None:
        often, as_pipeline = LiveRounds(self._cluster), LiveRounds(self._cluster)
        due_s = 0.0
        while self._now_s() < seconds and not any(one.done() and one.exception() for one in acting):
            begun_s = time.monotonic() - self._started_at
            if away_until := next((end for begin, end in self.result.outages if begin <= begun_s < end), None):
                self._tell(f"{self._now_s()} s: the collector is away for {away_until - begun_s:.0f} s")
                self._wait_until(away_until)
                for one in self.result.stood_still:
                    one.rounds = one.rounds if one.named else 0
                due_s = 0.0
                continue
            if begun_s >= due_s:
                due_s = begun_s + PIPELINE_EVERY_S - every_s / 2
                self._take(as_pipeline, counts=True)
            if every_s < PIPELINE_EVERY_S:
                self._take(often, counts=False)
            self._wait_until(begun_s + every_s)

    def _take(self, live: LiveRounds, *, counts: bool) -> None:
        """Judge a round; `counts`: as one of those in which who stands still must be named."""
        begun, self.result.round_count = time.time(), self.result.round_count + 1
        waiting = [one for one in self.result.stood_still if one.named is None and one.since and one.since < begun]
        judged = live.judge_now()
        for one in waiting if counts and judged.settled else ():  # a standstill behind a master that restarts is unseen
            one.rounds += 1
        for finding in judged.loud():
            if (row := self._stands_still(finding, begun)) is not None:
                if row in waiting and counts:
                    self._name(row, finding)
            elif self._is_being_learned(finding):
                self.result.learning += 1
            elif begun <= self._removed.get(finding.consumer_group or "", begun - 1.0):
                continue  # its clients were stopped to delete it
            elif self._is_true(finding):
                self._tell(f"{self._now_s()} s: {finding.rule.id}, which is so: {finding.summary}")
            else:
                self._warn(finding, "a minute" if counts else "the judge that looks often")

    def _name(self, row: StoodStill, finding: Finding) -> None:
        if finding.rule.id not in row.cause.named:
            self._tell(f"{self._now_s()} s: of {row.subject.group} {finding.rule.id} is said: {finding.cause}")
        elif row.named is None:
            row.named, row.named_after_s = finding.rule.id, round(time.time() - (row.since or 0.0))
            self._tell(f"{self._now_s()} s: {row}")

    def _warn(self, finding: Finding, judge: str) -> None:
        now_s, severity = self._now_s(), finding.severity
        about = finding.rule.id, finding.consumer_group, finding.topic
        explained = "".join(f" Also {one.rule_id}: {one.summary}." for one in finding.explains)
        self.result.warnings.append(Warned(self.result.round_count, now_s, *about, finding.cause + explained))
        self._tell(f"{now_s} s, {judge}: {severity} {about[0]}: {finding.cause}{explained}")

    def _stands_still(self, finding: Finding, begun: float) -> StoodStill | None:
        """Return the group that it speaks of, if that was made to stand still and not removed before the round."""
        for one in self.result.stood_still:
            subject = one.subject
            concerns = finding.consumer_group == subject.group or finding.topic == subject.topic
            if concerns and one.since is not None and begun <= self._removed.get(subject.group, begun):
                return one
        return None

    def _is_being_learned(self, finding: Finding) -> bool:
        """Whether it is of the batch before anybody could know that, and no louder than may be then."""
        known = self._batch_known_s is not None and self._now_s() > self._batch_known_s
        return finding.consumer_group == self._batch.group and finding.severity is Severity.WARNING and not known

    def _is_true(self, finding: Finding) -> bool:
        """Whether it is so of who is well.

        A client that was stopped as it should be kept a lock: RocketMQ's own race. The master's committed offsets
        cannot be read by slaves of 5.5.0 (apache/rocketmq#10284): who starts while the master is away begins at the
        slave's old ones, and the master's log tells that its first commit to it went back; what it takes again is most
        of what waits. Pods of a group ended as often as is said: here in half an hour as often as elsewhere in a week.
        """
        stopped = self._stopped[finding.consumer_group or ""]
        match finding.rule.id:
            case "lock_not_released" if finding.consumer_group == PAYMENT_POD.group:
                return any(kept_locks(self._cluster, PAYMENT_POD.group, PAYMENTS, one) for one in stopped)
            case "slave_not_synchronized":
                return finding.variant in {"cannot_read", "default"} and self._cluster.version == "5.5.0"
            case "offset_reset":
                return self._is_within(finding, "repeated", 1)
            case "accumulation":
                return self._is_within(finding, "effective_lag", 2)
            case "rebalances_again":
                figures = finding.figures
                times, client_id = figures["departure_count"], figures["client_id"]
                return isinstance(times, int) and times <= len(stopped) and client_id in stopped
        return False

    def _is_within(self, finding: Finding, figure: str, times: int) -> bool:
        """Whether what is said lies within so many times of what the group's clients take again: only on 5.5.0."""
        said, group, topic = finding.figures[figure], finding.consumer_group, finding.topic
        if self._cluster.version != "5.5.0" or group is None or topic is None or not isinstance(said, int):
            return False
        return said <= times * went_back(self._cluster, group, topic, datetime.now(UTC) - TAKEN_AGAIN_WITHIN)

    def _stand_still(self, row: StoodStill) -> None:
        """Let a group be well, stop it, and delete it when it was named, or much later than it should have been."""
        subject = row.subject
        if self._wait_until(well_from_s(row.at_s, self.result.outages)):
            return
        with self._no_restart:
            subject.prepare(self.result.minutes * 60)
        self.result.stood_still.append(row)
        if self._wait_until(row.at_s):
            return
        with self._no_restart:
            row.since = time.time()
            row.cause.stage(subject)
        self._tell(f"{self._now_s()} s: {subject.group} stands still: {row.cause.name}")
        while row.named is None and row.rounds < 2 * NAMED_BY_ROUND:
            if self._ended.wait(1.0):
                return
        self._remove(subject)

    def _run_batches(self) -> None:
        """Let the batch come, consume what has come, and leave, again and again."""
        runs = 0
        while not self._wait_until(FIRST_BATCH_S + runs * BATCH_EVERY_S):
            self._batch.start_pod()
            with self._no_restart:
                sent = self._batch.produced()
            self._batch.wait_until_committed(sent)
            self._batch.pods[-1].stop()
            runs += 1
            if runs == 2:
                self._batch_known_s = self._now_s() + LEARNED_S

    def _run_newcomers(self) -> None:
        """Let one newcomer after the other consume a backlog from its beginning, and retire."""
        number = 0
        while not self._ended.wait(self._random.uniform(30.0, 60.0)):
            number += 1
            newcomer = Subject(self._cluster, f"report-{number}", (NEWCOMER,))
            with self._no_restart:
                newcomer.prepare(self.result.minutes * 60)
                newcomer.send(BACKLOG)
            newcomer.start_pod()
            self._tell(f"{self._now_s()} s: {newcomer.group} begins")
            if self._ended.wait(self._random.uniform(*NEWCOMER_STAYS_S)):
                return
            self._remove(newcomer)

    def _remove(self, subject: Subject) -> None:
        """Stop a group's clients and delete it, as we tell operators to."""
        with self._no_restart:
            self._removed[subject.group] = float("inf")
            subject.end()
            deletion = ("deleteSubGroup", "-c", self._cluster.name, "-g", subject.group, "-r", "true")
            try:
                mqadmin(self._cluster, *deletion)
            except CommandFailed as failed:  # it gives each request three seconds, its own start included
                if "RemotingTimeoutException" not in str(failed):
                    raise
                mqadmin(self._cluster, *deletion)
        self._removed[subject.group] = time.time()
        self._tell(f"{self._now_s()} s: {subject.group} is deleted")

    def _send(self) -> None:
        """Order a second's messages of every topic, every second; who cannot be reached now gets the next ones."""
        producer = producer_of(self._cluster)
        second = 0
        while not self._ended.wait(1.0):
            second += 1
            for topic, count in TRAFFIC_PER_S.items():
                tags = {"tags": "red" if second % 3 == 0 else "green"} if topic == ALARMS else {}
                producer.order(topic, count, rate_per_s=float(count), **tags)

    def _audit(self) -> None:
        while not self._ended.wait(AUDIT_EVERY_S):
            producer_of(self._cluster).order(AUDITS, 1)

    def _act_on(self) -> None:
        """Do one thing after the other until the soak ends."""
        while not self._ended.wait(self._random.uniform(5.0, 15.0)):
            name = self._random.choice(sorted(ACTIONS))
            self.result.actions.append((self._now_s(), name))
            self._tell(f"{self._now_s()} s: {name.replace('_', ' ')}")
            ACTIONS[name](self)

    def restart_a_pod(self) -> None:
        """Stop one pod of a concurrent group and start it again."""
        name = self._random.choice(self._pods_of("orders"))
        self._ended_pod(name, ORDER_POD).stop()
        self._start_pod(name, [ORDER_POD])

    def kill_a_pod(self) -> None:
        """Kill one pod of a concurrent group and start it again."""
        name = self._random.choice(self._pods_of("orders"))
        self._ended_pod(name, ORDER_POD).kill()
        self._start_pod(name, [ORDER_POD])

    def redeploy(self) -> None:
        """Replace the pods of the orderly group one after the other, each stopped as it should be."""
        for name in self._pods_of("payments"):
            self._ended_pod(name, PAYMENT_POD).stop()
            self._start_pod(name, [PAYMENT_POD])

    def scale(self) -> None:
        """Add a pod, or go back to two."""
        pods = self._pods_of("orders")
        if len(pods) < MOST_PODS:
            self._start_pod(f"orders-{len(pods)}", [ORDER_POD])
        else:
            self._ended_pod(pods[-1], ORDER_POD).stop()

    def burst(self) -> None:
        """Send many messages at once."""
        producer = producer_of(self._cluster)
        try:
            producer.answer(producer.order(ORDERS, BURST))
        except ProducerRefused as refused:  # a broker restarts meanwhile: the burst was shorter
            self._tell(f"{self._now_s()} s: burst cut short: {refused}")

    def pause(self) -> None:
        """Let half a minute pass."""
        self._ended.wait(30.0)

    def restart_a_broker(self) -> None:
        """Stop the master, or its slave, softly and start it again."""
        with self._no_restart:
            self._random.choice(self._cluster.brokers).restart()

    def _pods_of(self, deployment: str) -> list[str]:
        return sorted(name for name in self._pods if name.startswith(deployment))

    def _start_pod(self, name: str, specs: Sequence[ConsumerSpec]) -> None:
        home = self._cluster.folder / "clients" / name
        self._pods[name] = self._contexts.enter_context(running_consumers(self._cluster, specs, folder=home))

    def _ended_pod(self, name: str, spec: ConsumerSpec) -> RunningConsumers:
        """Return a pod that is about to end; its clients are written down."""
        pod = self._pods.pop(name)
        self._stopped[spec.group] += pod.client_ids
        return pod

    def _wait_until(self, second: float) -> bool:
        """Wait for a second of the soak; returns whether the soak ended before."""
        return self._ended.wait(max(0.0, self._started_at + second - time.monotonic()))

    def _now_s(self) -> int:
        return round(time.monotonic() - self._started_at)


ACTIONS: dict[str, Callable[[Soak], None]] = {
    one.__name__: one
    for one in (
        Soak.restart_a_pod,
        Soak.kill_a_pod,
        Soak.redeploy,
        Soak.scale,
        Soak.burst,
        Soak.pause,
        Soak.restart_a_broker,
    )
}
