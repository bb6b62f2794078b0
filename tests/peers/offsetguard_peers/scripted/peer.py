"""A TCP server that plays a script instead of being a broker: it hangs, lies, dies and answers out of order on demand.

    async def script(conversation: Conversation) -> None:
        request = await conversation.next_request()
        conversation.answer(request, body=b"{}")

    async with ScriptedPeer(script) as peer:
        await client.call(peer.address, GetBrokerRuntimeInfo())

The script runs once for each connection; when it returns, the connection is closed. An error in it fails the test.
`ask` runs a script against what a client of ours does.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Self

import pytest

from offsetguard.model.errors import RocketMQError
from offsetguard.sources.rocketmq.client import RocketMQClient
from offsetguard.sources.rocketmq.connection import Frame, FrameReader, encode_frame
from offsetguard.sources.rocketmq.header import RESPONSE_FLAG, RemotingCommand, decode_header, encode_header

Script = Callable[["Conversation"], Awaitable[None]]


class Conversation:
    """One connection as the script sees it; `number` counts the peer's connections from 1."""

    def __init__(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.number = number
        self._reader = reader
        self._writer = writer
        self._frames = FrameReader()

    async def next_request(self) -> RemotingCommand:
        """Wait for the next request; raises ConnectionError when the client has closed."""
        while (frame := self._frames.next_frame()) is None:
            data = await self._reader.read(65536)
            if not data:
                raise ConnectionResetError("the client closed")
            self._frames.feed(data)
        return decode_header(frame.serialize_type, frame.header, frame.body)

    def answer(
        self,
        request: RemotingCommand,
        code: int = 0,
        remark: str | None = None,
        ext_fields: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> None:
        """Answer as a broker would."""
        self.send(answer_bytes(request, code, remark, ext_fields, body))

    def send(self, data: bytes) -> None:
        """Send any bytes."""
        self._writer.write(data)

    async def hang(self) -> None:
        """Read on and say nothing until the client closes."""
        while await self._reader.read(65536):
            pass

    def close(self) -> None:
        """Send what is buffered and close."""
        self._writer.close()


class ScriptedPeer:
    """The server; `address` is its `host:port`."""

    def __init__(self, script: Script, tls: ssl.SSLContext | None = None) -> None:
        self._script = script
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()
        self.connection_count = 0
        self.address = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        host, port = self._server.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        outcomes = await asyncio.gather(*self._tasks, return_exceptions=True)
        for outcome in outcomes:
            if error is None and isinstance(outcome, Exception) and not isinstance(outcome, ConnectionError):
                raise outcome

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connection_count += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._script(Conversation(self.connection_count, reader, writer))
        except ConnectionError:
            pass  # the client left in the middle of the script: it may
        finally:
            writer.close()


def answer_bytes(
    request: RemotingCommand,
    code: int = 0,
    remark: str | None = None,
    ext_fields: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> bytes:
    """Return the frame of an answer, for scripts that send only a part of it."""
    answer = RemotingCommand(
        code=code,
        opaque=request.opaque,
        flag=RESPONSE_FLAG,
        remark=remark,
        ext_fields=ext_fields or {},
        language="JAVA",
    )
    return encode_frame(Frame(0, encode_header(answer), body))


QUICK_MS = 1_500  # where a time-out is the point, and other answers come in time
PATIENT_MS = 60_000  # where it is not, on however busy a machine


def ask(
    script: Script, client_does: Callable[[RocketMQClient, str], Awaitable[Any]], **client_options: Any
) -> tuple[Any, ScriptedPeer]:
    """Run a script against what a client does; returns what the client got, and the peer."""

    async def run() -> tuple[Any, ScriptedPeer]:
        options = {"timeout_ms": PATIENT_MS, **client_options}
        async with ScriptedPeer(script) as peer, RocketMQClient(**options) as client:
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


async def echo_queue_id(conversation: Conversation) -> None:
    """Answer every GET_MAX_OFFSET with its queue id."""
    while True:
        request = await conversation.next_request()
        conversation.answer(request, ext_fields={"offset": request.ext_fields["queueId"]})
