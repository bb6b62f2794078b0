"""What one connection carries beside answers, whatever the peer does; against real TCP servers."""

import asyncio

import pytest

from offsetguard.model.errors import RequestTimedOut
from offsetguard.sources.rocketmq import header
from offsetguard.sources.rocketmq.codes import RequestCode
from offsetguard.sources.rocketmq.connection import Frame, encode_frame
from offsetguard.sources.rocketmq.requests import GetAllConsumerOffset, GetMaxOffset, PullMessage
from offsetguard_peers.scripted.peer import QUICK_MS, ask, echo_queue_id, failure


def test_after_silence_the_next_caller_gets_a_new_connection():
    async def first_hangs_second_serves(conversation):
        await (conversation.hang() if conversation.number == 1 else echo_queue_id(conversation))

    async def client_does(client, address):
        error = await failure(client.call(address, GetMaxOffset("t", 1)))
        return type(error), await client.call(address, GetMaxOffset("t", 2))

    outcomes, peer = ask(first_hangs_second_serves, client_does, timeout_ms=QUICK_MS)
    assert outcomes == (RequestTimedOut, 2)
    assert peer.connection_count == 2


def test_while_a_large_body_is_decoded_other_answers_are_heard():
    tables = ",".join(f'"topic-{n}@group":{{0:{n},1:{n}}}' for n in range(100_000))
    body = f'{{"offsetTable":{{{tables}}}}}'.encode()

    async def answers(conversation):
        while True:
            request = await conversation.next_request()
            is_large = request.code == RequestCode.GET_ALL_CONSUMER_OFFSET
            conversation.answer(request, ext_fields={"offset": "1"}, body=body if is_large else b"")

    async def client_does(client, address):
        large = asyncio.create_task(client.call(address, GetAllConsumerOffset()))
        heard = 0
        while not large.done():
            await client.call(address, GetMaxOffset("t", 1))
            heard += 1
        return len((await large).offsets), heard

    (offset_count, heard), _ = ask(answers, client_does)
    assert offset_count == 100_000
    assert heard > 3


def test_what_a_broker_asks_of_us_is_answered_with_not_supported_or_ignored():
    replies = []

    async def asks(conversation):
        request = await conversation.next_request()
        for flag in (header.ONEWAY_FLAG, 0):
            command = header.RemotingCommand(code=RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, opaque=77, flag=flag)
            conversation.send(encode_frame(Frame(0, header.encode_header(command), b"")))
        replies.append(await conversation.next_request())
        conversation.answer(request, ext_fields={"offset": "9"})
        await conversation.hang()

    offset, _ = ask(asks, lambda client, address: client.call(address, GetMaxOffset("t", 1)))
    assert offset == 9
    assert [(reply.opaque, reply.code, reply.is_response) for reply in replies] == [(77, 3, True)]


def test_requests_carry_version_language_fields_and_signature():
    seen = []

    async def looks(conversation):
        seen.append(await conversation.next_request())
        conversation.answer(seen[0], ext_fields={"offset": "9"})

    login = header.Credentials("alice", "secret-of-alice", security_token="token")
    ask(looks, lambda client, address: client.call(address, GetMaxOffset("T", 3)), credentials=login)
    fields = {"topic": "T", "queueId": "3"}
    assert seen[0].version >= 401, "older versions get routes in fastjson's dialect"
    assert (seen[0].language, seen[0].flag, seen[0].code) == ("PYTHON", 0, 30)
    assert seen[0].ext_fields == header.signed_ext_fields(fields, b"", login)
    assert set(seen[0].ext_fields) == {*fields, "AccessKey", "SecurityToken", "Signature"}


@pytest.mark.parametrize(
    ("code", "status"), [(19, "NO_NEW_MSG"), (20, "NO_MATCHED_MSG"), (21, "OFFSET_ILLEGAL"), (0, "FOUND")]
)
def test_a_pull_that_brings_nothing_is_an_answer_and_no_refusal(code, status):
    async def has_no_message(conversation):
        ext_fields = {"nextBeginOffset": "7", "minOffset": "5", "maxOffset": "9", "suggestWhichBrokerId": "0"}
        conversation.answer(await conversation.next_request(), code=code, ext_fields=ext_fields)

    result, _ = ask(has_no_message, lambda client, address: client.call(address, PullMessage("T", 0, 7)))
    assert (result.status, result.next_begin_offset, result.min_offset, result.max_offset) == (status, 7, 5, 9)
    assert result.messages == ()
