"""Requests that change a test cluster: topics, groups, committed offsets, broker settings, deletion of commit logs.

The product never sends any of these codes, so they are declared here. Frames, headers and signatures are the
product's own. Source of the codes: `RequestCode` of apache/rocketmq 4.9.8 and 5.3.3.
"""

from __future__ import annotations

import json
import socket
import time
from contextlib import suppress
from enum import IntEnum
from typing import TYPE_CHECKING, TypeVar

from offsetguard.model.errors import BrokerRefused
from offsetguard.sources.rocketmq.frame import Frame, FrameReader, encode_frame
from offsetguard.sources.rocketmq.header import RemotingCommand, decode_header, encode_header
from offsetguard.sources.rocketmq.refusals import refusal
from offsetguard.sources.rocketmq.requests import (
    GetMaxOffset,
    GetMinOffset,
    GetRouteInfoByTopic,
    QueryConsumerOffset,
    Request,
)
from offsetguard.sources.rocketmq.signing import Credentials, signed_ext_fields
from offsetguard_peers import acl

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable, Mapping, Sequence

    from offsetguard_peers.broker import Broker
    from offsetguard_peers.rocketmq import RocketMQCluster

AnswerT = TypeVar("AnswerT")
TIMEOUT_S = 60.0  # some milliseconds on an idle machine
LISTED_WITHIN_S = 180.0  # about a tenth of a second


class ChangingCode(IntEnum):
    """Request codes that change a broker or name server."""

    UPDATE_CONSUMER_OFFSET = 15
    UPDATE_AND_CREATE_TOPIC = 17
    UPDATE_BROKER_CONFIG = 25
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200
    DELETE_TOPIC_IN_BROKER = 215
    DELETE_EXPIRED_COMMITLOG = 329
    SET_MESSAGE_REQUEST_MODE = 401
    AUTH_CREATE_USER = 3001
    AUTH_CREATE_ACL = 3006
    AUTH_UPDATE_ACL = 3007
    POP_MESSAGE = 200050


def send(
    address: str,
    code: int,
    ext_fields: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    credentials: Credentials | None = None,
    tls: ssl.SSLContext | None = None,
) -> RemotingCommand:
    """Send one request over a connection of its own; returns the answer whatever its code."""
    fields = dict(ext_fields or {})
    if credentials is not None:
        fields = signed_ext_fields(fields, body, credentials)
    header = encode_header(RemotingCommand(code=code, opaque=1, ext_fields=fields))
    host, _, port = address.rpartition(":")
    with _connected(host, int(port), tls) as connection:
        connection.sendall(encode_frame(Frame(0, header, body)))
        frames = FrameReader()
        while (frame := frames.next_frame()) is None:
            received = connection.recv(65536)
            if not received:
                msg = f"{address}: closed without an answer to request code {code}"
                raise ConnectionError(msg)
            frames.feed(received)
    return decode_header(frame.serialize_type, frame.header, frame.body)


def ask(
    address: str,
    request: Request[AnswerT],
    *,
    credentials: Credentials | None = None,
    tls: ssl.SSLContext | None = None,
) -> AnswerT:
    """Send one of the product's own requests, without asyncio; raises a BrokerRefused."""
    answer = send(address, request.code, request.ext_fields(), credentials=credentials, tls=tls)
    if answer.code not in request.success_codes:
        raise refusal(address, answer.code, answer.remark)
    return request.decode(answer)


def _connected(host: str, port: int, tls: ssl.SSLContext | None) -> socket.socket:
    connection = socket.create_connection((host, port), timeout=TIMEOUT_S)
    return tls.wrap_socket(connection, server_hostname=host) if tls else connection


class Admin:
    """Changes one cluster and reads back what was changed; `signed` signs as the ACL administrator."""

    def __init__(self, cluster: RocketMQCluster, *, signed: bool = False) -> None:
        """Nothing is connected until a request is sent."""
        self._cluster = cluster
        self._credentials = Credentials(acl.ADMIN_ACCESS_KEY, acl.ADMIN_SECRET_KEY) if signed else None
        self._tls = cluster.tls.context() if cluster.tls else None

    def change(
        self, address: str, code: ChangingCode, ext_fields: Mapping[str, object] | None = None, body: bytes = b""
    ) -> None:
        """Send a changing request; raises a BrokerRefused with the broker's code and remark."""
        fields = {name: str(value) for name, value in (ext_fields or {}).items()}
        answer = send(address, code, fields, body, credentials=self._credentials, tls=self._tls)
        if answer.code != 0:
            raise refusal(address, answer.code, answer.remark)

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

    def create_group(self, group: str, **settings: object) -> None:
        """Create or change a consumer group on all masters; `settings`: e.g. `retryMaxTimes=2000`."""
        body = json.dumps({"groupName": group, **settings}).encode()
        for broker in self._cluster.masters:
            self.change(broker.address, ChangingCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)

    def create_account(
        self, broker: Broker, access_key: str, secret_key: str, grants: Mapping[str, Sequence[str]]
    ) -> None:
        """Create an account on a 5.x broker; each broker, also a slave, has its own. `grants`: resource -> actions."""
        body = json.dumps(acl.user(access_key, secret_key)).encode()
        self.change(broker.address, ChangingCode.AUTH_CREATE_USER, {"username": access_key}, body)
        self.grant(broker, access_key, grants, code=ChangingCode.AUTH_CREATE_ACL)

    def grant(
        self,
        broker: Broker,
        access_key: str,
        grants: Mapping[str, Sequence[str]],
        *,
        code: ChangingCode = ChangingCode.AUTH_UPDATE_ACL,
    ) -> None:
        """Allow an account of a 5.x broker these actions; those of a resource replace the ones that it had there."""
        body = json.dumps(acl.grants_of(access_key, grants)).encode()
        self.change(broker.address, code, {"subject": acl.subject(access_key)}, body)

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
        deadline = time.monotonic() + LISTED_WITHIN_S
        while time.monotonic() < deadline:
            with suppress(BrokerRefused):
                route = self.read(self._cluster.namesrv, GetRouteInfoByTopic(topic))
                if broker_names <= {queue.broker_name for queue in route.queues}:
                    return
            time.sleep(0.1)
        msg = f"topic {topic} did not reach the name server {self._cluster.namesrv} within {LISTED_WITHIN_S:.0f} s"
        raise TimeoutError(msg)
