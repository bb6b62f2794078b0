"""Facts on Spark: the texts of `facts/*.sql` as they are, classic or Connect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from offsetguard.facts import texts


class SparkEngine:
    """Relations by name, as temporary views of a session, and the queries over them; nothing is read before it must."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def add(self, name: str, rows: DataFrame) -> None:
        """Let queries read `rows` by a name; one that was there before is replaced."""
        rows.createOrReplaceTempView(name)

    def run(self, name: str, parameters: Mapping[str, Any] | None = None, *, steps: Sequence[str] = ()) -> DataFrame:
        """Return the rows of `facts/NAME.sql`, lazily. Of `parameters` those count that the text names.

        `steps`: what it reads by name besides the relations that were added: other files, each after those it reads.
        """
        text = texts.spark_text(name)
        if steps:
            of_steps = ", ".join(f"{one} AS (\n{texts.spark_text(one)}\n)" for one in steps)
            text = f"WITH {of_steps}\nSELECT * FROM (\n{text}\n)"
        return self._spark.sql(text, args={one: (parameters or {})[one] for one in texts.parameters_of(text)})
