"""Troubles drawn by a seed on a live cluster, harmless events among them, and whether each was named rightly.

    run = BlindRun("5.3.3", folder, seed=1, troubles=15)
    result = run.run(minutes=15, every_s=10)
    result.table()      # what was staged, what was told of it, after how long, and with which numbers

The seed draws causes, groups and moments; now and then two causes come to one group. Each group is well for a while,
then something happens to it, then its clients are killed, and nothing of it counts any more. Beside them the groups of
the soak, and 25 busy ones, go on and are well. Every round is judged at once, with the logs of the brokers. Which rules
name a cause, and which are true besides, stands in `blind_causes.py`; all else above INFO is a false alarm.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from offsetguard.judge.registry import RULES
from offsetguard.judge.rule import Finding
from offsetguard.model.verdicts import Figure, Severity
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.clients import producer_of, running_consumers
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.trials.blind_causes import (
    HARMLESS,
    LOST,
    LOST_SOON,
    OF_BROKERS,
    RETENTION,
    TOGETHER,
    TROUBLES,
    Cause,
    Subject,
    Undone,
    cause_named,
)
from offsetguard_peers.trials.incident_groups import BUSY, BUSY_RATE, BUSY_SPECS
from offsetguard_peers.trials.judged_rounds import JudgedRound, LiveRounds, kept_locks
from offsetguard_peers.trials.soak import AUDIT_EVERY_S, AUDITS, IDLE, QUEUES, STANDING, TRAFFIC_PER_S

WELL_FOR_S = 45.0  # before anything happens to a group
SETTLES_S = 30.0  # between its last message and the end of its trouble: numbers are final then
BETWEEN_TWO_S = 10.0  # that come to one group
TWO_AT_A_TIME = 0.25  # of the troubles
ALLOWED_ERROR = 0.02  # of a number
NAMES = (
    *("billing", "shipping", "invoice", "refund", "catalog", "search", "mailing", "fraud", "loyalty", "stock"),
    *("pricing", "booking", "ticket", "tariff", "metering", "claims", "payroll", "audit", "archive", "export"),
    *("import", "render", "thumbnail", "geocode", "coupon", "basket", "wishlist", "review", "rating", "delivery"),
)


@dataclass(slots=True)
class Told:
    """What was said of a group by one rule."""

    rule: str
    severity: Severity
    after_s: int  # since the cause that it names was staged, or since the run began
    summary: str
    rounds: int = 1


@dataclass(slots=True)
class Row:
    """One cause on one group: what was staged, and what was told of it."""

    cause: Cause
    group: str
    topic: str
    partner: str | None = None  # what else happened to the group
    began: float | None = None  # unix seconds
    ended: float | None = None
    named: Told | None = None  # as it was named first, as loudly as it should be
    first_loud: Told | None = None  # of whatever cause
    figures: dict[str, Figure] = field(default_factory=dict)  # as they were told last
    staged: dict[str, int] = field(default_factory=dict)
    failure: str | None = None  # what kept it from being staged

    def concerns(self, finding: Finding) -> bool:
        """Whether a finding is about this group, or about the brokers where they are what happened."""
        if self.cause in OF_BROKERS:
            return finding.rule.id in self.cause.named | self.cause.also
        return finding.consumer_group == self.group or (finding.consumer_group is None and finding.topic == self.topic)

    def errors(self) -> dict[str, float | None]:
        """By how much each number was wrong, in parts of the real one; None: it was never told."""
        told = {name: self.figures.get(name) for name in self.staged}
        return {
            name: abs(figure - real) / max(1, real) if isinstance(figure := told[name], int | float) else None
            for name, real in self.staged.items()
        }

    def as_json(self) -> dict[str, Any]:
        """Everything about it."""
        return {
            "cause": self.cause.name,
            "harmless": self.cause.is_harmless,
            "group": self.group,
            "partner": self.partner,
            "named": self.named and asdict(self.named),
            "first_loud": self.first_loud and asdict(self.first_loud),
            "staged": self.staged,
            "told": {name: self.figures.get(name) for name in self.staged},
            "errors": self.errors(),
            "failure": self.failure,
        }


@dataclass(slots=True)
class BlindResult:
    """What a run gave."""

    version: str
    seed: int
    rows: list[Row] = field(default_factory=list)
    stray: dict[tuple[str, str | None, str | None], Told] = field(default_factory=dict)  # by rule, group, topic
    round_count: int = 0

    @property
    def unexplained(self) -> dict[tuple[str, str | None, str | None], Told]:
        """What people would have been told, and nothing that was staged explains."""
        return {key: told for key, told in self.stray.items() if told.rounds >= RULES[told.rule].bad_cycles}

    @property
    def troubles(self) -> list[Row]:
        """Rows that should be named, where they could be staged."""
        return [one for one in self.rows if not one.cause.is_harmless and one.failure is None]

    @property
    def is_right(self) -> bool:
        """Whether every trouble was named, nothing else was loud, and all numbers hold."""
        errors = [error for row in self.troubles for error in row.errors().values()]
        within = all(error is not None and error <= ALLOWED_ERROR for error in errors)
        return within and not self.unexplained and all(one.named for one in self.troubles)

    def table(self) -> str:
        """Everything as text."""
        lines = [f"{'staged':<32} {'group':<18} {'named':<28} {'after':>6}  first loud; numbers: real, told (error)"]
        for row in self.rows:
            named = row.failure or (row.named.rule if row.named else "-" if row.cause.is_harmless else "NOT NAMED")
            after = f"{row.named.after_s} s" if row.named else ""
            name = row.cause.name + (" +" if row.partner else "")
            lines.append(f"{name:<32} {row.group:<18} {named:<28} {after:>6}  {'; '.join(_details(row))}".rstrip())
        right = sum(one.named is not None for one in self.troubles)
        quiet = [one for one in self.rows if one.cause.is_harmless]
        lines.append(f"named rightly: {right} of {len(self.troubles)}; {len(quiet)} harmless events")
        lines.append(f"loud and explained by nothing: {len(self.unexplained)}")
        for (rule, group, topic), told in self.unexplained.items():
            where = (
                f"{told.severity} {rule} {group or topic or 'cluster'}, {told.rounds} rounds from {told.after_s} s on"
            )
            lines.append(f"  {where}: {told.summary}")
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """Everything for a program."""
        return {
            "version": self.version,
            "seed": self.seed,
            "rounds": self.round_count,
            "rows": [one.as_json() for one in self.rows],
            "unexplained": [
                {"group": group, "topic": topic, **asdict(told)} for (_, group, topic), told in self.unexplained.items()
            ],
        }


@dataclass(frozen=True, slots=True)
class Drawn:
    """A group to be, what happens to it, and when: seconds since the start."""

    name: str
    causes: tuple[Cause, ...]
    at_s: float


def draw(seed: int, troubles: int, seconds: float) -> list[Drawn]:
    """Draw so many troubles and a third as many harmless events; no cause comes again before every other one came."""
    chance = random.Random(seed)  # noqa: S311 what happens is no secret
    shuffled = chance.sample(NAMES, len(NAMES))
    names = [f"{name}-{number}" for number in range(troubles // len(NAMES) + 2, 1, -1) for name in NAMES] + shuffled
    dealt: list[tuple[Cause, ...]] = []
    deck: list[Cause] = []
    while (left := troubles - sum(map(len, dealt))) > 0:
        if left > 1 and chance.random() < TWO_AT_A_TIME / 2:
            dealt.append(tuple(cause_named(name) for name in chance.choice(TOGETHER)))
            continue
        deck = deck or chance.sample(TROUBLES, len(TROUBLES))
        dealt.append((deck.pop(),))
    quiet = chance.sample(HARMLESS * (1 + troubles // 3 // len(HARMLESS)), troubles // 3)
    dealt += [(one,) for one in quiet]
    latest = [seconds - max(one.lasts_s for one in causes) - BETWEEN_TWO_S for causes in dealt]
    return [
        Drawn(names.pop(), causes, chance.uniform(WELL_FOR_S, max(WELL_FOR_S, last)))
        for causes, last in zip(dealt, latest, strict=True)
    ]


class BlindRun:
    """One cluster with its groups; `run` starts and ends all of it."""

    def __init__(
        self,
        version: str,
        folder: Path,
        *,
        seed: int,
        troubles: int,
        only: Sequence[str] = (),
        tell: Callable[[str], None] = print,
    ) -> None:
        """Describe it; nothing runs yet. `only`: names of causes, instead of what the seed draws."""
        self._cluster = RocketMQCluster(version, slaves=1, folder=folder)
        self._seed, self._trouble_count, self._only, self._tell = seed, troubles, only, tell
        self._contexts = ExitStack()  # never left: the cluster kills its processes
        self._started_at = 0.0
        self._subjects: list[Subject] = []
        self._lock = threading.Lock()  # of the rows
        self.result = BlindResult(version, seed)

    def run(self, *, minutes: float, every_s: float) -> BlindResult:
        """Stage everything in so many minutes, and then what concerns all; returns what was said."""
        seconds = minutes * 60
        drawn = draw(self._seed, self._trouble_count, seconds)
        if self._only:
            drawn = [Drawn(NAMES[at], (cause_named(name),), WELL_FOR_S) for at, name in enumerate(self._only)]
        last = OF_BROKERS[self._seed % len(OF_BROKERS)]
        try:
            self._start(seconds + last.lasts_s)
            with ThreadPoolExecutor(len(drawn) + 1) as pool:
                acting = pool.submit(self._act, drawn, last)
                live = LiveRounds(self._cluster)
                while not acting.done():
                    begun = time.monotonic()
                    self._take(live.judge_now())
                    time.sleep(max(0.0, begun + every_s - time.monotonic()))
                acting.result()
        finally:
            self._cluster.stop()
        return self.result

    def _start(self, seconds: float) -> None:
        if self._cluster.version.startswith("5."):
            for broker in self._cluster.brokers:
                broker.configure({"timerWheelEnable": "true"})  # 5.3.3 deletes no topic without it
        self._cluster.start()
        admin = Admin(self._cluster)
        for broker in self._cluster.brokers:  # every message is distant: whoever may, reads from the slave
            admin.configure(broker, accessMessageInMemoryMaxRatio=0)
        traffic = {**TRAFFIC_PER_S, AUDITS: 1 / AUDIT_EVERY_S, **{one.topic: BUSY_RATE for one in BUSY}}
        for topic in (*traffic, IDLE):
            admin.create_topic(topic, queues=QUEUES)
        for name, specs in {"standing": STANDING, "busy": BUSY_SPECS}.items():
            for spec in specs:
                admin.create_group(spec.group, brokerId=0, whichBrokerWhenConsumeSlowly=0)
            home = self._cluster.folder / "clients" / name
            self._contexts.enter_context(running_consumers(self._cluster, specs, folder=home))
        producer = producer_of(self._cluster)
        for topic, rate in traffic.items():
            tags = {"tags": ["red", "green", "green"]}
            producer.order(topic, int(rate * seconds), rate_per_s=float(rate), never_give_up=True, **tags)
        self._started_at = time.monotonic()

    def _act(self, drawn: Sequence[Drawn], last: Cause) -> None:
        """Let everything happen, each at its moment, and in the end what concerns everybody."""
        with ThreadPoolExecutor(len(drawn)) as pool:
            for done in [pool.submit(self._happen, one) for one in drawn]:
                done.result()
        if not self._only:
            self._stage(Subject(self._cluster, "all", (last,)), last)()

    def _happen(self, drawn: Drawn) -> None:
        """Live the life of one group."""
        subject = Subject(self._cluster, drawn.name, drawn.causes)
        self._wait_until(drawn.at_s - WELL_FOR_S)
        lasts_s = max(one.lasts_s for one in drawn.causes)
        subject.prepare(WELL_FOR_S + lasts_s - SETTLES_S)
        with self._lock:
            self._subjects.append(subject)
        self._wait_until(drawn.at_s)
        ends = []
        for cause in drawn.causes:
            ends.append(self._stage(subject, cause))
            if len(drawn.causes) > 1:
                time.sleep(BETWEEN_TWO_S)
        for end in ends:
            end()
        subject.end()

    def _stage(self, subject: Subject, cause: Cause) -> Callable[[], None]:
        """Stage one cause; returns what waits until it has lasted and then reads the truth."""
        partner = next((one.name for one in subject.causes if one is not cause), None)
        row = Row(cause, subject.group, subject.topic, partner, began=time.time())
        with self._lock:
            self.result.rows.append(row)
        self._tell(f"{self._now_s()} s: {cause.name}: {subject.group}")
        try:
            count = cause.stage(subject)
        except Exception as failure:  # noqa: BLE001 kept in the report: the other groups go on
            row.failure, row.ended = f"not staged: {failure}"[:200], time.time()
            self._tell(f"{self._now_s()} s: {subject.group}: {row.failure}")
            return lambda: None
        ends_at = time.time() + cause.lasts_s

        def end() -> None:
            time.sleep(max(0.0, ends_at - time.time()))
            try:
                row.staged = count() if count else {}
            except Undone as undone:
                row.failure = f"undone: {undone}"
            row.ended = time.time()

        return end

    def _take(self, judged: JudgedRound) -> None:
        self.result.round_count += 1
        at = judged.at.timestamp()
        with self._lock:
            rows = [one for one in self.result.rows if one.began is not None and one.began <= at]
            subjects = list(self._subjects)
        for finding in judged.judgement.findings:
            mine = [one for one in rows if one.concerns(finding)]
            if any(one.ended for one in mine):
                continue
            named = [one for one in mine if finding.rule.id in one.cause.named]
            for row in named:
                self._name(row, finding, at)
            if finding.severity.rank > Severity.INFO.rank:
                self._hear(finding, at, mine, subjects, is_named=bool(named))

    def _name(self, row: Row, finding: Finding, at: float) -> None:
        row.figures.update(finding.figures)
        if row.named is None and finding.severity.rank >= row.cause.told_at.rank:
            row.named = self._said(finding, at, row)
            self._tell(f"{self._now_s()} s: {row.group}: named after {row.named.after_s} s: {finding.summary}")

    def _hear(self, finding: Finding, at: float, mine: list[Row], subjects: list[Subject], *, is_named: bool) -> None:
        """Keep what is told to people: by its cause, or as explained by nothing."""
        for row in mine:
            of_partner = is_named and finding.rule.id not in row.cause.named
            if row.first_loud is None and not of_partner:
                row.first_loud = self._said(finding, at, row)
        also = frozenset[str]().union(*(one.cause.also for one in mine))
        retentions = [one for one in self.result.rows if one.cause.name in RETENTION]
        if retentions and not all(one.cause.is_harmless for one in mine):
            also |= LOST if all(one.ended for one in retentions) else LOST | LOST_SOON
        if is_named or finding.rule.id in also or self._kept_a_lock(finding, subjects):
            return
        key = finding.rule.id, finding.consumer_group, finding.topic
        if (known := self.result.stray.get(key)) is not None:
            known.rounds += 1
            return
        self.result.stray[key] = self._said(finding, at, None)
        self._tell(f"{self._now_s()} s: UNEXPLAINED {finding.severity} {finding.rule.id}: {finding.cause}")

    def _kept_a_lock(self, finding: Finding, subjects: list[Subject]) -> bool:
        """Whether a client that was stopped as it should be kept a lock all the same: RocketMQ's own race."""
        if finding.rule.id != "lock_not_released":
            return False
        of_group = [one for one in subjects if one.group == finding.consumer_group]
        stopped = [(one, client_id) for one in of_group for client_id in one.stopped_clients]
        return any(kept_locks(self._cluster, one.group, one.topic, client_id) for one, client_id in stopped)

    def _said(self, finding: Finding, at: float, row: Row | None) -> Told:
        since = time.time() - self._now_s() if row is None or row.began is None else row.began
        return Told(finding.rule.id, finding.severity, round(at - since), finding.cause)

    def _wait_until(self, second: float) -> None:
        time.sleep(max(0.0, self._started_at + second - time.monotonic()))

    def _now_s(self) -> int:
        return round(time.monotonic() - self._started_at)


def _details(row: Row) -> list[str]:
    """Say what was loud first, where that is not how it was named, and each number."""
    details = []
    if row.first_loud and (row.named is None or row.first_loud.rule != row.named.rule):
        details.append(f"{row.first_loud.rule} after {row.first_loud.after_s} s")
    for name, error in row.errors().items():
        wrong = "never told" if error is None else f"{row.figures[name]} ({error:.1%})"
        details.append(f"{name} {row.staged[name]}, {wrong}")
    return details
