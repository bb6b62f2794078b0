"""Forecasts tried on simulated brokers: what was said, what came, what was warned of.

A world is looked at as the product looks at a cluster, every five minutes; forecasts are made of what can be seen only.
What counts:

- A forecast is *known* when what it is about came, or its range passed, before the group's own behaviour changed (a
  start, a stop) or a loud topic began: nobody foresees those; and before the world ended. It is *inside* when that came
  within its range.
- A loss could be *prevented* by a person if the message waited for 30 min and two looks, and the traffic that pushed it
  out was there as long; losses of a queue that are less than an hour apart are one. It was *warned* of when a warning
  stood 30 min before.
- A warning was *false* when neither a loss came within the range that it named, nor the group was started again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from offsetguard.config import Config, WindowPolicy
from offsetguard.facts.interval import IntervalFacts
from offsetguard.judge.forecasts import broker_retentions, forecasts
from offsetguard.judge.forecasts.broker_cleaning import BrokerRetention
from offsetguard.model.fact_records import BrokerMark
from offsetguard.model.intervals import Interval
from offsetguard.model.verdicts import FURTHEST_MS, Forecast
from offsetguard.tables.broker_facts import BrokerFacts
from offsetguard.tables.queue_state import QueueState, Sample
from offsetguard_peers.configs import one_team
from offsetguard_peers.facts.answers import Row, stepped
from offsetguard_peers.simulated.brokers import DAY, HOUR, WARM_UP, SimulatedQueue, World

START = datetime(2026, 11, 2, tzinfo=UTC)
LOOK = 5  # minutes
AHEAD = 30  # minutes that a person needs
_MINUTE_MS = 60_000
_FAR, _NEAR = 30, 10  # minutes between forecasts while the loss is far away, and when it is near
_NEAR_MS = 6 * 3_600_000
_HORIZON_MS = WindowPolicy().loss_horizon_ms


@dataclass(frozen=True, slots=True)
class Said:
    """A forecast of one queue at a minute."""

    queue: str
    minute: int
    kind: str  # drain or loss
    forecast: Forecast


@dataclass(slots=True)
class Tried:
    """One world, with everything that was said and that came."""

    world: World
    said: list[Said] = field(default_factory=list)
    came: dict[tuple[str, str], list[int]] = field(default_factory=dict)  # (queue, kind) -> minutes
    warned: dict[str, list[int]] = field(default_factory=dict)  # queue -> minutes of looks with a warning
    losses: list[tuple[str, int, int]] = field(default_factory=list)  # queue, minute, minute it was written in
    minutes: int = 0


def try_worlds(worlds: Iterable[World], minutes: int) -> list[Tried]:
    """Let worlds live for some minutes and forecast what becomes of their queues: one fold for all at each look."""
    lives = [_Life(world, minutes) for world in worlds]
    watchers = [watcher for life in lives for watcher in life.watchers]
    states: list[Row] = []
    for minute in range(minutes):
        for life in lives:
            life.step(minute)
        if minute % LOOK == 0:
            states = stepped(states, [[watcher.look(minute)] for watcher in watchers])
            if minute >= WARM_UP:
                state_of = dict(zip(watchers, states, strict=True))
                for life in lives:
                    life.forecast(minute, state_of)
    return [life.tried for life in lives]


class _Life:
    """One world while it lives."""

    def __init__(self, world: World, minutes: int) -> None:
        self.tried = Tried(world, minutes=minutes)
        self.watchers = [_Watcher(queue, world) for queue in world.broker.queues if queue.name != "loud"]
        self._marks = _Marks(world)
        self._config = _config(world)

    def step(self, minute: int) -> None:
        """Let a minute pass."""
        self.tried.world.broker.step()
        for watcher in self.watchers:
            watcher.note_outcomes(minute, self.tried)
        if minute % LOOK == 0:
            self._marks.look(minute)

    def forecast(self, minute: int, state_of: Mapping[_Watcher, Row]) -> None:
        """Forecast what becomes of the queues whose turn it is."""
        facts = _facts(self.tried.world, minute, self._marks)
        retention = broker_retentions.retentions(facts, self._config).get("broker-a")
        for watcher in self.watchers:
            if watcher.is_due(minute):
                watcher.forecast(minute, QueueState.from_row(state_of[watcher]), retention, self.tried)


class _Watcher:
    """What is seen of one queue."""

    def __init__(self, queue: SimulatedQueue, world: World) -> None:
        self._queue, self._world = queue, world
        self._lost, self._drained = 0, False
        self._next = 0

    def look(self, minute: int) -> tuple[datetime, Sample]:
        """Return what a snapshot sees, with the start of its interval."""
        at, queue = _at(minute), self._queue
        alive = queue.committed > queue.minimum
        waits = queue.committed < queue.end
        sample = Sample(
            min_offset=queue.minimum,
            max_offset=queue.end,
            consumer_offset=queue.committed,
            last_timestamp=_at(queue.written_in(queue.committed - 1)) if alive else None,
            oldest_unconsumed_at=_at(self._oldest) if waits and self._world.oldest_told else None,
            consumer_offset_read_at=at,
            max_offset_read_at=at,
        )
        return at, sample

    def note_outcomes(self, minute: int, tried: Tried) -> None:
        queue, drained = self._queue, minute - self._oldest <= 1
        if queue.lost > self._lost:
            tried.came.setdefault((queue.name, "loss"), []).append(minute)
            tried.losses.append((queue.name, minute, queue.written_in(queue.committed)))
        if drained and not self._drained:
            tried.came.setdefault((queue.name, "drain"), []).append(minute)
        self._lost, self._drained = queue.lost, drained

    def is_due(self, minute: int) -> bool:
        """Whether to forecast; a look at a loss that is far is enough every half hour."""
        below_min = self._queue.committed < self._queue.minimum  # it is losing already: no forecast is needed
        return not (self._drained or below_min or minute < self._next)

    def forecast(self, minute: int, state: QueueState, retention: BrokerRetention | None, tried: Tried) -> None:
        """Say what comes."""
        now, name = _at(minute), self._queue.name
        drain = forecasts.drain(state, now)
        loss = forecasts.loss(state, retention, now)
        self._next = minute + (_NEAR if loss is not None and loss.low_ms < _NEAR_MS else _FAR)
        if drain is not None:
            tried.said.append(Said(name, minute, "drain", drain))
        if loss is None:
            return
        tried.said.append(Said(name, minute, "loss", loss))
        if loss.low_ms <= _HORIZON_MS and not forecasts.drained_before(drain, loss):
            tried.warned.setdefault(name, []).append(minute)

    @property
    def _oldest(self) -> int:
        """The minute in which the oldest message that can still be consumed was written."""
        return self._queue.written_in(max(self._queue.committed, self._queue.minimum))


class _Marks:
    """What the judge keeps of the broker: a mark an hour, and one when its oldest byte moved."""

    def __init__(self, world: World) -> None:
        self._world, self.kept = world, list[BrokerMark]()

    def look(self, minute: int) -> None:
        broker = self._world.broker
        newest = self.kept[-1] if self.kept else None
        moved = newest is not None and newest.commit_log_min_offset != broker.start
        if newest is None or moved or _at(minute) - newest.at >= timedelta(hours=1):
            mark = BrokerMark("broker-a", _at(minute), broker.start, broker.end, _at(broker.oldest_minute), self.ratio)
            self.kept.append(mark)

    @property
    def ratio(self) -> float:
        """As brokers tell it: whole percent, rounded up."""
        return -int(-self._world.broker.ratio * 100 // 1) / 100


def _facts(world: World, minute: int, marks: _Marks) -> IntervalFacts:
    broker = world.broker
    facts = BrokerFacts(
        broker_name="broker-a",
        broker_id=0,
        listed=True,
        answered=True,
        commit_log_min_offset=broker.start,
        commit_log_max_offset=broker.end,
        commit_log_growth=broker.end - broker.ends[-2],
        commit_log_growth_ms=_MINUTE_MS,
        commit_log_disk_ratio=marks.ratio,
        earliest_message_at=_at(broker.oldest_minute),
        file_reserved_time_hours=world.reserved_hours,
        delete_when=world.delete_when,
        disk_max_used_space_ratio=75,
        commit_log_file_bytes=broker.file_bytes,
        commit_log_disk_bytes=int(broker.disk_bytes) if world.disk_told else None,
        read_at=_at(minute),
    )
    return IntervalFacts(
        "demo", Interval(_at(minute)), _at(minute), brokers=(facts,), broker_marks=tuple(marks.kept[-200:])
    )


def _config(world: World) -> Config:
    ahead = world.broker.clock_ahead // HOUR
    zone = {"broker_time_zone": f"{ahead:+03}:00"} if world.zone_known else {}
    return one_team({"demo": {"name_servers": ["127.0.0.1:9876"], **zone}}, team="operations")


def _at(minute: int) -> datetime:
    return START + timedelta(minutes=minute)


def scored(tried: Tried, *, bursts: bool = False) -> Iterator[tuple[Said, bool, int | None]]:
    """Yield the forecasts whose outcome is known: whether it is inside, and the minute at which it came, if it did.

    `bursts`: whether those count, too, that a burst overtook which began after they were made.
    """
    for said in tried.said:
        low, high = (said.minute + one / _MINUTE_MS for one in said.forecast.range_ms)
        until = _premise_ends(tried, said.queue, said.minute, bursts=not bursts)
        came = next((at for at in tried.came.get((said.queue, said.kind), ()) if at > said.minute), None)
        open_ended = said.forecast.high_ms >= FURTHEST_MS
        if came is not None and came < until:
            yield said, low <= came <= high or (open_ended and came >= low), came
        elif high < until and not open_ended:
            yield said, False, None


def _premise_ends(tried: Tried, queue: str, minute: int, *, bursts: bool = False) -> int:
    changes = [phase.start for phase in tried.world.phases[queue] if phase.start > minute]
    changes += [start for start, _ in tried.world.bursts if start > minute] if bursts else []
    return min([tried.minutes, *changes])


def preventable(tried: Tried) -> Iterator[tuple[str, int, bool]]:
    """Yield (queue, minute, warned) of the losses that a person could have prevented."""
    notice = AHEAD + 2 * LOOK
    newest: dict[str, int] = {}
    for queue, minute, written in tried.losses:
        goes_on = minute - newest.get(queue, -DAY) < HOUR
        newest[queue] = minute
        behind_since = max([phase.start for phase in tried.world.phases[queue] if phase.start <= minute])
        surprise = any(minute - notice < start <= minute for start, _ in tried.world.bursts)
        if goes_on or minute - max(written, behind_since) < notice or surprise:
            continue
        looks = [at for at in tried.warned.get(queue, ()) if minute - AHEAD - _NEAR < at <= minute - AHEAD]
        yield queue, minute, bool(looks)


def warnings(tried: Tried) -> Iterator[tuple[str, int, bool]]:
    """Yield (queue, first minute, false) of the warnings that have ended, or whose range has passed."""
    ranges = {(said.queue, said.minute): said.forecast for said in tried.said if said.kind == "loss"}
    for queue, looks in tried.warned.items():
        for first, last in _spells(looks):
            latest = max(ranges[queue, at].high_ms // _MINUTE_MS + at for at in looks if first <= at <= last)
            lost = any(first <= minute <= latest for name, minute, _ in tried.losses if name == queue)
            helped = _premise_ends(tried, queue, first) <= last + _FAR
            if lost or helped or min(latest, last + _FAR) < tried.minutes:
                yield queue, first, not (lost or helped)


def _spells(looks: list[int]) -> Iterator[tuple[int, int]]:
    first = last = None
    for at in looks:
        if first is None or last is None or at - last > HOUR:
            if first is not None and last is not None:
                yield first, last
            first = at
        last = at
    if first is not None and last is not None:
        yield first, last
