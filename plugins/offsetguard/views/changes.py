"""What changed in a cluster over a span."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated

from pydantic import ConfigDict

from offsetguard.catalogue import Catalogue
from offsetguard.model.incident import Kind, NamedChange
from offsetguard.model.views import Record
from offsetguard.store import changes
from offsetguard.views.course import AskedRange, Span
from offsetguard.views.fleet import Trust, trust_in
from offsetguard.views.listing import EMPTY_IS_NONE, Asked, AskedPage, page_count


class AskedChanges(AskedPage, AskedRange):
    """What a reader asked for; it stands in the address."""

    cluster: Asked = ""  # as the configuration calls it; without it the first
    consumer_group: Asked = ""  # only this group's
    topic: Asked = ""  # only what is of this topic, with the groups that read it
    kind: Annotated[Kind | None, EMPTY_IS_NONE] = None
    search: Asked = ""  # part of the name of a group, topic or broker, in any case
    span: Span = Span.TWO_HOURS  # that ends with the newest facts, or at `until`

    def within(self, until: datetime) -> changes.Asked:
        """Return what is asked of the database; `until`: the end of the newest interval, unless one is asked for."""
        until = self.until or until
        since = until - self.length_or(self.span)
        return changes.Asked(self.cluster, since, until, self.consumer_group, self.topic, self.search, self.kind)


class ClusterChange(Record):
    """One thing that was other than before."""

    at: datetime  # the moment that was told, or the start of the first interval that shows it
    kind: Kind | None  # null: nobody's, it tells that more changed, or what could not be read
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
    since: datetime | None  # null: nothing was published
    until: datetime | None
    unknown_count: int  # intervals of the span of which it is not known (yet) what changed
    changes: tuple[ClusterChange, ...]  # one page of them, newest first
    change_count: int  # on all pages
    page_count: int
    clusters: tuple[str, ...]  # that there are


class ReadChanges(Record):
    """What was read of a cluster: one page of its changes."""

    model_config = ConfigDict(arbitrary_types_allowed=True, frozen=True)

    asked: AskedChanges
    facts_of: datetime | None = None
    within: changes.Asked | None = None  # None: nothing was published
    found: tuple[NamedChange, ...] = ()
    change_count: int = 0
    unknown_count: int = 0


def changes_view(read: ReadChanges, now: datetime, *, clusters: Iterable[str], words: Catalogue) -> ChangesView:
    """Return the view."""
    asked, within = read.asked, read.within
    return ChangesView(
        at=now,
        asked=asked,
        trust=trust_in(read.facts_of, now),
        facts_of=read.facts_of,
        since=within and within.since,
        until=within and within.until,
        unknown_count=read.unknown_count,
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
            for one in read.found
        ),
        change_count=read.change_count,
        page_count=page_count(read.change_count),
        clusters=tuple(sorted({asked.cluster, *clusters} - {""})),
    )
