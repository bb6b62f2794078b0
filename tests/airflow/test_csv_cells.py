"""A spreadsheet shows what brokers call things, and runs nothing of it."""

import csv
import io

import pytest

from offsetguard.model.views import Record
from offsetguard_airflow.web.rendering import csv_of


class Line(Record):
    """A line of a table."""

    name: str
    count: int | None = None


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("-1", "'-1"),
        ("\n=1+1", "'\n=1+1"),
        (" =1+1", "' =1+1"),
        ("\ufeff=1+1", "'\ufeff=1+1"),
        ("\uff1d1+1", "'\uff1d1+1"),
        ("\t\r\u200b@x", "'\t\r\u200b@x"),
        ("a;=1+1", "a;'=1+1"),
        ("a; \uff0b1", "a;' \uff0b1"),
        ("orders=1; b-c", "orders=1; b-c"),
    ],
)
def test_what_a_spreadsheet_would_run_begins_with_an_apostrophe(name: str, cell: str) -> None:
    text = csv_of([Line(name=name, count=-5)])
    assert list(csv.DictReader(io.StringIO(text, newline=""))) == [{"name": cell, "count": "-5"}]
    assert all(line.startswith('"') for line in text.split("\r\n") if line), "a comma is what splits it, and no blank"
