"""An assistant's side of `offsetguard mcp`: the official SDK's client, with the command as a process of its own."""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.types import TextContent, Tool

Question = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for one question."""

    text: str
    is_error: bool

    @property
    def document(self) -> Any:
        """The answer as data."""
        assert not self.is_error, self.text
        return json.loads(self.text)


@dataclass(frozen=True, slots=True)
class Session:
    """One session: what the server says of itself, and its answers in the order of the questions."""

    instructions: str
    tools: Sequence[Tool]
    answers: Sequence[Answer]


def ask(environment: Mapping[str, str], *questions: Question) -> Session:
    """Start the command with these variables and ask it."""
    command = ["-m", "offsetguard.cli.main", "mcp"]
    server = StdioServerParameters(command=sys.executable, args=command, env=dict(environment))

    async def session() -> Session:
        async with Client(server, read_timeout_seconds=60) as client:
            tools = (await client.list_tools()).tools
            answers = [await client.call_tool(name, dict(arguments)) for name, arguments in questions]
            return Session(client.instructions or "", tools, [_read(one.content, one.is_error) for one in answers])

    return asyncio.run(session())


def _read(content: Sequence[object], is_error: bool | None) -> Answer:
    (text,) = content
    assert isinstance(text, TextContent)
    return Answer(text.text, bool(is_error))
