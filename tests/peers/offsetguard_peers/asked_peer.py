"""A scripted peer, and what a client of ours gets from it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from offsetguard.model.errors import RocketMQError
from offsetguard.sources.rocketmq.client import RocketMQClient
from offsetguard_peers.scripted_peer import Conversation, ScriptedPeer, answer_bytes

QUICK_MS = 1_500  # where a time-out is the point, and other answers come in time
PATIENT_MS = 60_000  # where it is not, on however busy a machine


def ask(
    script: Callable[[Conversation], Awaitable[None]],
    client_does: Callable[[RocketMQClient, str], Awaitable[object]],
    **client_options: object,
) -> tuple[object, ScriptedPeer]:
    """Run a script against what a client does; returns what the client got, and the peer."""

    async def run() -> tuple[object, ScriptedPeer]:
        options = {"timeout_ms": PATIENT_MS, **client_options}
        async with ScriptedPeer(script) as peer, RocketMQClient(**options) as client:  # type: ignore[arg-type]
            return await client_does(client, peer.address), peer

    return asyncio.run(asyncio.wait_for(run(), timeout=120))


async def failure(call: Awaitable[object]) -> RocketMQError:
    """Return the error that a call ends with."""
    with pytest.raises(RocketMQError) as caught:
        await call
    return caught.value


async def hangs(conversation: Conversation) -> None:
    """Never answer."""
    await conversation.hang()


async def closes_in_mid_frame(conversation: Conversation) -> None:
    """Answer half, and close."""
    conversation.send(answer_bytes(await conversation.next_request(), body=b"x" * 100)[:-30])
