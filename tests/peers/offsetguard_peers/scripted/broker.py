"""A broker made of a few dictionaries, answering over a real socket: for what real brokers do not do on demand.

    broker = ScriptedBroker("broker-a", topics={"orders": [(0, 10)]}, committed={("orders", "billing"): {0: 7}})
    async with scripted_cluster(broker) as (name_server, ...):

Bodies are written as a 4.x broker writes them (fastjson); `trouble` may take over any request to lie, hang or die.
"""

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from offsetguard.sources.rocketmq.codes import RequestCode, ResponseCode
from offsetguard.sources.rocketmq.header import RemotingCommand
from offsetguard_peers.scripted.messages import message_record
from offsetguard_peers.scripted.peer import Conversation, ScriptedPeer

Trouble = Callable[["Conversation", "RemotingCommand"], Awaitable[bool]]


def when(
    is_meant: Callable[[RemotingCommand], object], then: Callable[[Conversation, RemotingCommand], object]
) -> Trouble:
    """Return a trouble with the requests that are meant; all others are answered as ever."""

    async def trouble(conversation: Conversation, request: RemotingCommand) -> bool:
        if meant := bool(is_meant(request)):
            then(conversation, request)
        return meant

    return trouble


def refuse(remark: str) -> Callable[[Conversation, RemotingCommand], None]:
    """Answer code 1, as brokers do whatever has gone wrong."""
    return lambda conversation, request: conversation.answer(request, ResponseCode.SYSTEM_ERROR, remark)


def close(conversation: Conversation, request: RemotingCommand) -> None:
    """Close the connection instead of answering."""
    conversation.close()


EVENT_TOPIC = "OFFSET_MOVED_EVENT"
RUNTIME_INFO = {"brokerVersionDesc": "V4_9_7", "bootTimestamp": "1795214730000"}
NEWEST_MS = 1795214730090
BROKER_CONFIG = b"slaveReadEnable=false\nfileReservedTime=72\ndeleteWhen=04\n"


@dataclass(slots=True)
class ScriptedBroker:
    """What the broker knows; a test may change it while requests come in."""

    name: str
    topics: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # -> per queue (min, max) offset
    read_queue_nums: dict[str, int] = field(default_factory=dict)  # where they differ from the number of queues
    write_queue_nums: dict[str, int] = field(default_factory=dict)  # likewise
    perms: dict[str, object] = field(default_factory=dict)  # where it is not 6
    committed: dict[tuple[str, str], dict[int, int]] = field(default_factory=dict)  # (topic, group) -> queue -> offset
    raw_offset_keys: dict[str, dict[int, int]] = field(default_factory=dict)  # other keys of code 43
    pulled: dict[tuple[str, str], dict[int, int]] | None = None  # None: before 5.1
    groups: set[str] = field(default_factory=set)
    subscriptions: dict[str, list[str]] = field(default_factory=dict)  # online group -> topics
    message_model: dict[str, str] = field(default_factory=dict)
    stats: dict[tuple[str, str], float] = field(default_factory=dict)  # (name, key) -> tps
    running_info: dict[str, bytes] = field(default_factory=dict)  # client id -> what it says; others are gone
    jstack: str | None = None  # what all of them add where stacks are asked for; None: nothing
    stacks_asked: list[str] = field(default_factory=list)  # client ids
    language: str = "JAVA"  # of all clients
    newest_ms: int = NEWEST_MS  # store time of the newest message of every queue
    oldest_age_ms: int = 60_000  # age of every message that waits
    events: list[bytes] = field(default_factory=list)  # bodies in OFFSET_MOVED_EVENT
    runtime: dict[str, str] = field(default_factory=dict)  # further figures of code 28
    settings: bytes = b""  # further lines of code 26
    found_by_time: dict[tuple[str, int], int] = field(default_factory=dict)  # (topic, queue) -> offset that 29 gives
    oldest_ms: dict[tuple[str, int], int] = field(default_factory=dict)  # (topic, queue) -> store time that 32 gives
    first_event: int = 0  # offset of events[0]
    system_topics: set[str] = field(default_factory=lambda: {"TBW102", EVENT_TOPIC})  # as the broker lists them
    trouble: Trouble | None = None  # True: it has dealt with the request
    asked: list[RequestCode] = field(default_factory=list)

    async def play(self, conversation: Conversation) -> None:
        """Answer until the client closes."""
        while True:
            request = await conversation.next_request()
            self.asked.append(RequestCode(request.code))
            if self.trouble is None or not await self.trouble(conversation, request):
                self.answer(conversation, request)

    def answer(self, conversation: Conversation, request: RemotingCommand) -> None:
        """Answer one request as a healthy broker would."""
        match request.code:
            case RequestCode.GET_CONSUMER_CONNECTION_LIST:
                self._connections(conversation, request)
            case RequestCode.VIEW_BROKER_STATS_DATA:
                self._stats(conversation, request)
            case RequestCode.GET_CONSUMER_RUNNING_INFO:
                self._running_info(conversation, request)
            case RequestCode.GET_TOPIC_STATS_INFO:
                self._topic_stats(conversation, request)
            case RequestCode.GET_MIN_OFFSET | RequestCode.GET_MAX_OFFSET:
                conversation.answer(request, ext_fields={"offset": str(self._end(request))})
            case RequestCode.SEARCH_OFFSET_BY_TIMESTAMP:
                conversation.answer(request, ext_fields={"offset": str(self.found_by_time[_queue_of(request)])})
            case RequestCode.GET_EARLIEST_MSG_STORETIME:
                conversation.answer(request, ext_fields={"timestamp": str(self.oldest_ms.get(_queue_of(request), -1))})
            case RequestCode.PULL_MESSAGE:
                self._pull(conversation, request)
            case _:
                conversation.answer(request, body=self._body(request))

    def _body(self, request: RemotingCommand) -> bytes:
        bodies: dict[int, Callable[[], bytes]] = {
            RequestCode.GET_BROKER_RUNTIME_INFO: lambda: _json({"table": {**RUNTIME_INFO, **self.runtime}}).encode(),
            RequestCode.GET_BROKER_CONFIG: lambda: BROKER_CONFIG + self.settings,
            RequestCode.GET_ALL_TOPIC_CONFIG: self._topic_table,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self._group_table,
            RequestCode.GET_ALL_CONSUMER_OFFSET: self._offset_table,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: lambda: _json(
                {"topicList": sorted(self.system_topics)}
            ).encode(),
            RequestCode.GET_CONSUME_STATS: lambda: self._consume_stats(request.ext_fields["consumerGroup"]),
            RequestCode.QUERY_CONSUME_TIME_SPAN: lambda: self._time_spans(
                request.ext_fields["topic"], request.ext_fields["group"]
            ),
        }
        return bodies[request.code]()

    def _topic_table(self) -> bytes:
        table = {
            topic: {
                "perm": self.perms.get(topic, 6),
                "readQueueNums": self.read_queue_nums.get(topic, len(queues)),
                "writeQueueNums": self.write_queue_nums.get(topic, len(queues)),
            }
            for topic, queues in {**self.topics, EVENT_TOPIC: [(0, 0)]}.items()
        }
        return _json({"topicConfigTable": table}).encode()

    def _group_table(self) -> bytes:
        groups = self.groups | {group for _, group in self.committed} | self.subscriptions.keys() | {"TOOLS_CONSUMER"}
        table = {group: {"groupName": group} for group in groups}
        return _json({"subscriptionGroupTable": table}).encode()

    def _connections(self, conversation: Conversation, request: RemotingCommand) -> None:
        group = request.ext_fields["consumerGroup"]
        if group not in self.subscriptions:
            conversation.answer(request, ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{group}] not online")
            return
        document = {  # fields by name, as fastjson writes them
            "connectionSet": [
                {
                    "clientAddr": "10.0.0.9:4000",
                    "clientId": f"10.0.0.9@{group}",
                    "language": self.language,
                    "version": 407,
                }
            ],
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": self.message_model.get(group, "CLUSTERING"),
            "subscriptionTable": {topic: {"topic": topic, "subString": "*"} for topic in self.subscriptions[group]},
        }
        conversation.answer(request, body=_json(document).encode())

    def _stats(self, conversation: Conversation, request: RemotingCommand) -> None:
        name, key = request.ext_fields["statsName"], request.ext_fields["statsKey"]
        if (name, key) not in self.stats:
            remark = f"The stats <{name}> <{key}> not exist"
            conversation.answer(request, ResponseCode.SYSTEM_ERROR, remark)
            return
        tps = self.stats[name, key]
        figures = {"avgpt": 1.0, "sum": int(tps * 60), "tps": tps}
        document = {"statsDay": figures, "statsHour": figures, "statsMinute": figures}
        conversation.answer(request, body=_json(document).encode())

    def _running_info(self, conversation: Conversation, request: RemotingCommand) -> None:
        group, client_id = request.ext_fields["consumerGroup"], request.ext_fields["clientId"]
        with_stacks = request.ext_fields["jstackEnable"] == "true"
        self.stacks_asked += [client_id] if with_stacks else []
        if client_id in self.running_info:
            more = _json({"jstack": self.jstack})[1:-1] if with_stacks and self.jstack is not None else ""
            body = self.running_info[client_id]
            conversation.answer(request, body=body[:-1] + f",{more}}}".encode() if more else body)
        else:
            remark = f"The Consumer <{group}> <{client_id}> not online"
            conversation.answer(request, ResponseCode.SYSTEM_ERROR, remark)

    def _offset_table(self) -> bytes:
        keys = {f"{topic}@{group}": queues for (topic, group), queues in self.committed.items()} | self.raw_offset_keys
        entries = (f"{_json(key)}:{_unquoted(queues)}" for key, queues in keys.items())
        return f'{{"offsetTable":{{{",".join(entries)}}}}}'.encode()

    def _consume_stats(self, group: str) -> bytes:
        entries = []
        for (topic, name), queues in self.committed.items():
            if name == group:
                for queue_id, (_, end) in enumerate(self.topics.get(topic, [])):
                    offsets = {"brokerOffset": end, "consumerOffset": queues.get(queue_id, 0), "lastTimestamp": 0}
                    if self.pulled is not None:
                        offsets["pullOffset"] = self.pulled.get((topic, group), {}).get(queue_id, 0)
                    entries.append(f"{self._queue(topic, queue_id)}:{_json(offsets)}")
        return f'{{"consumeTps":0.0,"offsetTable":{{{",".join(entries)}}}}}'.encode()

    def _topic_stats(self, conversation: Conversation, request: RemotingCommand) -> None:
        topic = request.ext_fields["topic"]
        if topic not in self.topics:
            conversation.answer(request, ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
            return
        entries = (
            f"{self._queue(topic, queue_id)}:"
            + _json({"lastUpdateTimestamp": self.newest_ms, "maxOffset": high, "minOffset": low})
            for queue_id, (low, high) in enumerate(self.topics[topic])
        )
        conversation.answer(request, body=f'{{"offsetTable":{{{",".join(entries)}}}}}'.encode())

    def _time_spans(self, topic: str, group: str) -> bytes:
        spans = [
            {
                "messageQueue": json.loads(self._queue(topic, queue_id)),
                "delayTime": self.oldest_age_ms if self.committed.get((topic, group), {}).get(queue_id, 0) < end else 0,
                "minTimeStamp": 1795214730052,
                "maxTimeStamp": 1795214730052,
                "consumeTimeStamp": 1795214730052,
            }
            for queue_id, (_, end) in enumerate(self.topics.get(topic, []))
        ]
        return _json({"consumeTimeSpanSet": spans}).encode()

    def _end(self, request: RemotingCommand) -> int:
        is_min = request.code == RequestCode.GET_MIN_OFFSET
        if request.ext_fields["topic"] == EVENT_TOPIC:
            return self.first_event if is_min else self.first_event + len(self.events)
        queues, queue_id = self.topics[request.ext_fields["topic"]], int(request.ext_fields["queueId"])
        return queues[queue_id][0 if is_min else 1] if queue_id < len(queues) else 0

    def _pull(self, conversation: Conversation, request: RemotingCommand) -> None:
        """Answer as PullMessageProcessor does for OFFSET_MOVED_EVENT; a batch of at most 8, as from disk."""
        start, end = int(request.ext_fields["queueOffset"]), self.first_event + len(self.events)
        fields = {"suggestWhichBrokerId": "0", "minOffset": str(self.first_event), "maxOffset": str(end)}
        if not self.first_event <= start <= end:
            corrected = self.first_event if start < self.first_event else end
            fields["nextBeginOffset"] = str(corrected)
            conversation.answer(request, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", fields)
        elif start == end:
            fields["nextBeginOffset"] = str(start)
            conversation.answer(request, ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", fields)
        else:
            following = min(end, start + min(8, int(request.ext_fields["maxMsgNums"])))
            fields["nextBeginOffset"] = str(following)
            now_ms = int(time.time() * 1000)
            records = (
                message_record(
                    self.events[offset - self.first_event],
                    topic=EVENT_TOPIC.encode(),
                    queue_offset=offset,
                    stored_ms=now_ms,
                )
                for offset in range(start, following)
            )
            conversation.answer(request, 0, "FOUND", fields, b"".join(records))

    def _queue(self, topic: str, queue_id: int) -> str:
        return _json({"brokerName": self.name, "queueId": queue_id, "topic": topic})


def event_body(group: str, requested: int, corrected: int) -> bytes:
    """Return the body of an OffsetMovedEvent as 4.9.8 writes it."""
    queue = {"brokerName": "broker-a", "queueId": 0, "topic": "orders"}
    document = {"consumerGroup": group, "messageQueue": queue, "offsetNew": corrected, "offsetRequest": requested}
    return _json(document).encode()


@asynccontextmanager
async def scripted_cluster(*brokers: ScriptedBroker) -> AsyncIterator[tuple[str, dict[str, str]]]:
    """Serve brokers and a name server that lists them; gives its address, and the brokers' by name."""
    async with AsyncExitStack() as stack:
        addresses: dict[str, str] = {}
        for broker in brokers:
            addresses[broker.name] = (await stack.enter_async_context(ScriptedPeer(broker.play))).address
        queue_counts = {broker.name: {topic: len(ends) for topic, ends in broker.topics.items()} for broker in brokers}
        name_server = await stack.enter_async_context(ScriptedPeer(name_server_of(addresses, queue_counts)))
        yield name_server.address, addresses


def name_server_of(
    addresses: dict[str, str], queue_counts: dict[str, dict[str, int]] | None = None
) -> Callable[[Conversation], Awaitable[None]]:
    """Return the script of a name server; it lists what the dictionary holds when it is asked.

    `queue_counts`: queues of topics by broker name, for routes; a topic without any is refused as unknown.
    """

    async def play(conversation: Conversation) -> None:
        while True:
            request = await conversation.next_request()
            if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
                _answer_route(conversation, request, addresses, queue_counts or {})
                continue
            brokers = ",".join(
                f'{_json(name)}:{{"brokerAddrs":{{0:{_json(address)}}},"brokerName":{_json(name)},'
                f'"cluster":"DefaultCluster"}}'
                for name, address in addresses.items()
            )
            clusters = _json({"DefaultCluster": list(addresses)})
            body = f'{{"brokerAddrTable":{{{brokers}}},"clusterAddrTable":{clusters}}}'
            conversation.answer(request, body=body.encode())

    return play


def _answer_route(
    conversation: Conversation,
    request: RemotingCommand,
    addresses: dict[str, str],
    queue_counts: dict[str, dict[str, int]],
) -> None:
    topic = request.ext_fields["topic"]
    counts = {name: queues[topic] for name, queues in queue_counts.items() if topic in queues}
    if not counts:
        conversation.answer(
            request, ResponseCode.TOPIC_NOT_EXIST, f"No topic route info in name server for the topic: {topic}"
        )
        return
    brokers = [
        {"brokerAddrs": {"0": addresses[name]}, "brokerName": name, "cluster": "DefaultCluster"} for name in counts
    ]
    queues = [
        {"brokerName": name, "perm": 6, "readQueueNums": count, "topicSysFlag": 0, "writeQueueNums": count}
        for name, count in reversed(counts.items())  # in no order, as the name server gives them
    ]
    conversation.answer(request, body=_json({"brokerDatas": brokers, "queueDatas": queues}).encode())


def _queue_of(request: RemotingCommand) -> tuple[str, int]:
    return request.ext_fields["topic"], int(request.ext_fields["queueId"])


def _json(value: object) -> str:
    """Write without spaces, as fastjson does."""
    return json.dumps(value, separators=(",", ":"))


def _unquoted(queues: dict[int, int]) -> str:
    return "{" + ",".join(f"{queue_id}:{offset}" for queue_id, offset in queues.items()) + "}"
