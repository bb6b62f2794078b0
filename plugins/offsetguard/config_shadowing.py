"""Fields of the configuration that can never take effect, because an entry above says the same field first."""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING

from offsetguard.config.policies import fields_set

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetguard.config import Config
    from offsetguard.config.groups import GroupPolicy


def shadowed_fields(config: Config) -> Iterator[tuple[int, str, int]]:
    """Yield (position, field, position of the entry above that always wins) over `groups`."""
    for position, entry in enumerate(config.groups):
        for field in fields_set(entry):
            for above, earlier in enumerate(config.groups[:position]):
                if field in fields_set(earlier) and _covers(earlier, entry):
                    yield position, field, above
                    break


def _covers(earlier: GroupPolicy, later: GroupPolicy) -> bool:
    return _all_matched(earlier.match, later.match) and _all_matched(earlier.cluster, later.cluster)


def _all_matched(wide: str, narrow: str) -> bool:
    """Say whether everything that `narrow` matches is matched by `wide`; False where that is not plain to see.

    Matching the one pattern's text with the other is sound while `wide` has no wildcard but * and `narrow` no [...]:
    then only a * can have swallowed a wildcard.
    """
    return wide == narrow or (not set("?[") & set(wide) and "[" not in narrow and fnmatch.fnmatchcase(narrow, wide))
