"""Single values of the configuration file, and patterns of names: what they look like, what they match.

Goal: hundreds of patterns against 10,000 consumer groups within a second. Plan: a pattern can match only names that
begin with the text before its first wildcard and end with the text after its last one; patterns are filed under the
first of these that is not empty, and only those filed under a beginning or an end of the name are tried. Patterns that
have neither are tried on names that hold the longest text between their wildcards. What matches is
`fnmatch.fnmatchcase`: * = anything, ? = one character, [abc] = one of them; case matters.
"""

import fnmatch
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Annotated

from offsetguard.model.constraints import BrokenRule, Checked, Exactly, Number
from offsetguard.model.errors import ConfigError
from offsetguard.model.intervals import NOT_A_MOMENT, local_moment
from offsetguard.model.time_zones import NOT_A_TIME_ZONE, zone_of


def _written(pattern: str, what_to_write: str) -> Checked:
    expression = re.compile(pattern, re.ASCII)

    def check(value: str) -> None:
        if not expression.fullmatch(value):
            raise BrokenRule("not_written_so", what_to_write)

    return Checked(check)


def _port_exists(address: str) -> None:
    if not 1 <= int(address.rpartition(":")[2]) <= 65_535:
        raise BrokenRule("no_such_port", "is not an address: ports go from 1 to 65535")


def _time_zone_exists(name: str) -> None:
    try:
        zone_of(name)
    except ConfigError as error:
        raise BrokenRule("no_such_time_zone", NOT_A_TIME_ZONE) from error


def _moment_exists(text: str) -> None:
    try:
        local_moment(text)
    except ConfigError as error:
        raise BrokenRule("no_such_moment", NOT_A_MOMENT) from error


Name = Annotated[
    str,
    Exactly(),
    _written(
        r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}",
        "is not a name: start with a letter or digit, then letters, digits, '_', '.' or '-', at most 100",
    ),
]
Address = Annotated[
    str,
    Exactly(),
    _written(
        r"[A-Za-z0-9_.-]+:\d{1,5}",
        "is not an address: write host:port, e.g. 127.0.0.1:9876, one address to a list entry",
    ),
    Checked(_port_exists),
]
Glob = Annotated[
    str, Exactly(), _written(r"[^\x00-\x20\x7f]{1,255}", "is not a pattern: 1 to 255 characters without spaces")
]
MailAddress = Annotated[
    str,
    Exactly(),
    _written(
        r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?",
        "is not a mail address: write name@example.com, one address to a list entry",
    ),
]
SlackChannelName = Annotated[
    str,
    Exactly(),
    _written(
        r"#[^\s#@<>]{1,80}|[CGD][A-Z0-9]{6,}",
        "is not a Slack channel: write '#name' (in quotes, # starts a comment in YAML) or an id such as C0123ABCD",
    ),
]
WebUrl = Annotated[
    str,
    Exactly(),
    _written(
        r"https?://[^\s<>\"@|]+",
        "is not a page's address: write http://host:port or https://host without user name or password",
    ),
]
ConnectionId = Annotated[str, Exactly(), _written(r"[A-Za-z0-9_.-]{1,200}", "is not the id of an Airflow connection")]
TimeZone = Annotated[
    str, Exactly(), _written(r"[^\x00-\x1f]{1,100}", "is not the name of a time zone"), Checked(_time_zone_exists)
]
FilePath = Annotated[str, Exactly(), _written(r"[^\x00-\x1f]{1,4096}", "is not the path of a file")]
Line = Annotated[str, Exactly(), _written(r"[^\x00-\x1f\x7f]{1,500}", "is not one line of text")]
TimeOfDay = Annotated[
    str, Exactly(), _written(r"(?:[01]\d|2[0-3]):[0-5]\d", "is not a time of day: write '22:00' (in quotes)")
]
Moment = Annotated[str, Exactly(), Checked(_moment_exists)]  # without an offset: in the zone of the route
Milliseconds = Annotated[int, Number(gt=0)]
MillisecondsOrNone = Annotated[int, Number(ge=0)]  # 0: at once
Window = Annotated[int, Number(ge=60_000, le=30 * 60_000)]  # what is kept of a queue covers 30 min (queue_state.WINDOW)


_WILDCARD = re.compile(r"[*?\[]")


@lru_cache(maxsize=4_096)
def matcher(pattern: str) -> Callable[[str], object]:
    """Return what says (as something true or false) whether a name matches; `fnmatch` itself keeps too few of them."""
    return re.compile(fnmatch.translate(pattern)).match


def matches(name: str, pattern: str) -> bool:
    """Say whether a name matches a pattern."""
    return pattern == "*" or bool(matcher(pattern)(name))


class PatternIndex:
    """Patterns in the order of a file."""

    def __init__(self, patterns: Sequence[str]) -> None:
        """File them under their beginnings, ends, or under neither."""
        self._matchers = [matcher(pattern) for pattern in patterns]
        self._by_head: dict[str, list[int]] = {}
        self._by_tail: dict[str, list[int]] = {}
        self._by_piece: list[tuple[str, int]] = []
        for position, pattern in enumerate(patterns):
            head, *pieces = _pieces(pattern)
            tail = pieces[-1] if pieces else ""
            if head:
                self._by_head.setdefault(head, []).append(position)
            elif tail:
                self._by_tail.setdefault(tail, []).append(position)
            else:
                self._by_piece.append((max(pieces, key=len), position))
        self._head_lengths = sorted(set(map(len, self._by_head)))
        self._tail_lengths = sorted(set(map(len, self._by_tail)))

    def matching(self, name: str) -> list[int]:
        """Return the positions of the patterns that a name matches, in order."""
        tried = [position for piece, position in self._by_piece if piece in name]
        for length in _up_to(len(name), self._head_lengths):
            tried += self._by_head.get(name[:length], ())
        for length in _up_to(len(name), self._tail_lengths):
            tried += self._by_tail.get(name[-length:], ())
        return sorted(position for position in tried if self._matchers[position](name))


def _up_to(most: int, lengths: list[int]) -> list[int]:
    """Return those that a name is long enough for: a slice of a shorter one would be found under another length."""
    return lengths[: bisect_right(lengths, most)]


def _pieces(pattern: str) -> list[str]:
    """Return the texts before, between and after the wildcards; nothing but the first where a [...] hides them."""
    pieces = _WILDCARD.split(pattern)
    return [pieces[0], ""] if "[" in pattern else pieces
