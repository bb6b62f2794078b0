"""Everything of ours that reads bytes from outside, each with real inputs and the only errors that it may raise.

Bodies of answers are here; what carries them is in `fuzz_wire.py`, files and pages are in `fuzz_files.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from offsetguard.collect.broker_reading import BrokerReading, ClientAnswer, StatsItem
from offsetguard.collect.broker_rows import broker_rows
from offsetguard.collect.detail_rows import broker_stats_rows, client_queue_rows, running_info_columns
from offsetguard.collect.landing import table_of
from offsetguard.collect.offset_events import decode_event
from offsetguard.collect.replica import Answer, Replica
from offsetguard.model.intervals import Interval
from offsetguard.model.offsets import MessageQueue
from offsetguard.sources.rocketmq import body_decoders, detail_decoders, fastjson
from offsetguard.sources.rocketmq.bodies import TopicOffsets
from offsetguard.sources.rocketmq.json_fields import int_key, timestamp_field
from offsetguard.sources.rocketmq.message import decode_messages
from offsetguard.sources.rocketmq.plain_form import plain_offset_tables, plain_topic_stats
from offsetguard.tables import BROKER_SNAPSHOTS, BROKER_STATS, CLIENT_QUEUE_SNAPSHOTS, CLIENT_SNAPSHOTS
from offsetguard_peers.fuzz_files import file_targets
from offsetguard_peers.fuzz_target import Target
from offsetguard_peers.fuzz_wire import message_targets, protocol_targets
from offsetguard_peers.scripted_broker import event_body, message_record

BODIES = Path(__file__).parents[2] / "unit" / "rocketmq" / "bodies"
BODY_DECODERS: dict[int, Callable[[bytes], object]] = {
    21: body_decoders.topic_config_table,
    26: body_decoders.broker_config,
    28: body_decoders.broker_runtime_info,
    38: detail_decoders.consumer_list,
    43: body_decoders.all_consumer_offsets,
    105: body_decoders.topic_route,
    106: body_decoders.cluster_info,
    201: body_decoders.subscription_group_table,
    202: body_decoders.topic_stats,
    203: body_decoders.consumer_connections,
    206: detail_decoders.topic_list,
    208: body_decoders.consume_stats,
    300: detail_decoders.group_list,
    303: body_decoders.consume_time_spans,
    305: detail_decoders.topic_list,
    307: detail_decoders.consumer_running_info,
    315: detail_decoders.broker_stats,
}
NOW = datetime(2026, 11, 21, 8, tzinfo=UTC)
INTERVAL = Interval(NOW)
REPLICA = Replica("b", 0, "127.0.0.1:10911")


@cache
def all_targets() -> tuple[Target, ...]:
    """Return every target; made once, for some write files."""
    return (*_body_targets(), *protocol_targets(), *message_targets(), *file_targets(_bodies(43), _bodies(26)))


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
        Target("quick reader of 202", same_ends_both_ways, _bodies(202), weight=20),
        Target("landed rows of 307", _running_info_rows, _bodies(307), weight=8),
        Target("landed rows of 28", _broker_rows, _bodies(28), weight=4),
        Target("landed rows of 26", _settings_rows, _bodies(26), weight=4),
        Target("landed rows of 315", _stats_rows, _bodies(315), weight=4),
        Target("OFFSET_MOVED_EVENT", _event, [event_body("G", 99, 3)]),
    ]


def _bodies(code: int) -> list[bytes]:
    return [file.read_bytes() for file in sorted(BODIES.glob(f"{code}_*"))]


def _runtime_figures(body: bytes) -> object:
    info = body_decoders.broker_runtime_info(body)
    return [
        (info.number(key), info.integer(key), info.time(key), info.tps(key), info.minute_tps(key)) for key in info.table
    ]


def same_offsets_both_ways(body: bytes) -> None:
    """Read a body of 43 by the quick reader and by the general one, which is the judge."""
    tables = plain_offset_tables(body, body_decoders.OFFSET_TABLES)
    if tables is None:
        return
    document = fastjson.decode_object(body)
    for name, table in tables.items():
        ends = zip(table.keys, table.starts, table.starts[1:], strict=False)
        quick = {
            key: dict(zip(table.queue_ids[start:end], table.offsets[start:end], strict=True))
            for key, start, end in ends
        }
        general = {
            key: {int_key(queue_id, name): offset for queue_id, offset in row.items()}
            for key, row in (document.get(name) or {}).items()
        }
        assert quick == general, name


def same_ends_both_ways(body: bytes) -> None:
    """Read a body of 202 by the quick reader and by the general one, which is the judge."""
    stats = plain_topic_stats(body)
    if stats is None:
        return
    document = fastjson.decode_object(body)
    general = {
        _message_queue(key): TopicOffsets(
            row["minOffset"], row["maxOffset"], timestamp_field(row, "lastUpdateTimestamp")
        )
        for key, row in document["offsetTable"].items()
    }
    assert stats.queues == general


def _running_info_rows(body: bytes) -> None:
    reading = BrokerReading(REPLICA)
    answer = ClientAnswer(detail_decoders.consumer_running_info(body), None, NOW)
    reading.running_info["G", "C"] = answer
    client = {"cluster": "c", "consumer_group": "G", "client_id": "C", "broker_name": "b", "broker_id": 0}
    columns = running_info_columns(answer)
    table_of(CLIENT_SNAPSHOTS, [{**client, "interval_start": INTERVAL.start, **columns}])
    table_of(CLIENT_QUEUE_SNAPSHOTS, list(client_queue_rows("c", INTERVAL, [reading])))


def _broker_rows(body: bytes) -> None:
    reading = BrokerReading(REPLICA, answered_at=NOW, runtime=body_decoders.broker_runtime_info(body))
    table_of(BROKER_SNAPSHOTS, list(broker_rows("c", INTERVAL, [reading])))


def _settings_rows(body: bytes) -> None:
    reading = BrokerReading(REPLICA, answered_at=NOW, settings=body_decoders.broker_config(body))
    table_of(BROKER_SNAPSHOTS, list(broker_rows("c", INTERVAL, [reading])))


def _stats_rows(body: bytes) -> None:
    reading = BrokerReading(REPLICA)
    reading.broker_stats[StatsItem("GROUP_GET_NUMS", "T@G")] = Answer(detail_decoders.broker_stats(body), NOW)
    table_of(BROKER_STATS, list(broker_stats_rows("c", INTERVAL, [reading])))


def _message_queue(key: str) -> MessageQueue:
    document = fastjson.decode_object(key.encode())
    return MessageQueue(document["topic"], document["brokerName"], document["queueId"])


def _event(body: bytes) -> object:
    messages, _ = decode_messages(message_record(7, body))
    return [decode_event(message) for message in messages]
