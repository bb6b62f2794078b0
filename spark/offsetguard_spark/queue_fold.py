"""One step of the fold of `offsetguard.queue_state` as Spark columns.

Each formula is that of the pure function of the same name; a property test holds them equal. Where the state before and
the new sample are found is the caller's: columns of a join, or fields of structs. Two parts, because Spark evaluates a
column once but an expression wherever it is used: `flags` says what kind of sample it is, `folded` gives every column.
No offset is added to or subtracted from another here, so none can overflow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column
from pyspark.sql import functions as F

from offsetguard.queue_state import KEPT_FOR, POINT_SPACINGS, WINDOW_PARTS
from offsetguard.tables.state import FOLDED_COLUMNS, POINT_COUNT, SAMPLE_COLUMNS

SAMPLE = ("interval_start", *(column.name for column in SAMPLE_COLUMNS))
STATE = (*SAMPLE, *(column.name for column in FOLDED_COLUMNS))
Get = Callable[[str], Column]


@dataclass(frozen=True, slots=True)
class Step:
    """The state before and the sample that is folded into it, each a way to get a column by its table's name."""

    before: Get
    new: Get
    window: timedelta

    def flags(self) -> dict[str, Column]:
        """Return the conditions that many columns share, never NULL.

        held: the state before counts and stays; the queue is not in the snapshot, or the sample is late or repeated.
        known: there is a state before that counts. seen: the sample was seen; it is either going on from an earlier
        one, or starting a window.
        """
        before, new = self.before, self.new
        at, base_at, was = new("max_offset_read_at"), before("seen_at"), before("committed_offset")
        interval, before_interval = new("interval_start"), before("interval_start")
        held = interval.isNull() | _true(interval <= before_interval)
        known = held | _true(_us_between(interval, before_interval) < _us(KEPT_FOR))
        based = known & base_at.isNotNull()
        read = at.isNotNull() & new("max_offset").isNotNull() & new("consumer_offset_read_at").isNotNull()
        seen = ~held & read & ~(based & _true(at <= base_at))
        recreated = seen & based & _true(new("max_offset") < before("seen_max_offset"))
        going = seen & based & ~recreated
        committed = new("consumer_offset")
        return {
            "held": held,
            "known": known,
            "seen": seen,
            "recreated": recreated,
            "going": going,
            "starting": seen & ~going,
            "unbroken": _true(_us_between(at, base_at) <= _us(self.window)),
            "advanced": committed.isNotNull() & (was.isNull() | _true(committed > was)),
            "rewound": _true(committed < was) & _true(was <= new("max_offset")),
            "rewind_open": before("rewound_at").isNotNull() & before("regained_at").isNull(),
            "min_moved": _true(new("min_offset") > before("seen_min_offset")),
            **self._point_flags(going),
        }

    def folded(self, flag: Get) -> dict[str, Column]:
        """Return every column of the state after the sample but the key, in the table's order."""
        before, new = self.before, self.new
        columns = {name: F.when(flag("held"), before(name)).otherwise(new(name)) for name in SAMPLE}
        columns |= self._ends(flag) | self._counts(flag) | self._moments(flag) | self._pauses(flag)
        columns |= self._rewind(flag) | self._points(flag)
        return {name: columns[name] for name in STATE}

    def _column(self, flag: Get, name: str, going: Column, starting: Column | None = None) -> Column:
        """Return a folded column: of a sample that goes on or starts a window; else it stays, or is NULL when new."""
        before = self.before(name)
        if starting is None:
            return F.when(flag("going"), going).when(~flag("starting") & flag("known"), before)
        return F.when(flag("going"), going).when(flag("starting"), starting).when(flag("known"), before)

    def _ends(self, flag: Get) -> dict[str, Column]:
        before, new, at = self.before, self.new, self.new("max_offset_read_at")
        low, high, committed = new("min_offset"), new("max_offset"), new("consumer_offset")
        since = before("max_unchanged_since")
        going_and_starting = {
            "seen_at": (at, at),
            "seen_min_offset": (F.coalesce(low, before("seen_min_offset")), low),
            "seen_max_offset": (high, high),
            "committed_offset": (F.coalesce(committed, before("committed_offset")), committed),
            "max_unchanged_since": (F.when(high == before("seen_max_offset"), since).otherwise(at), at),
        }
        return {name: self._column(flag, name, *columns) for name, columns in going_and_starting.items()}

    def _counts(self, flag: Get) -> dict[str, Column]:
        before, at, one, none = self.before, self.new("max_offset_read_at"), F.lit(1), F.lit(0)
        first = F.when(flag("unbroken"), before("first_seen_at")).otherwise(at)
        more = F.when(flag("unbroken"), before("sample_count") + one).otherwise(one)
        still_unknown = F.when(flag("held"), before("unknown_count")).when(flag("known"), before("unknown_count") + one)
        return {
            "first_seen_at": self._column(flag, "first_seen_at", first, at),
            "sample_count": F.coalesce(self._column(flag, "sample_count", more, one), none),
            "unknown_count": F.when(flag("seen"), none).otherwise(F.coalesce(still_unknown, one)),
        }

    def _moments(self, flag: Get) -> dict[str, Column]:
        before, new, at = self.before, self.new, self.new("max_offset_read_at")
        columns = {
            "min_moved_at": F.when(flag("min_moved"), at).otherwise(before("min_moved_at")),
            "min_moved_from": F.when(flag("min_moved"), before("seen_min_offset")).otherwise(before("min_moved_from")),
            "advanced_at": F.when(flag("advanced"), at).otherwise(before("advanced_at")),
        }
        columns = {name: self._column(flag, name, column) for name, column in columns.items()}
        events = {
            "end_reached_at": _nothing_waits(new),
            "lost_at": _true(new("min_offset") > new("consumer_offset")),
            "disordered_at": _disordered(new),
        }
        for name, event in events.items():
            now = F.when(event, at)
            columns[name] = self._column(flag, name, now.otherwise(before(name)), now)
        recreated = {"recreated_at": at, "recreated_from": before("seen_max_offset")}
        for name, now in recreated.items():
            columns[name] = F.when(flag("recreated"), now).otherwise(self._column(flag, name, before(name)))
        return columns

    def _pauses(self, flag: Get) -> dict[str, Column]:
        before, at = self.before, F.unix_micros(self.new("max_offset_read_at"))
        base_at, window = F.unix_micros(before("seen_at")), F.lit(_us(self.window))
        aligned, base_aligned = at - at % window, base_at - base_at % window
        same = aligned == base_aligned
        earlier = F.when(same, before("earlier_longest_pause_ms")).when(
            aligned == base_aligned + window, before("longest_pause_ms")
        )
        since = F.greatest(before("advanced_at"), before("end_reached_at"), before("first_seen_at"))
        ended = F.when(flag("advanced"), F.call_function("div", at - F.unix_micros(since), F.lit(1000)))
        longest = F.greatest(F.when(same, before("longest_pause_ms")), ended)  # of those that are not NULL
        return {
            "longest_pause_ms": self._column(flag, "longest_pause_ms", longest),
            "earlier_longest_pause_ms": self._column(flag, "earlier_longest_pause_ms", earlier),
        }

    def _rewind(self, flag: Get) -> dict[str, Column]:
        before, at, committed = self.before, self.new("max_offset_read_at"), self.new("consumer_offset")
        rewound, is_open, was = flag("rewound"), flag("rewind_open"), before("committed_offset")
        in_a_row = _true(_us_between(at, before("rewound_at")) <= _us(self.window))
        highest = F.greatest(was, F.when(is_open, before("rewound_from")))
        lowest = F.least(committed, F.when(is_open, before("rewound_to")))
        count = F.when(in_a_row, before("rewind_count") + 1).otherwise(F.lit(1))
        regained = is_open & _true(committed >= before("rewound_from"))
        columns = {
            "rewound_at": F.when(rewound, at).otherwise(before("rewound_at")),
            "rewound_from": F.when(rewound, highest).otherwise(before("rewound_from")),
            "rewound_to": F.when(rewound, lowest).otherwise(before("rewound_to")),
            "regained_at": F.when(regained, at).when(~rewound, before("regained_at")),
            "rewind_count": F.when(rewound, count).otherwise(before("rewind_count")),
        }
        return {name: self._column(flag, name, column) for name, column in columns.items()}

    def _point_flags(self, going: Column) -> dict[str, Column]:
        """Return for each point whether the one before it moves to its place."""
        moves, moving = {"point_1_moves": going}, going
        for number in range(2, POINT_COUNT + 1):
            at, newer_at = self.before(f"point_{number}_at"), self.before(f"point_{number - 1}_at")
            if number - 2 < len(POINT_SPACINGS):
                spacing = self.window * POINT_SPACINGS[number - 2] // WINDOW_PARTS
                moving = moving & (at.isNull() | _true(_us_between(newer_at, at) >= _us(spacing)))
            moves[f"point_{number}_moves"] = moving
        return moves

    def _points(self, flag: Get) -> dict[str, Column]:
        columns = {}
        newer = {"at": "seen_at", "max_offset": "seen_max_offset", "committed_offset": "committed_offset"}
        for number in range(1, POINT_COUNT + 1):
            names = {part: f"point_{number}_{part}" for part in newer}
            stays = ~flag("starting") & flag("known")
            for part, name in names.items():
                moves = F.when(flag(f"point_{number}_moves"), self.before(newer[part]))
                columns[name] = moves.when(stays, self.before(name))
            newer = names
        return columns


def _nothing_waits(new: Get) -> Column:
    low, high, committed = new("min_offset"), new("max_offset"), new("consumer_offset")
    return F.when(committed.isNotNull(), _true(high <= F.greatest(committed, low))).otherwise(_true(low == high))


def _disordered(new: Get) -> Column:
    low, high = new("min_offset"), new("max_offset")
    committed, pulled = new("consumer_offset"), new("pull_offset")
    return _true(committed > F.least(pulled, high)) | _true(F.greatest(pulled, low) > high)


def _true(condition: Column) -> Column:
    """Unknown is not true."""
    return F.coalesce(condition, F.lit(False))


def _us_between(later: Column, earlier: Column) -> Column:
    return F.unix_micros(later) - F.unix_micros(earlier)


def _us(time: timedelta) -> int:
    return time // timedelta(microseconds=1)
