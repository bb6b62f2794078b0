"""Make the archive of Spark's classes: `python -m offsetguard_spark.make_class_archive`, once for an installation.

Spark runs once, does on a hundred rows what jobs do, and its JVM keeps the classes when it ends. A second run finds the
archive and does nothing. Archives of other jars, or of another Java, are deleted.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import functions as F

from offsetguard.config.workspace import Workspace
from offsetguard.lake.catalog import CATALOG_NAME, NAMESPACE
from offsetguard.lake.creation import create_missing_tables
from offsetguard.model.errors import OffsetGuardError
from offsetguard_spark.class_archive import PREFIX, QUIET, class_archive, spark_home
from offsetguard_spark.jars import jar_paths
from offsetguard_spark.session import (
    LOCAL_ENVIRONMENT,
    SMALL_SNAPSHOT_ROWS,
    local_config,
    local_master,
    make_session,
    suit_row_count,
)


def make_class_archive() -> Path | None:
    """Make it unless it is there; None when this Java keeps none. Raises OffsetGuardError when Spark does not run."""
    file = class_archive(jar_paths("iceberg"))
    if file is None:
        raise OffsetGuardError("no java in PATH, and no JAVA_HOME: install Java 17 or newer")
    if not file.is_file():
        for older in file.parent.glob(f"{PREFIX}*"):
            older.unlink()
        new = file.with_suffix(".new")
        _run_spark(f'-XX:ArchiveClassesAtExit="{new}" {QUIET}')
        if not new.is_file():
            return None
        new.replace(file)
    return file


def _run_spark(java_options: str) -> None:
    """Let spark-submit run this file as a job, as Airflow does with jobs."""
    config = local_config() | {"spark.pyspark.driver.python": sys.executable}
    config["spark.driver.extraJavaOptions"] += f" {java_options}"
    command = [str(spark_home() / "bin" / "spark-submit"), "--master", local_master()]
    command += [word for name, value in config.items() for word in ("--conf", f"{name}={value}")]
    with tempfile.TemporaryDirectory() as folder:
        ended = subprocess.run(
            [*command, __file__, folder],
            env={**os.environ, **LOCAL_ENVIRONMENT, "SPARK_HOME": str(spark_home())},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    if ended.returncode:
        raise OffsetGuardError(f"Spark ended with code {ended.returncode}:\n{ended.stdout[-2000:]}")


def work(folder: Path) -> None:
    """Do what jobs do, small: Parquet read, joined, aggregated, written to a table of ours, read again."""
    home = folder / "home"
    workspace = Workspace(home, folder / "offsetguard.yml", f"sqlite:///{home / 'offsetguard.db'}")
    create_missing_tables(workspace)
    spark = make_session(workspace)
    name = f"{CATALOG_NAME}.{NAMESPACE}.numbers"
    for row_count in (0, SMALL_SNAPSHOT_ROWS):
        suit_row_count(spark, row_count)
        numbers = spark.range(100).select("id", (F.col("id") % 7).alias("kind"), F.current_timestamp().alias("at"))
        numbers.write.mode("overwrite").parquet(str(folder / "numbers"))
        read = spark.read.parquet(str(folder / "numbers"))
        kinds = read.groupBy("kind").agg(F.max(F.struct("at", "id")).alias("newest"), F.count(F.lit(1)).alias("rows"))
        rows = read.join(kinds, "kind").where("newest.id >= id").localCheckpoint()
        if row_count == 0:
            rows.writeTo(name).using("iceberg").partitionedBy("kind").create()
        rows.writeTo(name).overwrite(F.col("kind") < 3)
        spark.table(name).where("rows > 1").orderBy("id").collect()
    spark.stop()


def main() -> int:
    """Make the archive; as a job of spark-submit, do the work whose classes are kept."""
    if len(sys.argv) > 1:
        work(Path(sys.argv[1]))
        return 0
    began = time.monotonic()
    try:
        file = make_class_archive()
    except OffsetGuardError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - a command line prints
        return 1
    if file is None:
        print("Spark's classes: this Java keeps none, so that Spark takes longer to start")  # noqa: T201
    else:
        took_s = time.monotonic() - began
        print(f"Spark's classes: {file.stat().st_size >> 20} MiB in {file} ({took_s:.0f} s)")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
