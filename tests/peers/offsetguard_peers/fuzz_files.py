"""Readers of logs, pages, bundles and a broker's own files."""

from __future__ import annotations

import gzip
import io
import struct
import tempfile
from collections.abc import Sequence
from datetime import timedelta, timezone
from functools import cache, partial
from pathlib import Path

from offsetguard.collect.metrics_endpoint import BrokerMetrics
from offsetguard.model.errors import BundleError
from offsetguard.sources.bundle.layout import read_index_line, read_meta
from offsetguard.sources.bundle.writer import log_without_secrets, without_secrets
from offsetguard.sources.logs.events import read_records
from offsetguard.sources.logs.log_stream import LogStream
from offsetguard.sources.rocketmq import body_decoders
from offsetguard.sources.state_files.config_file import read_state_file
from offsetguard.sources.state_files.consume_queue import read_topic
from offsetguard_peers.fuzz_target import Target

MAX_READ_BYTES = 1024 * 1024
EAST_8 = timezone(timedelta(hours=8))
LOG_LINES = b"""\
2026-11-21 06:45:30 INFO PullMessageThread_3 - the request offset too small. group=G1, topic=T1, requestOffset=1, brokerMinOffset=500, clientIp=/10.0.0.9:43618
2026-11-21 06:45:30 WARN PullMessageThread_3 - PULL_OFFSET_MOVED:correction offset. topic=T1, groupId=G1, requestOffset=99, newOffset=3, suggestBrokerId=0
2026-11-21 06:45:31 INFO PullMessageThread_4 - the request offset: 99 over flow badly, fix to 3, broker max offset: 3, consumer: 10.0.0.9:44460
2026-11-21 06:45:32 INFO HeartbeatThread_1 - subscription changed, group: GHB OLD: SubscriptionData [classFilterMode=false, topic=T1, subString=tagA, tagsSet=[tagA], codeSet=[], subVersion=1795215982309, expressionType=TAG] NEW: SubscriptionData [classFilterMode=false, topic=T1, subString=tagB, tagsSet=[tagB], codeSet=[], subVersion=1795215982310, expressionType=TAG]
2026-11-21 06:45:33 WARN AdminBrokerThread_2 - tryLockBatch, message queue locked by other client. Group: G1 OtherClientId: c1 NewClientId: c2 MessageQueue [topic=T1, brokerName=broker-a, queueId=0]
2026-11-21 06:45:33 WARN AdminBrokerThread_2 - RebalanceLockManager#tryLockBatch: message queue has been locked by other client, group=G1, mq=MessageQueue [topic=T1, brokerName=broker-a, queueId=0], locked client id=c1, current client id=c2
2026-11-21 06:46:00 INFO - [GROUP_GET_NUMS] [T1@G1] Stats In One Minute, SUM: 3 TPS: 0.10 AVGPT: 3.00
2026-11-21 06:44:37 - [WATERMARK] Pull Queue Size: 0 SlowTimeMills: 0
2026-11-20 22:47:01,278 WARN RocketmqClient - execute the pull request exception
org.apache.rocketmq.client.exception.MQBrokerException: CODE: 25  DESC: the consumer's subscription not latest
\tat org.apache.rocketmq.client.impl.MQClientAPIImpl.processPullResponse(MQClientAPIImpl.java:880)
2026-11-21 16:49:33.210 INFO  [21613] [main] [RocketmqRemoting#?:?] - closeChannel: close the connection
"""  # noqa: E501  the lines of real logs are long
METRICS = b"""\
# TYPE rocketmq_consumer_inflight_messages gauge
rocketmq_consumer_inflight_messages{cluster="c",consumer_group="pop",topic="tasks",is_retry="false"} 76.0
rocketmq_consumer_lag_messages{consumer_group="pop",topic="%RETRY%pop_tasks",is_retry="true"} -9.2E18 1795
"""
INDEX_LINE = (
    b'{"t": 1795248420434, "broker": "broker-a-0", "code": 38, "ext": {"consumerGroup": "G"}, "file": null, '
    b'"header": {"code": 1, "extFields": {}, "flag": 1, "opaque": 10, "remark": "no consumer for this group, G"}}'
)
META_JSON = b'{"format":1,"cluster":"main","recorded_by":"offsetguard","log_time_zone":"Asia/Shanghai"}'


def file_targets(offsets: Sequence[bytes], settings: Sequence[bytes]) -> list[Target]:
    """Return the readers of files and pages; `offsets` and `settings`: real bodies of 43 and of 26."""
    lines = LOG_LINES.splitlines(keepends=True)
    folder = Path(_temporary_folder().name)
    state_texts = [*offsets, *(text.replace(b",", b",\n\t").replace(b"{", b"{\n") for text in offsets)]
    units = b"".join(struct.pack(">qiq", number * 100, 100, 0) for number in range(50)) + bytes(20 * 50)
    return [
        Target("log", _log, [LOG_LINES, *lines], refusals=(), weight=40),
        Target("log file", _log_file, [LOG_LINES, *map(gzip.compress, [LOG_LINES, b"", LOG_LINES])], (OSError,), 8),
        Target("metrics page", _metrics, [METRICS], refusals=(), weight=20),
        Target("index line of a bundle", _index_line, [INDEX_LINE], refusals=(BundleError,), weight=10),
        Target("meta of a bundle", partial(_meta, folder), [META_JSON], refusals=(BundleError,), weight=4),
        Target("secrets in settings", partial(without_secrets, 26), settings, refusals=(), weight=4),
        Target("secrets in logs", log_without_secrets, lines, refusals=(), weight=4),
        Target("state file", partial(_state_file, folder), [*state_texts, *map(gzip.compress, state_texts)], (), 4),
        Target("consume queue", partial(_consume_queue, folder), [units], (OSError, ValueError), 2),
    ]


@cache
def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """Return the folder that lives as long as this process."""
    return tempfile.TemporaryDirectory(prefix="offsetguard-fuzz-")


def _log(data: bytes) -> int:
    half = len(data) // 2
    return sum(1 for _ in read_records([data[:half], data[half:]], EAST_8))


def _log_file(data: bytes) -> int:
    """Read a file, compressed or not, as far as a round would."""
    read = 0
    with LogStream("fuzzed.log", io.BytesIO(data)) as stream:
        while read < MAX_READ_BYTES and (piece := stream.read(MAX_READ_BYTES // 16)):
            assert len(piece) <= MAX_READ_BYTES // 16
            read += len(piece)
    return read


def _metrics(data: bytes) -> int:
    metrics = BrokerMetrics()
    for line in data.split(b"\n"):
        metrics.add_line(line, "broker-a")
    return metrics.unreadable_count


def _index_line(data: bytes) -> object:
    return read_index_line(data, 1, "index.jsonl")


def _state_file(folder: Path, data: bytes) -> object:
    (folder / "consumerOffset.json").write_bytes(data)
    return read_state_file(folder, "consumerOffset.json", body_decoders.all_consumer_offsets)


def _meta(folder: Path, data: bytes) -> object:
    (folder / "meta.json").write_bytes(data)
    return read_meta(folder)


def _consume_queue(folder: Path, data: bytes) -> object:
    queue = folder / "consumequeue" / "T" / "0"
    queue.mkdir(parents=True, exist_ok=True)
    (folder / "commitlog").mkdir(exist_ok=True)
    (folder / "commitlog" / f"{300:020}").touch()
    (queue / f"{0:020}").write_bytes(data)
    return read_topic(folder, "T")
