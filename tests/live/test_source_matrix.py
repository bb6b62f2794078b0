"""What each replica of each RocketMQ version tells is measured, so that docs/sources.md is no one's opinion."""

import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from offsetguard.sources.rocketmq.header import Credentials
from offsetguard_peers.collecting import collect_snapshot, config_of, now_interval
from offsetguard_peers.printed_commands import run_as_printed
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.clients import produce
from offsetguard_peers.rocketmq.cluster import VERSIONS, RocketMQCluster
from offsetguard_peers.source_matrix.matrix import LEAST_RIGHTS, read_measured
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


def test_the_least_rights_for_access_control_are_made_by_the_commands_of_the_page(version: str, tmp_path: Path) -> None:
    account = Credentials("offsetguard", "a-secret-of-ours")
    with RocketMQCluster(version, slaves=1, acl=True) as cluster:
        admin = Admin(cluster, signed=True)
        admin.create_topic("orders", queues=2)
        admin.create_group("billing")
        admin.commit("billing", "orders", 0, 0)
        produce(cluster, "orders", 10, signed=True)
        config = config_of(cluster, collection={"share_rounds": 1})

        async def look() -> list[tuple[str, str]]:
            manifest, _ = await collect_snapshot(
                "main", config, now_interval(), credentials=account, started_at=datetime.now(UTC)
            )
            return [(gap.what, gap.reason) for gap in manifest.gaps]

        assert asyncio.run(look()), "without an account nothing is told"
        for command in LEAST_RIGHTS["5.x" if version.startswith("5.") else "4.9"]:
            line = command.format(name_server=cluster.namesrv, cluster=cluster.name, secret=account.secret_key)
            done = run_as_printed(cluster, line, tmp_path)
            assert "success" in done.stdout, f"{line}: {done.stdout}{done.stderr}"
        assert asyncio.run(look()) == []
