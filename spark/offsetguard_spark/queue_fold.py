"""One step of the fold of `offsetguard.queue_fold` as SQL expressions for Spark.

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

from offsetguard.queue_fold import KEPT_FOR, POINT_SPACINGS, WINDOW_PARTS
from offsetguard.tables.state import FOLDED_COLUMNS, POINT_COUNT, SAMPLE_COLUMNS

SAMPLE = ("interval_start", *(column.name for column in SAMPLE_COLUMNS))
STATE = (*SAMPLE, *(column.name for column in FOLDED_COLUMNS))
Get = Callable[[str], str]

HELD = 0  # the state before stays: the queue is not in the snapshot, or the sample is late or repeated
UNSEEN = 1  # the sample was not seen, the state before stays but for it
NEW_UNSEEN = 2  # the same without a state before that counts
STARTING = 3  # first seen sample of a window
RECREATED = 4  # the same, because the max offset moved back
GOING = 5  # the window goes on


@dataclass(frozen=True, slots=True)
class Step:
    """The state before and the sample that is folded into it, each a way to name a column of its table."""

    before: Get
    new: Get
    window: timedelta

    def flags(self) -> dict[str, str]:
        """Return what many columns share: the kind of the sample, how many points move on, and conditions.

        The conditions are meant for samples that go on, and may be NULL: not true.
        """
        before, new = self.before, self.new
        at, committed, was = new("max_offset_read_at"), new("consumer_offset"), before("committed_offset")
        return {
            "kind": self._kind(),
            "moving": self._moving_points(),
            "unbroken": f"{_us_between(at, before('seen_at'))} <= {_us(self.window)}",
            "advanced": f"{committed} IS NOT NULL AND ({was} IS NULL OR {committed} > {was})",
            "rewound": f"{committed} < {was} AND {was} <= {new('max_offset')}",
            "rewind_open": f"{before('rewound_at')} IS NOT NULL AND {before('regained_at')} IS NULL",
            "min_moved": f"{new('min_offset')} > {before('seen_min_offset')}",
        }

    def _kind(self) -> str:
        """Return one of the numbers HELD to GOING."""
        before, new = self.before, self.new
        at, base_at, interval = new("max_offset_read_at"), before("seen_at"), new("interval_start")
        before_interval = before("interval_start")
        unread = f"({at} IS NULL OR {new('max_offset')} IS NULL OR {new('consumer_offset_read_at')} IS NULL)"
        too_old = f"{_us_between(interval, before_interval)} >= {_us(KEPT_FOR)}"
        return _case(
            (f"{interval} IS NULL OR {interval} <= {before_interval}", f"{HELD}"),
            (f"{before_interval} IS NULL OR {too_old}", _case((unread, f"{NEW_UNSEEN}"), otherwise=f"{STARTING}")),
            (f"{unread} OR {at} <= {base_at}", f"{UNSEEN}"),
            (f"{base_at} IS NULL", f"{STARTING}"),
            (f"{new('max_offset')} < {before('seen_max_offset')}", f"{RECREATED}"),
            otherwise=f"{GOING}",
        )

    def folded(self, flag: Get) -> dict[str, str]:
        """Return every column of the state after the sample but the key, in the table's order."""
        before, new = self.before, self.new
        held = f"{flag('kind')} = {HELD}"
        columns = {name: _case((held, before(name)), otherwise=new(name)) for name in SAMPLE}
        columns |= self._ends(flag) | self._counts(flag) | self._moments(flag) | self._pauses(flag)
        columns |= self._rewind(flag) | self._points(flag)
        return {name: columns[name] for name in STATE}

    def _column(self, flag: Get, name: str, going: str, starting: str = "NULL") -> str:
        """Return a folded column: of a sample that goes on or starts a window; else it stays, or is NULL when new."""
        kind = flag("kind")
        return _case(
            (f"{kind} = {GOING}", going),
            (f"{kind} >= {STARTING}", starting),
            (f"{kind} <= {UNSEEN}", self.before(name)),
        )

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
        kind, unknown = flag("kind"), before("unknown_count")
        return {
            "first_seen_at": self._column(flag, "first_seen_at", first, at),
            "sample_count": f"coalesce({self._column(flag, 'sample_count', more, '1')}, 0)",
            "unknown_count": _case(
                (f"{kind} >= {STARTING}", "0"),
                (f"{kind} = {HELD}", unknown),
                (f"{kind} = {UNSEEN}", f"{unknown} + 1"),
                otherwise="1",
            ),
        }

    def _moments(self, flag: Get) -> dict[str, str]:
        before, new, at = self.before, self.new, self.new("max_offset_read_at")
        changes = {
            "min_moved_at": ("min_moved", at),
            "min_moved_from": ("min_moved", before("seen_min_offset")),
            "earlier_min_moved_at": ("min_moved", before("min_moved_at")),
            "earlier_min_moved_from": ("min_moved", before("min_moved_from")),
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
            columns[name] = _case((f"{flag('kind')} = {RECREATED}", value), otherwise=stays)
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

    def _moving_points(self) -> str:
        """Return how many points get a new place when the newest seen sample becomes point 1."""
        stays = []
        for number, parts in enumerate(POINT_SPACINGS, start=2):
            at, newer_at = self.before(f"point_{number}_at"), self.before(f"point_{number - 1}_at")
            stays.append((f"{_us_between(newer_at, at)} < {_us(self.window * parts // WINDOW_PARTS)}", f"{number - 1}"))
        return _case(*stays, otherwise=f"{POINT_COUNT}")

    def _points(self, flag: Get) -> dict[str, str]:
        columns = {}
        newer = {"at": "seen_at", "max_offset": "seen_max_offset", "committed_offset": "committed_offset"}
        for number in range(1, POINT_COUNT + 1):
            names = {part: f"point_{number}_{part}" for part in newer}
            for part, name in names.items():
                moves = (f"{flag('moving')} >= {number}", self.before(newer[part]))
                columns[name] = self._column(flag, name, _case(moves, otherwise=self.before(name)))
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


def _us_between(later: str, earlier: str) -> str:
    return f"(unix_micros({later}) - unix_micros({earlier}))"


def _us(time: timedelta) -> int:
    return time // timedelta(microseconds=1)
