r"""Log files as records with their byte positions: the Spark side of `offsetguard.sources.logs.records`.

Goal: files of any size, split among tasks, each record with the byte at which it begins in the uncompressed file, and
lines that no pattern is meant for at the cost of reading them.

1. Of each line two regexes (`logs.matching`) say whether it may be a wanted head. Of all others only the size counts.
2. Spark says neither where a line begins nor what the other blocks of the file hold (a block = what one task reads).
   Where a block's first line begins was looked up (`log_stream`); running sums of the sizes give all others. The sums
   need the lines of a block in one place and in order: a shuffle of little more than numbers.
3. Continuation lines are kept behind heads of patterns that read them, and lines before a file's first record. Those
   that stand beyond the block's end were looked up, too, so no record needs two blocks.

What logs really hold is read exactly as Python reads it. Of bytes that are no UTF-8, Python shows `\xNN` and Spark the
replacement character; a record beyond 64 KiB is cut behind a line here and within it there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import reduce
from operator import or_
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from offsetguard.sources.logs.log_stream import blocks_of
from offsetguard.sources.logs.matching import PATTERNS, SOUND_HEAD, wanted_head
from offsetguard.sources.logs.pattern import Pattern
from offsetguard.sources.logs.records import MAX_RECORD_BYTES, RECORD_START

BLOCK_BYTES = 32 * 1024 * 1024
_GLOB_CHARACTERS = frozenset("{}[]*?\\")
_MOST_TASKS = 400  # after the shuffle; more blocks share them
_BLOCKS = pa.schema(
    [
        pa.field("uri", pa.string()),
        pa.field("path", pa.string()),
        pa.field("block_start", pa.int64()),
        pa.field("block", pa.int32()),  # its number among all blocks of all files
        pa.field("first_position", pa.int64()),
        pa.field("end_position", pa.int64()),
        pa.field("continuation", pa.string()),
    ]
)


def read_records(
    spark: SparkSession,
    paths: Sequence[str],
    *,
    patterns: Sequence[Pattern] = PATTERNS,
    block_bytes: int = BLOCK_BYTES,
) -> DataFrame:
    """Return (path, position, text, has_head): one row per record that a pattern may be meant for, or that is odd.

    Odd is a record that may have no layout, or no time that exists. `has_head`: false for the lines before the first
    time stamp of a file, which make one record. No line is read yet; the session must keep the settings made here
    until it is. Raises OSError for a file that cannot be read.
    """
    spark.conf.set("spark.sql.files.maxPartitionBytes", str(block_bytes))
    spark.conf.set("spark.sql.files.openCostInBytes", str(block_bytes))  # else Spark makes them smaller, for more tasks
    looked_up = _blocks(spark, paths, block_bytes)
    blocks = spark.createDataFrame(looked_up)
    lines = _lines(spark, paths, blocks, patterns)
    # A task per block. By the block's hash some tasks would get several and others none.
    tasks = min(looked_up.num_rows // 2, _MOST_TASKS)
    return _joined(_kept(lines.repartitionById(tasks, "block")), blocks)


def _blocks(spark: SparkSession, paths: Sequence[str], block_bytes: int) -> pa.Table:
    """Return what was looked up, one row per block and form of the file's name: Spark itself uses two."""
    names = {unquote(urlsplit(uri).path): uri for uri in _read(spark, paths).inputFiles()}
    rows = [
        {
            "uri": re.sub("^file:/+", slashes, names[os.path.abspath(path)]),  # noqa: PTH100 - as Hadoop: `..` goes
            "path": path,
            "block_start": block.start,
            "block": number,
            "first_position": block.first_position,
            "end_position": block.end_position,
            "continuation": block.continuation,
        }
        for number, (path, block) in enumerate(
            (path, block) for path in paths for block in blocks_of(path, block_bytes)
        )
        for slashes in ("file:/", "file:///")
    ]
    return pa.Table.from_pylist(rows, schema=_BLOCKS)


def _lines(spark: SparkSession, paths: Sequence[str], blocks: DataFrame, patterns: Sequence[Pattern]) -> DataFrame:
    """Return every line with its size in bytes, line feed included; its text where it may be wanted.

    `hole`: zero bytes that a truncation left. `spans`: a head whose pattern reads the lines behind it.
    """
    raw = _read(spark, paths).select(
        F.col("_metadata.file_path").alias("uri"),
        F.col("_metadata.file_block_start").alias("block_start"),
        F.monotonically_increasing_id().alias("number"),  # grows along each block
        "value",
    )
    where = F.broadcast(blocks.select("uri", "block_start", "block", "first_position"))
    text = F.when(F.col("value").startswith("\0"), F.ltrim("value", F.lit("\0"))).otherwise(F.col("value"))
    placed = raw.join(where, ["uri", "block_start"], "left").select(
        F.coalesce("block", F.raise_error(F.concat(F.lit("read in other blocks than planned: "), "uri"))).alias(
            "block"
        ),
        "first_position",
        "number",
        F.octet_length("value").alias("bytes"),
        text.alias("text"),
    )
    starts = F.col("text").rlike(RECORD_START)
    is_head = F.col("text").rlike(wanted_head(patterns)) | ~F.col("text").rlike(SOUND_HEAD)
    is_wanted = ~starts | is_head  # or continues a record
    spanning = [pattern for pattern in patterns if pattern.spans_lines]
    may_span = [F.col("text").contains(hint) for hint in sorted({pattern.must_contain for pattern in spanning})]
    spans = reduce(or_, may_span, F.lit(False)) & F.col("text").rlike(wanted_head(spanning))
    marked = placed.select("*", starts.alias("starts"), is_wanted.alias("is_wanted"))
    without_return = F.when(F.col("text").endswith("\r"), F.substr("text", F.lit(1), F.length("text") - 1))
    whole = F.coalesce(without_return, "text")
    # Not cut where nothing is to cut: for that, each character would be counted
    line = F.when(F.octet_length("text") > MAX_RECORD_BYTES, F.left(whole, F.lit(MAX_RECORD_BYTES))).otherwise(whole)
    return marked.select(
        "block",
        "first_position",
        "number",
        "starts",
        (F.col("bytes") + 1).cast("bigint").alias("size"),
        (F.col("bytes") - F.octet_length("text")).alias("hole"),
        F.when(F.col("is_wanted"), line).alias("line"),
        (F.col("starts") & F.col("is_wanted") & spans).alias("spans"),
    )


def _kept(lines: DataFrame) -> DataFrame:
    """Return wanted heads, and the lines of their records, with position, end and number of the record in the block."""
    so_far = Window.partitionBy("block").orderBy("number").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    record = F.sum(F.col("starts").cast("int")).over(so_far)
    of_spanning = F.last(F.when(F.col("starts"), F.col("spans")), ignorenulls=True).over(so_far)
    placed = lines.select(
        "*",
        (F.col("first_position") + F.sum("size").over(so_far)).alias("end"),
        record.alias("record"),
        of_spanning.alias("of_spanning"),
    )
    before_first = (F.col("first_position") == 0) & (F.col("record") == 0)
    is_kept = F.col("line").isNotNull() & (F.col("starts") | F.coalesce("of_spanning", before_first))
    kept = placed.where(is_kept).withColumn("position", F.col("end") - F.col("size"))
    head = F.max(F.when(F.col("starts"), F.col("position"))).over(so_far)
    near = kept.withColumn("distance", F.col("position") - F.coalesce(head, F.lit(0)))
    return near.where(F.col("distance") < MAX_RECORD_BYTES)


def _joined(kept: DataFrame, blocks: DataFrame) -> DataFrame:
    """Put the lines of each record together: they are in one place already, so nothing is moved.

    Nearly all records are of one line: looking at a record's neighbours costs less than grouping lines would.
    """
    its_lines = Window.partitionBy("block").orderBy("record").rangeBetween(Window.currentRow, Window.currentRow)
    others = F.collect_list(F.when(~F.col("starts"), F.struct("number", "line"))).over(its_lines)
    marked = kept.select("*", F.array_sort(others).alias("others"), F.max("end").over(its_lines).alias("record_end"))
    # The first line of a file that begins with none: it is one of the others, too.
    records = marked.where(F.col("starts") | (F.col("position") == 0))
    names = blocks.where(F.col("uri").startswith("file:///")).select("block", "path", "end_position", "continuation")
    goes_on = F.col("spans") & (F.col("record_end") == F.col("end_position"))
    text = F.concat_ws(
        "\n", F.when(F.col("starts"), F.col("line")), "others.line", F.when(goes_on, F.col("continuation"))
    )
    return records.join(F.broadcast(names), "block").select(
        "path",
        (F.col("position") + F.col("hole")).alias("position"),
        text.alias("text"),
        F.col("starts").alias("has_head"),
    )


def _read(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    return spark.read.text([_escaped(path) for path in paths], lineSep="\n")


def _escaped(path: str) -> str:
    """Keep Spark from taking a path for a pattern."""
    return "".join(f"\\{character}" if character in _GLOB_CHARACTERS else character for character in path)
