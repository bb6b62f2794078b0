"""Records of logs as rows of `log_events` and `offset_moves`: the Spark side of `offsetguard.logs`.

The patterns and layouts are the ones of Python, tried in the same order; a test holds both sides equal, row by row.
DataFrame API only. An `explode` stands where a step must be computed once: Spark never merges it with its neighbours,
as it would merge a projection and a filter and then run hundreds of regular expressions twice.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from offsetguard.logs.layouts import LAYOUTS
from offsetguard.logs.moves import CAUSES, MOVE
from offsetguard.logs.pattern import FieldType
from offsetguard.logs.patterns import PATTERNS
from offsetguard.tables import LOG_EVENTS, OFFSET_MOVES, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from offsetguard.logs.layouts import Layout
    from offsetguard.logs.pattern import Pattern

_NUMBER = r"^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?\z"
_MAX_NAME_CHARACTERS = 4096


def laid_out(records: DataFrame, time_zone: str) -> DataFrame:
    """Return (path, position, at, level, thread, message, is_text): one row per record.

    `at` is NULL where a record has no head that we know, `is_text` false for empty lines before the first record.
    `records`: of `read_records`. `time_zone`: as in the configuration, of the times in the files.
    """
    head = F.coalesce(*[_head(layout) for layout in LAYOUTS])
    is_text = F.col("has_head") | (F.trim("text") != "")
    read = records.select(
        "path", "position", "has_head", is_text.alias("is_text"), F.explode(F.array(head)).alias("head")
    )
    digits = F.regexp_replace(F.left("head.at", F.lit(19)), " ", "T")
    seconds = F.try_to_timestamp(digits, F.lit("yyyy-MM-dd'T'HH:mm:ss"))
    milliseconds = F.coalesce(F.substring("head.at", 21, 3).try_cast("int"), F.lit(0))
    local = F.timestamp_millis(F.unix_millis(seconds) + milliseconds)
    return read.select(
        "path",
        "position",
        F.when(F.col("has_head"), F.to_utc_timestamp(local, time_zone)).alias("at"),
        "head.level",
        "head.thread",
        "head.message",
        "is_text",
    )


def recognised(messages: DataFrame, patterns: Sequence[Pattern] = PATTERNS) -> DataFrame:
    """Return the records that a pattern is meant for, with `pattern`: its kind, fields and names; others are left out.

    `messages`: any columns with `message` and `at`.
    """
    found = F.coalesce(*[_pattern_columns(pattern) for pattern in patterns])
    wanted = F.when(F.col("at").isNotNull(), found)
    others = [name for name in messages.columns if name != "message"]
    return messages.select(*others, F.explode(F.array_compact(F.array(wanted))).alias("pattern"))


def log_event_rows(events: DataFrame) -> DataFrame:
    """Return rows of `log_events`. `events`: `recognised`, with cluster, source, file, broker_name and broker_id."""
    return events.select("*", "pattern.*", _interval_start()).select(*_columns(LOG_EVENTS))


def offset_move_rows(events: DataFrame) -> DataFrame:
    """Return rows of `offset_moves`, origin `log`: see `offsetguard.logs.moves`. `events`: as for `log_event_rows`."""
    of_pulls = events.where(F.col("pattern.kind").isin(MOVE, *CAUSES))
    line_before = Window.partitionBy("path", "thread").orderBy("position")
    before = of_pulls.withColumn("before", F.lag("pattern").over(line_before))
    moves = before.where((F.col("pattern.kind") == MOVE) & F.col("broker_name").isNotNull())
    requested, corrected = _integer("pattern", "requested_offset"), _integer("pattern", "corrected_offset")
    same_pull = reduce(
        lambda left, right: left & right,
        (
            F.col("before.kind").isin(*CAUSES),
            _agrees(_integer("before", "requested_offset"), requested),
            _agrees(_integer("before", "corrected_offset"), corrected),
            _agrees(F.col("before.topic"), F.col("pattern.topic")),
            _agrees(F.col("before.consumer_group"), F.col("pattern.consumer_group")),
        ),
    )
    rows = moves.select(
        "cluster",
        _interval_start(),
        F.lit("log").alias("origin"),
        F.concat("source", F.lit("/"), "file").alias("source"),
        "position",
        F.col("at").alias("moved_at"),
        "pattern.consumer_group",
        F.when(same_pull, F.get_json_object("before.fields_json", "$.client_address")).alias("client_id"),
        "pattern.topic",
        "broker_name",
        F.when(same_pull, F.col("before.queue_id")).alias("queue_id"),
        requested.alias("requested_offset"),
        corrected.alias("corrected_offset"),
    )
    known = F.col("requested_offset").isNotNull() & F.col("corrected_offset").isNotNull()
    return rows.where(known).select(*_columns(OFFSET_MOVES))


def _head(layout: Layout) -> Column:
    """Return what a layout says of a record; NULL when it does not fit."""
    text = F.col("text")
    groups = {name: F.regexp_extract(text, layout.regex, at) for at, name in enumerate(layout.fields, start=1)}
    head_length = F.length(F.regexp_extract(text, layout.regex, 0))
    absent = F.lit(None).cast("string")
    return F.when(
        text.rlike(layout.regex),
        F.struct(
            *(groups.get(name, absent).alias(name) for name in ("at", "level", "thread")),
            F.substr(text, head_length + 1).alias("message"),
        ),
    )


def _pattern_columns(pattern: Pattern) -> Column:
    """Return what a pattern says of a message; NULL when it is not meant for it."""
    message = F.col("message")
    values = _values(pattern)
    client = F.coalesce(*(values[name] for name in ("client_id", "client_address") if name in values), _absent())
    return F.when(
        message.contains(pattern.must_contain) & message.rlike(pattern.regex),
        F.struct(
            F.lit(pattern.kind).alias("kind"),
            F.lit(pattern.routine).alias("routine"),
            F.left(values.get("consumer_group", _absent()), F.lit(_MAX_NAME_CHARACTERS)).alias("consumer_group"),
            F.left(values.get("topic", _absent()), F.lit(_MAX_NAME_CHARACTERS)).alias("topic"),
            values.get("queue_id", _absent()).try_cast("int").alias("queue_id"),
            F.left(client, F.lit(_MAX_NAME_CHARACTERS)).alias("client_id"),
            _json(values).alias("fields_json"),
        ),
    )


def _values(pattern: Pattern) -> dict[str, Column]:
    """Return the fields by name, typed; an empty or absent group, or no number of the type, is NULL."""
    message = F.col("message")
    values = {
        field.name: _typed(F.regexp_extract(message, pattern.regex, at), field.type)
        for at, field in enumerate(pattern.fields, start=1)
    }
    for part in pattern.parts:
        text = F.regexp_extract(F.coalesce(values[part.of].cast("string"), F.lit("")), part.regex, 1)
        values[part.name] = _typed(text, part.type)
    return values


def _typed(text: Column, wanted: FieldType) -> Column:
    if wanted is FieldType.TEXT:
        return F.nullif(text, F.lit(""))
    if wanted is FieldType.INT:
        return text.try_cast("bigint")
    real = F.when(text.rlike(_NUMBER), text.try_cast("double"))
    return F.when(F.abs(real) < float("inf"), real)


def _json(values: dict[str, Column]) -> Column:
    if not values:
        return F.lit("{}")
    fields = F.struct(*(value.alias(name) for name, value in values.items()))
    return F.to_json(fields, {"ignoreNullFields": "false"})


def _absent() -> Column:
    return F.lit(None).cast("string")


def _integer(event: str, field: str) -> Column:
    return F.get_json_object(f"{event}.fields_json", f"$.{field}").try_cast("bigint")


def _agrees(before: Column, now: Column) -> Column:
    return F.coalesce(before == now, before.isNull())


def _interval_start() -> Column:
    """Put a line into the minute in which it was written."""
    return F.date_trunc("minute", "at").alias("interval_start")


def _columns(table: Table) -> list[str]:
    return [column.name for column in table.columns]
