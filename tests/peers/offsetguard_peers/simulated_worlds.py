"""Worlds for forecasts: simulated brokers with traffic, disks and consumers of every kind, each made of a seed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from offsetguard_peers.simulated_broker import DAY, HOUR, SimulatedBroker, SimulatedQueue

KINDS = ("time", "disk", "loud", "idle")
WARM_UP = DAY + 12 * HOUR  # before it every group keeps up
_MESSAGE_BYTES = 1_000


@dataclass(frozen=True, slots=True)
class Phase:
    """From a minute on, a group can consume so many times what is produced at most of an average day."""

    start: int
    speed: float


@dataclass(slots=True)
class World:
    """A broker and what is to know about it from outside."""

    name: str
    kind: str
    broker: SimulatedBroker
    phases: dict[str, tuple[Phase, ...]]  # queue -> how its group behaves when
    bursts: tuple[tuple[int, int], ...]  # (first minute, minute after the last) of loud traffic
    reserved_hours: int
    delete_when: str
    zone_known: bool
    oldest_told: bool  # whether the broker was asked how old the oldest unconsumed message is
    disk_told: bool


def world(kind: str, seed: int, minutes: int) -> World:
    """Return a world of a kind; the same seed gives the same world."""
    chance = random.Random(f"{kind} {seed}")  # noqa: S311 worlds, not secrets
    reserved_hours = chance.choice((8, 12, 24, 30))
    hours = chance.choice(((4,), (4,), (4, 16), (2, 10, 18)))
    rate = chance.uniform(300, 3_000)  # messages a minute of the whole broker
    amplitude, peak = chance.uniform(0.0, 0.7), chance.randrange(DAY)
    bursts = _bursts(kind, chance, minutes)
    loud = chance.uniform(3, 12)
    daily_bytes = rate * DAY * _MESSAGE_BYTES
    file_bytes = int(daily_bytes / chance.choice((24, 60, 200)))
    kept = daily_bytes * ((reserved_hours + 14) / 24)
    fill = chance.uniform(0.25, 0.55) if kind in ("time", "idle") else chance.uniform(0.95, 1.8)
    shares = _shares(kind, chance)
    noise = _noise(chance)

    def traffic(minute: int) -> float:
        return rate * (1 + amplitude * math.cos(2 * math.pi * (minute - peak) / DAY)) * noise(minute)

    def is_loud(minute: int) -> bool:
        return any(start <= minute < end for start, end in bursts)

    phases = {name: _phases(chance, minutes) for name in shares}
    queues = [
        SimulatedQueue(
            name,
            _MESSAGE_BYTES,
            produced=_produced(share, traffic),
            consumed=_consumed(phases[name], share * rate * (1 + amplitude), chance.random()),
        )
        for name, share in shares.items()
    ]
    if bursts:
        shout = SimulatedQueue("loud", _MESSAGE_BYTES, lambda m: loud * rate * is_loud(m), lambda _m: math.inf)
        shout.consumed = lambda _m: 1e12
        queues.append(shout)
    broker = SimulatedBroker(
        queues=queues,
        file_bytes=max(1, file_bytes),
        disk_bytes=kept / fill,
        reserved_minutes=reserved_hours * HOUR,
        delete_hours=hours,
        clock_ahead=chance.randrange(-8, 10) * HOUR,
        other_bytes=_other_bytes(chance, kept / fill),
        noise=chance.random,
    )
    when = ";".join(f"{hour:02}" for hour in hours)
    told = chance.random() < 0.6, chance.random() < 0.5, chance.random() < 0.8
    return World(f"{kind} {seed}", kind, broker, phases, bursts, reserved_hours, when, *told)


def _shares(kind: str, chance: random.Random) -> dict[str, float]:
    """Return the topics and their parts of the traffic; the rest of it goes to one that nobody watches."""
    if kind == "idle":
        return {"orders": 0.6, "quiet": 0.0005, "audits": chance.uniform(0.05, 0.3)}
    return {"orders": chance.uniform(0.2, 0.5), "payments": chance.uniform(0.05, 0.3), "audits": 0.1}


def _bursts(kind: str, chance: random.Random, minutes: int) -> tuple[tuple[int, int], ...]:
    if kind != "loud":
        return ()
    starts = sorted(chance.randrange(WARM_UP, minutes) for _ in range(2))
    return tuple((start, start + chance.randrange(HOUR, 10 * HOUR)) for start in starts)


def _phases(chance: random.Random, minutes: int) -> tuple[Phase, ...]:
    """Return how a group behaves: it keeps up, then stops, or slows down, and perhaps comes back."""
    start = chance.randrange(WARM_UP, WARM_UP + DAY)
    trouble = Phase(start, chance.choice((0.0, 0.0, 0.0, 0.2, 0.5, 0.8)))
    back = start + int(chance.uniform(1, 40) * HOUR)
    again = Phase(back, chance.choice((1.5, 2.5, 6.0)))
    stays = chance.random() < 0.5
    return (Phase(0, 3.0), trouble) if stays or back >= minutes else (Phase(0, 3.0), trouble, again)


def _produced(share: float, traffic: Callable[[int], float]) -> Callable[[int], float]:
    return lambda minute: share * traffic(minute)


def _consumed(phases: tuple[Phase, ...], most: float, phase: float) -> Callable[[int], float]:
    def able(minute: int) -> float:
        speed = next(one.speed for one in reversed(phases) if one.start <= minute)
        return speed * most * (1 + 0.1 * math.sin(minute / 7 + phase * 6))

    return able


def _noise(chance: random.Random) -> Callable[[int], float]:
    factors = [math.exp(chance.gauss(0, 0.15)) for _ in range(997)]
    return lambda minute: factors[minute // 10 % 997]


def _other_bytes(chance: random.Random, disk_bytes: float) -> Callable[[int], float]:
    share, wave = chance.uniform(0.02, 0.12), chance.uniform(0.0, 0.01)
    return lambda minute: disk_bytes * (share + wave * math.sin(minute / 500))
