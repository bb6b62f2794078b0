"""One SQL text on two engines: what is known to mean two things is refused, and DuckDB's text is that of the files."""

import pytest

from offsetguard.facts import texts
from offsetguard_peers.cases.running import for_each
from offsetguard_peers.facts.sql import FOLDER, REFUSED_FUNCTIONS, problems, translate


@for_each("name", texts.names())
def test_duckdb_has_the_text_of_every_file(name: str) -> None:
    made = translate(name, texts.spark_text(name))
    assert texts.duckdb_text(name) == made, "run make facts-sql"


def test_duckdb_has_no_other_texts() -> None:
    assert {path.stem for path in (FOLDER / "duckdb").glob("*.sql")} == set(texts.names())


@for_each("function", REFUSED_FUNCTIONS)
def test_what_would_mean_two_things_is_refused_with_what_to_write_instead(function: str) -> None:
    [problem] = problems("x", f"SELECT 1,\n  {function}(a) AS b FROM t")
    assert problem.startswith(f"facts/x.sql:2: {function}: write ")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COLLECT_LIST(a) FROM t",
        "SELECT SIZE(COLLECT_SET(a)) FROM t",
        "SELECT a FROM t LATERAL VIEW OUTER EXPLODE(b) AS x",
        "SELECT a FROM t WHERE a LIKE 'x!_%' ESCAPE '!'",
        "SELECT 'x''y' FROM t",
    ],
)
def test_more_that_is_refused(text: str) -> None:
    assert len(problems("x", text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "SELECT TRIM(BOTH ' ' FROM a) FROM t",
        "SELECT COALESCE(COLLECT_LIST(a), ARRAY()) FROM t",
        "SELECT COALESCE(SORT_ARRAY(COLLECT_SET(a)), ARRAY()) FROM t",
        "-- first(a)\nSELECT 'unix_millis(a)', x.first FROM t",
    ],
)
def test_what_means_the_same_is_not_refused(text: str) -> None:
    assert problems("x", text) == []
