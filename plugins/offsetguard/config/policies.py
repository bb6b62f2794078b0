"""From the entries of `groups` to the one policy of a consumer group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetguard.config.groups import EffectivePolicy
from offsetguard.config.patterns import PatternIndex, matches
from offsetguard.config.sections import field_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offsetguard.config.groups import GroupPolicy


class Policies:
    """The policies of one configuration. Remembers what it found: every rule asks it for every group."""

    def __init__(self, entries: Sequence[GroupPolicy], default_team: str) -> None:
        """Take the sections of the file."""
        self._entries = entries
        self._default_team = default_team
        self.by_match = PatternIndex([entry.match for entry in entries])
        self._found: dict[tuple[str, str], EffectivePolicy] = {}
        self._merged: dict[tuple[int, ...], EffectivePolicy] = {}

    def deciders(self, cluster: str, consumer_group: str) -> dict[str, int]:
        """Return for each field that an entry sets for a group the position of the first one that does."""
        found: dict[str, int] = {}
        for position in reversed(self._matching(cluster, consumer_group)):
            found.update((name, position) for name in fields_set(self._entries[position]))
        return found

    def of(self, cluster: str, consumer_group: str) -> EffectivePolicy:
        """Return what holds for a group of a cluster, with defaults filled in."""
        key = (cluster, consumer_group)
        if key not in self._found:
            self._found[key] = self._merge(self._matching(cluster, consumer_group))
        return self._found[key]

    def _matching(self, cluster: str, consumer_group: str) -> tuple[int, ...]:
        found = self.by_match.matching(consumer_group)
        return tuple(position for position in found if matches(cluster, self._entries[position].cluster))

    def _merge(self, positions: tuple[int, ...]) -> EffectivePolicy:
        if positions not in self._merged:
            values: dict[str, object] = {"team": self._default_team}
            for position in reversed(positions):
                entry = self._entries[position]
                values.update((name, getattr(entry, name)) for name in fields_set(entry))
            self._merged[positions] = EffectivePolicy(**values)  # type: ignore[arg-type]
        return self._merged[positions]


def fields_set(entry: GroupPolicy) -> list[str]:
    """Return which fields of a policy an entry sets."""
    return [name for name in field_names(EffectivePolicy) if getattr(entry, name) is not None]
