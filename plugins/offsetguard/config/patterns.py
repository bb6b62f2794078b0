"""Which of many patterns a name matches, without trying all of them.

Goal: hundreds of patterns against 10,000 consumer groups within a second. Plan: a pattern can match only names that
begin with the text before its first wildcard and end with the text after its last one; patterns are filed under the
first of these that is not empty, and only those filed under a beginning or an end of the name are tried. What matches
is `fnmatch.fnmatchcase`: * = anything, ? = one character, [abc] = one of them; case matters.
"""

from __future__ import annotations

import fnmatch
import re
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
        self._others: list[int] = []
        for position, pattern in enumerate(patterns):
            head, tail = _WILDCARD.split(pattern, maxsplit=1)[0], _tail(pattern)
            if head:
                self._by_head.setdefault(head, []).append(position)
            elif tail:
                self._by_tail.setdefault(tail, []).append(position)
            else:
                self._others.append(position)
        self._head_lengths = sorted(set(map(len, self._by_head)))
        self._tail_lengths = sorted(set(map(len, self._by_tail)))

    def matching(self, name: str) -> list[int]:
        """Return the positions of the patterns that a name matches, in order."""
        tried = list(self._others)
        for length in self._head_lengths:
            tried += self._by_head.get(name[:length], ())
        for length in self._tail_lengths:
            tried += self._by_tail.get(name[-length:], ())
        return sorted(position for position in tried if self._matchers[position](name))


def _tail(pattern: str) -> str:
    """Return the text after the last wildcard; nothing where a [...] makes that hard to say."""
    return "" if "[" in pattern else re.split(r"[*?]", pattern)[-1]
