"""What was staged in a world, and what its brokers said meanwhile: what sentences about it are compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import pairwise

from offsetguard.judge.evidence.move_causes import HANDOVER
from offsetguard.judge.registry import RULES

ROUND = timedelta(seconds=60)  # between two rounds: what is said may be as old, or its age as much beside
CLOCKS = timedelta(seconds=5)  # between two looks at the broker, and as late are commits
GAP = timedelta(seconds=20)  # without a look at the broker: what was so meanwhile is not known
SLACK = 100  # messages that come and go in that time
NEVER = datetime(1970, 1, 1, tzinfo=UTC)


class Kind(StrEnum):
    """What is staged."""

    OFFLINE = "offline"  # no client of the group runs
    LOST = "lost"  # messages that it has not consumed are deleted
    GONE = "gone"  # it is deleted, with its offsets
    RESET = "reset"  # somebody set its offsets back or forward
    BEYOND = "beyond"  # its offsets lie beyond the end
    HANG = "hang"  # its listeners never come back
    SLOW = "slow"  # they consume less than is written
    BROKER = "broker"  # a broker is away, or comes back
    COLLECTOR = "collector"  # nobody collects
    RETENTION = "retention"  # a broker deletes what is old


SLOW_RULES = {"slow_consumption", "accumulation", "flow_control", "queue_parallelism_cap", "reads_moved_to_slave"}
BEHIND_RULES = {*SLOW_RULES, "loss_ahead", "consumer_offline"}
RULES_OF = {
    Kind.OFFLINE: {"consumer_offline", "loss_ahead", "accumulation", "messages_lost", "rebalances_again"},
    Kind.LOST: {"messages_lost", "offset_moved_by_retention", "consumer_offline", "loss_ahead"},
    Kind.GONE: {"never_committed", "rebalances_again", *BEHIND_RULES},  # founded anew it begins with the oldest message
    Kind.RESET: {"offset_reset", *BEHIND_RULES},
    Kind.BEYOND: {"offset_reset", "queue_recreated", "offsets_violate_invariant", "consumer_offline"},
    Kind.HANG: {"handlers_hanging", "client_stands_still", "poison_message", "rebalances_again", *BEHIND_RULES},
    Kind.SLOW: {"rebalances_again", *BEHIND_RULES},
    Kind.BROKER: {
        *("broker_unreachable", "collection_incomplete", "slave_behind", "master_switched"),
        *("transactions_not_ended", "membership_disagrees", "store_slow"),
    },
    Kind.COLLECTOR: {"facts_not_published", "collection_incomplete"},
    Kind.RETENTION: {"messages_lost", "offset_moved_by_retention", "loss_ahead", "disk_filling"},
}
"""What may be said above INFO while something lasts, and for as long as TAILS after it."""


def trouble_of(rule_id: str) -> str:
    """Return what rules share that show stages of one trouble."""
    return RULES[rule_id].trouble if rule_id in RULES else rule_id


def stage_of(rule_id: str) -> int:
    """Return how far the trouble has come that a rule shows; 0: it has no stages."""
    stage = RULES[rule_id].stage if rule_id in RULES else None
    return stage.place if stage else 0


ENDS_WITH = {  # told as over only once the trouble is
    Kind.OFFLINE: {"consumer_offline", "messages_lost"},
    Kind.LOST: {"messages_lost"},
    Kind.HANG: {"handlers_hanging", "client_stands_still"},
}
TAILS = dict.fromkeys(Kind, timedelta(minutes=5)) | dict.fromkeys((Kind.RESET, Kind.BEYOND), timedelta(minutes=40))
ONE_TROUBLE = {Kind.LOST: Kind.OFFLINE, Kind.BEYOND: Kind.RESET, Kind.SLOW: Kind.HANG, Kind.GONE: Kind.OFFLINE}
BUGS = {"5.5.0": frozenset({"slave_not_synchronized"})}  # by version; apache/rocketmq#10284
AT_ONCE = {Kind.OFFLINE, Kind.LOST, Kind.GONE, Kind.RESET, Kind.BEYOND}  # since when they are is no matter of rates
OF_ALL = {Kind.BROKER, Kind.COLLECTOR, Kind.RETENTION}  # whatever stands or falls meanwhile may do so because of them


@dataclass(slots=True)
class Trouble:
    """Something that was staged; `figures`: between what bounds they are true."""

    kind: Kind
    group: str | None
    began: datetime
    ended: datetime | None = None
    figures: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def lasts(self, since: datetime, until: datetime, after: timedelta = timedelta()) -> bool:
        """Whether it was there at any moment of a span, or had ended no longer than `after` before it."""
        return self.began <= until and (self.ended is None or self.ended + after >= since)


@dataclass(frozen=True, slots=True)
class Look:
    """What the broker itself said of a group's queues: (min, max, committed offset or None) of each."""

    at: datetime
    queues: tuple[tuple[int, int, int | None], ...]

    def figure(self, name: str) -> int | None:
        """Return `effective_lag`, `lost` or `beyond`, in messages; None: not every queue has an offset."""
        bounds = self.until(self, name)
        return None if bounds is None else bounds[0]

    def until(self, then: Look, name: str) -> tuple[int, int] | None:
        """Return the least and the most that a figure was at any moment from this look to another one."""
        least = most = 0
        for before, after in zip(self.queues, then.queues, strict=True):
            if before[2] is None or after[2] is None:
                return None
            (low, high, committed), (low_then, high_then, committed_then) = before, after
            committed, committed_then = min(before[2], after[2]), max(before[2], after[2])
            figures = {
                "effective_lag": (high - max(low_then, committed_then), high_then - max(low, committed)),
                "lost": (low - committed_then, low_then - committed),
                "beyond": (committed - high_then, committed_then - high),
            }
            least, most = (count + max(0, more) for count, more in zip((least, most), figures[name], strict=True))
        return least, most


@dataclass(frozen=True, slots=True)
class Round:
    """A round of the pipeline: when it began, and when what it said had arrived; ages count to `until`."""

    began: datetime
    ended: datetime
    until: datetime
    before: datetime | None = None  # when the round before began

    @property
    def since(self) -> datetime:
        """From when on something may have been so: what a round does not find again still stands there in its words."""
        return min(self.began - ROUND, (self.before or self.began) - CLOCKS)


@dataclass(slots=True)
class Truth:
    """What was staged, and what was seen of it, by consumer group."""

    groups: frozenset[str]
    troubles: list[Trouble] = field(default_factory=list)
    looks: dict[str, list[Look]] = field(default_factory=dict)  # in order of time
    clients: dict[str, list[tuple[datetime, int]]] = field(default_factory=dict)  # from then on so many are online
    of_version: frozenset[str] = frozenset()  # rules that tell of what brokers of this version do wrong by themselves

    def of(self, group: str | None, rule_id: str | None = None) -> list[Trouble]:
        """Return the troubles of a group, and those of all; `rule_id`: which it tells of."""
        mine = [one for one in self.troubles if one.group in (group, None)]
        trouble = None if rule_id is None else trouble_of(rule_id)
        return [one for one in mine if trouble is None or trouble in set(map(trouble_of, RULES_OF[one.kind]))]

    def seen_by(self, trouble: Trouble) -> datetime:
        """Return by when a round has seen it: a broker that is away, or learns of its clients yet, shows nothing."""
        shown = trouble.began
        for one in self.of(trouble.group):
            if one.kind is Kind.BROKER and one.ended and one.lasts(trouble.began, shown + ROUND, HANDOVER):
                shown = max(shown, one.ended + HANDOVER)
        return shown + ROUND + CLOCKS

    def clients_within(self, group: str, since: datetime, until: datetime) -> set[int]:
        """Return how many clients were online in a span, all that is true of a moment of it."""
        steps = self.clients.get(group, [])
        before = [count for at, count in steps if at <= since][-1:] or [0]
        return {*before, *(count for at, count in steps if since < at <= until)}

    def looks_within(self, group: str, since: datetime, until: datetime) -> list[Look]:
        """Return what the broker said within a span."""
        return [one for one in self.looks.get(group, ()) if since <= one.at <= until]

    def looks_around(self, group: str, since: datetime, until: datetime) -> list[Look]:
        """Return what the broker said within a span, and the last look before and the first one behind it."""
        looks = self.looks.get(group, [])
        first = max((place for place, one in enumerate(looks) if one.at < since), default=0)
        last = next((place for place, one in enumerate(looks) if one.at > until), len(looks))
        return looks[first : last + 1]

    def lost_within(self, group: str, since: datetime, until: datetime, *, standing: bool = False) -> int:
        """Return what commits passed by that was deleted: the most that a group lost in a span, losses added up.

        `standing`: also what no commit has passed by yet.
        """
        total = most = 0
        for before, after in pairwise(self.looks_within(group, since, until)):
            for (_, _, committed), (low, _, then) in zip(before.queues, after.queues, strict=True):
                if committed is not None and then is not None:
                    total += max(0, min(low, then) - committed)
            most = max(most, total + (after.figure("lost") or 0))
        return most if standing else total

    def waiting_from(self, group: str, since: datetime, until: datetime) -> int:
        """Return how many messages lay at a moment before the ends, behind what was committed before an earlier one."""
        before = [one for one in self.looks.get(group, ()) if one.at < since][-1:]
        after = self.looks_within(group, NEVER, until)[-1:]
        if not before or not after:
            return 0
        pairs = zip(before[0].queues, after[0].queues, strict=True)
        return sum(max(0, high - committed) for (_, _, committed), (_, high, _) in pairs if committed is not None)

    def deleted_within(self, group: str, since: datetime, until: datetime) -> int:
        """Return how many messages were deleted in a span, consumed or not."""
        looks = self.looks_within(group, since, until)
        oldest = [sum(low for low, _, _ in one.queues) for one in looks]
        return max(oldest) - min(oldest) if oldest else 0

    def advanced(self, group: str, until: datetime) -> datetime | None:
        """Return when the group was last seen to have committed anything; None: not while we looked."""
        looks = [one for one in self.looks.get(group, ()) if one.at <= until]
        for before, after in zip(reversed(looks[:-1]), reversed(looks), strict=False):
            if any(
                one[2] is not None and one[2] > (was[2] or 0)
                for was, one in zip(before.queues, after.queues, strict=True)
            ):
                return after.at
        return None

    def oldest(self, group: str, at: datetime) -> tuple[datetime, datetime] | None:
        """Return between which looks the oldest message that waits was written; None: nothing waits, or nobody looked.

        They lie far apart where a broker was away: it came before that, or after it. NEVER: before all looks.
        """
        looks = [one for one in self.looks.get(group, ()) if one.at <= at]
        if not looks:
            return None
        written = []
        for place, (low, high, committed) in enumerate(looks[-1].queues):
            next_one = max(low, committed or 0)
            if high > next_one:
                first = next(number for number, one in enumerate(looks) if one.queues[place][1] > next_one)
                written.append((looks[first - 1].at if first else NEVER, looks[first].at))
        return (min(after for after, _ in written), min(by for _, by in written)) if written else None
