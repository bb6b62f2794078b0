"""Everything of ours that reads bytes from outside, each with real inputs and the only errors that it may raise.

First what comes over the wire around the bodies, then logs, pages, bundles and a broker's own files, then the bodies.
"""

import gzip
import io
import struct
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from functools import cache, partial
from pathlib import Path

from offsetguard.collect.broker_reading import BrokerReading, ClientAnswer, StatsItem
from offsetguard.collect.broker_rows import broker_rows, broker_stats_rows
from offsetguard.collect.landing import table_of
from offsetguard.collect.metrics_endpoint import BrokerMetrics
from offsetguard.collect.offset_events import decode_event
from offsetguard.collect.replica import Answer, Replica
from offsetguard.collect.snapshot_rows import client_queue_rows, running_info_columns
from offsetguard.config.secret_values import text_without_secrets
from offsetguard.model.errors import BundleError
from offsetguard.model.intervals import Interval
from offsetguard.sources.bundle.layout import read_index_line, read_meta
from offsetguard.sources.bundle.recording import without_secrets
from offsetguard.sources.logs.events import read_records
from offsetguard.sources.logs.log_stream import LogStream
from offsetguard.sources.rocketmq import brokers, consumers, fastjson, offset_table, offsets, routes
from offsetguard.sources.rocketmq.codes import SerializeType
from offsetguard.sources.rocketmq.connection import Connection, Frame, FrameReader, encode_frame
from offsetguard.sources.rocketmq.header import RemotingCommand, decode_header, encode_header
from offsetguard.sources.rocketmq.json_fields import int_key
from offsetguard.sources.rocketmq.message import MAGIC_V2, decode_messages, decode_pull_result
from offsetguard.sources.rocketmq.stacks import stacks_of
from offsetguard.sources.state_files.config_file import read_state_file
from offsetguard.sources.state_files.transport import read_topic
from offsetguard.tables import BROKER_SNAPSHOTS, BROKER_STATS, CLIENT_QUEUE_SNAPSHOTS, CLIENT_SNAPSHOTS
from offsetguard_peers.fuzz.documents import document_targets
from offsetguard_peers.fuzz.target import Target
from offsetguard_peers.scripted.broker import event_body
from offsetguard_peers.scripted.messages import message_record


def protocol_targets() -> list[Target]:
    """Return the readers of frames, headers and whole streams."""
    answers = [
        RemotingCommand(code=0, opaque=number, flag=1, remark=remark, ext_fields={"offset": "3"}, body=body)
        for number, (remark, body) in enumerate(
            [(None, b""), ("not set any response code", b"{}"), ("FOUND", message_record(b"x")), (None, b"y" * 999)]
        )
    ]
    headers = {
        form: [encode_header(answer, form) for answer in answers]
        for form in (SerializeType.JSON, SerializeType.ROCKETMQ)
    }
    frames = [
        encode_frame(Frame(form, header, answer.body))
        for form, encoded in headers.items()
        for header, answer in zip(encoded, answers, strict=True)
    ]
    streams = [*frames, b"".join(frames)]
    return [
        *(Target(f"header, {form.name}", partial(decode_header, form), headers[form], weight=20) for form in headers),
        Target("frames", _frames, streams, weight=20),
        Target("connection", _connection, streams, refusals=(), weight=20),
    ]


def _frames(stream: bytes) -> int:
    """Read a stream that comes in pieces, their sizes given by the stream itself."""
    reader = FrameReader()
    position = count = 0
    while position < len(stream):
        size = stream[position] % 37 + 1 if len(stream) < 4096 else 4096
        reader.feed(stream[position : position + size])
        position += size
        while (frame := reader.next_frame()) is not None:
            decode_header(frame.serialize_type, frame.header, frame.body)
            count += 1
    return count


def _connection(stream: bytes) -> int:
    connection = Connection()
    for _ in range(3):
        connection.request(28, {})
    return len(connection.receive(stream)) + len(connection.receive(b""))


def message_targets() -> list[Target]:
    """Return the readers of stored messages, and of the answer that brings them."""
    properties = b"KEYS\x01G\x02TAGS\x01G\x02"
    record = partial(message_record, crc=0, properties=properties)  # no CRC: what is mutated is read all the same
    records = [record(), record() * 3, record(magic=MAGIC_V2), record(sys_flag=0x1), record(b"six", sys_flag=0x30)]
    return [
        Target("messages", decode_messages, records, refusals=(), weight=40),
        Target("pull result", _pull_result, [b"3,0,9", b"-1,,x", b"9223372036854775808,1,2"], weight=8),
    ]


def _pull_result(data: bytes) -> object:
    names = ("nextBeginOffset", "minOffset", "maxOffset")
    fields = dict(zip(names, fastjson.decode_text(data).split(","), strict=False))
    return decode_pull_result(RemotingCommand(code=0, opaque=1, flag=1, ext_fields=fields))


SOURCES, DATA = (Path(__file__).parents[3] / place for place in ("unit/sources", "data"))
MAX_READ_BYTES = 1024 * 1024
EAST_8 = timezone(timedelta(hours=8))
METRICS = b"""\
# TYPE rocketmq_consumer_inflight_messages gauge
rocketmq_consumer_inflight_messages{cluster="c",consumer_group="pop",topic="tasks",is_retry="false"} 76.0
rocketmq_consumer_lag_messages{consumer_group="pop",topic="%RETRY%pop_tasks",is_retry="true"} -9.2E18 1795
"""
META_JSON = b'{"format":1,"cluster":"main","recorded_by":"offsetguard","log_time_zone":"Asia/Shanghai"}'


def file_targets(offsets: Sequence[bytes], settings: Sequence[bytes]) -> list[Target]:
    """Return the readers of files and pages; `offsets` and `settings`: real bodies of 43 and of 26."""
    logs = [file.read_bytes() for file in sorted((SOURCES / "logs" / "excerpts").glob("*.log"))]
    lines = [line for log in logs for line in log.splitlines(keepends=True)]
    beginnings = [b"".join(log.splitlines(keepends=True)[:12]) for log in logs]
    index_lines = (DATA / "bundles" / "4.9.8-orderly-lock" / "index.jsonl").read_bytes().splitlines()[:100]
    folder = Path(_temporary_folder().name)
    state_texts = [*offsets, *(text.replace(b",", b",\n\t").replace(b"{", b"{\n") for text in offsets)]
    units = b"".join(struct.pack(">qiq", number * 100, 100, 0) for number in range(50)) + bytes(20 * 50)
    return [
        Target("log", _log, [*beginnings, *lines], refusals=(), weight=40),
        Target("log file", _log_file, [*beginnings, *map(gzip.compress, [b"", *beginnings])], (OSError,), 8),
        Target("metrics page", _metrics, [METRICS], refusals=(), weight=20),
        Target("index line of a bundle", _index_line, index_lines, refusals=(BundleError,), weight=10),
        Target("meta of a bundle", partial(_meta, folder), [META_JSON], refusals=(BundleError,), weight=8),
        Target("secrets in settings", partial(without_secrets, 26), settings, refusals=(), weight=4),
        Target("secrets in bodies", partial(without_secrets, 43), [*offsets, *settings], refusals=(), weight=4),
        Target("secrets in logs", text_without_secrets, lines, refusals=(), weight=4),
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
    return read_state_file(folder, "consumerOffset.json", offset_table.all_consumer_offsets)


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


BODIES = SOURCES / "rocketmq" / "bodies"
BODY_DECODERS: dict[int, Callable[[bytes], object]] = {
    21: brokers.topic_config_table,
    26: brokers.broker_config,
    28: brokers.broker_runtime_info,
    43: offset_table.all_consumer_offsets,
    105: routes.topic_route,
    106: routes.cluster_info,
    201: brokers.subscription_group_table,
    202: offsets.topic_stats,
    203: consumers.consumer_connections,
    208: offsets.consume_stats,
    303: offsets.consume_time_spans,
    305: brokers.topic_list,
    307: consumers.consumer_running_info,
    315: brokers.broker_stats,
    907: brokers.last_replicated_at,
}
NOW = datetime(2026, 11, 21, 8, tzinfo=UTC)
INTERVAL = Interval(NOW)
REPLICA = Replica("b", 0, "127.0.0.1:10911")


@cache
def all_targets() -> tuple[Target, ...]:
    """Return every target; made once, for some write files."""
    files = file_targets(_bodies(43), _bodies(26))
    documents = document_targets(Path(_temporary_folder().name))
    return (*_body_targets(), *protocol_targets(), *message_targets(), *files, *documents)


def _body_targets() -> list[Target]:
    targets = [
        Target(f"body of {code}", decoder, _bodies(code), weight=20 if code in (43, 202, 203, 208, 307) else 8)
        for code, decoder in BODY_DECODERS.items()
    ]
    runtime = Target("typed figures of 28", _runtime_figures, _bodies(28), weight=4)
    return [
        *targets,
        runtime,
        Target("quick reader of 43", same_offsets_both_ways, _bodies(43), weight=20),
        Target("queues of 105", _queues_of_route, _routes(), refusals=(ValueError,), weight=8),
        Target("landed rows of 307", _running_info_rows, _bodies(307), weight=8),
        Target("landed rows of 28", _broker_rows, _bodies(28), weight=4),
        Target("landed rows of 26", _settings_rows, _bodies(26), weight=4),
        Target("landed rows of 315", _stats_rows, _bodies(315), weight=4),
        Target("OFFSET_MOVED_EVENT", _event, [event_body("G", 99, 3)]),
    ]


def _bodies(code: int) -> list[bytes]:
    return [file.read_bytes() for file in sorted(BODIES.glob(f"{code}_*"))]


def _routes() -> list[bytes]:
    """Return routes of brokers, and such of topics that are ordered, with more queues than there can be."""
    ordered = [
        f'{{"brokerDatas":[],"orderTopicConf":"a:{count};b:1","queueDatas":[]}}'.encode()
        for count in (8, 2**31, 10**12)
    ]
    return [*_bodies(105), *ordered]


def _queues_of_route(body: bytes) -> object:
    return routes.queues_to_write("orders", routes.topic_route(body))


def _runtime_figures(body: bytes) -> object:
    info = brokers.broker_runtime_info(body)
    return [
        (info.number(key), info.integer(key), info.time(key), info.tps(key), info.minute_tps(key)) for key in info.table
    ]


def same_offsets_both_ways(body: bytes) -> None:
    """Read a body of 43 as we do, which is quick for brokers' own form, and by the general reader, the judge."""
    document = fastjson.decode_object(body)
    for name, table in offset_table.offset_tables(body).items():
        ends = zip(table.keys, table.starts, table.starts[1:], strict=False)
        quick = {
            key: dict(zip(table.queue_ids[start:end], table.offsets[start:end], strict=True))
            for key, start, end in ends
            if key not in table.unreadable
        }
        general = {
            key: {int_key(queue_id, name): offset for queue_id, offset in (row or {}).items()}
            for key, row in (document.get(name) or {}).items()
            if key not in table.unreadable
        }
        assert quick == general, name


def _running_info_rows(body: bytes) -> None:
    reading = BrokerReading(REPLICA)
    answer = ClientAnswer(consumers.consumer_running_info(body), None, NOW)
    reading.running_info["G", "C"] = answer
    client = {"cluster": "c", "consumer_group": "G", "client_id": "C", "broker_name": "b", "broker_id": 0}
    columns = running_info_columns(answer)
    stacks_of(answer.info.jstack if answer.info else "", "G", "c", NOW)
    table_of(CLIENT_SNAPSHOTS, [{**client, "interval_start": INTERVAL.start, **columns}])
    table_of(CLIENT_QUEUE_SNAPSHOTS, list(client_queue_rows("c", INTERVAL, [reading])))


def _broker_rows(body: bytes) -> None:
    reading = BrokerReading(REPLICA, answered_at=NOW, runtime=brokers.broker_runtime_info(body))
    table_of(BROKER_SNAPSHOTS, list(broker_rows("c", INTERVAL, [reading])))


def _settings_rows(body: bytes) -> None:
    reading = BrokerReading(REPLICA, answered_at=NOW, settings=brokers.broker_config(body))
    table_of(BROKER_SNAPSHOTS, list(broker_rows("c", INTERVAL, [reading])))


def _stats_rows(body: bytes) -> None:
    reading = BrokerReading(REPLICA)
    reading.broker_stats[StatsItem("GROUP_GET_NUMS", "T@G")] = Answer(brokers.broker_stats(body), NOW)
    table_of(BROKER_STATS, list(broker_stats_rows("c", INTERVAL, [reading])))


def _event(body: bytes) -> object:
    messages, _ = decode_messages(message_record(body))
    return [decode_event(message) for message in messages]
