"""What `facts/*.sql` say of rows that a test gives, as the pure path asks them."""

from __future__ import annotations

from offsetguard.config.groups import Judgement
from offsetguard.facts.interval import Record
from offsetguard.facts.queries import FactQueries, Moment, Tables
from offsetguard.model.intervals import Interval
from offsetguard.tables import Table


def answers(table: Table, kind: type[Record], rows: Tables, interval: Interval) -> list[Record]:
    """Return the facts of a table as records, in a fixed order. `rows`: by name of the landed table."""
    queries = FactQueries([rows], [Moment(0, interval.start, interval.end)], Judgement())
    return sorted(queries.about(0).records(table, kind), key=repr)
