"""The Data Docs of all clusters: which of their newest minutes violated which invariants."""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from offsetguard.model.intervals import Interval
from offsetguard.model.views import Record
from offsetguard.store.models import CycleRow

MINUTES = 30  # of each cluster, the newest
_PartOfId = Annotated[str, Field(max_length=20, pattern="^[A-Za-z0-9-]*$")]


class AskedDataDocs(BaseModel):
    """What a reader asked for; it stands in the address."""

    model_config = ConfigDict(frozen=True)

    invariant: _PartOfId = ""  # an id, or a part of some; empty: all


class CheckedMinute(Record):
    """What was found in one minute of a cluster."""

    cluster: str
    start: datetime
    page: str  # the file in the cluster's Data Docs
    violated_invariants: tuple[str, ...]  # of those asked for
    error: str | None  # why its publication failed; null: it did not


class DataDocsView(Record):
    """The whole view."""

    at: datetime
    asked: AskedDataDocs
    clusters: tuple[str, ...]  # that have Data Docs
    histories: tuple[str, ...]  # of these, those that have the last day of the very invariant that is asked for
    minutes: tuple[CheckedMinute, ...]  # of each cluster the newest thirty, the newest first


def data_docs_view(
    asked: AskedDataDocs,
    clusters: Collection[str],
    histories: Collection[str],
    published: Iterable[CycleRow],
    now: datetime,
) -> DataDocsView:
    """Return the view; `published`: what publications did, of each cluster the one that began last first."""
    newest: dict[tuple[str, datetime], CycleRow] = {}
    for one in published:
        if one.running_under is None:
            newest.setdefault((one.cluster, one.interval_start), one)
    minutes = sorted(newest.values(), key=lambda one: (one.cluster, -one.interval_start.timestamp()))
    return DataDocsView(
        at=now,
        asked=asked,
        clusters=tuple(clusters),
        histories=tuple(histories),
        minutes=tuple(_minute(one, asked.invariant.upper()) for one in minutes),
    )


def _minute(cycle: CycleRow, wanted: str) -> CheckedMinute:
    return CheckedMinute(
        cluster=cycle.cluster,
        start=cycle.interval_start,
        page=f"{Interval(cycle.interval_start).name}.html",
        violated_invariants=tuple(sorted(one for one in cycle.violations if wanted in one)),
        error=(cycle.error or "").partition("\n")[0] or None,
    )
