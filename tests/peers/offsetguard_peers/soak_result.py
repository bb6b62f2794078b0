"""What a soak gives: what was said of who is well, and when who stood still was named."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offsetguard_peers.blind_causes import Cause, Subject

NAMED_BY_ROUND = 4
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
    def is_right(self) -> bool:
        """Whether it was named soon enough, or the soak ended before it had to be."""
        return self.rounds <= NAMED_BY_ROUND if self.named else self.rounds < NAMED_BY_ROUND

    def __str__(self) -> str:
        when = "in an outage" if self.in_outage else "between outages"
        named = f"{self.named} in round {self.rounds}, after {self.named_after_s} s" if self.named else "not named"
        return f"{self.subject.group}, {self.cause.name} {when}: {named}{'' if self.is_right else ': WRONG'}"


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
        """Return the rounds in which the groups that stood still were named."""
        return sorted(one.rounds for one in self.stood_still if one.named)
