"""What all fact tables share: sums over what is known, bounded; NULL columns for what was not seen."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from offsetguard_spark.tables import spark_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import Column, DataFrame

    from offsetguard.tables import Table
    from offsetguard_spark.fact_sources import FactSources

LAG_SUMS = ("lag", "effective_lag", "inflight", "available", "lost")
AGES = ("lag_ms", "inflight_ms", "available_ms", "lost_ms")
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


def exact_sum(figure: Column) -> Column:
    """Return the sum of whole numbers that are known, as a decimal that cannot overflow; NULL when none is."""
    return F.sum(figure.cast("decimal(28,0)"))


def rate_sum(figure: Column) -> Column:
    """Return the sum of rates that are known: added up as decimals, so that no order of rows changes it."""
    return F.sum(figure.try_cast("decimal(28,6)")).cast("double")


def bounded(figure: Column) -> Column:
    """Return an exact sum as int64. Offsets set to 2^63 - 1 do occur: it stays at its end instead of failing."""
    limited = F.least(F.greatest(figure, F.lit(_INT64_MIN)), F.lit(_INT64_MAX))
    return F.when(figure.isNotNull(), limited).cast("bigint")


def unknown(table: Table, names: Iterable[str]) -> dict[str, Column]:
    """Return NULL columns of the table's types: nothing that tells of them was seen."""
    return {name: F.lit(None).cast(spark_type(table[name])) for name in names}


def any_of(answer: Column) -> Column:
    """Return the aggregate: true if one is; NULL when none is and one is unknown; else false."""
    return F.when(F.max(answer), F.lit(True)).when(F.count(answer) < F.count("*"), F.lit(None)).otherwise(F.lit(False))


def growth(now: Column, before: Column) -> Column:
    """Return by how much a counter grew; NULL when a side is unknown or it went back."""
    return F.when(now >= before, now - before)


def milliseconds_between(earlier: Column, later: Column) -> Column:
    """Return the time from one moment to another in whole ms."""
    return F.unix_millis(later) - F.unix_millis(earlier)


def per_second(grown: Column, since_ms: Column) -> Column:
    """Return a growth per second; NULL when it is unknown or no time has passed."""
    return F.when(since_ms > 0, grown.cast("double") * F.lit(1000.0) / since_ms.cast("double"))


def as_rows_of(
    table: Table, sources: FactSources, rows: DataFrame, figures: Mapping[str, Column] = MappingProxyType({})
) -> DataFrame:
    """Return rows of this interval with the table's columns in their order: the last step of every maker.

    `figures`: columns that the rows do not have yet, or have otherwise.
    """
    transaction = {"cluster": F.lit(sources.cluster), "interval_start": F.lit(sources.interval.start)}
    made = transaction | dict(figures)
    return rows.select(*[made.get(column.name, F.col(column.name)).alias(column.name) for column in table.columns])
