"""One connection of the client serves many callers, whatever the peer does; against real TCP servers."""

from __future__ import annotations

import asyncio

import pytest

from offsetguard.model.errors import ConnectionLost, RequestTimedOut, RocketMQError
from offsetguard.sources.rocketmq.client import RocketMQClient
from offsetguard.sources.rocketmq.codes import RequestCode
from offsetguard.sources.rocketmq.connection import Frame, encode_frame
from offsetguard.sources.rocketmq.header import (
    ONEWAY_FLAG,
    Credentials,
    RemotingCommand,
    encode_header,
    signed_ext_fields,
)
from offsetguard.sources.rocketmq.requests import GetAllConsumerOffset, GetMaxOffset, PullMessage
from offsetguard_peers.scripted.peer import QUICK_MS, Conversation, ask, failure, hangs


async def echo_queue_id(conversation: Conversation) -> None:
    """Answer every GET_MAX_OFFSET with its queue id."""
    while True:
        request = await conversation.next_request()
        conversation.answer(request, ext_fields={"offset": request.ext_fields["queueId"]})


def test_concurrent_callers_share_one_connection_and_answers_find_their_callers_in_any_order() -> None:
    async def answers_in_reverse(conversation: Conversation) -> None:
        requests = [await conversation.next_request() for _ in range(8)]
        for request in reversed(requests):
            conversation.answer(request, ext_fields={"offset": request.ext_fields["queueId"]})
        await conversation.hang()

    offsets, peer = ask(
        answers_in_reverse,
        lambda client, address: asyncio.gather(*(client.call(address, GetMaxOffset("t", n)) for n in range(8))),
    )
    assert offsets == list(range(8))
    assert peer.connection_count == 1


def test_no_more_requests_are_in_flight_than_allowed() -> None:
    in_flight = 0
    most = 0

    async def counts(conversation: Conversation) -> None:
        nonlocal in_flight, most

        async def answer_later(request: RemotingCommand) -> None:
            nonlocal in_flight
            await asyncio.sleep(0.01)
            in_flight -= 1
            conversation.answer(request, ext_fields={"offset": "1"})

        async with asyncio.TaskGroup() as tasks:
            for _ in range(20):
                request = await conversation.next_request()
                in_flight += 1
                most = max(most, in_flight)
                tasks.create_task(answer_later(request))

    ask(
        counts,
        lambda client, address: asyncio.gather(*(client.call(address, GetMaxOffset("t", n)) for n in range(20))),
        max_in_flight=3,
    )
    assert most == 3


def test_a_late_answer_to_a_timed_out_request_is_dropped_and_the_connection_goes_on() -> None:
    async def answers_the_second_first(conversation: Conversation) -> None:
        slow = await conversation.next_request()
        quick = await conversation.next_request()
        conversation.answer(quick, ext_fields={"offset": "2"})
        third = await conversation.next_request()
        conversation.answer(slow, ext_fields={"offset": "1"})
        conversation.answer(third, ext_fields={"offset": "3"})
        await conversation.hang()

    async def client_does(client: RocketMQClient, address: str) -> list[object]:
        slow = asyncio.create_task(failure(client.call(address, GetMaxOffset("t", 1))))
        await asyncio.sleep(0.02)
        quick = await client.call(address, GetMaxOffset("t", 2))
        return [await slow, quick, await client.call(address, GetMaxOffset("t", 3))]

    answers, peer = ask(answers_the_second_first, client_does, timeout_ms=QUICK_MS)
    assert isinstance(answers, list)
    assert type(answers[0]) is RequestTimedOut
    assert answers[1:] == [2, 3]
    assert peer.connection_count == 1


def test_a_hanging_peer_costs_one_time_out_and_not_one_for_each_queued_caller() -> None:
    async def client_does(client: RocketMQClient, address: str) -> tuple[list[RocketMQError], float]:
        started = asyncio.get_running_loop().time()
        errors = await asyncio.gather(*(failure(client.call(address, GetMaxOffset("t", n))) for n in range(50)))
        return errors, asyncio.get_running_loop().time() - started

    result, _ = ask(hangs, client_does, max_in_flight=2, timeout_ms=QUICK_MS)
    assert isinstance(result, tuple)
    errors, took_s = result
    assert {type(error) for error in errors} == {RequestTimedOut}
    assert took_s < 15, "not 25 times 1.5 s"


def test_after_silence_the_next_caller_gets_a_new_connection() -> None:
    async def first_hangs_second_serves(conversation: Conversation) -> None:
        await (conversation.hang() if conversation.number == 1 else echo_queue_id(conversation))

    async def client_does(client: RocketMQClient, address: str) -> tuple[RocketMQError, int]:
        return await failure(client.call(address, GetMaxOffset("t", 1))), await client.call(
            address, GetMaxOffset("t", 2)
        )

    result, peer = ask(first_hangs_second_serves, client_does, timeout_ms=QUICK_MS)
    assert isinstance(result, tuple)
    assert type(result[0]) is RequestTimedOut
    assert result[1] == 2
    assert peer.connection_count == 2


def test_when_the_connection_breaks_every_waiting_caller_hears_of_it() -> None:
    async def dies_with_three_waiting(conversation: Conversation) -> None:
        for _ in range(3):
            await conversation.next_request()

    errors, _ = ask(
        dies_with_three_waiting,
        lambda client, address: asyncio.gather(
            *(failure(client.call(address, GetMaxOffset("t", n))) for n in range(3))
        ),
    )
    assert isinstance(errors, list)
    assert [type(error) for error in errors] == [ConnectionLost] * 3


def test_while_a_large_body_is_decoded_other_answers_are_heard() -> None:
    tables = ",".join(f'"topic-{n}@group":{{0:{n},1:{n}}}' for n in range(100_000))
    body = f'{{"offsetTable":{{{tables}}}}}'.encode()

    async def answers(conversation: Conversation) -> None:
        while True:
            request = await conversation.next_request()
            is_large = request.code == RequestCode.GET_ALL_CONSUMER_OFFSET
            conversation.answer(request, ext_fields={"offset": "1"}, body=body if is_large else b"")

    async def client_does(client: RocketMQClient, address: str) -> tuple[int, int]:
        large = asyncio.create_task(client.call(address, GetAllConsumerOffset()))
        heard = 0
        while not large.done():
            await client.call(address, GetMaxOffset("t", 1))
            heard += 1
        return len((await large).offsets), heard

    result, _ = ask(answers, client_does)
    assert isinstance(result, tuple)
    assert result[0] == 100_000
    assert result[1] > 3


def test_what_a_broker_asks_of_us_is_answered_with_not_supported_or_ignored() -> None:
    replies: list[RemotingCommand] = []

    async def asks(conversation: Conversation) -> None:
        request = await conversation.next_request()
        for flag in (ONEWAY_FLAG, 0):
            command = RemotingCommand(code=RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, opaque=77, flag=flag)
            conversation.send(encode_frame(Frame(0, encode_header(command), b"")))
        replies.append(await conversation.next_request())
        conversation.answer(request, ext_fields={"offset": "9"})
        await conversation.hang()

    offset, _ = ask(asks, lambda client, address: client.call(address, GetMaxOffset("t", 1)))
    assert offset == 9
    assert [(reply.opaque, reply.code, reply.is_response) for reply in replies] == [(77, 3, True)]


def test_requests_carry_version_language_fields_and_signature() -> None:
    seen: list[RemotingCommand] = []

    async def looks(conversation: Conversation) -> None:
        seen.append(await conversation.next_request())
        conversation.answer(seen[0], ext_fields={"offset": "9"})

    credentials = Credentials("alice", "secret-of-alice", security_token="token")
    ask(
        looks,
        lambda client, address: client.call(address, GetMaxOffset("T", 3)),
        credentials=credentials,
    )
    fields = {"topic": "T", "queueId": "3"}
    assert seen[0].version >= 401, "older versions get routes in fastjson's dialect"
    assert (seen[0].language, seen[0].flag, seen[0].code) == ("PYTHON", 0, 30)
    assert seen[0].ext_fields == signed_ext_fields(fields, b"", credentials)
    assert set(seen[0].ext_fields) == {*fields, "AccessKey", "SecurityToken", "Signature"}


@pytest.mark.parametrize(
    ("code", "status"), [(19, "NO_NEW_MSG"), (20, "NO_MATCHED_MSG"), (21, "OFFSET_ILLEGAL"), (0, "FOUND")]
)
def test_a_pull_that_brings_nothing_is_an_answer_and_no_refusal(code: int, status: str) -> None:
    async def has_no_message(conversation: Conversation) -> None:
        ext_fields = {"nextBeginOffset": "7", "minOffset": "5", "maxOffset": "9", "suggestWhichBrokerId": "0"}
        conversation.answer(await conversation.next_request(), code=code, ext_fields=ext_fields)

    result, _ = ask(has_no_message, lambda client, address: client.call(address, PullMessage("T", 0, 7)))
    assert (result.status, result.next_begin_offset, result.min_offset, result.max_offset) == (status, 7, 5, 9)  # type: ignore[attr-defined]
    assert result.messages == ()  # type: ignore[attr-defined]
