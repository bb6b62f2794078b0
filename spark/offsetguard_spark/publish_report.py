"""What became of a publication, in figures."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class PublishReport:
    """What became of an interval; one JSON line of the job."""

    cluster: str
    interval_start: str
    verdict: str  # "published" or "already published"
    run_id: str
    rows: dict[str, int] = field(default_factory=dict)  # table name -> rows written
    duplicates: int = 0  # landed rows that repeated a key
    quarantined: int = 0
    violations: dict[str, int] = field(default_factory=dict)  # invariant id -> violations, those above 0
    snapshot_ids: dict[str, int] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)  # table name -> data files of all intervals before the run
    seconds: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the report for JSON."""
        return asdict(self)
