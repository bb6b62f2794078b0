"""What a soak draws beforehand, when the collector is away and who stands still when; and what the soak gives."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.trials.blind_causes import Cause, Subject, cause_named

NAMED_BY_ROUND = 4
FIRST_OUTAGE_S = 270.0  # the batch is known by then
OUTAGE_S, LONG_OUTAGE_S = (120.0, 300.0), (600.0, 1_200.0)
WITH_LONG_OUTAGE_S = 1_500.0  # a soak that lasts as long has one
WATCHED_S = 200.0  # after each outage: four rounds of a minute
SOON_S = 60.0  # after the collector has come back, where no more is left
WELL_FOR_S = 150.0  # so long a group is seen to be well before it stands still
STANDSTILLS = (cause_named("all clients killed"), cause_named("all threads hang"))
Span = tuple[float, float]  # seconds since the start


@dataclass(frozen=True, slots=True)
class Warned:
    """One finding above INFO."""

    round_number: int
    after_s: int
    rule: str
    consumer_group: str | None
    topic: str | None
    cause: str


@dataclass(slots=True)
class StoodStill:
    """A group that was made to stand still."""

    subject: Subject
    at_s: float  # of the soak
    in_outage: bool
    since: float | None = None  # unix seconds; it is well before
    rounds: int = 0  # of a minute since then, or since the collector came back
    named: str | None = None  # by which rule, in the last of these rounds
    named_after_s: int | None = None

    @property
    def cause(self) -> Cause:
        """What keeps it from moving."""
        return self.subject.causes[0]

    @property
    def is_decided(self) -> bool:
        """Whether it was named, or should have been before the soak ended."""
        return self.named is not None or self.rounds >= NAMED_BY_ROUND

    @property
    def is_right(self) -> bool:
        """Whether it was not named too late."""
        return not self.is_decided or (self.named is not None and self.rounds <= NAMED_BY_ROUND)

    def __str__(self) -> str:
        when = "in an outage" if self.in_outage else "between outages"
        named = f"{self.named} in round {self.rounds}, after {self.named_after_s} s" if self.named else "not named"
        wrong = "" if self.is_right else ": WRONG"
        return f"{self.subject.group}, {self.cause.name} {when}: {named if self.is_decided else 'the end came'}{wrong}"


@dataclass(slots=True)
class SoakResult:
    """What happened and what was said of it."""

    version: str
    minutes: float
    outages: list[Span] = field(default_factory=list)
    round_count: int = 0
    actions: list[tuple[int, str]] = field(default_factory=list)  # seconds since the start, what
    warnings: list[Warned] = field(default_factory=list)
    learning: int = 0  # WARNINGs of the batch while nobody could know it
    stood_still: list[StoodStill] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        """Whether nobody was told of who is well, and everybody of who stood still."""
        return not self.warnings and all(one.is_right for one in self.stood_still)

    def action_counts(self) -> dict[str, int]:
        """How often each thing happened."""
        names = [name for _, name in self.actions]
        return {name: names.count(name) for name in sorted(set(names))}

    def named_in_rounds(self) -> list[int]:
        """Return the rounds in which groups that stood still were named, or should have been; in their order."""
        return sorted(one.rounds for one in self.stood_still if one.is_decided)


def draw_outages(chance: random.Random, seconds: float) -> list[Span]:
    """Draw when the collector is away: as often as fits, and once for long if the soak is long enough."""
    lengths = [chance.uniform(*LONG_OUTAGE_S)] if seconds >= WITH_LONG_OUTAGE_S else []
    least, most = OUTAGE_S
    while (room := seconds - FIRST_OUTAGE_S - sum(lengths) - WATCHED_S * (len(lengths) + 1)) >= least:
        lengths.append(chance.uniform(least, min(room, most)))
    chance.shuffle(lengths)
    watched = WATCHED_S + (room + WATCHED_S) / max(1, len(lengths))
    begins = [FIRST_OUTAGE_S + sum(lengths[:place]) + watched * place for place in range(len(lengths))]
    return [(begin, begin + length) for begin, length in zip(begins, lengths, strict=True)]


def draw_standstills(
    chance: random.Random, cluster: RocketMQCluster, outages: Sequence[Span], seconds: float
) -> list[StoodStill]:
    """Draw one in each outage, and one before each and after the last one, early enough for four rounds."""
    moments = [(chance.uniform(*span), True) for span in outages]
    watched = zip([0.0, *(end for _, end in outages)], [*(begin for begin, _ in outages), seconds], strict=True)
    for begin, end in watched:
        earliest = begin or WELL_FOR_S
        moments.append((chance.uniform(earliest, max(earliest + SOON_S, end - WATCHED_S - SOON_S)), False))
    return [
        StoodStill(Subject(cluster, f"claims-{number}", (chance.choice(STANDSTILLS),)), at_s, in_outage)
        for number, (at_s, in_outage) in enumerate(sorted(moments), start=1)
    ]


def well_from_s(at_s: float, outages: Sequence[Span]) -> float:
    """Return since when a group that stops then must be there, to be seen to be well for WELL_FOR_S before."""
    left, watched_until = WELL_FOR_S, at_s
    for begin, end in reversed([one for one in outages if one[0] < at_s]):
        seen = max(0.0, watched_until - end)
        if seen >= left:
            break
        left, watched_until = left - seen, begin
    return watched_until - left
