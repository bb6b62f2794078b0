"""What a pull brings: status, offsets, and of each message its offset, store time and body.

Status by response code (`PullMessageProcessor`, `MQClientAPIImpl.processPullResponse`): 0, 19, 20, 21.

Layout, big-endian (`MessageDecoder`, `CommitLog` of apache/rocketmq 4.9.8 and 5.3.3): int32 total size | int32 magic |
int32 body CRC | int32 queue id | int32 flag | int64 queue offset | int64 physical offset | int32 sys flag |
int64 born time | born host | int64 store time | store host | int32 reconsume times | int64 prepared transaction
offset | int32 n + body | topic and properties, which are not read.
What is pulled are events that brokers write themselves, and these are neither compressed nor batched. A record that is,
or that cannot be decoded, is kept with its bytes and the reason; the records around it are still given.
"""

import struct
import zlib
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from offsetguard.sources.rocketmq.codes import ResponseCode
from offsetguard.sources.rocketmq.header import RemotingCommand
from offsetguard.sources.rocketmq.json_fields import MalformedBytes, timestamp_of
from offsetguard.sources.rocketmq.offsets import offset_field


class PullStatus(StrEnum):
    """RocketMQ's client-side `PullStatus`."""

    FOUND = "FOUND"
    NO_NEW_MSG = "NO_NEW_MSG"  # at the end of the queue
    NO_MATCHED_MSG = "NO_MATCHED_MSG"  # go on at next_begin_offset
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"  # outside of min..max; go on at next_begin_offset


_STATUS_BY_CODE = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NO_NEW_MSG,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCHED_MSG,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_ILLEGAL,
}


@dataclass(frozen=True, slots=True)
class PullResult:
    """The outcome of one PullMessage."""

    status: PullStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    messages: "tuple[Message, ...]"
    undecodable: "tuple[UndecodableMessage, ...]" = ()


def decode_pull_result(answer: RemotingCommand) -> PullResult:
    """Decode an answer to 11 with one of the four codes; raises MalformedBytes when the offsets are missing."""
    status = _STATUS_BY_CODE[ResponseCode(answer.code)]
    messages, undecodable = decode_messages(answer.body) if status is PullStatus.FOUND else ([], [])
    return PullResult(
        status=status,
        next_begin_offset=offset_field(answer.ext_fields, "nextBeginOffset"),
        min_offset=offset_field(answer.ext_fields, "minOffset"),
        max_offset=offset_field(answer.ext_fields, "maxOffset"),
        messages=tuple(messages),
        undecodable=tuple(undecodable),
    )


MAGIC_V1 = -626843481  # 0xDAA320A7
MAGIC_V2 = -626843477  # 0xDAA320AB, 5.x: topics longer than 127 bytes
COMPRESSED_FLAG = 0x1
BORN_HOST_V6_FLAG = 0x10
STORE_HOST_V6_FLAG = 0x20
INNER_BATCH_FLAG = 0x80

_RECORD_HEAD = struct.Struct(">ii")
_FIXED = struct.Struct(">iiiiiqqiq")  # up to the born time
_INT32, _INT64 = struct.Struct(">i"), struct.Struct(">q")
_PORT_BYTES = 4
_BEFORE_BODY_BYTES = 4 + 8  # reconsume times, prepared transaction offset


@dataclass(frozen=True, slots=True)
class Message:
    """One message; its body as the broker stored it."""

    queue_offset: int
    store_timestamp: datetime
    body: bytes


@dataclass(frozen=True, slots=True)
class UndecodableMessage:
    """The bytes of a record that could not be decoded, and why."""

    raw: bytes
    reason: str


def decode_messages(data: bytes) -> tuple[list[Message], list[UndecodableMessage]]:
    """Return the messages of a pull body in order, and what of it could not be decoded."""
    messages: list[Message] = []
    undecodable: list[UndecodableMessage] = []
    position = 0
    while position < len(data):
        total = int.from_bytes(data[position : position + 4], "big", signed=True)
        if not _RECORD_HEAD.size <= total <= len(data) - position:
            reason = f"message: a total size of {total} at byte {position} of {len(data)}; the rest cannot be read"
            undecodable.append(UndecodableMessage(data[position:], reason))
            break
        record = data[position : position + total]
        try:
            messages.append(_decode_record(record))
        except struct.error:
            undecodable.append(
                UndecodableMessage(record, f"message: what stands before its body does not fit the record of {total}")
            )
        except MalformedBytes as error:
            undecodable.append(UndecodableMessage(record, str(error)))
        position += total
    return messages, undecodable


def _decode_record(record: bytes) -> Message:
    """Return the message of one record; raises MalformedBytes, and struct.error where it ends too early."""
    magic = _RECORD_HEAD.unpack_from(record)[1]
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise MalformedBytes(f"message: unknown magic {magic & 0xFFFFFFFF:#x}")
    _, _, body_crc, _, _, queue_offset, _, sys_flag, _ = _FIXED.unpack_from(record)
    stored_at = _FIXED.size + _host_bytes(is_v6=bool(sys_flag & BORN_HOST_V6_FLAG))
    (store_ms,) = _INT64.unpack_from(record, stored_at)
    size_at = stored_at + _INT64.size + _host_bytes(is_v6=bool(sys_flag & STORE_HOST_V6_FLAG)) + _BEFORE_BODY_BYTES
    (body_bytes,) = _INT32.unpack_from(record, size_at)
    body_at = size_at + _INT32.size
    if not 0 <= body_bytes <= len(record) - body_at:
        raise MalformedBytes(f"message: body of {body_bytes} bytes does not fit the record of {len(record)}")
    body = record[body_at : body_at + body_bytes]
    if body_crc and body_crc != zlib.crc32(body) & 0x7FFFFFFF:  # UtilAll.crc32: 31 bits; 0 = not set
        raise MalformedBytes("message: the body does not match its CRC")
    if sys_flag & (COMPRESSED_FLAG | INNER_BATCH_FLAG):
        raise MalformedBytes("message: the body is compressed or a batch, as no broker writes its own events")
    return Message(queue_offset, timestamp_of(store_ms, "store time"), body)


def _host_bytes(*, is_v6: bool) -> int:
    return (16 if is_v6 else 4) + _PORT_BYTES
