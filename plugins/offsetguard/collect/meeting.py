"""Where the masters of a cluster meet in the middle of a round: what all of them have said is looked at together."""

from __future__ import annotations

import asyncio


class Meeting:
    """Begins when all masters are there, or at its time."""

    def __init__(self, expected: int, seconds: float) -> None:
        """Wait for `expected` masters, at most `seconds`."""
        self._expected = expected
        self._seconds = seconds
        self._everybody = asyncio.Event()
        self._over = False
        self._check()

    def arrive(self) -> bool:
        """Come in; True when the meeting was over before."""
        self._expected -= 1
        self._check()
        return self._over

    async def all_there(self) -> None:
        """Wait for the meeting to begin."""
        try:
            async with asyncio.timeout(self._seconds):
                await self._everybody.wait()
        except TimeoutError:
            pass  # a slow broker is not waited for; its own suspects get no details in this round
        self._over = True

    def _check(self) -> None:
        if self._expected <= 0:
            self._everybody.set()
