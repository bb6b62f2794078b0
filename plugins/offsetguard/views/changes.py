"""What changed in a cluster over a span, and what is silenced in all of them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from offsetguard.catalogue import Catalogue
from offsetguard.facts.cluster_changes import Changes, Kind, Within
from offsetguard.model.views import Record
from offsetguard.views.course import EMPTY_IS_NONE, Asked, Span
from offsetguard.views.fleet import Trust, trust_in
from offsetguard.views.silences import WatchedSilence

ROWS = 100  # changes on one page
WIDEST, WIDEST_OF_GROUP = Span.SIX_HOURS, Span.WEEK  # `facts/cluster_changes.py` says what they cost


class AskedChanges(BaseModel):
    """What a reader asked for; it stands in the address."""

    model_config = ConfigDict(frozen=True)

    cluster: Asked = ""  # as the configuration calls it; without it the first
    consumer_group: Asked = ""  # only this group's; then the span may be 7d, else 6h at most
    topic: Asked = ""  # only what is of this topic, with the groups that read it
    kind: Annotated[Kind | None, EMPTY_IS_NONE] = None
    search: Asked = ""  # part of the name of a group, topic or broker, in any case
    span: Span = Span.TWO_HOURS  # that ends with the newest facts
    page: Annotated[int, Field(ge=1, le=1_000_000)] = 1  # of a hundred changes each

    @property
    def widest(self) -> Span:
        """The longest span that is gone through."""
        return WIDEST_OF_GROUP if self.consumer_group else WIDEST

    def within(self, until: datetime) -> Within:
        """Return what is asked of published facts; `until`: the end of the newest interval."""
        since = until - min(self.span.length, self.widest.length)
        return Within(self.cluster, since, until, self.consumer_group, self.topic, self.search)


class ClusterChange(Record):
    """One thing that was other than before."""

    at: datetime  # the moment that was told, or the start of the first interval that shows it
    kind: Kind
    cluster: str
    consumer_group: str | None
    topic: str | None
    broker_name: str | None
    what: str


class ChangesView(Record):
    """The whole view."""

    at: datetime
    asked: AskedChanges
    trust: Trust
    facts_of: datetime | None
    since: datetime | None  # changes are complete from here; null: nothing was published
    until: datetime | None
    longest_span: Span | None  # the span that is shown where a longer one was asked for
    is_cut: bool  # so many names changed that what was before `since` was not gone through
    is_whole: bool  # false: even since then only the first names are gone through
    unreadable: str | None  # why changes could not be read
    changes: tuple[ClusterChange, ...]  # one page of them, newest first
    change_count: int  # on all pages
    page_count: int
    clusters: tuple[str, ...]  # that there are
    silences: tuple[WatchedSilence, ...]  # that hold, the next to end first; then those that will, then those that did
    silence_count: int  # of all of them


class ReadChanges(Record):
    """What was read of a cluster."""

    model_config = ConfigDict(arbitrary_types_allowed=True, frozen=True)

    facts_of: datetime | None = None
    within: Within | None = None  # None: nothing was published
    found: Changes | None = None  # None: it could not be read
    unreadable: str | None = None


def changes_view(
    asked: AskedChanges,
    read: ReadChanges,
    silences: tuple[WatchedSilence, ...],
    now: datetime,
    *,
    silence_count: int,
    clusters: Iterable[str],
    words: Catalogue,
) -> ChangesView:
    """Return the view."""
    within, found = read.within, read.found
    every = [one for one in (found.changes if found else ()) if asked.kind in {None, one.kind}]
    page_count = max(1, -(-len(every) // ROWS))
    page = min(asked.page, page_count)
    return ChangesView(
        at=now,
        asked=asked.model_copy(update={"page": page}),
        trust=trust_in(read.facts_of, now),
        facts_of=read.facts_of,
        since=found.since if found else within and within.since,
        until=within and within.until,
        longest_span=asked.widest if asked.span.length > asked.widest.length else None,
        is_cut=bool(found and within and found.since > within.since),
        is_whole=found is None or found.is_whole,
        unreadable=read.unreadable,
        changes=tuple(
            ClusterChange(
                at=one.at,
                kind=one.kind,
                cluster=asked.cluster,
                consumer_group=one.consumer_group,
                topic=one.topic,
                broker_name=one.broker_name,
                what=words.read(one.what),
            )
            for one in every[(page - 1) * ROWS : page * ROWS]
        ),
        change_count=len(every),
        page_count=page_count,
        clusters=tuple(sorted({asked.cluster, *clusters} - {""})),
        silences=silences,
        silence_count=silence_count,
    )
