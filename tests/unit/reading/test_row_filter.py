"""Rows chosen with the help of a file's bounds are those that match, whatever the bounds leave undecided."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.lake.reading.plan import CLUSTER, CONSUMER_GROUP, INTERVAL_START, Bounds, RowFilter

START = datetime(2026, 11, 20, tzinfo=UTC)
CLUSTERS, GROUPS = st.sampled_from(["east", "west"]), st.sampled_from(["billing", "billing-2", "orders"])
MOMENTS = st.integers(0, 5).map(lambda number: START + timedelta(minutes=number))
FILES = st.lists(st.tuples(CLUSTERS, MOMENTS, GROUPS | st.none()), min_size=1, max_size=8)
FILTERS = st.builds(RowFilter, CLUSTERS, MOMENTS | st.none(), MOMENTS | st.none(), GROUPS | st.none())


@given(FILES, FILTERS, st.booleans())
def test_the_rows_that_match_are_chosen(
    file: list[tuple[str, datetime, str | None]], wanted: RowFilter, bounds_known: bool
) -> None:
    bounds = bounds_of(file) if bounds_known else dict.fromkeys((CLUSTER, INTERVAL_START, CONSUMER_GROUP), UNKNOWN)
    found = wanted.apply(table_of(file), wanted.undecided(bounds))
    expected = [row for row in file if matches(row, wanted)]
    assert list(zip(*(found[name].to_pylist() for name in found.column_names), strict=True)) == expected
    assert wanted.may_match(bounds) or not expected


def test_nothing_is_left_to_choose_in_a_file_of_one_cluster_within_the_time_that_is_wanted() -> None:
    bounds = bounds_of([("east", START, "billing"), ("east", START + timedelta(minutes=4), "orders")])
    span = START, START + timedelta(minutes=5)
    assert RowFilter("east", *span).undecided(bounds) == set()
    assert RowFilter("east", *span, "orders").undecided(bounds) == {CONSUMER_GROUP}
    assert RowFilter("east", START, START + timedelta(minutes=4)).undecided(bounds) == {INTERVAL_START}


def test_a_name_that_the_bounds_tell_only_the_beginning_of_is_not_decided_by_them() -> None:
    """Iceberg keeps 16 characters, and raises the last one of the upper bound."""
    bounds = bounds_of([("a-cluster-of-old", START, "billing")])
    cut = bounds | {CLUSTER: Bounds(b"a-cluster-of-old", b"a-cluster-of-ole")}
    assert RowFilter("a-cluster-of-old").undecided(bounds) == set()
    assert RowFilter("a-cluster-of-old").undecided(cut) == {CLUSTER}
    assert RowFilter("a-cluster-of-old-brokers").undecided(cut) == {CLUSTER}


UNKNOWN = Bounds(None, None)


def matches(row: tuple[str, datetime, str | None], wanted: RowFilter) -> bool:
    cluster, start, group = row
    in_time = (wanted.since is None or start >= wanted.since) and (wanted.until is None or start < wanted.until)
    return cluster == wanted.cluster and in_time and wanted.consumer_group in (None, group)


def bounds_of(file: list[tuple[str, datetime, str | None]]) -> dict[str, Bounds]:
    clusters = [cluster.encode() for cluster, _, _ in file]
    moments = [int(start.timestamp()) * 1_000_000 for _, start, _ in file]
    groups = [group.encode() for _, _, group in file if group is not None]
    return {
        CLUSTER: Bounds(min(clusters), max(clusters)),
        INTERVAL_START: Bounds(*(one.to_bytes(8, "little") for one in (min(moments), max(moments)))),
        CONSUMER_GROUP: Bounds(min(groups), max(groups)) if groups else UNKNOWN,
    }


def table_of(file: list[tuple[str, datetime, str | None]]) -> pa.Table:
    clusters, starts, groups = zip(*file, strict=True)
    return pa.table(
        {
            CLUSTER: pa.array(clusters, pa.string()).dictionary_encode(),
            INTERVAL_START: pa.array(starts, pa.timestamp("us", "UTC")),
            CONSUMER_GROUP: pa.array(groups, pa.string()).dictionary_encode(),
        }
    )
