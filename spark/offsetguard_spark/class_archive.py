"""The classes that Spark loads, kept as Java has them in memory: a JVM then starts with half of the work.

Before its first row, a JVM with Spark reads, verifies and links 15,000 classes. `make install` has one do so and write
them down when it ends (class data sharing, JEP 350; `make_class_archive.py`), and every other one maps that file. It
fits one Java, one class path and the very files in it. The name says which, so that no JVM is given the archive of
others; one that finds it unfit all the same starts without it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from offsetguard.model.errors import OffsetGuardError
from offsetguard_spark.jars import cache_folder


class NoSparkHere(OffsetGuardError):
    """This environment has no PySpark."""


def spark_home() -> Path:
    """Return the folder that Spark's scripts call SPARK_HOME. Raises NoSparkHere."""
    spec = importlib.util.find_spec("pyspark")
    for location in (spec.submodule_search_locations or []) if spec else []:
        if (Path(location) / "bin" / "spark-submit").is_file():
            return Path(location)
    raise NoSparkHere("no PySpark with a spark-submit in this environment; run `make install`")


QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"  # a JVM tells on stdout what it could not share
PREFIX = "spark-classes-"


def class_archive_options(jars: Iterable[Path]) -> str:
    """Return the JVM options that use the archive, with a space before them; empty when there is none.

    `jars`: what stands before Spark's own in the class path.
    """
    file = class_archive(jars)
    return f' -XX:SharedArchiveFile="{file}" {QUIET}' if file is not None and file.is_file() else ""


def class_archive(jars: Iterable[Path]) -> Path | None:
    """Return where the archive for this Java and these jars lies, or will lie; None where there is no Java."""
    java = _java()
    if java is None:
        return None
    files = [java, *jars, *(spark_home() / "jars").glob("*.jar")]
    seen = sorted((str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files)
    return cache_folder() / f"{PREFIX}{hashlib.sha256(repr(seen).encode()).hexdigest()[:16]}.jsa"


def _java() -> Path | None:
    """Return the Java that spark-submit would take."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(Path(home) / "bin" / "java") if home else shutil.which("java")
    return Path(found).resolve() if found else None
