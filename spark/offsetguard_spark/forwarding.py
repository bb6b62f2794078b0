"""Which intervals may have rows in main although no reader was shown them.

A run that is killed between its first forwarded table and the `published_intervals` row leaves such an interval. Asking
the manifests of every table in every cycle whether one does would take longer the longer the history is; so a file
marks the interval while its tables are forwarded, and only a rerun of a marked or an older interval asks.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from offsetguard.collect.landing import snapshot_folder
from offsetguard.config.workspace import Workspace
from offsetguard.model.intervals import Interval
from offsetguard.store.published_intervals import PublishedInterval


@dataclass(frozen=True, slots=True)
class Forwarding:
    """One interval's way to main."""

    workspace: Workspace
    cluster: str
    interval: Interval

    def begin(self) -> None:
        """Mark the interval; the mark is on the disk when this returns."""
        self._mark.parent.mkdir(parents=True, exist_ok=True)
        with self._mark.open("w") as mark:
            os.fsync(mark.fileno())

    def end(self) -> None:
        """Remove the mark: the `published_intervals` row tells of the interval now."""
        self._mark.unlink()

    def may_have_begun(self, newest: PublishedInterval | None) -> bool:
        """Whether main may hold rows of the interval. `newest`: the cluster's newest published interval."""
        is_older = newest is not None and self.interval.start <= newest.interval.start
        return is_older or self._mark.exists()

    @property
    def _mark(self) -> Path:
        return snapshot_folder(self.workspace.home / "forwarding", self.cluster, self.interval)
