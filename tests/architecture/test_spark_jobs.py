"""Spark jobs run on every engine: DataFrame API only, the JVM touched in one place.

Nothing of Python runs on workers but what reads logs, in one place.
"""

import ast
from pathlib import Path

import pytest

from offsetguard_peers.cases.running import for_each

SPARK = Path(__file__).parents[2] / "spark"
FILES = sorted(SPARK.rglob("*.py"))
SESSION = SPARK / "offsetguard_spark" / "session.py"
INGEST = SPARK / "offsetguard_spark" / "ingest.py"

# Name -> why it may not be used. Attributes, called functions, imported names and parts of imported modules count.
FORBIDDEN = {
    "_jvm": "there is no JVM on this side of Spark Connect",
    "_jsc": "there is no JVM on this side of Spark Connect",
    "_jdf": "there is no JVM on this side of Spark Connect",
    "_jsparkSession": "there is no JVM on this side of Spark Connect",
    "_sc": "there is no SparkContext on this side of Spark Connect",
    "rdd": "Spark Connect has no RDDs; use the DataFrame API",
    "toJavaRDD": "Spark Connect has no RDDs; use the DataFrame API",
    "parallelize": "Spark Connect has no RDDs; use spark.createDataFrame with an Arrow table",
    "SparkContext": "Spark Connect has none; session.py makes sessions",
    "newSession": "Spark Connect has none; session.py makes sessions",
    **dict.fromkeys(
        ("udf", "pandas_udf", "arrow_udf", "udtf", "pandas_udtf", "UserDefinedFunction"),
        "rows would go through a Python on every worker; use Spark's own functions",
    ),
    **dict.fromkeys(
        ("mapInPandas", "applyInPandas", "applyInArrow", "foreach", "foreachPartition", "mapPartitions"),
        "rows would go through a Python on every worker; use Spark's own functions",
    ),
    "toPandas": "data stays on the cluster; collect counts and results only",
    "toLocalIterator": "data stays on the cluster; collect counts and results only",
    "setLocalProperty": "only a SparkContext has them",
}
ONLY_IN = {
    SESSION: {"sparkContext": "only session.py may, and only for a session that is not a Connect client"},
    INGEST: {"mapInArrow": "only ingest.py may: rows would go through a Python on every worker"},
}


def _names(tree: ast.AST) -> list[tuple[int, str]]:
    """Every name that a file uses of somebody else: attributes, imports, and functions that it calls by name."""
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name):
                found.append((node.lineno, name))
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *_]):
                found.append((node.lineno, name))
            case ast.Call(func=ast.Name(id=name)):
                found.append((node.lineno, name))
            case ast.ImportFrom(module=module, names=names):
                found += [(node.lineno, each) for alias in names for each in (*alias.name.split("."), *_parts(module))]
            case ast.Import(names=names):
                found += [(node.lineno, part) for alias in names for part in _parts(alias.name)]
    return found


def _parts(module: str | None) -> list[str]:
    return (module or "").split(".")


def _offences(source: str, forbidden: dict[str, str]) -> list[str]:
    return [f"{line}: {name}: {forbidden[name]}" for line, name in _names(ast.parse(source)) if name in forbidden]


def _forbidden_in(file: Path | None) -> dict[str, str]:
    others = [names for allowed, names in ONLY_IN.items() if allowed != file]
    return FORBIDDEN | {name: why for names in others for name, why in names.items()}


def test_there_are_spark_files() -> None:
    """Otherwise the tests below would hold nothing."""
    assert ONLY_IN.keys() <= set(FILES)
    assert SPARK / "jobs" / "publish_interval.py" in FILES


@for_each("file", FILES, name_of=lambda file: str(file.relative_to(SPARK)))
def test_a_spark_file_uses_only_what_every_engine_has(file: Path) -> None:
    offences = _offences(file.read_text(encoding="utf-8"), _forbidden_in(file))
    assert not offences, f"{file}:\n" + "\n".join(offences)


@pytest.mark.parametrize(
    "source",
    [
        "spark._jvm.java.lang.System.exit(1)",
        "rows.rdd.map(len)",
        "from pyspark.sql.functions import udf",
        "from pyspark.sql.functions import pandas_udf as fast",
        "import pyspark.rdd",
        "F.udf(len)",
        "rows.mapInArrow(work, schema)",
        "spark.sparkContext.setLogLevel('ERROR')",
        "getattr(spark, '_jsc')",
        "rows.toPandas()",
    ],
)
def test_the_rule_sees(source: str) -> None:
    """A rule that finds nothing holds nothing."""
    assert _offences(source, _forbidden_in(None))
