"""Whoever answers requests: a client with live peers, a recording one, a support bundle, a broker's state files.

The collector knows nothing else of where answers come from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from offsetguard.errors import RocketMQError
    from offsetguard.rocketmq.requests import AnswerT, Request


class Asker(Protocol):
    """Asks any number of peers, each named by its `host:port`."""

    async def call(self, address: str, request: Request[AnswerT]) -> AnswerT:
        """Ask once and return the decoded answer; raises RocketMQError (the tree of `offsetguard.errors`)."""
        ...

    async def call_many(self, address: str, requests: Sequence[Request[AnswerT]]) -> list[AnswerT | RocketMQError]:
        """Ask one peer many things; the outcomes stand in the order of the requests and no RocketMQError is raised."""
        ...

    def now(self, address: str | None = None) -> datetime:
        """Return the moment of the newest answer of a peer (of any peer without an address), aware, UTC.

        For a live client that is the present; for a bundle the moment at which the answer was recorded; for state files
        the moment at which the broker wrote them. Read times come from here, right after the call that they belong to.
        """
        ...
