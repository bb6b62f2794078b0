"""When the clients of consumer groups were all away in the last days: the rhythm of who comes and goes, as published.

Written by the judge, interval by interval. An absence that nobody would be told of is none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from offsetguard.model.intervals import Interval
from offsetguard.model.remembered import Absences
from offsetguard.store.columns import NAME_LIMIT, count_changed
from offsetguard.store.models import AbsenceRow
from offsetguard.tables.group_facts import GroupFacts

KEPT_FOR = timedelta(days=9)  # whoever comes once a week has come twice
LEAST = timedelta(minutes=5)  # a deployment takes less


def before(session: Session, cluster: str, moment: datetime) -> Mapping[str, Absences]:
    """Return by consumer group what is known of its absences that began in the KEPT_FOR before a moment."""
    found: defaultdict[str, list[AbsenceRow]] = defaultdict(list)
    row = AbsenceRow
    recent = (row.ended_at.is_(None)) | (row.began_at >= moment - KEPT_FOR)
    for one in session.scalars(select(row).where(row.cluster == cluster, row.began_at < moment, recent)):
        found[one.consumer_group].append(one)
    return {name: _absences(rows) for name, rows in found.items()}


def record(
    session: Session,
    cluster: str,
    interval: Interval,
    groups: Iterable[GroupFacts],
    before_it: Mapping[str, Absences],
) -> None:
    """Note who has gone and who has come back in an interval; `before_it`: what was known until then."""
    online: dict[str, int] = {}
    for group in groups:
        if group.online_client_count is not None and len(group.consumer_group) <= NAME_LIMIT:
            online[group.consumer_group] = max(online.get(group.consumer_group, 0), group.online_client_count)
    for name, count in sorted(online.items()):
        known = before_it.get(name)
        away_since = known.away_since if known is not None else None
        if count == 0 and away_since is None:
            began = AbsenceRow(cluster=cluster, consumer_group=name, began_at=interval.start, ended_at=None)
            session.merge(began)
        elif count and away_since is not None:
            open_row = session.get(AbsenceRow, (cluster, name, away_since))
            if open_row is not None and interval.start - away_since < LEAST:
                session.delete(open_row)
            elif open_row is not None:
                open_row.ended_at = interval.start


def delete_older(session: Session, moment: datetime) -> int:
    """Delete the absences that ended before a moment; returns how many."""
    return count_changed(session, delete(AbsenceRow).where(AbsenceRow.ended_at < moment))


def _absences(rows: list[AbsenceRow]) -> Absences:
    ended = {one.began_at: one.ended_at - one.began_at for one in rows if one.ended_at is not None}
    return Absences(
        began_at=tuple(sorted(ended)),
        longest=max(ended.values(), default=timedelta(0)),
        away_since=min((one.began_at for one in rows if one.ended_at is None), default=None),
    )
