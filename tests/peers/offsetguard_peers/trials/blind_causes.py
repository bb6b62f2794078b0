"""What a blind run stages: one function a cause, beside the rules that name it; and what only looks like trouble.

A cause is staged on a `Subject`, a consumer group of its own that was well until then. It may return how to count the
truth: from what the clients say that they consumed and what the broker holds, never from what OffsetGuard made of it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from offsetguard.model.errors import RocketMQError
from offsetguard.model.verdicts import Severity
from offsetguard_peers.rocketmq.admin import Admin, mqadmin
from offsetguard_peers.rocketmq.clients import ConsumerSpec, RunningConsumers, produce, producer_of, running_consumers
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.rocketmq.requests import ChangingCode
from offsetguard_peers.rocketmq.staging import forbid_to_write, move_min_offset_past_end
from offsetguard_peers.trials.incident_stage import OFTEN_REBALANCING
from offsetguard_peers.waiting import wait_until

BAD, HANG = "bad-message", "hanging-message"  # keys of messages that the listener refuses, or never comes back from
LAST = "last-message"  # with it an Error ends the threads of a client that pull and rebalance
THREADS = 4
BACKLOG = 600
RETENTION_SETTLES_S = 12.0  # a broker looks every 10 s for what else it can delete
_one_retention_at_a_time = threading.Lock()  # it needs a setting of the broker that it sets back at its end

Count = dict[str, int]  # figure of a finding -> how many it is really
Truth = Callable[[], Count]


class Undone(Exception):
    """Something else that was staged undid a trouble; the text says what."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Something that is staged on one group, and what must be said of it; harmless: nothing above INFO."""

    name: str
    stage: Stage
    named: frozenset[str] = frozenset()  # rules that name it; none: it is harmless
    also: frozenset[str] = frozenset()  # what is true besides: its consequences
    told_at: Severity = Severity.WARNING  # INFO: nothing needs to be done about it
    spec: Mapping[str, Any] = field(default_factory=dict)  # of the group's consumers
    pods: int = 2
    queues: int = 4
    rate: float = 5.0  # messages a second, all the time
    lasts_s: float = 150.0
    group_settings: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_harmless(self) -> bool:
        """Whether nobody may be told of it."""
        return not self.named


@dataclass(slots=True)
class Subject:
    """A group, its topic and its pods: one JVM each."""

    cluster: RocketMQCluster
    name: str
    causes: tuple[Cause, ...]
    pods: list[RunningConsumers] = field(default_factory=list)  # all that ever ran
    stopped_clients: list[str] = field(default_factory=list)  # as they should be
    _contexts: ExitStack = field(default_factory=ExitStack)  # never left: the cluster kills its processes

    @property
    def group(self) -> str:
        """Its consumer group."""
        return f"{self.name}-worker"

    @property
    def topic(self) -> str:
        """Its topic."""
        return f"{self.name}-events"

    def prepare(self, seconds: float) -> None:
        """Create it, and let it consume what is sent for so long."""
        admin = Admin(self.cluster)
        admin.create_topic(self.topic, queues=max(one.queues for one in self.causes))
        settings: dict[str, Any] = {"brokerId": 0, "whichBrokerWhenConsumeSlowly": 0}
        for one in self.causes:
            settings.update(one.group_settings)
        admin.create_group(self.group, **settings)
        for _ in range(max(one.pods for one in self.causes)):
            self.start_pod()
        self.order(max(one.rate for one in self.causes), seconds)

    def start_pod(self, *, home: str | None = None, often_rebalancing: bool = False, **changed: object) -> None:
        """Start one more client; `changed`: where it is not like the others. `home`: whose files it takes over."""
        spec = ConsumerSpec(self.group, {self.topic: "*"}, threads=THREADS, handling_ms=5)
        for one in self.causes:
            spec = replace(spec, **one.spec)
        changed = {"fail_keys": (BAD,), "hang_keys": (HANG,), "error_keys": (LAST,), **changed}
        spec = replace(spec, **changed)  # type: ignore[arg-type]
        folder = self.cluster.folder / "clients" / (home or f"{self.name}-{len(self.pods)}")
        properties = OFTEN_REBALANCING if often_rebalancing else None
        started = running_consumers(self.cluster, [spec], folder=folder, java_properties=properties)
        self.pods.append(self._contexts.enter_context(started))

    def stop_pod(self, pod: RunningConsumers) -> None:
        """Stop a client as it should be."""
        self.stopped_clients += pod.client_ids
        pod.stop()

    def end(self) -> None:
        """Kill what is left of its clients."""
        for pod in self.pods:
            pod.kill()

    def send(self, count: int, **options: Any) -> None:
        """Send messages now, and return when they can be read."""
        produce(self.cluster, self.topic, count, **options)

    def send_to(self, queues: Iterable[int], key: str, count: int) -> int:
        """Send so many messages with a key to each of these queues; returns the offset of the last one."""
        for queue_id in queues:
            self.send(count, key=key, queue_id=queue_id)
        return Admin(self.cluster).max_offset(self.topic, queue_id) - 1

    def order(self, rate: float, seconds: float, **options: Any) -> None:
        """Have messages sent at a steady rate, without waiting."""
        if rate:
            count = int(rate * seconds)
            options = {"tags": ["red", "green"], "rate_per_s": rate, "never_give_up": True, **options}
            producer_of(self.cluster).order(self.topic, count, **options)

    def produced(self) -> int:
        """Count what was ever sent, by the broker's ends."""
        admin = Admin(self.cluster)
        return sum(
            admin.max_offset(self.topic, queue_id, broker=broker) for broker, queue_id in admin.queues(self.topic)
        )

    def kept_from(self, topic: str, offsets: Mapping[int, int]) -> int:
        """Count the messages from these offsets of its queues on that the broker still has."""
        admin = Admin(self.cluster)
        return sum(
            admin.max_offset(topic, at) - max(admin.min_offset(topic, at), offset) for at, offset in offsets.items()
        )

    def consumed(self) -> int:
        """Count what all clients say that they consumed; twice what came twice."""
        return sum(pod.consumed() for pod in self.pods)

    def wait_until_committed(self, count: int) -> None:
        """Return once the group has committed so many messages: clients count twice what comes twice at a restart."""
        admin = Admin(self.cluster)

        def is_committed() -> bool:
            with suppress(RocketMQError, OSError):  # a broker restarts
                places = admin.queues(self.topic)
                found = [admin.committed(self.group, self.topic, queue_id, broker=on) or 0 for on, queue_id in places]
                return sum(found) >= count
            return False

        wait_until(is_committed, f"{self.group} to commit {count} messages")

    def wait_until_drained(self) -> None:
        """Return once as many were consumed as had been sent by now."""
        self.wait_until_consumed(self.produced())

    def wait_until_consumed(self, count: int) -> None:
        """Return once its clients consumed so many messages, all together."""
        wait_until(lambda: self.consumed() >= count, f"{self.group} to consume {count} messages")

    def reset_to(self, at_ms: int) -> None:
        """Let an operator reset the group."""
        mqadmin(self.cluster, "resetOffsetByTime", "-g", self.group, "-t", self.topic, "-s", str(at_ms))

    def delete_what_is_there(self) -> None:
        """Let retention delete all messages that the topic holds now, and others that are as old.

        Returns when it is over: meanwhile 5.x lets pulls skip deleted messages without a word.
        """
        admin = Admin(self.cluster)
        with _one_retention_at_a_time:
            move_min_offset_past_end(self.cluster, self.topic, by="retention")
            oldest = None
            while oldest != (oldest := [admin.min_offset(self.topic, at) for _, at in admin.queues(self.topic)]):
                time.sleep(RETENTION_SETTLES_S)


Stage = Callable[[Subject], Truth | None]


def _hang(*queues: int, each: int = THREADS) -> Stage:
    def stage(on: Subject) -> None:
        on.send_to(queues, HANG, each)

    return stage


def _end_pulls(on: Subject) -> None:
    on.send_to((0,), LAST, 1)


def _hang_in_a_queue(on: Subject) -> Truth:
    offset = on.send_to((1,), HANG, 1)
    return lambda: {"blocked_offset": offset}


def _poison(on: Subject) -> Truth:
    offset = on.send_to((1,), BAD, 1)

    def count() -> Count:
        if (Admin(on.cluster).committed(on.group, on.topic, 1) or 0) > offset:
            raise Undone("retention took the message before anybody had it in hands again")
        return {"blocked_offset": offset}

    return count


def _freeze(on: Subject) -> None:
    os.killpg(on.pods[0].process.pid, signal.SIGSTOP)


def _overload(on: Subject) -> None:
    on.send(11_000)
    on.order(20.0, 150)  # and eight a second are consumed


def _fail_often(on: Subject) -> None:
    on.order(20.0, 120, key=BAD)


def _dead_letters(on: Subject) -> Truth:
    on.send(40, key=BAD)

    def count() -> Count:
        kept = on.kept_from(f"%DLQ%{on.group}", {0: 0})
        return {"dead_letter_message_count": kept} if kept else {}  # retention took them after they were told

    return count


def _kill_one_of_them(on: Subject) -> None:
    """Kill a client, with its locks if it is an orderly one, and start another one."""
    on.pods[0].kill()
    on.start_pod()


def _write_faster_than_queues_allow(on: Subject) -> None:
    on.order(80.0, 150)  # four queues, ten a second each


def _reset_back(on: Subject) -> Truth:
    at_ms = time.time_ns() // 1_000_000
    on.send(BACKLOG)
    on.wait_until_drained()
    time.sleep(12.0)  # commits are made every 5 s
    on.reset_to(at_ms)
    return lambda: {"repeated": on.consumed() - on.produced()}


def _reset_forward(on: Subject) -> Truth:
    on.send(BACKLOG)
    time.sleep(60.0)  # what clients say of their pace is that of a minute
    on.reset_to(time.time_ns() // 1_000_000)
    return lambda: {"skipped": on.produced() - on.consumed()}


def _overtake(on: Subject) -> Truth:
    for pod in on.pods:
        on.stop_pod(pod)
    on.send(BACKLOG)
    on.delete_what_is_there()
    on.start_pod()
    return lambda: {"lost": on.produced() - on.consumed()}


def _forbid_to_keep_offsets(on: Subject) -> None:
    (pod,) = on.pods
    on.wait_until_drained()
    time.sleep(2.0)
    (client_id,) = pod.client_ids
    on.stop_pod(pod)
    forbid_to_write(pod.local_offsets_file(client_id, on.group))
    on.send(BACKLOG)
    on.delete_what_is_there()
    on.start_pod(home=pod.folder.name, often_rebalancing=True)


def _subscribe_to_less(on: Subject) -> None:
    on.start_pod(topics={on.topic: "red"})


def _subscribe_elsewhere(on: Subject) -> None:
    other = f"{on.topic}-v2"
    Admin(on.cluster).create_topic(other)
    on.start_pod(topics={other: "*"})


def _switch_off(on: Subject) -> None:
    Admin(on.cluster).create_group(on.group, consumeEnable=False)


def _switch_broadcasts_off(on: Subject) -> None:
    Admin(on.cluster).create_group(on.group, consumeBroadcastEnable=False)


def _make_write_only(on: Subject) -> None:
    Admin(on.cluster).create_topic(on.topic, queues=max(one.queues for one in on.causes), perm=2)


def _read_fewer_queues(on: Subject) -> Truth:
    admin = Admin(on.cluster)
    admin.create_topic(on.topic, read_queues=2, write_queues=4)

    def count() -> Count:
        committed = {at: admin.committed(on.group, on.topic, at) or 0 for at in (2, 3)}
        return {"unreadable_message_count": on.kept_from(on.topic, committed)}

    return count


def _recreate(on: Subject) -> None:
    for broker in on.cluster.masters:  # 4.x slaves take no changes
        Admin(on.cluster).change(broker.address, ChangingCode.DELETE_TOPIC_IN_BROKER, {"topic": on.topic})
    Admin(on.cluster).create_topic(on.topic)
    on.send(40)


def _share_a_client_id(on: Subject) -> None:
    on.start_pod(instance_name="second")
    on.start_pod(instance_name="first")


def _roll(on: Subject) -> None:
    for pod in list(on.pods):
        on.stop_pod(pod)
        on.start_pod()


def _scale(on: Subject) -> None:
    on.start_pod()
    time.sleep(40.0)
    on.stop_pod(on.pods[-1])


def _arrive_late(on: Subject) -> None:
    on.send(12_000)
    on.start_pod()


ORDERLY = {"orderly": True}
BROADCASTING = {"broadcasting": True}
_SILENT = frozenset({"client_stands_still"})  # before its last pull is old enough
LOST = frozenset({"messages_lost", "offset_moved_by_retention"})
SLOW = frozenset({"slow_consumption", "accumulation", "flow_control"})


def _named(*rules: str) -> frozenset[str]:
    return frozenset(rules)


TROUBLES = (
    Cause("all threads hang", _hang(0, 1, 2, 3), _named("accumulation")),
    # the averaging allocation gives neighbours to one of two clients
    Cause("one client hangs", _hang(0, 1), _named("client_stands_still")),
    Cause("one thread hangs", _hang(2, each=1), _named("slow_consumption"), told_at=Severity.INFO),
    Cause("a message hangs", _hang_in_a_queue, _named("poison_message"), spec=ORDERLY),
    Cause("a message fails", _poison, _named("poison_message"), spec=ORDERLY),
    Cause("one client frozen", _freeze, _named("client_stands_still"), lasts_s=115.0),
    Cause("a client no longer pulls", _end_pulls, _named("queue_not_pulled"), _SILENT, lasts_s=330.0),
    Cause("all clients killed", Subject.end, _named("consumer_offline")),
    Cause("slow listener", _overload, SLOW, spec={"handling_ms": 1_000}, rate=1.0),
    Cause("many messages fail", _fail_often, _named("retry_storm")),
    Cause("dead letters", _dead_letters, _named("dead_letters"), spec={"max_reconsume_times": 0}),
    Cause("killed with its locks", _kill_one_of_them, _named("lock_not_released"), spec=ORDERLY, lasts_s=110.0),
    Cause(
        "fewer queues than threads",
        _write_faster_than_queues_allow,
        _named("queue_parallelism_cap"),
        spec={**ORDERLY, "handling_ms": 100},
    ),
    Cause("reset back", _reset_back, _named("offset_reset")),
    Cause("reset forward", _reset_forward, _named("offset_reset"), spec={"handling_ms": 1_000, "threads": 1}, rate=1.0),
    Cause("retention overtakes", _overtake, LOST, also=_named("consumer_offline", "loss_ahead"), rate=2.0),
    Cause(
        "offsets cannot be written",
        _forbid_to_keep_offsets,
        _named("offset_store_not_persisting"),
        spec={"broadcasting": True, "instance_name": "cache", "commit_every_ms": 500},
        pods=1,
        rate=2.0,
    ),
    Cause("tags differ", _subscribe_to_less, _named("subscription_mismatch")),
    Cause("topics differ", _subscribe_elsewhere, _named("subscription_mismatch")),
    Cause("fewer queues read than written", _read_fewer_queues, _named("read_write_queues_differ")),
    Cause(
        "reads move to the slave",
        lambda on: on.send(6_000),
        _named("reads_moved_to_slave"),
        told_at=Severity.INFO,
        spec={"handling_ms": 100, "pull_threshold_for_queue": 64},
        pods=1,
        group_settings={"whichBrokerWhenConsumeSlowly": 1},
    ),
    Cause("consumption switched off", _switch_off, _named("consumption_switched_off")),
    Cause("broadcasts switched off", _switch_broadcasts_off, _named("consumption_switched_off"), spec=BROADCASTING),
    Cause("topic made write-only", _make_write_only, _named("consumption_switched_off")),
    Cause("topic created again", _recreate, _named("queue_recreated")),
    Cause(
        "client id shared",
        _share_a_client_id,
        _named("client_id_shared"),
        spec={**ORDERLY, "instance_name": "first"},
        pods=1,
    ),
)
HARMLESS = (
    Cause("rolling deployment", _roll, spec=ORDERLY),
    Cause("crash and restart", _kill_one_of_them),
    Cause("burst", lambda on: on.send(4_000)),
    Cause("scaled up and down", _scale),
    Cause("newcomer with a backlog", _arrive_late, spec={"handling_ms": 100, "threads": 20}, pods=0, rate=0.0),
)
# what ends a run, for it concerns everybody; less than 90 s may be a restart
OF_BROKERS = (
    Cause(
        "slave killed", lambda on: on.cluster.broker(broker_id=1).kill(), _named("broker_unreachable"), lasts_s=150.0
    ),
    Cause("master killed", lambda on: on.cluster.broker().kill(), _named("broker_unreachable"), lasts_s=150.0),
    Cause("master restarted", lambda on: on.cluster.broker().restart(), lasts_s=100.0),
)
# a broker deletes the oldest messages of all topics: true of every group that did not read them, whatever kept it
RETENTION = _named("retention overtakes", "offsets cannot be written")
LOST_SOON = _named("loss_ahead")  # while it deletes
# what can be seen beside each other on one group
TOGETHER = (
    ("a message fails", "fewer queues than threads"),
    ("a message fails", "killed with its locks"),
    ("dead letters", "one client frozen"),
    ("dead letters", "one client hangs"),
    ("many messages fail", "fewer queues read than written"),
    ("dead letters", "one thread hangs"),
    ("many messages fail", "one client frozen"),
)


def cause_named(name: str) -> Cause:
    """Find a trouble by its name; StopIteration when there is none."""
    return next(one for one in TROUBLES if one.name == name)
