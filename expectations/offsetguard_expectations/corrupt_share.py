"""When corrupt rows are so many that the snapshot itself cannot be believed: nothing is published then.

A single bad row, or a few, never stop a publication: they go to quarantine and are counted. When most of a table is
corrupt, facts of the rest would look like a small and healthy cluster; readers are better off with the last good state.
Only invariants with `stops_publication` count: left-over offsets or a log's wrong time zone say nothing of a snapshot.
"""

from __future__ import annotations

MAX_CORRUPT_SHARE = 0.5  # of a table's rows, by one invariant
MIN_CORRUPT_ROWS = 20  # fewer never stop anything: small clusters have few rows


def stops_publication(violations: int, rows: int, max_share: float = MAX_CORRUPT_SHARE) -> bool:
    """Whether one invariant's corrupt rows among a table's rows (sound and corrupt) are too many."""
    return violations >= MIN_CORRUPT_ROWS and violations > max_share * rows
