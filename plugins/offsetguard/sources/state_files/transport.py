"""A transport that answers from state files, so that the normal collection round runs where no broker can be asked.

The files hold the bodies of GET_ALL_CONSUMER_OFFSET, GET_ALL_TOPIC_CONFIG and GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
pretty-printed; the queues of the store give GET_TOPIC_STATS_INFO. Everything else is NotRecorded: who is connected,
what is in flight and when messages were stored is not in any file. A broker's address is its folder.

Min and max offset of a queue come from its consume queue, the broker's index of messages, one unit for each:
`consumequeue/<topic>/<queue id>/<first byte position, 20 digits>`; a unit is int64 position in the commit log | int32
size | int64 tags code. Files are made in full length beforehand and filled from the start, so the end is the first
unit without a size. Units whose messages have been deleted from the commit log are below the min offset.
Source: ConsumeQueue (CQ_STORE_UNIT_SIZE 20, recover, correctMinOffset), 4.9.8 and 5.3.3. Not here: batch consume queues
(5.x `queue.type=BatchCQ`) and consume queues in RocksDB; they stay unknown.
"""

import json
import re
import struct
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from offsetguard.model.errors import NotRecorded
from offsetguard.model.intervals import Interval
from offsetguard.sources.bundle.replay import RecordedRound
from offsetguard.sources.rocketmq import brokers
from offsetguard.sources.rocketmq.codes import RequestCode, ResponseCode
from offsetguard.sources.rocketmq.header import RESPONSE_FLAG, RemotingCommand
from offsetguard.sources.rocketmq.requests import AnswerT, GetTopicStatsInfo, Request
from offsetguard.sources.rocketmq.transport import ExchangeTransport
from offsetguard.sources.state_files.folder import CONSUMER_OFFSETS, GROUPS, TOPICS, BrokerFiles, read_state_folder

UNIT_BYTES = 20
_UNIT = struct.Struct(">qiq")
_FILE_NAME = re.compile(r"\d{20}")
_QUEUE_ID = re.compile(r"0|[1-9]\d{0,9}")


@dataclass(frozen=True, slots=True)
class QueueEnd:
    """What a queue's files say: offsets, and when the newest of them was written."""

    queue_id: int
    min_offset: int
    max_offset: int
    written_at: datetime


def read_topic(store: Path, topic: str) -> list[QueueEnd]:
    """Return the queues of a topic that have files.

    Raises OSError, and ValueError where files are not what they should be, or the commit log is not in the store.
    """
    if "/" in topic or "\0" in topic or topic in ("", ".", ".."):
        return []
    if (store / "consumequeue" / "CURRENT").exists():
        raise ValueError(f"{store / 'consumequeue'}: is RocksDB; min and max offsets of this broker stay unknown")
    folder = store / "consumequeue" / topic
    commit_log_min = _commit_log_min(store)
    if not folder.is_dir():
        return []
    ends = (
        _read_queue(path, int(path.name), commit_log_min)
        for path in sorted(folder.iterdir())
        if path.is_dir() and _QUEUE_ID.fullmatch(path.name)
    )
    return [end for end in ends if end is not None]


def _read_queue(folder: Path, queue_id: int, commit_log_min: int) -> QueueEnd | None:
    files = sorted(path for path in folder.iterdir() if _FILE_NAME.fullmatch(path.name))
    if not files:
        return None
    for file in files:
        if not file.is_file() or int(file.name) % UNIT_BYTES or file.stat().st_size % UNIT_BYTES:
            raise ValueError(f"{file}: is no file of a consume queue: its position or size is no multiple of 20")
    max_offset = _max_offset(files)
    written = max(file.stat().st_mtime for file in files)
    return QueueEnd(
        queue_id=queue_id,
        min_offset=min(_min_offset(files, commit_log_min, max_offset), max_offset),
        max_offset=max_offset,
        written_at=datetime.fromtimestamp(max(written, 0), UTC),
    )


def _max_offset(files: list[Path]) -> int:
    """Return the number of the first unit that is not filled, looking from the newest file backwards."""
    for file in reversed(files):
        filled = _first_unit(file, lambda position, size: not (position >= 0 and size > 0))
        if filled > 0:
            return int(file.name) // UNIT_BYTES + filled
    return int(files[0].name) // UNIT_BYTES


def _min_offset(files: list[Path], commit_log_min: int, max_offset: int) -> int:
    """Return the number of the first unit whose message the commit log still holds; the end when it holds none."""
    for file in files:
        units = file.stat().st_size // UNIT_BYTES
        kept = _first_unit(file, lambda position, size: position >= commit_log_min or size <= 0)
        if kept < units:
            return int(file.name) // UNIT_BYTES + kept
    return max_offset


def _first_unit(file: Path, is_wanted: Callable[[int, int], bool]) -> int:
    """Return the number of the file's first unit that is wanted, or of all its units; units of one kind come first."""
    with file.open("rb") as opened:

        def is_found(number: int) -> bool:
            opened.seek(number * UNIT_BYTES)
            unit = opened.read(UNIT_BYTES)
            return len(unit) < UNIT_BYTES or is_wanted(*_UNIT.unpack(unit)[:2])

        return bisect_left(range(file.stat().st_size // UNIT_BYTES), True, key=is_found)


def _commit_log_min(store: Path) -> int:
    """Return the first byte that the commit log still holds."""
    folder = store / "commitlog"
    names = [path.name for path in folder.iterdir() if _FILE_NAME.fullmatch(path.name)] if folder.is_dir() else []
    if not names:
        raise ValueError(f"{folder}: holds no file of a commit log, so the oldest message of a queue cannot be told")
    return int(min(names))


ORIGIN = "state_file"
_QUEUE_TYPE, _SIMPLE_QUEUES = "queue.type", "SimpleCQ"  # TopicAttributes, 5.3.3
_FILE_OF: dict[int, str] = {
    RequestCode.GET_ALL_CONSUMER_OFFSET: CONSUMER_OFFSETS,
    RequestCode.GET_ALL_TOPIC_CONFIG: TOPICS,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: GROUPS,
}


def rounds_of_state_folder(folder: Path, cluster: str, started_at: datetime) -> Iterator[RecordedRound]:
    """Yield the round of a folder of state files; it belongs to the interval in which it is collected.

    Offsets carry the time at which the broker wrote them. Raises BundleError when the folder holds no state files.
    """
    brokers = read_state_folder(folder)
    yield RecordedRound(
        cluster=cluster,
        interval=Interval.containing(started_at),
        started_at=started_at,
        transport=StateFolderTransport(cluster, brokers),
        log_sources=(),
        details="suspects",  # there are none: nothing is to be asked for twice
        damages=tuple(note for broker in brokers for note in broker.notes),
        origin=ORIGIN,
    )


class StateFolderTransport(ExchangeTransport):
    """Answers for the brokers of `read_state_folder`; every other address is their name server."""

    def __init__(self, cluster: str, brokers: Sequence[BrokerFiles]) -> None:
        self._cluster = cluster
        self._brokers = {str(broker.config): broker for broker in brokers}
        self._now: dict[str, datetime] = {}

    def now(self, address: str | None = None) -> datetime:
        """When the broker wrote the file that was read last: what the file says holds for that moment."""
        known = self._now.get(address) if address else max(self._now.values(), default=None)
        return known or max(
            (file.written_at for broker in self._brokers.values() for file in broker.files.values()),
            default=datetime.fromtimestamp(0, UTC),
        )

    async def exchange(self, address: str, request: Request[AnswerT]) -> RemotingCommand:
        """Return what the files say; raises NotRecorded for everything that they do not."""
        broker = self._brokers.get(address)
        if broker is None and request.code == RequestCode.GET_BROKER_CLUSTER_INFO:
            return _response(_cluster_info(self._cluster, self._brokers))
        if broker is None:
            raise NotRecorded(address, f"{request}: state files know no name server")
        if isinstance(request, GetTopicStatsInfo):
            return self._topic_stats(address, broker, request)
        name = _FILE_OF.get(request.code)
        if name is None:
            raise NotRecorded(address, f"{request}: state files do not hold it; only the broker could tell")
        file = broker.files.get(name)
        if file is None:
            raise NotRecorded(address, f"{request}: {broker.missing[name]}")
        self._now[address] = file.written_at
        return _response(file.text)

    def _topic_stats(self, address: str, broker: BrokerFiles, request: GetTopicStatsInfo) -> RemotingCommand:
        topics = broker.files.get(TOPICS)
        if broker.store is None or topics is None:
            raise NotRecorded(address, f"{request}: the store with its consumequeue and commitlog is not there")
        configured = brokers.topic_config_table(topics.text).get(request.topic)
        if configured is None:
            return _response(b"", ResponseCode.TOPIC_NOT_EXIST, f"topic[{request.topic}] not exist")
        if configured.attributes.get(_QUEUE_TYPE, _SIMPLE_QUEUES) != _SIMPLE_QUEUES:
            raise NotRecorded(address, f"{request}: {_QUEUE_TYPE} is not {_SIMPLE_QUEUES}; its queues lie elsewhere")
        try:
            queues = {queue.queue_id: queue for queue in read_topic(broker.store, request.topic)}
        except (OSError, ValueError) as error:
            raise NotRecorded(address, f"{request}: {error}") from error
        count = max(configured.read_queue_nums, configured.write_queue_nums, 0)
        self._now[address] = max([self.now(address), *(queue.written_at for queue in queues.values())])
        return _response(_stats_body(broker.broker_name, request.topic, count, queues))


def _stats_body(broker_name: str, topic: str, count: int, queues: Mapping[int, QueueEnd]) -> bytes:
    """Return a body of 202; a queue without files has never held a message, which the broker tells as 0 and 0."""
    ends = {}
    for queue_id in range(count):
        end = queues.get(queue_id)
        ends[json.dumps({"brokerName": broker_name, "queueId": queue_id, "topic": topic})] = {
            "lastUpdateTimestamp": 0,  # unknown: it stands in the commit log
            "maxOffset": end.max_offset if end else 0,
            "minOffset": end.min_offset if end else 0,
        }
    return json.dumps({"offsetTable": ends}).encode()


def _cluster_info(cluster: str, brokers: Mapping[str, BrokerFiles]) -> bytes:
    """Return a body of 106."""
    by_name: dict[str, dict[int, str]] = {}
    for address, broker in brokers.items():
        by_name.setdefault(broker.broker_name, {})[broker.broker_id] = address
    entries = {
        name: {"brokerAddrs": addresses, "brokerName": name, "cluster": cluster} for name, addresses in by_name.items()
    }
    own = {broker.own_cluster for broker in brokers.values()} - {None}  # their topics are no topics of users
    clusters = {cluster: list(by_name), **{name: [] for name in own}}
    return json.dumps({"brokerAddrTable": entries, "clusterAddrTable": clusters}).encode()


def _response(body: bytes, code: int = ResponseCode.SUCCESS, remark: str | None = None) -> RemotingCommand:
    return RemotingCommand(code=code, opaque=0, flag=RESPONSE_FLAG, remark=remark, body=body)
