"""What each replica of each RocketMQ version tells is measured, so that docs/sources.md is no one's opinion."""

from __future__ import annotations

import re

import pytest

from offsetguard_peers.rocketmq.cluster import VERSIONS
from offsetguard_peers.source_matrix.matrix import read_measured
from offsetguard_peers.source_matrix.measuring import Measurement, measure
from offsetguard_peers.source_matrix.sources import MASTER, NAME_SERVER, sources

pytestmark = [pytest.mark.live, pytest.mark.slow]

ANSWERS = re.compile(r"yes|own counters only|\w+\.log")


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def measurement(version: str) -> Measurement:
    return measure(version)


def test_replicas_answer_as_the_page_says(version: str, measurement: Measurement) -> None:
    known = {source: versions[version] for source, versions in read_measured().items()}
    assert measurement.cells == known, (
        "the brokers (or our client) changed: look why, then python -m offsetguard_peers.source_matrix --measure"
    )


def test_what_masters_tell_lands_in_the_columns_that_the_page_names(version: str, measurement: Measurement) -> None:
    known = read_measured()
    expected = {
        column
        for section, source in sources()
        if MASTER in section.roles_of(source) and ANSWERS.fullmatch(known[source.name][version][MASTER])
        for column in source.lands_in
    }
    assert sorted(expected - measurement.landed) == []


def test_a_read_only_account_is_enough_for_a_whole_round(measurement: Measurement) -> None:
    """Only the dead name server is missing."""
    assert [(gap.broker_name, gap.outcome) for gap in measurement.manifest.gaps] == [(None, "unreachable")]
    assert measurement.cells["fail_over"] == {NAME_SERVER: "yes"}
