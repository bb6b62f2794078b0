"""How much of a cluster a round asks for: which groups in detail, and how many entries of each master are taken.

Healthy groups cost two requests for all of them together; details (pull offsets, rates, what clients do) cost several
per group. So they are for suspects, at most so many, worst first, and for a share of the others that goes round: every
healthy group is looked at once in `share_rounds` rounds, the same one in the same round wherever it is computed. A
suspect for whom there is no place waits for its turn: a broker of which all groups are in trouble is not asked more.

Topics, groups, or offsets of all masters must fit into the round, so that their rows are made and landed in time
(`Allowance`): a client may commit offsets under any names, and whoever reaches a name server may register brokers.
Masters that the round before listed go first, then those that have the least. Of one that does not fit nothing is
taken: a part of its groups would look like all of them. It is unknown then, and that is told.
"""

import asyncio
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, islice

from offsetguard.collect.broker_reading import PairReading
from offsetguard.model.intervals import Interval
from offsetguard.model.offsets import QueueOffsets

ROTATING_PART = 4  # one place in so many goes round among the suspects for whom there is no place


class SuspectReason(StrEnum):
    """Why a group is not provably healthy, worst first; the values of `group_snapshots.suspect_reason`."""

    ORDER_BROKEN = "order_broken"  # min <= consumer <= pull <= max does not hold
    OFFSETS_UNKNOWN = "offsets_unknown"  # never committed although messages are there, or an end was not seen
    WAITING = "waiting"  # messages wait that were there in the round before
    POP = "pop"  # recognised as POP before: its offsets cannot prove that it is healthy


_SEVERITY = {reason: position for position, reason in enumerate(SuspectReason)}


@dataclass(frozen=True, slots=True)
class Suspect:
    """One group that is not provably healthy; `waiting_count` = messages behind, as far as they are known."""

    consumer_group: str
    reason: SuspectReason
    waiting_count: int


@dataclass(frozen=True, slots=True)
class DetailChoice:
    """Who is asked in detail. `suspects`: why, for all of them by name, asked or not."""

    suspects: dict[str, SuspectReason]
    asked: tuple[str, ...]  # suspects, worst first

    def groups_because(self, reason: SuspectReason) -> frozenset[str]:
        """Return the suspects of one reason, asked or not."""
        return frozenset(group for group, why in self.suspects.items() if why is reason)

    @property
    def left_count(self) -> int:
        """Suspects for whom there was no place in this round."""
        return len(self.suspects) - len(self.asked)


def suspect_of(pair: PairReading, max_offsets_before: Sequence[int]) -> Suspect | None:
    """Look at one (group, topic) of one broker; None = provably healthy.

    `max_offsets_before`: the ends of the same queues in the earlier round, in their order; anything else = not known.
    A group that has consumed to there is healthy whatever waits now: all of it came since.
    """
    if not pair.is_in_order:
        return _suspect_queue_by_queue(pair, max_offsets_before)
    if pair.consumer_offsets == pair.max_offsets:
        return None
    if len(max_offsets_before) == len(pair.queue_ids):
        queues = zip(pair.consumer_offsets, pair.max_offsets, max_offsets_before, strict=True)
        if not any(consumer < high and consumer < before for consumer, high, before in queues):  # type: ignore[operator]
            return None
    return Suspect(pair.consumer_group, SuspectReason.WAITING, pair.waiting_count)


def _suspect_queue_by_queue(pair: PairReading, max_offsets_before: Sequence[int]) -> Suspect | None:
    before = dict(enumerate(max_offsets_before)) if len(max_offsets_before) == len(pair.queue_ids) else {}
    reasons: set[SuspectReason] = set()
    waiting_count = 0
    for queue_id, offsets in pair.offsets():
        reason = _reason(offsets, before.get(queue_id), asked=pair.max_at is not None)
        if reason is not None:
            reasons.add(reason)
            waiting_count += _waiting(offsets)
    if not reasons:
        return None
    return Suspect(pair.consumer_group, min(reasons, key=_SEVERITY.__getitem__), waiting_count)


def choose(found: Iterable[Suspect], limit: int, round_number: int) -> DetailChoice:
    """Choose at most `limit` suspects: the worst, and one in ROTATING_PART by turns of those who would never be."""
    merged = _merged(found)
    suspects = {group: one.reason for group, one in merged.items()}
    ordered = sorted(merged.values(), key=lambda one: (_SEVERITY[one.reason], -one.waiting_count, one.consumer_group))
    if len(ordered) <= limit:
        return DetailChoice(suspects, tuple(one.consumer_group for one in ordered))
    turning = limit // ROTATING_PART
    worst, others = ordered[: limit - turning], sorted(one.consumer_group for one in ordered[limit - turning :])
    first = round_number * turning % len(others)
    in_turn = (others[first:] + others[:first])[:turning]
    return DetailChoice(suspects, (*(one.consumer_group for one in worst), *in_turn))


def _merged(found: Iterable[Suspect]) -> dict[str, Suspect]:
    """Return what all brokers and topics together say of each group."""
    suspects: dict[str, Suspect] = {}
    for one in found:
        group, known = one.consumer_group, suspects.get(one.consumer_group, one)
        reason = min(known.reason, one.reason, key=_SEVERITY.__getitem__)
        sum_of_both = one.waiting_count + known.waiting_count
        suspects[group] = one if known is one else Suspect(group, reason, sum_of_both)
    return suspects


def choose_clients(
    clients: Mapping[str, Iterable[str]], limit: int, round_number: int
) -> tuple[list[tuple[str, str]], int]:
    """Choose clients to be asked what they do: one of each group in turn, at most `limit` in all.

    `clients`: client ids by group, groups that matter most first. Returns (group, client id) pairs, and how many
    clients were left out. A group with more clients than places has other ones asked in the next round.
    """
    turned = {group: _turned(sorted(ids), round_number) for group, ids in clients.items()}
    longest = max(map(len, turned.values()), default=0)
    in_turn = ((group, ids[place]) for place in range(longest) for group, ids in turned.items() if place < len(ids))
    chosen = list(islice(in_turn, limit))
    return chosen, sum(map(len, turned.values())) - len(chosen)


def is_in_share(consumer_group: str, share_rounds: int, round_number: int) -> bool:
    """Whether it is the group's turn; each group has one turn in `share_rounds` rounds that follow each other."""
    return zlib.crc32(consumer_group.encode("utf-8", "replace")) % share_rounds == round_number % share_rounds


def round_number_of(interval: Interval) -> int:
    """Return the number of an interval since 1970; intervals that follow each other have numbers that do."""
    length_s = (interval.end - interval.start).total_seconds()
    return int(interval.start.timestamp() // length_s)


def _turned(ids: list[str], round_number: int) -> list[str]:
    first = round_number % len(ids) if ids else 0
    return ids[first:] + ids[:first]


def _reason(offsets: QueueOffsets, max_offset_before: int | None, *, asked: bool) -> SuspectReason | None:
    low, high, consumer = offsets.min_offset, offsets.max_offset, offsets.consumer_offset
    if high is None and asked:
        return None  # the queue is gone, only its committed offset is left: there is nothing to ask
    if offsets.order_violations():
        return SuspectReason.ORDER_BROKEN
    if high is None or (consumer is None and high != low):
        return SuspectReason.OFFSETS_UNKNOWN
    if consumer is None or (offsets.effective_lag or 0) <= 0:
        return None
    young = max_offset_before is not None and consumer >= max_offset_before
    return None if young else SuspectReason.WAITING


def _waiting(offsets: QueueOffsets) -> int:
    if offsets.consumer_offset is not None:
        return max(0, offsets.effective_lag or 0)
    return max(0, (offsets.max_offset or 0) - (offsets.min_offset or 0))


class Allowance:
    """So many entries for all masters; each says once how many it has."""

    def __init__(self, masters: Collection[str], known: Collection[str], most: int) -> None:
        """`masters`: the broker names that will ask; `known`: those of the round before."""
        self.most = most
        self._known = frozenset(known)
        self._missing = set(masters)
        self._share = most // max(1, len(self._missing))
        self._counts: dict[str, int] = {}
        self._complete = asyncio.Event()

    async def admits(self, broker_name: str, count: int) -> bool:
        """Say how many entries a master has, 0 where it did not answer; return whether they are taken.

        Who has more than an equal share waits for what the others leave of theirs.
        """
        self._counts[broker_name] = count
        self._missing.discard(broker_name)
        if not self._missing:
            self._complete.set()
        if count <= self._share:
            return True
        await self._complete.wait()
        in_order = sorted(self._counts, key=lambda name: (name not in self._known, self._counts[name], name))
        totals = accumulate(self._counts[name] for name in in_order)
        return broker_name in {name for name, total in zip(in_order, totals, strict=True) if total <= self.most}
