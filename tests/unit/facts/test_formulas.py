"""Each formula of `facts/*.sql`, file by file: what it makes of a few rows, reckoned by hand in `formulas/NAME.yml`.

That both engines agree says nothing of a formula that is wrong on both. A case gives rows of the relations that the
file reads, with the columns that matter (all others are NULL), and the rows that come out, with the columns that it is
about; `usual` are columns that rows have where a case does not say otherwise. Each case is a cluster of its own. Times
are those of the day of the interval, which goes from 10:39 to 10:40.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from offsetguard.config.groups import Judgement
from offsetguard.facts import texts
from offsetguard.facts.duckdb_engine import DuckDBEngine
from offsetguard.facts.parameters import parameters_of
from offsetguard.facts.queries import HISTORY
from offsetguard.lake.reading import table_schema
from offsetguard.model.intervals import Interval
from offsetguard.tables import PUBLISHED

Row = dict[str, Any]

FOLDER = Path(__file__).parent / "formulas"
INTERVAL = Interval(datetime(2026, 11, 21, 10, 39, tzinfo=UTC))
PARAMETERS = parameters_of(Judgement(), INTERVAL.start, INTERVAL.end)
TABLES = {table.name: table for table in PUBLISHED}
KEYS = ("topic", "consumer_group", "broker_name", "broker_id", "queue_id", "client_id")  # by which rows are found

# by case files of their own, beside this one
OTHERWISE_HELD = {"queue_state", "queue_windows", "lock_wait_facts", "log_line_facts", "offset_move_facts"}


@cache
def schema_of(relation: str) -> pa.Schema:
    """Return the columns of what a file reads; those of a step are what it makes of nothing."""
    if relation == "intervals":
        return pa.schema(
            [
                ("cluster", pa.string()),
                ("interval_start", pa.timestamp("us", "UTC")),
                ("now", pa.timestamp("us", "UTC")),
            ]
        )
    if relation.removesuffix(HISTORY) in TABLES:
        columns = table_schema(TABLES[relation.removesuffix(HISTORY)])
        return pa.schema([column.with_nullable(True) for column in columns])
    return made_of(relation, {}).schema


def made_of(name: str, rows: Mapping[str, Sequence[Row]]) -> pa.Table:
    """Return what a file makes of the rows of what it reads, by relation."""
    engine = DuckDBEngine()
    for relation in texts.relations_of(name):
        schema = schema_of(relation)
        given = [{column.name: row.get(column.name) for column in schema} for row in rows.get(relation, ())]
        engine.add(relation, pa.Table.from_pylist(given, schema=schema))
    return engine.table(name, PARAMETERS)


def with_times(value: Any, kind: pa.DataType) -> Any:
    """Return a value of a case as a column of that type has it."""
    if value is None:
        return None
    if pa.types.is_timestamp(kind):
        day, _, time = value.rpartition(" ")
        return datetime.fromisoformat(f"{day or INTERVAL.start.date()}T{time}+00:00")
    if pa.types.is_list(kind):
        return [with_times(one, kind.value_type) for one in value]
    if pa.types.is_struct(kind):
        return {field.name: with_times(value.get(field.name), field.type) for field in kind}
    return value


def rows_of(relation: str, cluster: str, usual: Row, rows: Sequence[Row]) -> list[Row]:
    """Return rows of a case, each with what is usual."""
    schema = schema_of(relation)
    when = {"interval_start": "10:39:00"} if "interval_start" in schema.names else {}
    named = [{"cluster": cluster, **when, **usual, **row} for row in rows]
    unknown = {name for row in named for name in row} - set(schema.names)
    assert not unknown, f"{relation} has no {sorted(unknown)}"
    return [{name: with_times(value, schema.field(name).type) for name, value in row.items()} for row in named]


def found_wrong(expected: Sequence[Row], found: Sequence[Row], schema: pa.Schema) -> Iterator[str]:
    """Yield in words how rows differ from those of a case."""
    if len(expected) != len(found):
        yield f"{len(found)} rows instead of {len(expected)}"
    for row in expected:
        key = {name: row[name] for name in KEYS if name in row}
        same = [one for one in found if all(one[name] == value for name, value in key.items())]
        if len(same) != 1:
            yield f"{len(same)} rows of {key}"
            continue
        for name, value in row.items():
            wanted = with_times(value, schema.field(name).type)
            if same[0][name] != (pytest.approx(wanted, rel=1e-9) if isinstance(wanted, float) else wanted):
                yield f"{name} is {plain(same[0][name])}, not {value} {key or ''}"


def plain(value: Any) -> Any:
    return (
        int(value) if isinstance(value, Decimal) else value.strftime("%H:%M:%S.%f") if hasattr(value, "day") else value
    )


def formulas(name: str) -> dict[str, Any]:
    """Return what a case file says."""
    read: dict[str, Any] = yaml.safe_load((FOLDER / f"{name}.yml").read_text("utf-8"))
    return read


def one_of_each(schema: pa.Schema, *, is_so: bool) -> Row:
    """Return a row in which no two columns have the same value, but those that are true or false."""
    return {column.name: _value_of(column.type, number, is_so) for number, column in enumerate(schema)}


def _value_of(kind: pa.DataType, number: int, is_so: bool) -> Any:
    if pa.types.is_boolean(kind):
        return is_so
    if pa.types.is_timestamp(kind):
        return INTERVAL.start + timedelta(seconds=number)
    if pa.types.is_list(kind):
        return [_value_of(kind.value_type, number, is_so)]
    if pa.types.is_struct(kind):
        return None
    if pa.types.is_string(kind):
        return f"text {number}"
    return number + 0.5 if pa.types.is_floating(kind) else number + 1000


NAMES = sorted(path.stem for path in FOLDER.glob("*.yml"))


@pytest.mark.parametrize("name", [one for one in NAMES if "passed_through" in formulas(one)])
@pytest.mark.parametrize("is_so", [True, False])
def test_columns_that_only_pass_through_a_file_are_not_mixed_up(name: str, is_so: bool) -> None:
    """`passed_through` names the relations, and of each the columns that come out as something else."""
    given = formulas(name)
    others = {"intervals": {"now": "10:40:00"}, **given["usual"]}
    for relation, changed in given["passed_through"].items():
        usual = given["usual"].get(relation, {})
        rows = {one: rows_of(one, "0", row, [{}]) for one, row in others.items() if one in texts.relations_of(name)}
        rows[relation] = [one_of_each(schema_of(relation), is_so=is_so) | rows_of(relation, "0", usual, [{}])[0]]
        (found,) = made_of(name, rows).to_pylist()
        named = found.keys() & rows[relation][0].keys() - set(changed)
        assert len(named) > 2, relation
        assert {one: found[one] for one in named} == {one: rows[relation][0][one] for one in named}, relation


@pytest.mark.parametrize("name", NAMES)
def test_a_file_makes_of_each_case_what_was_reckoned_by_hand(name: str) -> None:
    given = formulas(name)
    cases, usual, rows = given["cases"], given.get("usual", {}), dict[str, list[Row]]()
    for number, case in enumerate(cases):
        intervals = {"intervals": [{"now": "10:40:00"}]}
        for relation in texts.relations_of(name):
            some = (intervals | case).get(relation, ())
            rows.setdefault(relation, []).extend(rows_of(relation, str(number), usual.get(relation, {}), some))
        unread = case.keys() - texts.relations_of(name) - {"why", "expect"}
        assert not unread, f"{name}.sql does not read {sorted(unread)}"
    made = made_of(name, rows)
    found = made.to_pylist()
    wrong = [
        f"{case['why']}: {what}"
        for number, case in enumerate(cases)
        for what in found_wrong(case["expect"], [one for one in found if one["cluster"] == str(number)], made.schema)
    ]
    assert not wrong, "\n".join(wrong)


def test_every_file_has_cases() -> None:
    assert set(NAMES) | OTHERWISE_HELD == set(texts.names())
