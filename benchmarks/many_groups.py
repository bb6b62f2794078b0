"""A real cluster with the state that collectors are compared on: many groups, many topics, every group online.

1,000 groups with 5 topics of 16 queues each out of 200 topics, and a retry topic per group: 81,000 offset rows.
Made with the requests that clients send; nothing of it is written into files behind the broker's back.
"""

import json
import random
import selectors
import socket
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

from offsetguard.sources.rocketmq.codes import RequestCode, ResponseCode
from offsetguard.sources.rocketmq.connection import Frame, FrameReader, encode_frame
from offsetguard.sources.rocketmq.header import RESPONSE_FLAG, RemotingCommand, decode_header, encode_header
from offsetguard_peers.rocketmq.requests import ChangingCode

HEART_BEAT = 34
TOPICS_PER_GROUP, QUEUES = 5, 16
as_fastjson = json.JSONEncoder(separators=(",", ":")).encode  # without spaces, as every Java client writes
HEARTBEAT_S = 25  # brokers forget a client after 120 s
IN_FLIGHT = 256

Ask = tuple[int, dict[str, str], bytes]  # code, ext fields, body


class Pipeline:
    """One connection that sends many requests before it reads their answers."""

    def __init__(self, address: str, timeout_s: float = 120.0) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=timeout_s)
        # as RocketMQ's clients do (`NettyRemotingClient`); else each second answer waits for a delayed ACK, up to 40 ms
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._frames = FrameReader()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask_all(self, asks: Iterable[Ask]) -> None:
        """Send all and check that every answer is SUCCESS; what a busy broker turns away is sent again."""
        waiting = list(asks)
        while waiting:
            part, waiting = waiting[:IN_FLIGHT], waiting[IN_FLIGHT:]
            self.socket.sendall(b"".join(_frame(opaque, *ask) for opaque, ask in enumerate(part, 1)))
            for answer in self._answers(len(part)):
                ask = part[answer.opaque - 1]
                if answer.code == ResponseCode.SYSTEM_BUSY:
                    waiting.append(ask)
                    time.sleep(0.01)
                else:
                    assert answer.code == 0, f"{ask[:2]}: code {answer.code}, {answer.remark}"

    def arrived(self) -> Iterable[RemotingCommand]:
        """Read once, and yield what is whole: answers, and requests of the broker."""
        data = self.socket.recv(1 << 20)
        assert data, "the broker closed the connection"
        self._frames.feed(data)
        while (frame := self._frames.next_frame()) is not None:
            yield decode_header(frame.serialize_type, frame.header, frame.body)

    def _answers(self, count: int) -> Iterable[RemotingCommand]:
        received = 0
        while received < count:
            for answer in self.arrived():
                if answer.is_response:  # a broker sends requests to consumers, too
                    received += 1
                    yield answer


class OnlineGroups:
    """Keeps every group online with one client that does what consumers do: heartbeats, and answers about itself."""

    def __init__(self, address: str, subscriptions: dict[str, list[str]], groups_per_connection: int = 50) -> None:
        self._address = address
        self._subscriptions = subscriptions
        names = sorted(subscriptions)
        self._parts = [
            {name: subscriptions[name] for name in names[start : start + groups_per_connection]}
            for start in range(0, len(names), groups_per_connection)
        ]
        self._pipelines: list[Pipeline] = []
        self._told: dict[str, bytes] = {}  # by group; clients run elsewhere, so what they say is made once
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep_online, daemon=True)

    def __enter__(self) -> Self:
        for part in self._parts:
            pipeline = Pipeline(self._address)
            pipeline.ask_all([(HEART_BEAT, {}, _heartbeat(part))])
            self._pipelines.append(pipeline)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        for pipeline in self._pipelines:
            pipeline.socket.close()

    def _keep_online(self) -> None:
        with selectors.DefaultSelector() as selector:
            for pipeline in self._pipelines:
                selector.register(pipeline.socket, selectors.EVENT_READ, pipeline)
            next_heartbeat = time.monotonic() + HEARTBEAT_S
            while not self._stop.is_set():
                for key, _ in selector.select(timeout=0.5):
                    self._answer_requests(key.data)
                if time.monotonic() >= next_heartbeat:
                    next_heartbeat += HEARTBEAT_S
                    for pipeline, part in zip(self._pipelines, self._parts, strict=True):
                        pipeline.socket.sendall(_frame(1, HEART_BEAT, {}, _heartbeat(part)))

    def _answer_requests(self, pipeline: Pipeline) -> None:
        """Answer what a broker asks its clients: 307, what a group's client holds; the rest needs no answer."""
        for command in pipeline.arrived():
            if command.code == RequestCode.GET_CONSUMER_RUNNING_INFO and not command.is_response:
                group = command.ext_fields["consumerGroup"]
                if group not in self._told:
                    self._told[group] = _running_info([*self._subscriptions[group], f"%RETRY%{group}"])
                answer = RemotingCommand(
                    code=0,
                    opaque=command.opaque,
                    flag=RESPONSE_FLAG,
                    body=self._told[group],
                )
                pipeline.socket.sendall(encode_frame(Frame(0, encode_header(answer), answer.body)))


def subscriptions(groups: int, topics: int) -> dict[str, list[str]]:
    """Group -> its topics; the same for the same numbers."""
    chosen = random.Random(4)  # noqa: S311 not a secret
    names = [f"TP_order_event_{number:03}" for number in range(topics)]
    return {f"GID_svc_order_{number:04}": sorted(chosen.sample(names, TOPICS_PER_GROUP)) for number in range(groups)}


def commit_offsets(address: str, groups: dict[str, list[str]], *, at_most: int, waiting_share: float = 1.0) -> None:
    """Commit an offset between 0 and `at_most` for every queue; `at_most` for groups that do not wait.

    `waiting_share`: of the groups, 0 to 1, the first by name. Queue 0 of each topic first: of several first commits at
    once a broker loses some.
    """
    waiting = frozenset(sorted(groups)[: round(len(groups) * waiting_share)])
    chosen = random.Random(5)  # noqa: S311 not a secret
    with Pipeline(address) as pipeline:
        for queue_ids in (range(1), range(1, QUEUES)):
            pipeline.ask_all(
                (
                    ChangingCode.UPDATE_CONSUMER_OFFSET,
                    {
                        "consumerGroup": group,
                        "topic": topic,
                        "queueId": str(queue_id),
                        "commitOffset": str(chosen.randint(0, at_most) if group in waiting else at_most),
                    },
                    b"",
                )
                for group, topics in groups.items()
                for topic in topics
                for queue_id in queue_ids
            )
        pipeline.ask_all(
            (
                ChangingCode.UPDATE_CONSUMER_OFFSET,
                {"consumerGroup": group, "topic": f"%RETRY%{group}", "queueId": "0", "commitOffset": "0"},
                b"",
            )
            for group in groups
        )


def cpu_s(pid: int) -> float:
    """CPU time of a process so far, user and system, seconds. Source: proc(5), /proc/pid/stat fields 14 and 15."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def _frame(opaque: int, code: int, ext_fields: dict[str, str], body: bytes) -> bytes:
    command = RemotingCommand(code=code, opaque=opaque, ext_fields=ext_fields, language="JAVA")
    return encode_frame(Frame(0, encode_header(command), body))


def _running_info(topics: Sequence[str]) -> bytes:
    """Say what a 4.x or 5.x client says that holds all queues of its topics: keys are objects, as fastjson has them."""
    now_ms = time.time_ns() // 1_000_000
    counts = (
        *("cachedMsgCount", "cachedMsgMaxOffset", "cachedMsgMinOffset", "cachedMsgSizeInMiB", "commitOffset"),
        *("transactionMsgCount", "transactionMsgMaxOffset", "transactionMsgMinOffset", "tryUnlockTimes"),
    )
    moments = ("lastConsumeTimestamp", "lastLockTimestamp", "lastPullTimestamp")
    held = as_fastjson(
        dict.fromkeys(counts, 0) | dict.fromkeys(moments, now_ms) | dict.fromkeys(("droped", "locked"), False)
    )
    queues = ",".join(
        f"{as_fastjson({'brokerName': 'broker-a', 'queueId': queue_id, 'topic': topic})}:{held}"
        for topic in topics
        for queue_id in range(1 if topic.startswith("%RETRY%") else QUEUES)
    )
    properties = {
        "PROP_CLIENT_VERSION": "V5_3_3",
        "PROP_CONSUMEORDERLY": "false",
        "PROP_CONSUMER_START_TIMESTAMP": str(now_ms),
        "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
        "PROP_NAMESERVER_ADDR": "192.0.2.1:9876",
        "PROP_THREADPOOL_CORE_SIZE": "20",
    }
    rates: dict[str, float] = {"consumeFailedMsgs": 0}
    rates |= dict.fromkeys(("consumeFailedTPS", "consumeOKTPS", "consumeRT", "pullRT", "pullTPS"), 0.0)
    document = {
        "properties": properties,
        "statusTable": dict.fromkeys(topics, rates),
        "subscriptionSet": [_subscription(topic, now_ms) for topic in topics],
    }
    return f'{{"mqTable":{{{queues}}},{as_fastjson(document)[1:]}'.encode()


def _subscription(topic: str, version: int) -> dict[str, object]:
    said = {"topic": topic, "subString": "*", "subVersion": version, "classFilterMode": False, "expressionType": "TAG"}
    return {**said, "tagsSet": [], "codeSet": []}


def _heartbeat(groups: dict[str, list[str]]) -> bytes:
    version = time.time_ns() // 1_000_000
    return json.dumps(
        {
            "clientID": "192.0.2.50@benchmark",
            "producerDataSet": [],
            "consumerDataSet": [
                {
                    "groupName": group,
                    "consumeType": "CONSUME_PASSIVELY",
                    "messageModel": "CLUSTERING",
                    "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
                    "unitMode": False,
                    "subscriptionDataSet": [_subscription(topic, version) for topic in [*topics, f"%RETRY%{group}"]],
                }
                for group, topics in groups.items()
            ],
        }
    ).encode()
