"""From Airflow's dates to our intervals."""

from __future__ import annotations

from datetime import datetime

from offsetguard.model.intervals import Interval


def interval_at(moment: str) -> Interval:
    """Return the interval that an ISO 8601 moment with a zone falls into; raises ValueError for anything else."""
    parsed = datetime.fromisoformat(moment)
    if parsed.tzinfo is None:
        raise ValueError(f"interval_start {moment!r} has no time zone; write e.g. 2026-11-21T10:39:00+00:00")
    return Interval.containing(parsed)
