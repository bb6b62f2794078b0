"""Records of logs as rows of `log_events` and `offset_moves`: the Spark side of `offsetguard.sources.logs`.

The patterns and layouts are the ones of Python, tried in the same order; a test holds both sides equal, row by row.
DataFrame API only. An `explode` stands where a step must be computed once: Spark never merges it with its neighbours,
as it would merge a projection and a filter and then run hundreds of regular expressions twice. It does one thing more:
Spark interprets it. Java code for a hundred patterns is longer than a method may be, so Spark would compile it, fail,
and interpret everything.

What a pattern says of the texts that its groups found is told by a small table, one way for all patterns: columns of
its own for each of a hundred would be sent, planned and handed to every task, which takes as long as reading a log of a
hundred MiB.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from offsetguard.sources.logs.events import CAUSES, MOVE
from offsetguard.sources.logs.matching import PATTERNS, beginnings
from offsetguard.sources.logs.pattern import Field, FieldType, Part, Pattern
from offsetguard.sources.logs.records import LAYOUTS
from offsetguard.tables import LOG_EVENTS, OFFSET_MOVES, Table

_SECOND_CHARACTERS = len("2026-11-21 06:45:30")


def laid_out(records: DataFrame, time_zone: str) -> DataFrame:
    """Return (path, position, at, thread, message, is_text): one row per record.

    `at` is NULL where a record has no head that we know, `is_text` false for empty lines before the first record.
    `records`: of `read_records`. `time_zone`: as in the configuration, of the times in the files.
    """
    head = F.when(F.col("has_head"), _head())
    is_text = F.col("has_head") | (F.trim("text") != "")
    read = _computed(records.select("path", "position", "has_head", is_text.alias("is_text"), "text"), "head", head)
    time = F.element_at("head", 2)
    seconds = F.left(time, F.lit(_SECOND_CHARACTERS)).try_cast("timestamp")
    # Where there are none, nothing is cast: within `try_cast`, Spark throws and catches an exception
    milliseconds = F.when(F.length(time) > _SECOND_CHARACTERS, F.substring(time, 21, 3).try_cast("int"))
    local = F.timestamp_millis(F.unix_millis(seconds) + F.coalesce(milliseconds, F.lit(0)))
    return read.select(
        "path",
        "position",
        F.when(F.col("has_head"), F.to_utc_timestamp(local, time_zone)).alias("at"),
        F.nullif(F.element_at("head", 3), F.lit("")).alias("thread"),
        F.element_at("head", 4).alias("message"),
        "is_text",
    )


def outcomes(messages: DataFrame, patterns: Sequence[Pattern] = PATTERNS) -> DataFrame:
    """Return the records that a pattern is meant for, with `pattern`: its kind, fields and names; and the unreadable.

    `pattern` is NULL for records that cannot be read: they have no time. All others are left out.
    `messages`: any columns with `message`, `at` and `is_text`.
    """
    others = [name for name in messages.columns if name not in {"message", "is_text"}]
    found = F.when(F.col("at").isNotNull(), _found(patterns))
    is_unreadable = F.col("at").isNull() & F.col("is_text")
    matched = _computed(messages.select(*others, "is_text", "message"), "found", found)
    kept = matched.where(F.col("found").isNotNull() | is_unreadable).select(*others, "found")
    return with_pattern(kept, patterns)


def recognised(messages: DataFrame, patterns: Sequence[Pattern] = PATTERNS) -> DataFrame:
    """Return the records that a pattern is meant for, with `pattern`; others are left out."""
    return outcomes(messages, patterns).where(F.col("pattern").isNotNull())


def log_event_rows(events: DataFrame) -> DataFrame:
    """Return rows of `log_events`. `events`: `recognised`, with cluster, source, file, broker_name and broker_id."""
    return events.select("*", "pattern.*", _interval_start()).select(*_columns(LOG_EVENTS))


def offset_move_rows(events: DataFrame) -> DataFrame:
    """Return rows of `offset_moves`, origin `log` (`sources.logs.events`). `events`: as for `log_event_rows`."""
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
        F.lit(None).cast("timestamp").alias("nearest_start_at"),
    )
    known = F.col("requested_offset").isNotNull() & F.col("corrected_offset").isNotNull()
    return rows.where(known).select(*_columns(OFFSET_MOVES))


def _computed(rows: DataFrame, name: str, column: Column) -> DataFrame:
    """Add a column that is computed once per row, whatever is made of it later.

    In a struct: of an array of anything else Spark asks for each row whether it may be NULL, through the whole tree.
    """
    once = rows.select("*", F.explode(F.array(F.struct(column.alias("it")))).alias("once"))
    return once.select(*rows.columns, F.col("once.it").alias(name))


def _head() -> Column:
    """Return (empty, time, thread, message) as the first layout that fits reads a record; NULL when none does."""
    groups = dict.fromkeys(("at", "thread"), "")
    names = [name for layout in LAYOUTS for name in layout.fields]
    for number, name in enumerate(names, start=1):
        if name in groups:
            groups[name] += f"${number}"  # of the layouts that do not fit, all are empty
    regex = "|".join(layout.regex.removeprefix("^") for layout in LAYOUTS)
    return _groups(F.col("text"), f"^(?:{regex})", f"{groups['at']}\n{groups['thread']}\n", most=4)


def _groups(text: Column, regex: str, replacement: str, most: int = -1) -> Column:
    """Return an empty text, and the lines of a replacement that names groups; NULL where the regex does not match.

    One replacement reads all groups at once, and says whether there are any: none of them can hold a line feed, so line
    feeds separate them; and one stands before them, where no text begins with one that a regex is tried on.
    """
    texts = F.split(F.regexp_replace(text, regex, f"\n{replacement}"), "\n", most)
    return F.get(F.filter(F.array(texts), lambda once: once[0] == ""), F.lit(0))  # so it is computed once


def _found(patterns: Sequence[Pattern]) -> Column:
    """Return what the first pattern finds that a message is of, as `with_pattern` takes it; NULL when there is none.

    Patterns are looked for by the message's first character: no message can be of those that begin otherwise.
    """
    firsts = [{text[:1] for text in beginnings(pattern.regex)} for pattern in patterns]
    found = [
        F.when(
            F.col("message").startswith(first),
            F.coalesce(*[_of(at, patterns[at]) for at, its in enumerate(firsts) if first in its]),
        )
        for first in sorted(set().union(*firsts))
    ]
    return F.coalesce(*found)


def _of(number: int, pattern: Pattern) -> Column:
    """Return an empty text, the lines of the pattern's `replacement`, its parts' texts; NULL when it does not match."""
    message, start = F.col("message"), _shared_start(beginnings(pattern.regex))
    may_be = message.startswith(start)
    if pattern.must_contain not in start:
        may_be &= message.contains(pattern.must_contain)
    texts = _groups(message, f"{pattern.regex}(?s:.*)", replacement(number, pattern))
    if pattern.parts:  # bound once: several parts may be searched in them
        texts = F.get(F.transform(F.array(texts), lambda once: F.concat(once, _parts(pattern, once))), F.lit(0))
    return F.when(may_be, texts)


def _parts(pattern: Pattern, texts: Column) -> Column:
    """Return the texts of a pattern's parts; empty where one is not found."""
    at = {field.name: position for position, field in enumerate(pattern.fields, start=FIRST_TEXT)}
    return F.array(*[F.regexp_extract(F.get(texts, F.lit(at[part.of])), part.regex, 1) for part in pattern.parts])


def _shared_start(texts: frozenset[str]) -> str:
    first, last = min(texts), max(texts)
    length = next((at for at, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))
    return first[:length]


def _integer(event: str, field: str) -> Column:
    return F.get_json_object(f"{event}.fields_json", f"$.{field}").try_cast("bigint")


def _agrees(before: Column, now: Column) -> Column:
    return F.coalesce(before == now, before.isNull())


def _interval_start() -> Column:
    """Put a line into the minute in which it was written."""
    return F.date_trunc("minute", "at").alias("interval_start")


def _columns(table: Table) -> list[str]:
    return [column.name for column in table.columns]


FIRST_TEXT = 3  # in what was found: behind an empty text, the JSON of `replacement` and the pattern's number

_NUMBER = r"^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?\z"
_ESCAPED_IN_JSON = r"\"\\\x00-\x1f"
_OTHERWISE_IN_JSON = "0[0-9]|-0|-?[0-9]{19}"  # numbers that are written otherwise, or may be beyond 64 bits
# Of what was found, a line for each text: there is JSON, and every text behind the number is in it as it must be.
_IS_JSON = rf"^\n\{{[^\n]*\n[0-9]+(?>\n(?!{_OTHERWISE_IN_JSON})[^{_ESCAPED_IN_JSON}]+)*\z"
_MAX_NAME_CHARACTERS = 4096
_NAMED = ("consumer_group", "topic", "queue_id", "client_id", "client_address")
_TYPES = {"is_text": FieldType.TEXT, "is_integer": FieldType.INT}
_SCHEMA = pa.schema(
    [
        pa.field("pattern_number", pa.int32()),
        pa.field("kind", pa.string()),
        pa.field("routine", pa.bool_()),
        pa.field("fields", pa.list_(pa.struct([("name", pa.string()), *((one, pa.bool_()) for one in _TYPES)]))),
        pa.field("first_part", pa.int32()),  # counted from 1
        *(pa.field(f"{name}_at", pa.int32()) for name in _NAMED),
    ]
)


def replacement(number: int, pattern: Pattern) -> str:
    """Return what to replace a message by that a pattern matches: lines of a JSON, the pattern's number, its groups.

    The JSON lacks the pattern's parts and the brace at its end. It is right as it stands for most messages: making it
    member by member, as `_json` does for all others, takes as long as finding the groups. Empty where a field is a
    float, which JSON writes otherwise than a log.
    """
    groups = [f"${at}" for at in range(1, len(pattern.fields) + 1)]
    values = {FieldType.TEXT: '"{}"', FieldType.INT: "{}"}
    json_text = ""
    if all(field.type in values for field in pattern.fields):
        members = zip(pattern.fields, groups, strict=True)
        json_text = "{" + ",".join(_member_name(field) + values[field.type].format(group) for field, group in members)
    return "\n".join((json_text, str(number), *groups))


def with_pattern(rows: DataFrame, patterns: Sequence[Pattern]) -> DataFrame:
    """Put `pattern` (kind, routine, names, fields as JSON) in place of `found`; NULL where nothing was found.

    `found`: an empty text, the lines of `replacement` (numbers as in `patterns`), and the texts of the pattern's parts.
    """
    others = [name for name in rows.columns if name != "found"]
    table = F.broadcast(_table(rows.sparkSession, patterns))
    joined = rows.join(table, F.element_at("found", FIRST_TEXT).cast("int") == F.col("pattern_number"), "left")
    pattern = F.struct(
        "kind",
        "routine",
        _name("consumer_group").alias("consumer_group"),
        _name("topic").alias("topic"),
        _text("queue_id").try_cast("bigint").try_cast("int").alias("queue_id"),
        F.coalesce(_name("client_id"), _name("client_address")).alias("client_id"),
        _json().alias("fields_json"),
    )
    return joined.select(*others, F.when(F.col("found").isNotNull(), pattern).alias("pattern"))


def _table(spark: SparkSession, patterns: Sequence[Pattern]) -> DataFrame:
    """Return one row per pattern: what it is, what its texts mean, and where those stand that events have columns for.

    What stands before the first text has no name, and so becomes no member of the JSON.
    """
    rows = []
    for number, pattern in enumerate(patterns):
        fields: list[Field | Part] = [*pattern.fields, *pattern.parts]
        at = {field.name: position for position, field in enumerate(fields, start=FIRST_TEXT)}
        nameless: list[dict[str, object]] = [{"name": None, "is_text": True, "is_integer": False}] * FIRST_TEXT
        rows.append(
            {
                "pattern_number": number,
                "kind": pattern.kind,
                "routine": pattern.routine,
                "fields": nameless + [_named(field) for field in fields],
                "first_part": FIRST_TEXT + len(pattern.fields) + 1,
                **{f"{name}_at": at.get(name) for name in _NAMED},
            }
        )
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=_SCHEMA))


def _named(field: Field | Part) -> dict[str, object]:
    types = {name: field.type is one for name, one in _TYPES.items()}
    return {"name": _member_name(field), **types}


def _member_name(field: Field | Part) -> str:
    return json.dumps(field.name) + ":"


def _text(name: str) -> Column:
    """Return a field's text; an empty or absent group is NULL."""
    return F.nullif(F.get("found", f"{name}_at"), F.lit(""))


def _name(name: str) -> Column:
    return F.left(_text(name), F.lit(_MAX_NAME_CHARACTERS))


def _json() -> Column:
    """Return the fields as a JSON object; an empty or absent group, or no number of the type, is null."""
    fields, found = (F.slice(name, F.col("first_part"), F.size(name)) for name in ("fields", "found"))
    parts = F.transform(F.zip_with(fields, found, _member), lambda member: F.concat(F.lit(","), member))
    has_parts = F.size("fields") >= F.col("first_part")
    as_found = F.concat(F.get("found", F.lit(1)), F.when(has_parts, F.array_join(parts, "")).otherwise(""))
    members = F.zip_with("fields", "found", _member)
    one_by_one = F.concat(F.lit("{"), F.array_join(members, ","))
    is_json = F.array_join("found", "\n").rlike(_IS_JSON)
    return F.concat(F.when(is_json, as_found).otherwise(one_by_one), F.lit("}"))


def _member(field: Column, text: Column) -> Column:
    real = F.when(text.rlike(_NUMBER), text.try_cast("double"))
    value = (
        F.when(field["is_text"], F.when(text != "", _as_json(text)))
        .when(field["is_integer"], text.try_cast("bigint").cast("string"))
        .otherwise(F.when(F.abs(real) < float("inf"), real).cast("string"))
    )
    return F.concat(field["name"], F.coalesce(value, F.lit("null")))


def _as_json(text: Column) -> Column:
    of_one = F.to_json(F.array(text))
    escaped = F.substr(of_one, F.lit(2), F.length(of_one) - 2)
    return F.when(text.rlike(f"[{_ESCAPED_IN_JSON}]"), escaped).otherwise(F.concat(F.lit('"'), text, F.lit('"')))
