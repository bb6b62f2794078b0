"""The real peers: clusters of all RocketMQ lines, real clients of every kind, staged trouble, nothing left behind."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from offsetguard.sources.rocketmq.header import Credentials
from offsetguard.sources.rocketmq.requests import GetBrokerClusterInfo
from offsetguard_peers.processes import PeerNotStarted
from offsetguard_peers.rocketmq.admin import Admin, mqadmin
from offsetguard_peers.rocketmq.clients import ConsumerSpec, produce, running_consumer, running_consumers
from offsetguard_peers.rocketmq.cluster import VERSIONS, RocketMQCluster
from offsetguard_peers.rocketmq.requests import ChangingCode, send
from offsetguard_peers.rocketmq.security import READER
from offsetguard_peers.rocketmq.staging import commit_beyond_end, stage_backlog, stage_overtaken_by_retention
from offsetguard_peers.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.slow]


@pytest.fixture(scope="module", params=["rocketmq_4", "rocketmq_5"])
def cluster(request: pytest.FixtureRequest) -> RocketMQCluster:
    shared: RocketMQCluster = request.getfixturevalue(request.param)
    return shared


def test_name_server_knows_master_and_slave(cluster: RocketMQCluster) -> None:
    (addresses,) = Admin(cluster).read(cluster.namesrv, GetBrokerClusterInfo()).brokers
    assert dict(addresses.addresses) == {broker.broker_id: broker.address for broker in cluster.brokers}


def test_consumers_of_every_kind_consume_what_they_subscribed(cluster: RocketMQCluster) -> None:
    topic = "every-kind"
    Admin(cluster).create_topic(topic, queues=4)
    produce(cluster, topic, 20, tags="red")
    produce(cluster, topic, 30, tags="blue", key="poison", queue_id=3)
    specs = [
        ConsumerSpec("kind-concurrent", {topic: "*"}),
        ConsumerSpec("kind-orderly", {topic: "*"}, orderly=True),
        ConsumerSpec("kind-red-only", {topic: "red"}, print_messages=True),
        ConsumerSpec("kind-broadcasting", {topic: "red || blue"}, broadcasting=True),
        ConsumerSpec("kind-failing", {topic: "*"}, orderly=True, fail_keys=["poison"]),
    ]
    with running_consumers(cluster, specs) as consumers:
        for group, count in [("kind-concurrent", 50), ("kind-orderly", 50), ("kind-broadcasting", 50)]:
            consumers.wait_until_consumed(count, group)
        consumers.wait_until_consumed(20, "kind-failing")
        consumers.wait_until_failed(2, "kind-failing")
        consumers.wait_until_consumed(20, "kind-red-only")
        assert {event["tags"] for event in consumers.events("message", "kind-red-only")} == {"red"}
        assert consumers.consumed("kind-failing") == 20
    assert {event["group"] for event in consumers.events("stopped")} == {spec.group for spec in specs}
    assert not consumers.process.alive
    ends = [Admin(cluster).max_offset(topic, queue_id) for queue_id in range(4)]
    assert [Admin(cluster).committed("kind-concurrent", topic, queue_id) for queue_id in range(4)] == ends


def test_a_killed_consumer_commits_nothing_more(cluster: RocketMQCluster) -> None:
    topic = "killed"
    Admin(cluster).create_topic(topic, queues=1)
    produce(cluster, topic, 40)
    with running_consumer(cluster, "killed-group", topic, handling_ms=20, threads=1) as consumers:
        consumers.wait_until_consumed(3)
        consumers.kill()
    assert consumers.events("stopped") == []
    assert (Admin(cluster).committed("killed-group", topic, 0) or 0) < 40


def test_staged_groups_stand_where_the_staging_says(cluster: RocketMQCluster) -> None:
    admin = Admin(cluster)
    stage_backlog(cluster, "staged-late", "staged", 100, queues=2)
    commit_beyond_end(cluster, "staged-beyond", "staged", by=7)
    for broker, queue_id in admin.queues("staged"):
        end = admin.max_offset("staged", queue_id, broker=broker)
        assert end - (admin.committed("staged-late", "staged", queue_id, broker=broker) or 0) == 50
        assert admin.committed("staged-beyond", "staged", queue_id, broker=broker) == end + 7


def test_read_and_write_queues_may_differ(cluster: RocketMQCluster) -> None:
    admin = Admin(cluster)
    admin.create_topic("shrunk", read_queues=2, write_queues=4)
    assert sum(produce(cluster, "shrunk", 8).values()) == 8
    assert [queue_id for _, queue_id in admin.queues("shrunk")] == [0, 1]
    assert admin.max_offset("shrunk", 3) == 2


@pytest.mark.parametrize("version", ["4.9.7", "5.5.0"])
def test_retention_overtakes_a_group_and_the_whole_cluster_leaves_nothing(version: str) -> None:
    with RocketMQCluster(version) as cluster:
        stage_overtaken_by_retention(cluster, "overtaken", "orders", queues=2)
        admin = Admin(cluster)
        for queue_id in range(2):
            kept_from = admin.min_offset("orders", queue_id)
            assert (
                admin.committed("overtaken", "orders", queue_id)
                == 10
                < kept_from
                < admin.max_offset("orders", queue_id)
            )
        process_ids = [process.pid for process in cluster.processes]
        assert len(process_ids) == 3  # name server, master, producer
    assert [process_id for process_id in process_ids if Path(f"/proc/{process_id}").exists()] == []
    assert not cluster.folder.exists()


def test_nothing_survives_a_killed_parent(tmp_path: Path) -> None:
    program = (
        "import sys, time, pathlib\n"
        "from offsetguard_peers.rocketmq.cluster import RocketMQCluster\n"
        "cluster = RocketMQCluster(folder=pathlib.Path(sys.argv[1]))\n"
        "cluster.start_namesrv()\n"
        "print(cluster.processes[0].pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = Path(f"/proc/{int(parent.stdout.readline())}")
        assert child.exists()
        os.kill(parent.pid, signal.SIGKILL)
        wait_until(lambda: not child.exists(), f"the end of {child}")


def test_a_broker_that_cannot_start_says_why() -> None:
    with (
        pytest.raises(PeerNotStarted, match=r"(?s)broker-a-0 .*Slave's brokerId must be > 0"),
        RocketMQCluster("4.9.7", broker_conf={"brokerRole": "SLAVE"}),
    ):
        pass


# What brokers answer to a signature that is wrong, or to an account without the right.
REFUSED_LOGIN = {
    "4.9.7": (1, "AclException"),
    "5.3.3": (16, "check signature failed"),
    "5.5.0": (16, "check signature"),
}
REFUSED_RIGHT = {"4.9.7": (1, "AclException"), "5.3.3": (16, "no permission"), "5.5.0": (16, "no permission")}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_guarded_cluster_refuses_strangers_and_serves_its_accounts_over_tls(version: str) -> None:
    with RocketMQCluster(version, acl=True, tls=True) as cluster:
        assert cluster.tls is not None
        tls = cluster.tls.context()
        signed = Admin(cluster, signed=True)
        signed.create_topic("guarded", queues=1)
        produce(cluster, "guarded", 3, signed=True)
        assert signed.max_offset("guarded", 0) == 3
        address = cluster.broker().address
        fields = {"topic": "guarded", "queueId": "0"}
        max_offset = {"offset": "3"}
        reader = READER
        assert send(address, 30, fields, credentials=reader, tls=tls).ext_fields == max_offset
        mistaken = Credentials(READER.access_key, "wrong")
        for code, text, refused in [
            (*REFUSED_LOGIN[version], send(address, 30, fields, credentials=mistaken, tls=tls)),
            (
                *REFUSED_RIGHT[version],
                send(address, ChangingCode.DELETE_TOPIC_IN_BROKER, {"topic": "guarded"}, credentials=reader, tls=tls),
            ),
        ]:
            assert refused.code == code
            assert text in (refused.remark or "")
        assert send(address, 30, fields, tls=tls).code == REFUSED_LOGIN[version][0]
        assert address in mqadmin(cluster, "clusterList")
        for peer in (cluster.namesrv, address):
            with pytest.raises(OSError):  # noqa: PT011 - closed or reset, as the version likes
                send(peer, 30, fields, credentials=reader)


def test_servers_may_ask_clients_for_a_certificate() -> None:
    with RocketMQCluster("4.9.7", client_certificates=True) as cluster:
        Admin(cluster).create_topic("certified", queues=1)
        assert produce(cluster, "certified", 2) == {"broker-a/0": 2}
        stranger = ssl.create_default_context(cafile=cluster.ca_file)
        with pytest.raises(OSError):  # noqa: PT011 - closed or reset
            send(cluster.broker().address, 30, {"topic": "certified", "queueId": "0"}, tls=stranger)


def test_brokers_may_be_listed_where_nobody_is_and_a_name_server_may_die() -> None:
    with RocketMQCluster("4.9.7", advertised_host="192.0.2.10", namesrvs=2) as cluster:
        broker, (first, second) = cluster.broker(), cluster.namesrvs
        assert broker.listed_address == f"192.0.2.10:{broker.address.rpartition(':')[2]}"
        for name_server in (first, second):
            (data,) = Admin(cluster).read(name_server.address, GetBrokerClusterInfo()).brokers
            assert dict(data.addresses) == {0: broker.listed_address}
        first.kill()
        assert cluster.namesrv == second.address
        Admin(cluster).create_topic("after-the-death", queues=1)
