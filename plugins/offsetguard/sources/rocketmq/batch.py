"""What one caller asks of one peer: its exchanges, and the way on which their outcomes come back.

The caller waits for whatever has arrived and decodes it while the peer works on the next requests; nobody else is
woken, and an error in decoding is the caller's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from offsetguard.model.errors import RocketMQError
from offsetguard.sources.rocketmq.header import RemotingCommand

Outcome = RemotingCommand | RocketMQError


class Exchange:
    """One request on its way; `asked` shows it in errors."""

    __slots__ = ("asked", "batch", "busy_count", "code", "ext_fields", "index", "sent_at")

    def __init__(self, batch: Batch, index: int, code: int, ext_fields: Mapping[str, str], asked: object) -> None:
        self.batch = batch
        self.index = index
        self.code = code
        self.ext_fields = ext_fields
        self.asked = asked
        self.sent_at = 0.0  # loop time
        self.busy_count = 0  # how often the peer said that it is busy

    def __str__(self) -> str:
        shown = str(self.asked)
        return shown if len(shown) <= 300 else f"{shown[:300]}..."


class Batch:
    """The outcomes of `size` exchanges on their way to the one coroutine that waits for them."""

    def __init__(self, size: int) -> None:
        self._undelivered = size
        self._arrived: list[tuple[int, Outcome]] = []
        self._waiter: asyncio.Future[None] | None = None
        self._failure: BaseException | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is anything to wait for or to fetch."""
        return bool(self._undelivered or self._arrived)

    @property
    def is_under_way(self) -> bool:
        """Whether any exchange has no outcome yet."""
        return self._undelivered > 0

    def deliver(self, exchange: Exchange, outcome: Outcome) -> None:
        """Hand over what became of an exchange."""
        self._undelivered -= 1
        self._arrived.append((exchange.index, outcome))
        self._wake()

    def fail(self, error: BaseException) -> None:
        """Let the caller raise what is no outcome but a defect."""
        self._failure = error
        self._wake()

    async def arrived(self) -> list[tuple[int, Outcome]]:
        """Wait until there is something; return all of it as (index of the request, outcome)."""
        if not self._arrived and self._failure is None:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self._failure is not None:
            raise self._failure
        arrived, self._arrived = self._arrived, []
        return arrived

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
