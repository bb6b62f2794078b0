r"""Log files as records with their byte positions: the Spark side of `offsetguard.logs.records`.

Goal: files of any size, split among tasks, and each record with the byte at which it begins in the uncompressed file.
Spark reads lines block by block (a block = what one task reads of a file; a compressed file is one block) and says
neither where a line begins nor what the other blocks hold. So:

1. Within a block, running sums over its lines in file order give each line's distance from the block's first line and
   the number of records begun so far.
2. Where files may have several blocks, the sums of the blocks before are added to both: the lines at a block's
   beginning then continue the last record of the block before.
3. Lines of one record become one text.

What logs really hold is read exactly as Python reads it. Of bytes that are no UTF-8, Python shows `\xNN` and Spark the
replacement character; a record beyond 64 KiB is cut behind a line here and within it there.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from offsetguard.logs.layouts import RECORD_START
from offsetguard.logs.records import MAX_RECORD_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.window import WindowSpec

ONE_BLOCK_BYTES = 4 * 1024 * 1024  # spark.sql.files.openCostInBytes: Spark splits no smaller file
_BLOCK = ("path", "block")
_GLOB_CHARACTERS = frozenset("{}[]*?\\")


def uri_of(spark: SparkSession, path: str) -> str:
    """Return how Spark calls a file: `path` in the rows of `read_records`."""
    return re.sub("^file:/+", "file:/", spark.read.text(_escaped(path)).inputFiles()[0])


def read_records(spark: SparkSession, paths: Sequence[str], *, one_block_bytes: int = ONE_BLOCK_BYTES) -> DataFrame:
    """Return (path, position, text, has_head): one row per record of the files; nothing is read yet.

    `has_head`: false for the lines before the first time stamp of a file, which make one record without a time.
    `one_block_bytes`: uncompressed files up to this size are read by one task each.
    """
    lines = _lines(spark, paths)
    numbered = _numbered(lines)
    if any(not path.endswith(".gz") and Path(path).stat().st_size > one_block_bytes for path in paths):
        numbered = _across_blocks(numbered, lines)
        record = ["path", "record"]
    else:
        record = [*_BLOCK, "record"]  # already together: no second shuffle
    begins = F.col("starts") | (F.col("record") == 0)
    return (
        numbered.where(F.col("distance_in_record") < MAX_RECORD_BYTES)
        .groupBy(*record)
        .agg(
            F.min(F.when(begins, F.col("position") + F.col("hole"))).alias("position"),
            F.array_sort(F.collect_list(F.struct("position", "line"))).alias("lines"),
        )
        .select(
            "path",
            "position",
            F.array_join(F.col("lines.line"), "\n").alias("text"),
            (F.col("record") > 0).alias("has_head"),
        )
    )


def _lines(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Return the lines with their sizes in bytes, line feed included; `hole`: zero bytes that a truncation left."""
    raw = spark.read.text([_escaped(path) for path in paths], lineSep="\n").select(
        F.regexp_replace("_metadata.file_path", "^file:/+", "file:/").alias("path"),
        F.col("_metadata.file_block_start").alias("block"),
        F.monotonically_increasing_id().alias("number"),  # grows along each block
        "value",
    )
    text = F.ltrim("value", F.lit("\0"))
    return raw.select(
        *_BLOCK,
        "number",
        F.left(F.regexp_replace(text, "\r\\z", ""), F.lit(MAX_RECORD_BYTES)).alias("line"),
        text.rlike(RECORD_START).alias("starts"),
        (F.octet_length("value") - F.octet_length(text)).alias("hole"),
        (F.octet_length("value") + 1).cast("bigint").alias("size"),
    )


def _numbered(lines: DataFrame) -> DataFrame:
    """Add what is known within a block: each line's position and its record's number, from 1; 0 = of the one before."""
    so_far = Window.partitionBy(*_BLOCK).orderBy("number").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    placed = lines.withColumns(
        {
            "position": F.sum("size").over(so_far) - F.col("size"),
            "record": F.sum(F.col("starts").cast("bigint")).over(so_far),
        }
    )
    record_position = F.max(F.when(F.col("starts"), F.col("position"))).over(so_far)
    return placed.withColumn("distance_in_record", F.col("position") - F.coalesce(record_position, F.lit(0)))


def _across_blocks(numbered: DataFrame, lines: DataFrame) -> DataFrame:
    """Add to positions and record numbers what the blocks before hold, found in a pass of its own: a row per block."""
    before = Window.partitionBy("path").orderBy("block").rowsBetween(Window.unboundedPreceding, -1)
    blocks = (
        lines.groupBy(*_BLOCK)
        .agg(F.sum("size").alias("bytes"), F.sum(F.col("starts").cast("bigint")).alias("begun"))
        .select(*_BLOCK, _sum_or_0("bytes", before), _sum_or_0("begun", before))
    )
    joined = numbered.join(F.broadcast(blocks), list(_BLOCK))
    return joined.withColumns(
        {"position": F.col("position") + F.col("bytes"), "record": F.col("record") + F.col("begun")}
    )


def _sum_or_0(name: str, window: WindowSpec) -> Column:
    return F.coalesce(F.sum(name).over(window), F.lit(0)).alias(name)


def _escaped(path: str) -> str:
    """Keep Spark from taking a path for a pattern."""
    return "".join(f"\\{character}" if character in _GLOB_CHARACTERS else character for character in path)
