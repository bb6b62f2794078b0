"""What a pull brings: its status, the queue's offsets at that moment, and the messages.

Status by response code (`PullMessageProcessor`, `MQClientAPIImpl.processPullResponse`): 0, 19, 20, 21.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from offsetguard.records import record
from offsetguard.rocketmq.body_decoders import offset_field
from offsetguard.rocketmq.codes import ResponseCode
from offsetguard.rocketmq.message import Message, UndecodableMessage, decode_messages

if TYPE_CHECKING:
    from offsetguard.rocketmq.header import RemotingCommand


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


@record
class PullResult:
    """The outcome of one PullMessage."""

    status: PullStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    messages: tuple[Message, ...]
    undecodable: tuple[UndecodableMessage, ...] = ()


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
