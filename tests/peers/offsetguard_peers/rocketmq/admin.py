"""What changes a test cluster: topics, groups, committed offsets, broker settings; and RocketMQ's own `mqadmin`."""

import json
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from offsetguard.model.errors import BrokerRefused
from offsetguard.sources.rocketmq.header import Credentials
from offsetguard.sources.rocketmq.requests import GetMaxOffset, GetMinOffset, GetRouteInfoByTopic, Request
from offsetguard_peers.rocketmq import security
from offsetguard_peers.rocketmq.cluster import Broker, RocketMQCluster
from offsetguard_peers.rocketmq.extra_requests import QueryConsumerOffset
from offsetguard_peers.rocketmq.jvm import class_path, java_command
from offsetguard_peers.rocketmq.requests import AnswerT, ChangingCode, ask, change, create_account
from offsetguard_peers.waiting import wait_until

LISTED_WITHIN_S = 180.0  # about a tenth of a second


class Admin:
    """Changes one cluster and reads back what was changed; `signed` signs as the ACL administrator."""

    def __init__(self, cluster: RocketMQCluster, *, signed: bool = False) -> None:
        self._cluster = cluster
        self._credentials = security.ADMIN if signed else None
        self._tls = cluster.tls_context

    def change(
        self, address: str, code: ChangingCode, ext_fields: Mapping[str, object] | None = None, body: bytes = b""
    ) -> None:
        """Send a changing request; raises a BrokerRefused with the broker's code and remark."""
        change(address, code, ext_fields, body, credentials=self._credentials, tls=self._tls)

    def read(self, address: str, request: Request[AnswerT]) -> AnswerT:
        """Ask with this cluster's signature and TLS."""
        return ask(address, request, credentials=self._credentials, tls=self._tls)

    def create_topic(
        self,
        topic: str,
        *,
        queues: int = 4,
        read_queues: int | None = None,
        write_queues: int | None = None,
        perm: int = 6,
        brokers: Iterable[Broker] | None = None,
        message_type: str | None = None,
    ) -> None:
        """Create or change a topic on the masters (all by default); returns when the name server knows it.

        `perm`: 2 = write, 4 = read, 6 = both.
        `message_type`: 5.x only, e.g. LITE.
        """
        chosen = list(brokers or self._cluster.masters)
        fields = {
            "topic": topic,
            "defaultTopic": "TBW102",
            "readQueueNums": read_queues if read_queues is not None else queues,
            "writeQueueNums": write_queues if write_queues is not None else queues,
            "perm": perm,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0,
            "order": "false",
        }
        if message_type is not None:
            fields["attributes"] = f"+message.type={message_type}"
        for broker in chosen:
            self.change(broker.address, ChangingCode.UPDATE_AND_CREATE_TOPIC, fields)
        self._wait_for_route(topic, {broker.name for broker in chosen})

    def create_group(self, group: str, *, brokers: Iterable[Broker] | None = None, **settings: object) -> None:
        """Create or change a consumer group on the masters (all by default); `settings`: e.g. `retryMaxTimes=2000`."""
        body = json.dumps({"groupName": group, **settings}).encode()
        for broker in brokers or self._cluster.masters:
            self.change(broker.address, ChangingCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)

    def let_read(self, group: str, topic: str, *, readable: bool) -> None:
        """Allow or forbid a group to read a topic on all masters (5.x, `forbiddenTable`)."""
        fields = {"group": group, "topic": topic, "readable": str(readable).lower()}
        for broker in self._cluster.masters:
            self.change(broker.address, ChangingCode.UPDATE_AND_GET_GROUP_FORBIDDEN, fields)

    def create_account(self, broker: Broker, account: Credentials, grants: Mapping[str, Sequence[str]]) -> None:
        """Create an account on a 5.x broker; each broker, also a slave, has its own. `grants`: resource -> actions."""
        create_account(broker.address, account, grants, tls=self._tls)

    def grant(self, broker: Broker, access_key: str, grants: Mapping[str, Sequence[str]]) -> None:
        """Allow an account of a 5.x broker these actions; those of a resource replace the ones that it had there."""
        body = json.dumps(security.grants_of(access_key, grants)).encode()
        self.change(broker.address, ChangingCode.AUTH_UPDATE_ACL, {"subject": security.subject(access_key)}, body)

    def commit(self, group: str, topic: str, queue_id: int, offset: int, *, broker: Broker | None = None) -> None:
        """Commit an offset as a consumer would; brokers of 5.x want the group to exist."""
        fields = {"consumerGroup": group, "topic": topic, "queueId": queue_id, "commitOffset": offset}
        address = (broker or self._cluster.masters[0]).address
        self.change(address, ChangingCode.UPDATE_CONSUMER_OFFSET, fields)

    def consume_by_pop(self, group: str, topic: str) -> None:
        """Let remoting clients of a group with client_rebalance=False pop a topic (5.x, `mqadmin setConsumeMode`)."""
        mode = {"topic": topic, "consumerGroup": group, "mode": "POP", "popShareQueueNum": 0}
        for broker in self._cluster.masters:
            self.change(broker.address, ChangingCode.SET_MESSAGE_REQUEST_MODE, body=json.dumps(mode).encode())

    def configure(self, broker: Broker, **settings: object) -> None:
        """Change settings of a running broker, e.g. `fileReservedTime=0`; it rewrites its broker.conf."""
        body = "".join(f"{key}={value}\n" for key, value in settings.items()).encode()
        self.change(broker.address, ChangingCode.UPDATE_BROKER_CONFIG, body=body)

    def delete_expired_commitlog(self, broker: Broker) -> None:
        """Arm 20 cleaning rounds of 10 s (the first one 60 s after boot); the newest file always stays."""
        self.change(broker.address, ChangingCode.DELETE_EXPIRED_COMMITLOG)

    def min_offset(self, topic: str, queue_id: int, *, broker: Broker | None = None) -> int:
        """Oldest offset that a queue still holds."""
        return self.read((broker or self._cluster.masters[0]).address, GetMinOffset(topic, queue_id))

    def max_offset(self, topic: str, queue_id: int, *, broker: Broker | None = None) -> int:
        """Next offset to be written in a queue."""
        return self.read((broker or self._cluster.masters[0]).address, GetMaxOffset(topic, queue_id))

    def committed(self, group: str, topic: str, queue_id: int, *, broker: Broker | None = None) -> int | None:
        """Read the committed offset of a queue, None when there is none (a 4.x broker may say 0 instead)."""
        address = (broker or self._cluster.masters[0]).address
        with suppress(BrokerRefused):
            return self.read(address, QueryConsumerOffset(group, topic, queue_id))
        return None

    def queues(self, topic: str) -> list[tuple[Broker, int]]:
        """All readable queues of a topic as (master, queue_id)."""
        route = self.read(self._cluster.namesrv, GetRouteInfoByTopic(topic))
        return [
            (self._cluster.broker(queue.broker_name), queue_id)
            for queue in route.queues
            for queue_id in range(queue.read_queue_nums)
        ]

    def _wait_for_route(self, topic: str, broker_names: set[str]) -> None:
        def is_listed() -> bool:
            with suppress(BrokerRefused):
                route = self.read(self._cluster.namesrv, GetRouteInfoByTopic(topic))
                return broker_names <= {queue.broker_name for queue in route.queues}
            return False

        what = f"the name server {self._cluster.namesrv} to know the topic {topic}"
        wait_until(is_listed, what, timeout_s=LISTED_WITHIN_S)


# Enough for the largest listings; the distribution takes 1 GB from the start.
TOOLS_MEMORY = ("-Xms256m", "-Xmx1g")
WITHIN_S = 300.0
# What its client says when a connection was closed before it was used, as happens on a busy machine: run again.
NOT_SENT = ("RemotingSendRequestException", "RemotingConnectException")


class CommandFailed(Exception):
    """The command ended with an error or printed a stack trace (it ends with 0 then); the text is its output."""


def mqadmin_command(cluster: RocketMQCluster, *arguments: str) -> list[str]:
    """Build the command line of `mqadmin ARGUMENTS -n <name server>`; run it with `mqadmin_environment`."""
    command = java_command(
        class_path(cluster.version, "tools"),
        "org.apache.rocketmq.tools.command.MQAdminStartup",
        home=cluster.folder / "mqadmin",
        memory=TOOLS_MEMORY,
        properties=cluster.process_properties,
    )
    return [*command, *arguments, "-n", cluster.namesrv_list]


def mqadmin_environment(cluster: RocketMQCluster) -> dict[str, str]:
    """Our environment with the cluster's ROCKETMQ_HOME: logging of 4.x, accounts under access control."""
    return {**os.environ, "ROCKETMQ_HOME": str(cluster.home)}


def mqadmin(cluster: RocketMQCluster, *arguments: str) -> str:
    """Run one command, e.g. `mqadmin(cluster, "consumerProgress")`; returns what it printed."""
    result = _run(cluster, *arguments)
    if any(name in result.stdout + result.stderr for name in NOT_SENT):
        result = _run(cluster, *arguments)
    if result.returncode != 0 or "SubCommandException" in result.stdout + result.stderr:
        raise CommandFailed(result.stdout + result.stderr)
    return result.stdout


def _run(cluster: RocketMQCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        mqadmin_command(cluster, *arguments),
        env=mqadmin_environment(cluster),
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
