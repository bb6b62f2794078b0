"""When there is nothing to make of log lines and clients, nothing is read or written."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import pytest
from pyspark.sql import DataFrame

from offsetguard.tables import LOG_EVENTS, Table
from offsetguard_peers.facts.log_cases import INTERVAL, SINCE
from offsetguard_spark.facts import FactSources, has_log_lines, has_subscriptions


@dataclass(frozen=True)
class Nothing:
    """Tables that must not be read: only their metadata is asked."""

    earlier_lines: bool = False

    def read(self, table: Table) -> DataFrame:
        raise AssertionError(f"{table.name} was read")

    read_with_history = read

    def may_hold(self, table: Table, first: datetime, last: datetime) -> bool:
        assert (table, last) == (LOG_EVENTS, INTERVAL.start)
        assert first < SINCE
        return self.earlier_lines


@pytest.mark.parametrize(
    ("row_counts", "earlier_lines", "work"),
    [
        ({}, False, (False, False)),
        ({"client_snapshots": 1}, False, (False, False)),  # one client agrees with itself
        ({"client_snapshots": 2}, False, (False, True)),
        ({"log_events": 1}, False, (True, True)),
        ({}, True, (True, True)),  # a wait that began in an earlier interval may go on
    ],
)
def test_an_interval_without_lines_or_clients_reads_and_writes_nothing(
    config, row_counts: dict[str, int], earlier_lines: bool, work: tuple[bool, bool]
) -> None:
    sources = FactSources(None, "demo", INTERVAL, config, Nothing(earlier_lines), row_counts, None)  # type: ignore[arg-type]
    assert (has_log_lines(sources), has_subscriptions(sources)) == work
