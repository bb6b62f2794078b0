"""Where the installed PySpark is, without importing it: that takes half a second."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from offsetguard.model.errors import OffsetGuardError


class NoSparkHere(OffsetGuardError):
    """This environment has no PySpark."""


def spark_home() -> Path:
    """Return the folder that Spark's scripts call SPARK_HOME. Raises NoSparkHere."""
    spec = importlib.util.find_spec("pyspark")
    for location in (spec.submodule_search_locations or []) if spec else []:
        if (Path(location) / "bin" / "spark-submit").is_file():
            return Path(location)
    raise NoSparkHere("no PySpark with a spark-submit in this environment; run `make install`")
