"""Many requests at once, against real TCP servers that answer in any order and in pieces, late, or not at all."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetguard.model.errors import BrokerRefused, ConnectionLost, RequestTimedOut, UndecodableBody
from offsetguard.sources.rocketmq.client import LARGE_BODY_BYTES, RocketMQClient
from offsetguard.sources.rocketmq.codes import RequestCode, SystemBusy
from offsetguard.sources.rocketmq.connection import Frame, encode_frame
from offsetguard.sources.rocketmq.header import ONEWAY_FLAG, RemotingCommand, encode_header
from offsetguard.sources.rocketmq.peer import BUSY_REPEATS, GIVE_UP_AFTER
from offsetguard.sources.rocketmq.requests import GetAllConsumerOffset, GetMaxOffset, GetTopicStatsInfo, Request
from offsetguard_peers.cases.running import examples
from offsetguard_peers.scripted.peer import (
    QUICK_MS,
    Conversation,
    ScriptedPeer,
    answer_bytes,
    ask,
    echo_queue_id,
    hangs,
)

BUSY_REMARK = "[REJECTREQUEST]system busy, start flow control for a while"


def queue_id_of(request: RemotingCommand) -> int:
    return int(request.ext_fields["queueId"])


def max_offsets(count: int) -> list[GetMaxOffset]:
    return [GetMaxOffset("t", queue_id) for queue_id in range(count)]


def ask_all(count: int) -> Callable[[RocketMQClient, str], Awaitable[Any]]:
    return lambda client, address: client.call_many(address, max_offsets(count))


@settings(max_examples=examples(0.4))
@given(
    count=st.integers(1, 40),
    max_in_flight=st.integers(1, 9),
    piece_bytes=st.integers(1, 400),
    seed=st.integers(0, 2**32),
)
def test_outcomes_stand_in_the_order_of_the_requests_however_the_answers_arrive(
    count: int, max_in_flight: int, piece_bytes: int, seed: int
) -> None:
    """In any order and any pieces, between requests of the peer's own and answers to nobody; some are refusals."""
    random = Random(seed)  # noqa: S311 no secret
    in_flight = most = 0

    async def answers_as_it_likes(conversation: Conversation) -> None:
        nonlocal in_flight, most
        unanswered: list[RemotingCommand] = []
        left = count
        while left:
            while len(unanswered) < min(max_in_flight, left) and (not unanswered or random.random() < 0.7):
                unanswered.append(await conversation.next_request())
                in_flight += 1
                most = max(most, in_flight)
            random.shuffle(unanswered)
            data = b""
            for request in unanswered[: random.randint(1, len(unanswered))]:
                unanswered.remove(request)
                left -= 1
                in_flight -= 1
                refused = queue_id_of(request) % 5 == 3
                fields = {"offset": request.ext_fields["queueId"]}
                own = RemotingCommand(code=40, opaque=request.opaque, flag=ONEWAY_FLAG)
                late = RemotingCommand(code=0, opaque=request.opaque, flag=1, ext_fields={"offset": "-7"})
                before, behind = (encode_frame(Frame(0, encode_header(one), b"")) for one in (own, late))
                data += before + answer_bytes(request, code=22 if refused else 0, ext_fields=fields) + behind
            for start in range(0, len(data), piece_bytes):
                conversation.send(data[start : start + piece_bytes])
                await asyncio.sleep(0)
        await conversation.hang()

    outcomes, peer = ask(answers_as_it_likes, ask_all(count), max_in_flight=max_in_flight)

    assert [type(one) if isinstance(one, Exception) else one for one in outcomes] == [
        BrokerRefused if number % 5 == 3 else number for number in range(count)
    ]
    assert most <= max_in_flight
    assert peer.connection_count == 1


@settings(max_examples=examples(0.08))
@given(withheld=st.sets(st.integers(0, 19), min_size=1), max_in_flight=st.integers(1, 8))
def test_what_is_not_answered_in_time_costs_nobody_else_his_answer(withheld: set[int], max_in_flight: int) -> None:
    """Late answers are dropped; whoever got none is told so; no answer goes to the wrong request."""

    async def withholds(conversation: Conversation) -> None:
        kept: list[RemotingCommand] = []
        while True:
            request = await conversation.next_request()
            if request.ext_fields["topic"] == "second":
                for late in kept:
                    conversation.answer(late, ext_fields={"offset": "-1"})
            elif queue_id_of(request) in withheld:
                kept.append(request)
                continue
            conversation.answer(request, ext_fields={"offset": request.ext_fields["queueId"]})

    async def client_does(client: RocketMQClient, address: str) -> list[Any]:
        first = await client.call_many(address, max_offsets(20))
        second = await client.call_many(address, [GetMaxOffset("second", number) for number in range(5)])
        return [first, second]

    (first, second), _ = ask(withholds, client_does, timeout_ms=QUICK_MS, max_in_flight=max_in_flight)

    for queue_id, outcome in enumerate(first):
        if queue_id in withheld:
            assert type(outcome) is RequestTimedOut
        else:
            assert outcome == queue_id or type(outcome) is RequestTimedOut, "at most not sent, since the peer hung"
    assert second == list(range(5))


@settings(max_examples=examples(0.25))
@given(count=st.integers(1, 30), turns=st.integers(0, 12), max_in_flight=st.integers(1, 9))
def test_a_cancelled_batch_leaves_connection_and_places_to_others(count: int, turns: int, max_in_flight: int) -> None:
    async def client_does(client: RocketMQClient, address: str) -> Any:
        await client.call(address, GetMaxOffset("t", 0))
        cancelled = asyncio.create_task(client.call_many(address, max_offsets(count)))
        beside = asyncio.create_task(client.call_many(address, max_offsets(7)))
        for _ in range(turns):
            await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        return [await beside, await client.call_many(address, max_offsets(20))]

    outcomes, peer = ask(echo_queue_id, client_does, max_in_flight=max_in_flight)
    assert outcomes == [list(range(7)), list(range(20))]
    assert peer.connection_count == 1


def test_nothing_asked_is_nothing_sent() -> None:
    outcomes, peer = ask(hangs, ask_all(0))
    assert outcomes == []
    assert peer.connection_count == 0


def test_a_silent_peer_costs_a_batch_one_time_out_and_other_peers_nothing() -> None:
    async def run() -> tuple[list[Any], list[Any], float]:
        loop = asyncio.get_running_loop()
        async with (
            ScriptedPeer(hangs) as silent,
            ScriptedPeer(echo_queue_id) as healthy,
            RocketMQClient(timeout_ms=2_000) as client,
        ):
            started = loop.time()
            silent_batch = asyncio.create_task(client.call_many(silent.address, max_offsets(500)))
            answered = await client.call_many(healthy.address, max_offsets(500))
            assert not silent_batch.done() or loop.time() - started > 1
            return await silent_batch, answered, loop.time() - started

    unanswered, answered, took_s = asyncio.run(run())
    assert {type(outcome) for outcome in unanswered} == {RequestTimedOut}
    assert len(set(map(id, unanswered))) == 500, "each request has an error of its own"
    assert "GET_MAX_OFFSET(topic=t, queueId=499): not sent" in str(unanswered[499])
    assert answered == list(range(500))
    assert took_s < 30, "not 63 time-outs"


def test_a_peer_that_drips_costs_a_batch_one_time_out_as_one_that_is_silent_does() -> None:
    """Bytes that never become an answer are no sign of life."""

    async def drips(conversation: Conversation) -> None:
        conversation.send(answer_bytes(await conversation.next_request(), body=b"x" * 1_000)[:-900])
        while True:
            conversation.send(b"x")
            await asyncio.sleep(0.1)

    started = time.monotonic()
    outcomes, _ = ask(drips, ask_all(500), timeout_ms=500)
    assert {type(outcome) for outcome in outcomes} == {RequestTimedOut}
    assert "GET_MAX_OFFSET(topic=t, queueId=499): not sent" in str(outcomes[499])
    assert time.monotonic() - started < 15, "not 63 time-outs"


def test_a_connection_that_ends_without_any_answer_is_not_opened_again_for_the_rest_of_a_batch() -> None:
    async def closes_after_the_first_request(conversation: Conversation) -> None:
        await conversation.next_request()

    outcomes, peer = ask(closes_after_the_first_request, ask_all(100), max_in_flight=4)
    assert {type(outcome) for outcome in outcomes} == {ConnectionLost}
    assert "tls" in str(outcomes[0]), "it may be a peer that insists on TLS"
    assert peer.connection_count == 1


def test_after_a_loss_the_rest_of_a_batch_is_asked_over_a_new_connection() -> None:
    async def first_dies_after_five_answers(conversation: Conversation) -> None:
        for _ in range(5 if conversation.number == 1 else 100):
            request = await conversation.next_request()
            conversation.answer(request, ext_fields={"offset": request.ext_fields["queueId"]})
        await conversation.next_request()

    outcomes, peer = ask(first_dies_after_five_answers, ask_all(30), max_in_flight=2)
    assert peer.connection_count == 2
    lost = [outcome for outcome in outcomes if isinstance(outcome, ConnectionLost)]
    assert 1 <= len(lost) <= 2, "only those in flight"
    assert all(outcome == number for number, outcome in enumerate(outcomes) if outcome not in lost)


def test_a_busy_peer_is_asked_again_and_the_answer_stands_in_its_place() -> None:
    asked: Counter[int] = Counter()

    async def is_busy_at_first(conversation: Conversation) -> None:
        while True:
            request = await conversation.next_request()
            queue_id = queue_id_of(request)
            asked[queue_id] += 1
            if queue_id % 4 == 1 and asked[queue_id] <= BUSY_REPEATS:
                conversation.answer(request, code=2, remark=BUSY_REMARK)
            else:
                conversation.answer(request, ext_fields={"offset": str(queue_id)})

    outcomes, _ = ask(is_busy_at_first, ask_all(12))
    assert outcomes == list(range(12))
    assert asked == {number: 1 + BUSY_REPEATS * (number % 4 == 1) for number in range(12)}


def test_a_peer_that_is_always_busy_is_left_in_peace() -> None:
    asked = 0

    async def is_always_busy(conversation: Conversation) -> None:
        nonlocal asked
        while True:
            request = await conversation.next_request()
            asked += 1
            conversation.answer(request, code=2, remark=BUSY_REMARK)

    outcomes, _ = ask(is_always_busy, ask_all(500), max_in_flight=2)
    assert {type(outcome) for outcome in outcomes} == {SystemBusy}
    assert outcomes[0].remark == BUSY_REMARK
    assert "not sent, the peer has been busy" in str(outcomes[499])
    assert asked <= (BUSY_REPEATS + 1) * (GIVE_UP_AFTER + 1), "not 1,500"


def test_no_more_requests_are_sent_in_a_second_than_allowed() -> None:
    async def client_does(client: RocketMQClient, address: str) -> float:
        started = asyncio.get_running_loop().time()
        assert await client.call_many(address, max_offsets(25)) == list(range(25))
        return asyncio.get_running_loop().time() - started

    took_s, _ = ask(echo_queue_id, client_does, max_requests_per_s=10)
    assert took_s >= 2


def test_one_body_that_cannot_be_decoded_spoils_no_other() -> None:
    long_name = "x" * LARGE_BODY_BYTES
    bodies = {
        "good": b'{"offsetTable":{}}',
        "bad": b"<html>",
        "large": f'{{"offsetTable":{{}},"{long_name}":1}}'.encode(),
        "large-bad": b"{" * LARGE_BODY_BYTES * 2,
    }

    async def answers(conversation: Conversation) -> None:
        while True:
            request = await conversation.next_request()
            conversation.answer(request, body=bodies[request.ext_fields["topic"]])

    outcomes, _ = ask(
        answers, lambda client, address: client.call_many(address, [GetTopicStatsInfo(name) for name in bodies])
    )
    assert [getattr(outcome, "queues", type(outcome)) for outcome in outcomes] == [
        {},
        UndecodableBody,
        {},
        UndecodableBody,
    ]
    assert "GET_TOPIC_STATS_INFO(topic=bad)" in str(outcomes[1])


class RequestWithADefect(Request[int]):
    """Its decoder has a defect."""

    code = RequestCode.GET_MAX_OFFSET
    topic: str
    queue_id: int

    def decode(self, answer: RemotingCommand) -> int:
        return 1 // int(answer.ext_fields["offset"])


def test_a_defect_of_ours_is_raised_and_not_taken_for_a_failure_of_the_peer() -> None:
    async def client_does(client: RocketMQClient, address: str) -> Any:
        with pytest.raises(ZeroDivisionError):
            await client.call_many(address, [RequestWithADefect("t", number) for number in range(30)])
        return await client.call_many(address, max_offsets(20))

    outcomes, _ = ask(echo_queue_id, client_does)
    assert outcomes == list(range(20))


def test_single_calls_and_batches_share_connection_and_places() -> None:
    in_flight = most = 0

    async def counts(conversation: Conversation) -> None:
        nonlocal in_flight, most

        async def answer_later(request: RemotingCommand) -> None:
            nonlocal in_flight
            await asyncio.sleep(0.01)
            in_flight -= 1
            conversation.answer(request, ext_fields={"offset": request.ext_fields["queueId"]})

        async with asyncio.TaskGroup() as tasks:
            for _ in range(30):
                request = await conversation.next_request()
                in_flight += 1
                most = max(most, in_flight)
                tasks.create_task(answer_later(request))

    outcomes, peer = ask(
        counts,
        lambda client, address: asyncio.gather(
            client.call_many(address, max_offsets(20)), *(client.call(address, one) for one in max_offsets(10))
        ),
        max_in_flight=3,
    )
    assert outcomes == [list(range(20)), *range(10)]
    assert (most, peer.connection_count) == (3, 1)


def test_closing_the_client_ends_a_batch() -> None:
    asked = asyncio.Event()

    async def hears_and_hangs(conversation: Conversation) -> None:
        await conversation.next_request()
        asked.set()
        await conversation.hang()

    async def client_does(client: RocketMQClient, address: str) -> Any:
        batch = asyncio.create_task(client.call_many(address, [GetAllConsumerOffset()] * 20))
        await asked.wait()
        await client.close()
        return await batch

    outcomes, _ = ask(hears_and_hangs, client_does)
    assert [type(outcome) for outcome in outcomes] == [ConnectionLost] * 20
