"""Which of many patterns a name matches, without trying all of them.

Goal: hundreds of patterns against 10,000 consumer groups within a second. Plan: a pattern can match only names that
begin with the text before its first wildcard and end with the text after its last one; patterns are filed under the
first of these that is not empty, and only those filed under a beginning or an end of the name are tried. Patterns that
have neither are tried on names that hold the longest text between their wildcards. What matches is
`fnmatch.fnmatchcase`: * = anything, ? = one character, [abc] = one of them; case matters.
"""

from __future__ import annotations

import fnmatch
import re
from bisect import bisect_right
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
