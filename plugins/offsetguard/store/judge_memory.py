"""What the judge remembers from interval to interval: absences, marks of commit logs, forecasts and their outcomes.

Absences: when the clients of consumer groups were all away in the last days, the rhythm of who comes and goes; one that
nobody would be notified of is none. Marks: how far the commit logs of masters reached, an hour apart, and when their
oldest byte had moved. Forecasts: until and after their outcome is known, and the counts of outcomes by day.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

from sqlalchemy import ColumnElement, Engine, and_, delete, func, or_, select
from sqlalchemy.orm import Session

from offsetguard.model.fact_records import Absences, BrokerMark
from offsetguard.model.offsets import MASTER_ID
from offsetguard.model.verdicts import Basis, Forecast, Kind, Outcome, Stated
from offsetguard.store.columns import NAME_LIMIT, count_changed, record_of, values_of
from offsetguard.store.database import reading
from offsetguard.store.models import AbsenceRow, BrokerMarkRow, ForecastRow, ForecastScoresRow
from offsetguard.tables.broker_facts import BrokerFacts
from offsetguard.tables.group_facts import GroupFacts

KEPT_FOR = timedelta(days=9)  # absences and marks: whoever comes once a week has come twice
_LEAST_ABSENCE = timedelta(minutes=5)  # a deployment takes less
_SEEN_APART = timedelta(days=1)  # looks at an absence that goes on, of which one is kept
_MARKS_APART = timedelta(hours=1)
_MOVES_APART = timedelta(minutes=10)


def absences_before(session: Session, cluster: str, moment: datetime) -> Mapping[str, Absences]:
    """Return by consumer group what is known of its absences that began in the KEPT_FOR before a moment."""
    found: defaultdict[str, list[AbsenceRow]] = defaultdict(list)
    row = AbsenceRow
    recent = (row.ended_at.is_(None)) | (row.began_at >= moment - KEPT_FOR)
    for one in session.scalars(select(row).where(row.cluster == cluster, row.began_at < moment, recent)):
        found[one.consumer_group].append(one)
    return {name: _absences(rows) for name, rows in found.items()}


def record_absences(session: Session, cluster: str, seen_at: datetime, groups: Iterable[GroupFacts]) -> None:
    """Note who has gone and who has come back by the look of a moment.

    An absence is kept from the first look without a client to the first with one again: it began before, by one round
    at most where none was missed. Of one round `seen_at` is always the same, so that no absence is kept twice.

    What was known until then is read in this transaction: another judge may have noted something since the caller
    looked, and one absence has one beginning.
    """
    before_it = absences_before(session, cluster, seen_at)
    online: dict[str, int] = {}
    for group in groups:
        if group.online_client_count is not None and len(group.consumer_group) <= NAME_LIMIT:
            online[group.consumer_group] = max(online.get(group.consumer_group, 0), group.online_client_count)
    for name, count in sorted(online.items()):
        known = before_it.get(name)
        away_since = known.away_since if known is not None else None
        if count == 0 and away_since is None:
            session.merge(AbsenceRow(cluster=cluster, consumer_group=name, began_at=seen_at, ended_at=None))
        elif count and away_since is not None:
            open_row = session.get(AbsenceRow, (cluster, name, away_since))
            if open_row is not None and seen_at - away_since < _LEAST_ABSENCE:
                session.delete(open_row)
            elif open_row is not None:
                open_row.ended_at = seen_at
    row = AbsenceRow
    of_a_day_ago = _last_seen() < seen_at - _SEEN_APART
    for one in session.scalars(select(row).where(row.cluster == cluster, row.ended_at.is_(None), of_a_day_ago)):
        if online.get(one.consumer_group) == 0:
            one.seen_at = seen_at


def _last_seen() -> ColumnElement[datetime]:
    return func.coalesce(AbsenceRow.seen_at, AbsenceRow.began_at)


def _absences(rows: list[AbsenceRow]) -> Absences:
    ended = {one.began_at: one.ended_at for one in rows if one.ended_at is not None}
    away_since = min((one.began_at for one in rows if one.ended_at is None), default=None)
    return Absences(
        began_at=tuple(sorted(ended)),
        longest=max((end - began for began, end in ended.items()), default=timedelta(0)),
        away_since=away_since,
        back_since=max(ended.values(), default=None) if away_since is None else None,
    )


def marks_before(session: Session, cluster: str, moment: datetime) -> tuple[BrokerMark, ...]:
    """Return the marks of a cluster's masters in the KEPT_FOR before a moment, oldest first."""
    row = BrokerMarkRow
    of_the_days = (row.cluster == cluster, row.at < moment, row.at >= moment - KEPT_FOR)
    query = select(row).where(*of_the_days).order_by(row.at, row.broker_name)
    return tuple(record_of(BrokerMark, one) for one in session.scalars(query))


def record_marks(session: Session, cluster: str, moment: datetime, brokers: Iterable[BrokerFacts]) -> None:
    """Mark the masters that are due at a moment, by the marks that this transaction finds."""
    newest = {mark.broker_name: mark for mark in marks_before(session, cluster, moment)}
    for broker in brokers:
        mark = _mark(broker)
        if mark is not None and is_due(newest.get(mark.broker_name), mark):
            session.merge(BrokerMarkRow(cluster=cluster, **values_of(mark)))


def is_due(newest: BrokerMark | None, mark: BrokerMark) -> bool:
    """Whether a mark tells something: an hour has passed, or the oldest byte has moved."""
    if newest is None:
        return True
    moved = mark.commit_log_min_offset != newest.commit_log_min_offset
    return mark.at - newest.at >= (_MOVES_APART if moved else _MARKS_APART)


def _mark(broker: BrokerFacts) -> BrokerMark | None:
    low, high, at = broker.commit_log_min_offset, broker.commit_log_max_offset, broker.read_at
    if broker.broker_id != MASTER_ID or len(broker.broker_name) > NAME_LIMIT or low is None or high is None:
        return None  # a name that the column cannot hold goes without marks, too
    if at is None:
        return None
    return BrokerMark(broker.broker_name, at, low, high, broker.earliest_message_at, broker.commit_log_disk_ratio)


def open_forecasts(session: Session, cluster: str, consumer_group: str | None = None) -> dict[int, Stated]:
    """Return the forecasts of a cluster, or of a group, whose outcome is not known, by row, oldest first."""
    row = ForecastRow
    query = select(row).where(row.cluster == cluster, row.outcome.is_(None)).order_by(row.made_at, row.id)
    if consumer_group is not None:
        query = query.where(row.consumer_group == consumer_group)
    return {one.id: record_of(Stated, one, forecast=record_of(Forecast, one)) for one in session.scalars(query)}


def state_forecast(session: Session, cluster: str, stated: Stated) -> None:
    """Keep a new forecast; one about a name that the column cannot hold is not kept."""
    if max(len(stated.consumer_group), len(stated.topic)) <= NAME_LIMIT:
        session.add(ForecastRow(cluster=cluster, **values_of(stated, "forecast"), **values_of(stated.forecast)))


def score_forecast(session: Session, row_id: int, outcome: Outcome, *, now: datetime) -> None:
    """Write down what became of a forecast, and count it; one that was scored already stays as it is."""
    row = session.get_one(ForecastRow, row_id)
    if row.outcome is not None:
        return
    row.outcome, row.known_at = outcome, now
    day = datetime.combine(now.astimezone(UTC).date(), time(), UTC)
    counts = session.get(ForecastScoresRow, (row.cluster, day, row.kind, row.basis))
    if counts is None:
        key = {"cluster": row.cluster, "day": day, "kind": row.kind, "basis": row.basis}
        counts = ForecastScoresRow(**key, inside_count=0, early_count=0, late_count=0, void_count=0)
        session.add(counts)
    name = f"{outcome.value}_count"
    setattr(counts, name, getattr(counts, name) + 1)


@dataclass(frozen=True, slots=True)
class Coverage:
    """How the forecasts of one cluster, kind and basis turned out."""

    cluster: str
    kind: Kind
    basis: Basis
    inside: int
    early: int
    late: int
    void: int

    @property
    def share_inside(self) -> float | None:
        """The share of outcomes within the stated range; None: there was none yet."""
        known = self.inside + self.early + self.late
        return self.inside / known if known else None


def coverage(engine: Engine, *, since: datetime, cluster: str | None = None) -> list[Coverage]:
    """Return how forecasts turned out whose outcome became known since a day, by cluster, kind and basis."""
    row = ForecastScoresRow
    key = (row.cluster, row.kind, row.basis)
    sums = (func.sum(row.inside_count), func.sum(row.early_count), func.sum(row.late_count), func.sum(row.void_count))
    query = select(*key, *sums).where(row.day >= since).group_by(*key).order_by(*key)
    if cluster is not None:
        query = query.where(row.cluster == cluster)
    with reading(engine) as session:
        found = session.execute(query).all()
    return [Coverage(name, kind, basis, *map(int, counts)) for name, kind, basis, *counts in found]


def delete_forecasts(session: Session, forecasts_before: datetime, scores_before: datetime) -> int:
    """Delete forecasts made, and scores of days, before a moment each; returns how many forecasts."""
    session.execute(delete(ForecastScoresRow).where(ForecastScoresRow.day < scores_before))
    return count_changed(session, delete(ForecastRow).where(ForecastRow.made_at < forecasts_before))


def delete_rhythms(session: Session, now: datetime) -> int:
    """Delete the marks that were made, and the absences that ended, more than KEPT_FOR ago; returns how many.

    So are those that go on of groups that nobody has seen for so long: they, or their clusters, are gone.
    """
    moment, row = now - KEPT_FOR, AbsenceRow
    is_gone = and_(row.ended_at.is_(None), _last_seen() < moment)
    absences = count_changed(session, delete(row).where(or_(row.ended_at < moment, is_gone)))
    return absences + count_changed(session, delete(BrokerMarkRow).where(BrokerMarkRow.at < moment))
