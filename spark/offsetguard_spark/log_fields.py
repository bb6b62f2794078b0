"""What a pattern says of the texts that its groups found: one way for all patterns, which a small table tells apart.

Columns of its own for each of a hundred patterns would be sent, planned and handed to every task, which takes as long
as reading a log of a hundred MiB.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from offsetguard.sources.logs.pattern import Field, FieldType, Part, Pattern

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
