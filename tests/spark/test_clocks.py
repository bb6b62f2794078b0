"""Clocks that would damage the tables stop a run before it writes, with both times."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlparse

import pytest

from offsetguard.errors import PublishError
from offsetguard.reading.catalog import load_table, open_catalog
from offsetguard.tables import BROKER_SNAPSHOTS, QUEUE_FACTS
from offsetguard_spark.clocks import check_moments
from offsetguard_spark.tables import prepare_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from offsetguard.workspace import Workspace

NOW = datetime(2026, 11, 21, 10, 41, tzinfo=UTC)


def test_two_clocks_that_differ_by_three_minutes_are_both_named() -> None:
    with pytest.raises(PublishError, match=r"this host says .*10:41:00.*Spark server .*10:44:00.*nothing was written"):
        check_moments(NOW, NOW + timedelta(minutes=3), {})
    check_moments(NOW, NOW + timedelta(seconds=50), {})


def test_a_clock_that_has_stepped_back_is_named_with_the_table_and_when_it_goes_on() -> None:
    commits = {"queue_facts": NOW + timedelta(minutes=3), "broker_facts": NOW}
    with pytest.raises(
        PublishError, match=r"table queue_facts was changed at .*10:44:00.*goes on by itself at .*10:43"
    ):
        check_moments(NOW, NOW, commits)
    check_moments(NOW, NOW, {"queue_facts": NOW + timedelta(seconds=50)})


def test_no_run_writes_into_tables_that_a_clock_ahead_has_changed(spark: SparkSession, workspace: Workspace) -> None:
    prepare_tables(spark, workspace, print)
    metadata = Path(urlparse(load_table(open_catalog(workspace), QUEUE_FACTS).metadata_location).path)
    said = json.loads(metadata.read_text("utf-8"))
    metadata.write_text(json.dumps(said | {"last-updated-ms": said["last-updated-ms"] + 180_000}), "utf-8")
    with pytest.raises(PublishError, match=r"table queue_facts was changed at .* and the clock says"):
        prepare_tables(spark, workspace, print)
    assert load_table(open_catalog(workspace), BROKER_SNAPSHOTS).current_snapshot() is None
