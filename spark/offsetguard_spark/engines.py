"""What Spark is started with, on each engine (design: the Airflow connection decides, never code; `docs/engines.md`).

warm server     the default: a Connect server of this workspace (`session.py`), or one that a connection names
spark-submit    where a connection names a master: local[4], spark://..., yarn, k8s://...
"""

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

from offsetguard.config.object_store import is_remote
from offsetguard.model.errors import OffsetGuardError
from offsetguard_spark.jars import jar_paths

MOST_LOCAL_CORES = 8
SERVER_CONFIG = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    # Else PySpark notes the line of Python behind each of a cycle's thousands of column expressions, and looks for
    # IPython every time: half of what our own process does in a small cycle.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # A task goes to the worker that is free: by default it waits 3 s for the one that has its rows, while others idle.
    "spark.locality.wait": "0",
}

LOCAL_ENVIRONMENT = {
    # Without it Spark looks up the machine's own name, which containers often cannot resolve.
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PYSPARK_PYTHON": sys.executable,  # the `python3` of PATH may lack pyarrow
}

# A JVM that lives as long as a task: compiling further than C1 does, or collecting garbage in parallel, costs more than
# it gives. C1 alone keeps 48 MB of code by default: from the fifth interval of one JVM on (70 MB) it would throw away
# what it needs again.
QUICK_COMPILER_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
_SHORT_JVM_OPTIONS = f"{QUICK_COMPILER_OPTIONS} -XX:+UseSerialGC -Djava.net.preferIPv4Stack=true"


class NoSparkHere(OffsetGuardError):
    """This environment has no PySpark."""


def spark_home() -> Path:
    """Return the folder that Spark's scripts call SPARK_HOME. Raises NoSparkHere."""
    spec = importlib.util.find_spec("pyspark")
    for location in (spec.submodule_search_locations or []) if spec else []:
        if (Path(location) / "bin" / "spark-submit").is_file():
            return Path(location)
    raise NoSparkHere("no PySpark with a spark-submit in this environment; run `make install`")


def local_master() -> str:
    """Return Spark's local master: a thread per core that this process may use, at least 2 and at most 8.

    More cores than that wait for the catalog's commits; with one thread a broadcast would wait for its query.
    """
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return f"local[{min(max(usable, 2), MOST_LOCAL_CORES)}]"


def local_config() -> dict[str, str]:
    """Return what a JVM needs besides that is a task's own, with master local[N]. Raises JarsUnavailable."""
    return {
        # Not spark.jars: that copies 60 MB for each run.
        "spark.driver.extraClassPath": ":".join(map(str, iceberg_jars())),
        "spark.driver.extraJavaOptions": _SHORT_JVM_OPTIONS,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }


def iceberg_jars() -> list[Path]:
    """Return what Spark's class path needs; with a home in an object store Iceberg's client of S3, too."""
    sets = ("iceberg", "iceberg-aws") if is_remote(os.environ.get("OFFSETGUARD_HOME", "")) else ("iceberg",)
    return [path for one in sets for path in jar_paths(one)]


def submit_settings(*, runs_here: bool) -> dict[str, Any]:
    """Return what spark-submit needs besides: `conf`, `jars`, `environment`; fetches jars that are not there yet.

    `runs_here`: the driver is this machine's only Spark process. Of our Python nothing but the reader of logs goes to a
    cluster's workers.
    """
    if runs_here:
        return {"conf": local_config(), "jars": [], "environment": LOCAL_ENVIRONMENT}
    # Workers fetch them from the driver, which has them in its class path: JDBC asks the class path for drivers.
    jars = list(map(str, iceberg_jars()))
    conf = {"spark.driver.extraClassPath": ":".join(jars), "spark.ui.showConsoleProgress": "false"}
    return {"conf": conf, "jars": jars, "environment": {}}
