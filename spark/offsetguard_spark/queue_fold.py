"""One step of the fold of `offsetguard.queue_state` as SQL expressions for Spark.

Each formula is that of the pure function of the same name; a property test holds them equal. Where the state before and
the new sample are found is the caller's: columns of a join, or fields of structs. Two parts, because Spark evaluates a
column once but an expression wherever it is used: `flags` says what kind of sample it is, `folded` gives every column.
No offset is added to or subtracted from another here, so none can overflow.

Text and not `Column` objects: these are a thousand calls into the JVM for each cycle, 0.3 s of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from offsetguard.queue_state import KEPT_FOR, POINT_SPACINGS, WINDOW_PARTS
from offsetguard.tables.state import FOLDED_COLUMNS, POINT_COUNT, SAMPLE_COLUMNS

SAMPLE = ("interval_start", *(column.name for column in SAMPLE_COLUMNS))
STATE = (*SAMPLE, *(column.name for column in FOLDED_COLUMNS))
Get = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Step:
    """The state before and the sample that is folded into it, each a way to name a column of its table."""

    before: Get
    new: Get
    window: timedelta

    def flags(self) -> dict[str, str]:
        """Return the conditions that many columns share, never NULL.

        held: the state before counts and stays; the queue is not in the snapshot, or the sample is late or repeated.
        known: there is a state before that counts. seen: the sample was seen; it is either going on from an earlier
        one, or starting a window.
        """
        before, new = self.before, self.new
        at, base_at, was = new("max_offset_read_at"), before("seen_at"), before("committed_offset")
        interval, before_interval = new("interval_start"), before("interval_start")
        high, committed = new("max_offset"), new("consumer_offset")
        held = f"({interval} IS NULL OR {_true(f'{interval} <= {before_interval}')})"
        known = f"({held} OR {_true(f'{_us_between(interval, before_interval)} < {_us(KEPT_FOR)}')})"
        based = f"({known} AND {base_at} IS NOT NULL)"
        read = f"({at} IS NOT NULL AND {high} IS NOT NULL AND {new('consumer_offset_read_at')} IS NOT NULL)"
        seen = f"(NOT {held} AND {read} AND NOT ({based} AND {_true(f'{at} <= {base_at}')}))"
        shrunk = _true(f"{high} < {before('seen_max_offset')}")
        recreated = f"({seen} AND {based} AND {shrunk})"
        going = f"({seen} AND {based} AND NOT {recreated})"
        return {
            "held": held,
            "known": known,
            "seen": seen,
            "recreated": recreated,
            "going": going,
            "starting": f"({seen} AND NOT {going})",
            "unbroken": _true(f"{_us_between(at, base_at)} <= {_us(self.window)}"),
            "advanced": f"({committed} IS NOT NULL AND ({was} IS NULL OR {_true(f'{committed} > {was}')}))",
            "rewound": f"({_true(f'{committed} < {was}')} AND {_true(f'{was} <= {high}')})",
            "rewind_open": f"({before('rewound_at')} IS NOT NULL AND {before('regained_at')} IS NULL)",
            "min_moved": _true(f"{new('min_offset')} > {before('seen_min_offset')}"),
            **self._point_flags(going),
        }

    def folded(self, flag: Get) -> dict[str, str]:
        """Return every column of the state after the sample but the key, in the table's order."""
        before, new = self.before, self.new
        columns = {name: _case((flag("held"), before(name)), otherwise=new(name)) for name in SAMPLE}
        columns |= self._ends(flag) | self._counts(flag) | self._moments(flag) | self._pauses(flag)
        columns |= self._rewind(flag) | self._points(flag)
        return {name: columns[name] for name in STATE}

    def _column(self, flag: Get, name: str, going: str, starting: str = "NULL") -> str:
        """Return a folded column: of a sample that goes on or starts a window; else it stays, or is NULL when new."""
        return _case((flag("going"), going), (flag("starting"), starting), (flag("known"), self.before(name)))

    def _ends(self, flag: Get) -> dict[str, str]:
        before, new, at = self.before, self.new, self.new("max_offset_read_at")
        low, high, committed = new("min_offset"), new("max_offset"), new("consumer_offset")
        unchanged = (f"{high} = {before('seen_max_offset')}", before("max_unchanged_since"))
        going_and_starting = {
            "seen_at": (at, at),
            "seen_min_offset": (f"coalesce({low}, {before('seen_min_offset')})", low),
            "seen_max_offset": (high, high),
            "committed_offset": (f"coalesce({committed}, {before('committed_offset')})", committed),
            "max_unchanged_since": (_case(unchanged, otherwise=at), at),
        }
        return {name: self._column(flag, name, *columns) for name, columns in going_and_starting.items()}

    def _counts(self, flag: Get) -> dict[str, str]:
        before, at = self.before, self.new("max_offset_read_at")
        first = _case((flag("unbroken"), before("first_seen_at")), otherwise=at)
        more = _case((flag("unbroken"), f"{before('sample_count')} + 1"), otherwise="1")
        unknown = before("unknown_count")
        return {
            "first_seen_at": self._column(flag, "first_seen_at", first, at),
            "sample_count": f"coalesce({self._column(flag, 'sample_count', more, '1')}, 0)",
            "unknown_count": _case(
                (flag("seen"), "0"), (flag("held"), unknown), (flag("known"), f"{unknown} + 1"), otherwise="1"
            ),
        }

    def _moments(self, flag: Get) -> dict[str, str]:
        before, new, at = self.before, self.new, self.new("max_offset_read_at")
        changes = {
            "min_moved_at": ("min_moved", at),
            "min_moved_from": ("min_moved", before("seen_min_offset")),
            "advanced_at": ("advanced", at),
        }
        columns = {
            name: self._column(flag, name, _case((flag(change), value), otherwise=before(name)))
            for name, (change, value) in changes.items()
        }
        events = {
            "end_reached_at": _nothing_waits(new),
            "lost_at": f"{new('min_offset')} > {new('consumer_offset')}",
            "disordered_at": _disordered(new),
        }
        for name, event in events.items():
            going = _case((event, at), otherwise=before(name))
            columns[name] = self._column(flag, name, going, _case((event, at)))
        for name, value in {"recreated_at": at, "recreated_from": before("seen_max_offset")}.items():
            stays = self._column(flag, name, before(name))
            columns[name] = _case((flag("recreated"), value), otherwise=stays)
        return columns

    def _pauses(self, flag: Get) -> dict[str, str]:
        before, window = self.before, _us(self.window)
        at, base_at = f"unix_micros({self.new('max_offset_read_at')})", f"unix_micros({before('seen_at')})"
        aligned, base_aligned = f"({at} - {at} % {window})", f"({base_at} - {base_at} % {window})"
        same, next_one = f"{aligned} = {base_aligned}", f"{aligned} = {base_aligned} + {window}"
        this, earlier = before("longest_pause_ms"), before("earlier_longest_pause_ms")
        since = f"greatest({before('advanced_at')}, {before('end_reached_at')}, {before('first_seen_at')})"
        ended = _case((flag("advanced"), f"({at} - unix_micros({since})) div 1000"))
        longest = f"greatest({_case((same, this))}, {ended})"  # of those that are not NULL
        return {
            "longest_pause_ms": self._column(flag, "longest_pause_ms", longest),
            "earlier_longest_pause_ms": self._column(
                flag, "earlier_longest_pause_ms", _case((same, earlier), (next_one, this))
            ),
        }

    def _rewind(self, flag: Get) -> dict[str, str]:
        before, at, committed = self.before, self.new("max_offset_read_at"), self.new("consumer_offset")
        is_open, from_offset, count = flag("rewind_open"), before("rewound_from"), before("rewind_count")
        in_a_row = f"{_us_between(at, before('rewound_at'))} <= {_us(self.window)}"
        rewound = {
            "rewound_at": at,
            "rewound_from": f"greatest({before('committed_offset')}, {_case((is_open, from_offset))})",
            "rewound_to": f"least({committed}, {_case((is_open, before('rewound_to')))})",
            "rewind_count": _case((in_a_row, f"{count} + 1"), otherwise="1"),
            "regained_at": "NULL",
        }
        stays = {name: before(name) for name in rewound}
        stays["regained_at"] = _case(
            (f"{is_open} AND {committed} >= {from_offset}", at), otherwise=stays["regained_at"]
        )
        return {
            name: self._column(flag, name, _case((flag("rewound"), value), otherwise=stays[name]))
            for name, value in rewound.items()
        }

    def _point_flags(self, going: str) -> dict[str, str]:
        """Return for each point whether the one before it moves to its place."""
        moves, moving = {"point_1_moves": going}, going
        for number in range(2, POINT_COUNT + 1):
            at, newer_at = self.before(f"point_{number}_at"), self.before(f"point_{number - 1}_at")
            if number - 2 < len(POINT_SPACINGS):
                spacing = _us(self.window * POINT_SPACINGS[number - 2] // WINDOW_PARTS)
                moving = f"({moving} AND ({at} IS NULL OR {_true(f'{_us_between(newer_at, at)} >= {spacing}')}))"
            moves[f"point_{number}_moves"] = moving
        return moves

    def _points(self, flag: Get) -> dict[str, str]:
        columns = {}
        newer = {"at": "seen_at", "max_offset": "seen_max_offset", "committed_offset": "committed_offset"}
        for number in range(1, POINT_COUNT + 1):
            names = {part: f"point_{number}_{part}" for part in newer}
            for part, name in names.items():
                moves = (flag(f"point_{number}_moves"), self.before(newer[part]))
                columns[name] = _case(moves, (flag("starting"), "NULL"), (flag("known"), self.before(name)))
            newer = names
        return columns


def _nothing_waits(new: Get) -> str:
    low, high, committed = new("min_offset"), new("max_offset"), new("consumer_offset")
    return _case((f"{committed} IS NOT NULL", f"{high} <= greatest({committed}, {low})"), otherwise=f"{low} = {high}")


def _disordered(new: Get) -> str:
    low, high = new("min_offset"), new("max_offset")
    committed, pulled = new("consumer_offset"), new("pull_offset")
    return f"{committed} > least({pulled}, {high}) OR greatest({pulled}, {low}) > {high}"


def _case(*cases: tuple[str, str], otherwise: str = "NULL") -> str:
    """Return the value of the first condition that is true; one that is NULL is not."""
    return f"CASE {' '.join(f'WHEN {condition} THEN {value}' for condition, value in cases)} ELSE {otherwise} END"


def _true(condition: str) -> str:
    """Unknown is not true."""
    return f"coalesce({condition}, false)"


def _us_between(later: str, earlier: str) -> str:
    return f"(unix_micros({later}) - unix_micros({earlier}))"


def _us(time: timedelta) -> int:
    return time // timedelta(microseconds=1)
