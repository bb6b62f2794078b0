"""Lock waits and subscriptions as facts in Spark: the cases of the pure side, and the same answer on random lines."""

from __future__ import annotations

from dataclasses import asdict, astuple, dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from offsetguard.facts import LockWaitFacts, LogLineFacts, SubscriptionFacts
from offsetguard.lock_waits import lock_wait_facts as pure_lock_waits
from offsetguard.lock_waits import with_holders as pure_holders
from offsetguard.log_lines import log_line_facts as pure_log_lines
from offsetguard.subscription_changes import subscription_facts as pure_subscriptions
from offsetguard.tables import CLIENT_SNAPSHOTS, GROUP_SNAPSHOTS, LOCK_WAIT_FACTS, LOG_EVENTS
from offsetguard_peers import log_fact_cases
from offsetguard_peers.log_fact_cases import INTERVAL, SINCE, WINDOW
from offsetguard_spark.fact_sources import FactSources
from offsetguard_spark.lock_waits import lock_wait_facts, with_holders
from offsetguard_spark.log_facts import has_log_lines, has_subscriptions
from offsetguard_spark.log_lines import log_line_facts
from offsetguard_spark.subscriptions import subscription_facts
from offsetguard_spark.tables import spark_schema

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

    from offsetguard.collect.landing import Row
    from offsetguard.tables import Table

ONE_QUERY = settings(
    max_examples=1,
    phases=[Phase.generate],  # shrinking would start Spark queries by the hundred
    suppress_health_check=list(HealthCheck),
)


def frame(spark: SparkSession, table: Table, rows: Iterable[Row]) -> DataFrame:
    names = [column.name for column in table.columns]
    return spark.createDataFrame([tuple(row[name] for name in names) for row in rows], spark_schema(table))


def lock_waits_in(spark: SparkSession, rows: list[Row]) -> list[tuple[Any, ...]]:
    facts = lock_wait_facts(frame(spark, LOG_EVENTS, rows), "demo", INTERVAL, WINDOW)
    return from_spark(facts, LockWaitFacts)


def subscriptions_in(spark: SparkSession, events: list[Row], clients: list[Row]) -> list[tuple[Any, ...]]:
    seen = frame(spark, CLIENT_SNAPSHOTS, clients)
    facts = subscription_facts(frame(spark, LOG_EVENTS, events), seen, "demo", INTERVAL, WINDOW)
    return from_spark(facts, SubscriptionFacts)


def log_lines_in(spark: SparkSession, rows: list[Row]) -> list[tuple[Any, ...]]:
    facts = log_line_facts(frame(spark, LOG_EVENTS, rows), "demo", INTERVAL, WINDOW)
    return from_spark(facts, LogLineFacts)


def from_spark(facts: DataFrame, record: type) -> list[tuple[Any, ...]]:
    names = list(record.__dataclass_fields__)
    return sorted((tuple(_plain(row[name]) for name in names) for row in facts.collect()), key=repr)


def from_pure(facts: Iterable[Any]) -> list[tuple[Any, ...]]:
    return sorted((tuple(_plain(value) for value in astuple(fact)) for fact in facts), key=repr)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.timestamp()
    return tuple(value) if isinstance(value, list) else value


def test_spark_gives_the_lock_waits_of_every_case(spark: SparkSession) -> None:
    """All in one query, the groups of each case under names of their own."""
    rows, expected = [], []
    for number, case in enumerate(log_fact_cases.cases("lock_waits")):
        rows += [log_fact_cases.lock_line(at, line, f"group-{number}") for at, line in enumerate(case["lines"])]
        expected += [log_fact_cases.lock_wait(wait, f"group-{number}") for wait in case["waits"]]
    # Rows of another cluster, and of an interval after this one, which a backfill must not see.
    rows.append(log_fact_cases.lock_line(0, [10, "refused", "b", "a", {"cluster": "other"}]))
    rows.append(log_fact_cases.lock_line(0, [10, "refused", "b", "a", {"interval_start": INTERVAL.end}]))
    assert lock_waits_in(spark, rows) == from_pure(expected)


def test_spark_gives_the_subscriptions_of_every_case(spark: SparkSession) -> None:
    events, clients, expected = [], [], []
    for number, case in enumerate(log_fact_cases.cases("subscriptions")):
        more_events, more_clients = log_fact_cases.subscription_rows(case, f"group-{number}")
        events += more_events
        clients += more_clients
        expected.append(log_fact_cases.subscription_fact(case["fact"], f"group-{number}"))
    topics = [fact for fact in subscriptions_in(spark, events, clients) if fact[1] == "orders"]
    assert topics == from_pure(fact for fact in expected if fact)


def test_spark_looks_up_the_holders_as_pure_python_does(spark: SparkSession) -> None:
    waits, clients, groups = log_fact_cases.holder_rows()
    rows = [asdict(wait) | {"cluster": "demo", "interval_start": INTERVAL.start} for wait in waits]
    groups = [row | {"interval_start": INTERVAL.start, "system_group": False, "in_detail": False} for row in groups]
    asked = (frame(spark, *given) for given in ((CLIENT_SNAPSHOTS, clients), (GROUP_SNAPSHOTS, groups)))
    found = with_holders(frame(spark, LOCK_WAIT_FACTS, rows), *asked)
    assert from_spark(found, LockWaitFacts) == from_pure(pure_holders(waits, clients, groups))


CLIENTS = st.sampled_from([None, "a", "b", "c"])
LOCK_LINES = st.lists(
    st.tuples(
        st.integers(0, 1900),
        st.sampled_from(["refused"] * 4 + ["expired", "taken", "failed", "ok"]),
        CLIENTS,
        CLIENTS,
        st.fixed_dictionaries(
            {
                "position": st.integers(0, 3),
                "topic": st.sampled_from(["orders", "clicks", None]),
                "queue_id": st.sampled_from([0, 0, 1, None]),
            }
        ),
    ),
    min_size=240,
    max_size=320,
)


@ONE_QUERY
@given(drawn=LOCK_LINES)
def test_spark_and_pure_python_agree_on_any_lock_lines(spark: SparkSession, drawn) -> None:
    rows = [log_fact_cases.lock_line(0, list(line), f"group-{at % 3}") for at, line in enumerate(drawn)]
    assert lock_waits_in(spark, rows) == from_pure(pure_lock_waits(rows, SINCE))


def test_spark_counts_the_lines_of_every_case(spark: SparkSession) -> None:
    """All in one query; the logs of each case are sources of their own."""
    rows, expected = [], []
    for number, case in enumerate(log_fact_cases.cases("log_lines")):
        of_case = [log_fact_cases.group_line(at, line) for at, line in enumerate(case["lines"])]
        rows += [row | {"source": f"{row['source']}-{number}"} for row in of_case]
        facts = [log_fact_cases.line_count(given_fact) for given_fact in case["facts"]]
        expected += [replace(fact, source=f"{fact.source}-{number}") for fact in facts]
    rows.append(log_fact_cases.group_line(0, [10, "group_offline", "billing", {}, {"cluster": "other"}]))
    rows.append(log_fact_cases.group_line(0, [10, "group_offline", "billing", {}, {"interval_start": INTERVAL.end}]))
    assert log_lines_in(spark, rows) == from_pure(expected)


GROUP_LINES = st.lists(
    st.tuples(
        st.integers(0, 1900),
        st.sampled_from(["pull_refused", "client_not_in_members", "offset_file_not_written", "consumer_connected"]),
        st.sampled_from(["group-0", "group-1", None]),
        st.sampled_from(
            [
                {},
                {"response_code": 25},
                {"response_code": 1, "broker_name": "broker-b"},
                {"path": "/a/client/group-2/offsets.json"},
            ]
        ),
        st.fixed_dictionaries(
            {
                "position": st.integers(0, 3),
                "source": st.sampled_from(["x", "y", "z"]),
                "broker_name": st.sampled_from(["broker-a", None, None]),
                "topic": st.sampled_from(["orders", None]),
                "queue_id": st.sampled_from([0, None]),
                "client_id": CLIENTS,
            }
        ),
    ),
    min_size=240,
    max_size=320,
)


@ONE_QUERY
@given(drawn=GROUP_LINES)
def test_spark_and_pure_python_count_any_lines_alike(spark: SparkSession, drawn) -> None:
    rows = [log_fact_cases.group_line(0, list(line)) for line in drawn]
    assert log_lines_in(spark, rows) == from_pure(pure_log_lines(rows, SINCE))


EXPRESSIONS = st.sampled_from([None, "", "*", "a", "a || b", "b||a", "b || a || a"])
TOPICS = st.sampled_from(["orders", "clicks", "%RETRY%g"])
SUBSCRIPTION_LINES = st.lists(
    st.tuples(
        st.integers(0, 1900),
        st.sampled_from(["changed", "changed", "refreshed", "added", "removed"]),
        EXPRESSIONS,
        EXPRESSIONS,
        st.fixed_dictionaries(
            {
                "position": st.integers(0, 9),
                "broker_name": st.sampled_from(["broker-a", "broker-b", None]),
                "broker_id": st.sampled_from([0, 1, None]),
                "topic": st.sampled_from(["orders", "clicks", "%RETRY%g", None]),
                "new_type": st.sampled_from(["TAG", "SQL92", None]),
            }
        ),
    ),
    min_size=80,
    max_size=120,
)
SUBSCRIPTIONS = st.none() | st.lists(st.tuples(TOPICS, EXPRESSIONS).map(lambda pair: f"{pair[0]} {pair[1] or ''}"))
CLIENT_ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c"]),
        SUBSCRIPTIONS,
        SUBSCRIPTIONS,
        st.sampled_from(["group-0", "group-1", "group-2"]),
        st.fixed_dictionaries(
            {
                "running_info_read_at": st.sampled_from([None, INTERVAL.start, INTERVAL.end]),
                "consumer_start_at": st.sampled_from([None, SINCE, INTERVAL.start]),
            }
        ),
    ),
    min_size=10,
    max_size=20,
)


@ONE_QUERY
@given(lines=SUBSCRIPTION_LINES, members=CLIENT_ROWS)
def test_spark_and_pure_python_agree_on_any_subscriptions(spark: SparkSession, lines, members) -> None:
    events = [log_fact_cases.subscription_line(0, list(line), f"group-{at % 3}") for at, line in enumerate(lines)]
    clients = [
        log_fact_cases.client_row(name, own, held, group, **more, broker_id=at)
        for at, (name, own, held, group, more) in enumerate(members)
    ]
    assert subscriptions_in(spark, events, clients) == from_pure(pure_subscriptions(events, clients, SINCE))


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
    sources = FactSources(None, "demo", INTERVAL, config, Nothing(earlier_lines), row_counts)  # type: ignore[arg-type]
    assert (has_log_lines(sources), has_subscriptions(sources)) == work
