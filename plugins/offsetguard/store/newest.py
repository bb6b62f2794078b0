"""The newest of what the database has for pages: as long as it is the same, so are they."""

from collections.abc import Iterable

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from offsetguard.store.models import (
    AcknowledgementRow,
    IncidentEventRow,
    JudgedIntervalRow,
    PublishedIntervalRow,
    SilenceRow,
)


def marks(session: Session, clusters: Iterable[str]) -> tuple[object, ...]:
    """Return the newest publication and judgement of each cluster, event, acknowledgement and silence; milliseconds.

    An old interval may be published again. Judging changes incidents and forecasts; all else that happens to an
    incident is an event.
    """
    judged = select(JudgedIntervalRow.judged_at).order_by(JudgedIntervalRow.interval_start.desc()).limit(1)
    published = select(func.max(PublishedIntervalRow.published_at))
    of_clusters = [
        (
            session.scalar(published.where(PublishedIntervalRow.cluster == one)),
            session.scalar(judged.where(JudgedIntervalRow.cluster == one)),
        )
        for one in clusters
    ]
    rows = (IncidentEventRow.id, AcknowledgementRow.id, SilenceRow.id, SilenceRow.expired_at)
    return *of_clusters, *(session.scalar(select(func.max(one))) for one in rows)
